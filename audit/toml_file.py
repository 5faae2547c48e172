"""Reads the TOML files that a user brings: plans and declarations."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

from ..models.errors import one_line


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The tables of a TOML file, and the SHA-256 of its bytes. Raises ValueError, one line that names the file."""
    try:
        content = path.read_bytes()
        return tomllib.loads(content.decode("utf-8")), hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file.") from None
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise ValueError(f"{path}: not a TOML file: {one_line(fault)}") from None
