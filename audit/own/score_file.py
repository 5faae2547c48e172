"""Reads scores and bits from a CSV file, and checks them. Errors name the file, usually the line, and the fault."""

from __future__ import annotations

import csv as lines_of
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...reports.rounding import several

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS = {"0", "1", "0.0", "1.0", "true", "false"}


def read(path: Path) -> dict[str, NDArray[Any]]:
    """The columns score (rows,) float64, bit (rows,) bool and, if the file has it, run (rows,).

    Raises ValueError, with the file and the fault, for a file that cannot be read or has other content.
    """
    import numpy as np
    import pyarrow

    table = _table(path)
    wanted = table.column_names
    if not table.num_rows:
        raise ValueError(f"{path}: has no rows. Each round of the game is a row: its score and its bit.")
    if any(pyarrow.types.is_binary(table.column(name).type) for name in wanted):
        raise ValueError(f"{path}{first_wrong(path)}: holds text that is not UTF-8. Save the file as CSV in UTF-8.")
    missing = {name: table.column(name).null_count for name in wanted}
    if any(missing.values()):
        empty, rows = missing["score"], table.num_rows
        way = f"{empty} of {rows} scores are empty. Drop those rounds or give them a number."
        if not empty:
            way = f"{several(sum(missing.values()), 'row')} without a bit or a run. Every score needs a bit, 0 or 1."
        raise ValueError(f"{path}{first_wrong(path)}: {way}")
    columns = {name: _array(table.column(name)) for name in wanted}
    bit = columns["bit"]
    if bit.dtype != np.bool_:
        if not np.issubdtype(bit.dtype, np.number) or not bool(((bit == 0) | (bit == 1)).all()):
            other = next(str(b) for b in bit if b not in (0, 1))
            raise ValueError(
                f"{path}{first_wrong(path)}: column bit holds {other}; it must hold 0 and 1 only (or true and false)."
            )
        columns["bit"] = bit == 1
    return columns


def _table(path: Path) -> Any:
    """The columns score, bit and, if the file has it, run, as an Arrow table. Raises ValueError as `read`."""
    import pyarrow
    from pyarrow import csv

    if path.is_dir():
        raise ValueError(f"{path}: is a folder. Name the CSV file with the columns score and bit.")
    if not path.is_file():
        what = "is no regular file. Copy its rows to one" if path.exists() else "no such file"
        raise ValueError(f"{path}: {what}. It needs a header line with the columns score and bit.")
    try:
        with pyarrow.input_stream(str(path), compression="detect") as stream:
            first = stream.read(1 << 16).split(b"\n")[0].decode("utf-8-sig").strip()
        if not first:
            found = "begins with an empty line" if path.stat().st_size else "is empty"
            raise ValueError(f"{path}: {found}; needs score and bit as its first line.")
        header = [name.strip().strip('"') for name in first.split(",")]
        wanted = [name for name in ("score", "bit", "run") if name in header]
        if wanted[:2] != ["score", "bit"]:
            lacks = " and ".join(name for name in ("score", "bit") if name not in header)
            way = "A file needs the columns score and bit, and a column run if one run has several canaries."
            raise ValueError(f"{path}: has no column {lacks}, only {', '.join(header)}. {way}")
        if twice := next((name for name in wanted if header.count(name) > 1), None):
            raise ValueError(f"{path}: has two columns called {twice}. Rename or remove one.")
        options = csv.ConvertOptions(
            include_columns=wanted,
            column_types={"score": pyarrow.float64()},
            null_values=["", "NA", "null", "None"],
            strings_can_be_null=True,
        )
        return csv.read_csv(
            str(path), csv.ReadOptions(column_names=header, skip_rows=1, block_size=1 << 24), convert_options=options
        )
    except UnicodeDecodeError:
        way = "Save the scores as CSV in UTF-8, with the columns score and bit."
        raise ValueError(f"{path}: its first line is no text in UTF-8. {way}") from None
    except pyarrow.ArrowException as fault:
        raise ValueError(f"{path}{first_wrong(path)}: {_plain(fault)}. A row is a number and a bit, such as 1.37,1.") from None
    except OSError as fault:  # when Arrow unpacks a file, its errors have neither the name of the file nor a number
        raise ValueError(f"{path}: cannot be read ({_plain(fault)}). Name a CSV file, or one that gzip made (.gz).") from None


def _array(column: Any) -> NDArray[Any]:
    """A column without nulls as a numpy array. Arrow's own conversion would import pandas, which takes half a second."""
    import numpy as np
    import pyarrow

    if pyarrow.types.is_boolean(column.type):
        parts = [(np.unpackbits(np.frombuffer(c.buffers()[1], np.uint8), bitorder="little"), c) for c in column.chunks]
        return np.concatenate([bits[c.offset : c.offset + len(c)] for bits, c in parts]).astype(bool)
    if pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
        return np.concatenate([np.from_dlpack(c) for c in column.chunks])
    return np.asarray(column.to_pylist())


def check(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError if the scores and bits allow no bound: NaN scores, bits of one world only, or constant scores."""
    import numpy as np

    score, bit = columns["score"], columns["bit"]
    lost = int(np.count_nonzero(np.isnan(score)))
    if lost:
        raise ValueError(
            f"{path}{first_wrong(path)}: {lost} of {len(score)} scores are NaN. Drop those rounds or give them a number."
        )
    ones = int(np.count_nonzero(bit))
    if ones in (0, len(bit)):
        raise ValueError(f"{path}: all {len(bit)} bits are {int(ones > 0)}. A bound needs rounds of both worlds.")
    if bool((score == score[0]).all()):
        raise ValueError(f"{path}: all {len(score)} scores are {score[0]:g}. Constant scores carry no information.")


def first_wrong(path: Path) -> str:
    """The line, counted from 1, of the first row that is not a score and a bit, such as ", line 17"; "" if there is none."""
    import pyarrow

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        rows = lines_of.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=""))
        header = [name.strip() for name in next(rows)]
        places = {name: header.index(name) for name in ("score", "bit", "run") if name in header}
        if not {"score", "bit"} <= places.keys():
            return ""
        begins = rows.line_num + 1
        try:
            for row in rows:
                if row and (len(row) != len(header) or not _fits({name: row[at].strip() for name, at in places.items()})):
                    return f", line {rows.line_num}"
                begins = rows.line_num + 1
        except lines_of.Error:  # a field of over 128 KiB, such as all text after a quotation mark that is not closed
            return f", line {begins}"
    return ""


def _fits(row: dict[str, str]) -> bool:
    """Whether a row holds a number as its score, a bit, and a run if the file has the column run."""
    try:
        score = float(row["score"])
    except ValueError:
        return False
    return score == score and row["bit"].lower() in BITS and row.get("run", "-") not in ("", "NA", "null", "None")


def _plain(fault: Exception) -> str:
    """Arrow's message in one line, without its own count of rows and columns."""
    text = " ".join(str(fault).split())
    return text.partition("invalid value ")[2].join(("", " is not a number")) if "conversion error to double" in text else text
