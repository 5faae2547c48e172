"""The wall and CPU seconds of `audit bound`, from process start to exit, on files of ten thousand to ten million rows.

python benchmarks/bound.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
from measured import process_seconds
from pyarrow import csv

CALL = (
    "from pathlib import Path; from gnnaudit.audit.cli.bound import bound; bound(Path({!r}), epsilon=1.0, delta=1e-5, shape={!r})"
)


def main() -> None:
    draw = np.random.default_rng(0)
    print("| rows | shape any | shape gaussian |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for rows in (10**4, 10**6, 10**7):
            path = Path(folder, f"{rows}.csv")
            bits = draw.random(rows) < 0.5
            csv.write_csv(pyarrow.table({"score": draw.standard_normal(rows) + 0.1 * bits, "bit": bits.astype(np.int8)}), path)
            cells = ["{:.2f} s ({:.2f} s)".format(*min(_seconds(path, shape) for _ in range(3))) for shape in ("any", "gaussian")]
            print(f"| {rows:,} | {' | '.join(cells)} |", flush=True)


def _seconds(path: Path, shape: str) -> tuple[float, float]:
    return process_seconds([sys.executable, "-c", CALL.format(str(path), shape)], capture_output=True, check=False)


if __name__ == "__main__":
    main()
