"""Tries wrong uses of every command: python -P benchmarks/bad_inputs.py [WORDS]

Each wrong use must end with exit code 2 and one line on stderr, without a traceback and within a time limit. The program prints
and counts the inputs for which it does not. WORDS: only inputs that contain these words are tried.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

SECONDS = 60  # the time limit of one input


def files(room: Path) -> dict[str, str]:
    """Writes files that are wrong in one way each, and returns their paths by name."""
    made: dict[str, bytes] = {
        "binary": bytes(range(256)) * 8,
        "empty.csv": b"",
        "words.csv": b"score,bit\nhigh,1\nlow,0\n",
        "nan.csv": b"score,bit\nnan,1\n0.5,0\n",
        "bits.csv": b"score,bit\n0.1,2\n0.5,0\n",
        "short.csv": b"score,bit\n0.1\n",
        "columns.csv": b"a,b\n1,2\n",
        "one.csv": b"score,bit\n0.1,1\n",
        "good.csv": b"score,bit\n" + b"".join(b"%f,%d\n" % (i / 7 % 1, i % 2) for i in range(200)),
        "broken.toml": b"[run\n",
        "strange.toml": b"[run]\nmodells = 'gap'\n",
        "list.toml": b"run = 3\n",
        "outside.toml": b"epsilon = 1\n",
        "type.toml": b"[run]\nrounds = 'many'\n",
        "model.py": b"class Empty:\n    pass\n",
        "syntax.py": b"def f(:\n",
        "raises.py": b"raise RuntimeError('no')\n",
        "declaration.toml": b"command = 'true'\n",
        "graph.npz": b"PK\x03\x04 no archive",
        "graph.mat": b"MATLAB 5.0 MAT-file",
        "graph.pt": b"\x80\x02",
        "empty.toml": b"",
        "text.csv.gz": b"score,bit\n0.1,1\n0.2,0\n",
        "quote.csv": b'score,bit\n0.1,1\n"0.2,0\n' + b"0.1,1\n" * 1_500_000,
        "marked.toml": "\ufeff[run]\nmodells = 'gap'\n".encode(),
        "null.toml": b'[run]\nout = "a\\u0000b"\n',
        "digits.toml": b"[run]\nalpha = 1" + b"0" * 5000,
        "utf16.csv": "score,bit\n0.1,1\n0.2,0\n".encode("utf-16"),
        "notes.txt": b"x = 1\n",
        "ünïcode.csv": b"score,bit\n\xff\xfe,1\n",
        "signs.py": b"x = " + b"-" * 10**5 + b"1",
        "brackets.py": b"x = " + b"(" * 3000,
        "deep.toml": b"[run]\nx = " + b"[" * 10**5,
    }
    for name, content in made.items():
        (room / name).write_bytes(content)
    (room / "folder").mkdir()
    return {name.partition(".")[0] if name == "binary" else name: str(room / name) for name in (*made, "folder")}


def inputs(room: Path) -> Iterator[list[str]]:
    """All wrong command lines, without the word audit."""
    at = files(room)
    gone = str(room / "nowhere")
    run = ["run", "-q", "--mlflow", "none", "--data", "campus:n=300", "--models", "gap", "--epsilon", "1", "--audits", "none"]
    run += ["--attacks", "none", "--out", str(room / "run")]
    for option in ("--epsilon", "--alpha", "--target-timeout"):
        yield from ([*run, option, value] for value in ("x", "-3", "0", "nan", ""))
    yield from ([*run, "--delta", value] for value in ("x", "-1e-9", "1", "nan", "inf"))
    yield from ([*run, "--notices", value] for value in ("1", "0.5", "nan", "x"))
    for option in ("--rounds", "--shadows", "--targets", "--repeats", "--jobs"):
        yield from ([*run, option, value] for value in ("x", "-3", "0", "1.5", ""))
    yield from ([*run, "--shadows", "3"], [*run, "--split", "-1"], [*run, "--split", "x"])
    yield from ([*run, "--memory", value] for value in ("x", "-3GiB", "0", "1", "8XB", "8GB", "2000TiB", "1e30GiB"))
    yield from ([*run, *words] for words in (["--delta", "0"], ["--epsilon", "1,1"], ["--models", "gap,gap"]))
    yield from ([*run, *words] for words in (["--shadows", "4"], ["--games", "edge"], ["--rounds", "4"]))
    yield from ([*run, "--param", "hops=2", "--param", "hops=3"], ["run", "--ray", "local", "--jobs", "2"])
    yield from (
        [*run, "--mlflow", "sqlite:////proc/x.db"],
        [*run, "--out", "/proc/x"],
        ["scan", at["model.py"], "--sarif", "/proc/x"],
    )
    yield from (["findings", "--out", "/proc/x"], ["data", "map", "campus:n=300", "/proc/x"])
    yield from (["findings", *["gap-undirected-edge"] * 2], ["findings", "gap-undirected-edge", "--checkout", gone, "--out", "x"])
    for option in ("--mode", "--unit", "--device", "--preset", "--models", "--attacks", "--audits"):
        yield from ([*run, option, value] for value in ("nonsense", "", "ünï\u202ecode"))
    fields = ("hops=x", "hops=-1", "hops=1.5", "hops=True", "hops=999999999", "hidden=0", "hidden=-1", "epochs=0", "epochs=-5")
    fields += ("batch=-3", "dropout=1", "max_degree=0", "clip=0", "clip=-1", "clip=1e400", "learning_rate=-1", "sigma=1")
    fields += (
        "encoder_layers=0",
        "learning_rate=1e400",
        "=3",
        "hops",
        "nosuch=1",
        "gap.nosuch=1",
        "other.hops=2",
        "keep='x'",
        "",
    )
    yield from ([*run, "--param", value] for value in fields)
    others = (("progap", "depth=-1"), ("dpar", "batch=-3"), ("dpar", "teleport=0"), ("dpar", "node_rate=2"), ("dpar", "picks=0"))
    others += (("lpgnn", "feature_share=2"), ("lpgnn", "feature_steps=-1"), ("privgnn", "rate=0"), ("privgnn", "queries=-1"))
    others += (("vesper", "edge_sampling=0"), ("vesper", "batch_size=0"), ("gcn", "weight_decay=-1"), ("mlp", "layers=0"))
    yield from ([*run, "--models", name, "--param", field] for name, field in others)
    graphs = (
        "nonsense",
        "campus:n=x",
        "campus:n=-3",
        "campus:n=0",
        "campus:nodes=3",
        "campus:",
        "facebook100:Nowhere",
        "pyg:Nope",
        "planetoid:Cora",
        "CORA_ML",
        "campus:n=120",
        "campus:n = 300",
    )
    graphs += (gone, at["binary"], at["folder"], at["graph.npz"], at["graph.mat"], at["graph.pt"], "/dev/null", "")
    for graph in graphs:
        yield [*run, "--data", graph]
        yield ["data", "info", graph]
    yield from ([*run, "--data-dir", value] for value in (gone, at["binary"]))
    yield from ([*run, "--out", at["binary"]], [*run, "--ray", "nonsense:1"])
    models = (
        f"{gone}.py:M",
        at["model.py"],
        f"{at['model.py']}:Nope",
        f"{at['model.py']}:Empty",
        f"{at['syntax.py']}:M",
        ":M",
        "",
    )
    models += (f"{at['raises.py']}:M", f"{at['binary']}:M", f"{at['folder']}:M", "nonsense")
    for model in models:
        yield [*run, "--model", model]
        yield ["contract", model]
    targets = (at["declaration.toml"], f"{gone}.toml", at["broken.toml"], "", "no-such-program-here {worlds} {out}", "true")
    yield from ([*run, "--target", value] for value in targets)
    yield [*run, "--target", "true {worlds} {out}", "--model", f"{at['model.py']}:Empty"]
    plans = (
        "marked.toml",
        "null.toml",
        "digits.toml",
        "binary",
        "folder",
        "broken.toml",
        "strange.toml",
        "list.toml",
        "outside.toml",
        "type.toml",
    )
    yield from (["run", at[name]] for name in plans)
    yield ["run", f"{gone}.toml"]
    account = ["account", "--models", "gap", "--data", "campus:n=300"]
    yield from ([*account, "--epsilon", value] for value in ("x", "-1", "0", "nan", ""))
    yield from ([*account, "--delta", value] for value in ("1", "-1", "nan", "x"))
    yield from ([*account, "--tuned-over", value] for value in ("0", "-3", "1.5", "x"))
    yield from (
        [*account, "--models", ""],
        [*account, "--mode", "x"],
        [*account, "--format", "pdf"],
        [*account, "--param", "hops=-1"],
    )
    for name in ("binary", "folder", "empty.csv", "words.csv", "nan.csv", "bits.csv", "short.csv", "columns.csv", "one.csv"):
        yield ["bound", at[name]]
    yield from (["bound", at["ünïcode.csv"]], ["bound", gone], ["bound"])
    bound = ["bound", at["good.csv"]]
    for option in ("--epsilon", "--alpha"):
        yield from ([*bound, option, value] for value in ("x", "-1", "nan"))
    yield from ([*bound, "--delta", value] for value in ("x", "-1", "1", "nan"))
    yield from ([*bound, "--shape", "x"], [*bound, "--pilot", gone], [*bound, "--threshold", "nan"], [*bound, "--sd", "1"])
    yield from ([*bound, "--notices", "0.5"], [*bound, "--seed", "x"], [*bound, "--likelihood-ratio", "--anytime"])
    for option in ("--epsilon", "--delta", "--kappa", "--rounds", "--power", "--alpha"):
        yield from (["power", option, value] for value in ("x", "-1", "nan"))
    yield from (["power", "--epsilon", value] for value in ("0", "-0", "1e-400", "-inf"))
    yield from (["power", "--kappa", "1"], ["power", "--power", "1"], ["power", "--delta", "1"], ["power", "--alpha", "0"])
    yield from (["findings", "nonsense"], ["findings", "nonsense", "--checkout", gone], ["findings", "--checkout", gone])
    yield from (["scan", gone], ["scan", at["binary"]])
    yield from (["report", gone], ["report", at["folder"]], ["report", at["binary"]], ["mirror", gone], ["mirror", at["folder"]])
    yield from (["ui", gone], ["ui", at["folder"], "--port", "x"], ["ui", at["folder"], "--port", "-1"])
    yield from (["ui", at["folder"], "--port", "99999"], ["compare", gone, gone], ["compare", at["folder"], at["folder"]])
    yield from (
        ["compare", at["binary"], gone],
        ["compare", gone],
        ["nonsense"],
        ["run", "--nonsense"],
        ["selftest", "--data", gone],
    )
    os.mkfifo(room / "pipe")
    for command in (["run"], ["bound"], ["data", "info"], ["scan"], ["report"], ["run", "--target"]):
        yield [*command, str(room / "pipe")]
    strange = "a\udcff"  # bytes that are no UTF-8 arrive so
    yield from ([*run, option, strange] for option in ("--seed", "--out", "--data", "--model", "--param", "--target"))
    yield from (["selftest", "--seed", strange], ["bound", strange], ["scan", strange])
    yield from (["scan", at[name]] for name in ("signs.py", "brackets.py"))
    yield from ([*run, "--param", f"hops={text}"] for text in ("-" * 10**5 + "1", "(" * 5000, "9" * 5000))
    yield ["run", at["deep.toml"]]
    many = "9" * 20  # beyond 64 bits
    yield from ([*run, option, many] for option in ("--rounds", "--shadows", "--targets", "--repeats", "--jobs", "--split"))
    yield from ([*run, option, "inf"] for option in ("--minutes", "--target-timeout", "--notices", "--alpha"))
    yield from ([*run, "--epsilon", value] for value in ("1e10", "1,,2", "0,0", "-0", "1e-400", "0x10", "∞", "1;8"))
    yield from ([*account, "--tuned-over", many], [*account, "--json", "--format", "latex"], [*account, "--epsilon", "1e10"])
    yield from (["power", "--rounds", many], ["power", "--kappa", "inf"], ["power", "--epsilon", "1e10"])
    yield from ([*bound, "--seed", value] for value in ("-1", many + "9"))
    yield from ([*bound, "--epsilon", "1", "--notices", "inf"], [*bound, "--notices", "1.5"], [*bound, "--sd", "0"])
    yield from (["bound", at[name]] for name in ("text.csv.gz", "quote.csv", "utf16.csv"))
    yield ["bound", "/dev/null"]
    yield from (["data", "info", "campus:n=300", "--split", value] for value in ("-1", many))
    yield from (["data", "info", f"campus:{text}"] for text in ("n=1000000000000", "n=300:n=400", "n=300:seed=-1"))
    yield from ([*run, option, ""] for option in ("--seed", "--out", "--mlflow", "--ray", "--recipe", "--checkout", "--python"))
    yield from (["findings", option, ""] for option in ("--seed", "--out", "--checkout"))
    yield from (["scan", ""], ["mirror", "", "--mlflow", "x"], [*run, "--models", "gap,,progap"], ["run", at["empty.toml"]])
    yield from (
        [*run, "--mlflow", "nonsense://x"],
        *(["mirror", at["folder"], "--mlflow", uri] for uri in ("nonsense://x", "none")),
    )
    yield from ([*run, *words] for words in (["--target-timeout", "5"], ["--no-record"], ["--minutes", "3"], ["--verbose"]))
    yield from ([*run, "--games", "label,none"], ["findings", "--python", gone], ["contract", "gapp"])
    yield from (["findings", "gap-undirected-edge", "--out", at[name]] for name in ("empty.csv", "model.py"))
    yield ["data", "map", "campus:n=300", f"{at['model.py']}/map"]
    for sarif in (at["model.py"], at["folder"], f"{gone}/a.sarif", "/dev/null"):
        yield ["scan", at["model.py"], "--sarif", sarif]
    yield from (["scan", at["notes.txt"]], ["acount"])
    yield from (
        ["contract", "gap", "--mode", "x"],
        ["contract"],
        ["data"],
        ["data", "info"],
        ["data", "map", "campus", at["binary"]],
    )


class Late(BaseException):
    """Raised at the time limit. It is no Exception, so that no handler of errors catches it."""


def tried(words: list[str]) -> tuple[int | None, str, float]:
    """Runs one command line in this process. Returns its exit code (None at the time limit), its stderr, and its seconds."""
    from gnnaudit.audit.cli.main import main

    said = io.StringIO()
    before, code = time.perf_counter(), 0
    sys.argv = ["audit", *words]

    def late(*_: Any) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with redirect_stderr(said), redirect_stdout(io.StringIO()):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except Late:
        return None, said.getvalue(), time.perf_counter() - before
    finally:
        signal.alarm(0)
    return code, said.getvalue(), time.perf_counter() - before


def wrong(code: int | None, said: str) -> str:
    """What is wrong with the answer to a wrong use; empty if the answer is right."""
    lines = [line for line in said.splitlines() if line.strip()]
    if code is None:
        return "no answer within the time limit"
    if code != 2:
        return f"exit code {code}"
    if "Traceback" in said:
        return "a traceback"
    return "" if lines and lines[-1].startswith("audit: ") and len(lines[-1]) > 25 else "no line that says why"


def main(only: str = "") -> int:
    """Tries all inputs, prints those with a wrong answer, and returns their number."""
    os.environ["GNNAUDIT_CACHE"] = "off"
    import torch  # noqa: F401  imported before the inputs are timed

    from gnnaudit.audit import run  # noqa: F401

    failed = count = 0
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for words in inputs(Path(folder)):
            line = " ".join(repr(w) if not w or " " in w else w for w in words)
            if only not in line:
                continue
            code, said, seconds = tried(words)
            count, slowest = count + 1, max(slowest, seconds)
            if why := wrong(code, said):
                failed += 1
                print(f"{why}: audit {line.replace(folder, '.')}\n    {said.strip()[-300:]}", flush=True)
            elif only:
                print(f"{seconds:.1f} s: audit {line.replace(folder, '.')}\n    {said.strip()}")
        os.chdir("/")
    print(
        f"{count} wrong uses: {count - failed} end with exit code 2 and a line, {failed} do not; the slowest took {slowest:.1f} s"
    )
    return failed


if __name__ == "__main__":
    raise SystemExit(1 if main(" ".join(sys.argv[1:])) else 0)
