"""Writes docs/cli.md, the reference of every command, from the commands themselves: python docs/make_cli.py"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "cli.md"
TOP = """# Commands

Made by `python docs/make_cli.py` from the commands themselves. Exit code 2 means wrong use, with one line on stderr. Each command
that uses the exit codes 0, 1 and 3 says what they mean.
"""


def commands(group: Any = None, path: str = "audit") -> Iterator[tuple[str, Any]]:
    """("audit run", its click command), and so on, in the order of `audit --help`."""
    if group is None:
        from typer.main import get_command

        from gnnaudit.audit.cli.main import app

        group = get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def section(name: str, command: Any) -> str:
    """What a command does, an example, and its options with their help."""
    about, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    lines = [
        f"## {name}",
        "",
        about.strip(),
        "",
        f"```\n{example.strip()}\n```" if example else "",
        "",
        "| option | |",
        "|---|---|",
    ]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        words = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
        label = words if parameter.opts[0].startswith("-") else f"`{parameter.metavar or parameter.name.upper()}`"
        default = parameter.default
        shown = f" Default: {default}." if parameter.show_default and isinstance(default, str | int | float | Path) else ""
        shown = "" if isinstance(default, bool) else shown
        text = f"{getattr(parameter, 'help', None) or ''}{shown}".replace("|", "\\|")
        lines.append(f"| {label} | {text} |")
    return "\n".join(lines)


def page() -> str:
    return "\n".join([TOP, *(section(name, command) + "\n" for name, command in commands())])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
