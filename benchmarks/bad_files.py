"""Tries files, programs, models and Python calls that are wrong in one way each: python benchmarks/bad_files.py [WORDS]

Each command must end with exit code 2 and one line on stderr that names what is wrong, and each call must raise a ValueError of
one line that names it. The words that the line must contain stand beside each input. The program prints and counts the inputs for
which this fails. WORDS: only inputs that contain these words are tried. `bad_inputs.py` tries wrong command lines.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bad_inputs import tried, wrong

Wrong = tuple[list[str], str]  # the words of a command line, without `audit`, and the words that its answer must contain

# an own model's file without its last line, which defines `model`
HEAD = """
import dp_accounting as dp
import numpy as np
from dataclasses import dataclass, replace
from gnnaudit import Claim, Looped, Relation, Release, Unit

def train(graph, seed):
    scores = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}

def returning(value):
    return Looped(lambda graph, seed: value(graph), name="odd")

@dataclass(frozen=True)
class Own:
    name = "own"
    mode = "sound"
    unit = Unit.UNDIRECTED_EDGE
    releases = ("posteriors",)
    public = ("nothing",)
    ledger = dp.GaussianDpEvent(1.0)
    with_noise = lambda self, sigma: self
    printed = lambda self, delta: None
    footprint = lambda self, graph: 1
    fit = lambda self, worlds, device="cpu": None
"""
LOADED = {  # the rest of a file that cannot be loaded as a model -> words of the answer
    "import nosuchmodule": "nosuchmodule",
    "from gnnaudit import Nope": "Nope",
    "model = (": "SyntaxError",
    "def f():\n\treturn 1\n        return 2": "line ",
    "raise SystemExit(0)": "SystemExit",
    "def f(): f()\nf()": "RecursionError",
    "model = 3": "lacks name",
    "model = None": "lacks name",
    "model = train": "Looped(train)",
    "model = Looped(3)": "train=3",
    "model = Looped(lambda graph: {})": "must take a graph and a seed",
    "async def t(graph, seed): return {}\nmodel = Looped(t)": "async function",
    "def t(graph, seed):\n    yield {}\nmodel = Looped(t)": "generator function",
    "class T:\n    async def __call__(self, graph, seed): return {}\nmodel = Looped(T())": "async function",
    "def t(*, graph, seed): return {}\nmodel = Looped(t)": "must take a graph and a seed",
    "import os\nos._exit(0)": "os._exit(0)",
    "def model(): raise RuntimeError('built')": "built",
    "def model(): return None": "lacks name",
    "model = Looped": "train",
    "model = Looped(train, epsilon=1.0)": "epsilon",
    "@Looped()\ndef model(graph, seed):\n    return {}": "train",
    "@Looped(unit='edge')\ndef model(graph, seed):\n    return {}": "unit='edge'",
    "@Looped(unitt='node')\ndef model(graph, seed):\n    return {}": "unitt",
    "@Looped(unit='node')\ndef model(graph):\n    return {}": "must take a graph and a seed",
    "model = Looped(train, unit='edge')": "unit='edge'",
    "model = Looped(train, unit=3)": "unit=3",
    "model = Looped(train, releases='posteriors')": "releases='posteriors'",
    "model = Looped(train, releases=())": "releases=()",
    "model = Looped(train, events=3)": "events=3",
    "model = Looped(train, events=dp.GaussianDpEvent(-1.0))": "events",
    "model = Looped(train, events=dp.LaplaceDpEvent(float('nan')))": "events",
    "model = Looped(train, max_degree=-1)": "max_degree=-1",
    "model = Looped(train, max_degree=2.5)": "max_degree=2.5",
    "model = Looped(train, name=3)": "name=3",
    "model = Looped(train, public='all')": "public='all'",
    "model = Looped(train, mode='fast')": "mode='fast'",
    "model = Looped(train, claim=(1.0, 0.0))": "claim=(1.0, 0.0)",
    "model = Looped(train, claim=1.0)": "claim=1.0",
    "model = Looped(train, claim=Claim(-1.0, 0.0))": "epsilon=-1.0",
    "model = Looped(train, claim=Claim('1', 0.0))": "epsilon='1'",
    "model = Looped(train, claim=Claim(float('inf'), 0.0))": "epsilon=inf: claims nothing",
    "model = Looped(train, releases=('posteriors', 'posteriors'))": "names 'posteriors' twice",
    "model = Looped(train, events=dp.ComposedDpEvent([3]))": "events=3",
    "model = Looped(train, events=dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 1.5))": "count=1.5",
    "model = Looped(train, claim=Claim(1.0, 1.0))": "delta=1.0",
    "model = Looped(train, claim=Claim(1.0, 0.0, 'edge'))": "unit='edge'",
    "model = Looped(train, unit='node', claim=Claim(1.0, 0.0, 'features'))": "must be the same",
    "model = Looped(train, claim=Claim(1.0, 0.0, relation='replace'))": "relation=replace",
    "model = Looped(train, claim=Claim(1.0, 0.0, tuned_over=3))": "tuned_over=3",
    "class model(Own): unit = 'edge'": "unit='edge'",
    "class model(Own): ledger = None": "ledger=None",
    "class model(Own): releases = ()": "releases=()",
    "class model(Own): releases = 'posteriors'": "releases='posteriors'",
    "class model(Own): releases = ('posteriors', 'posteriors')": "names 'posteriors' twice",
    "class model(Own): offers = ('posteriors', 'posteriors')": "names 'posteriors' twice",
    "class model(Own): claim = Claim(float('inf'), 0.0)": "epsilon=inf: claims nothing",
    "class model(Own): public = 'all'": "public='all'",
    "class model(Own): public = None": "public=None",
    "class model(Own): ledger = dp.GaussianDpEvent(-1.0)": "noise_multiplier=-1.0",
    "class model(Own): ledger = dp.GaussianDpEvent('x')": "noise_multiplier='x'",
    "class model(Own): with_noise = lambda self, sigma: None": "with_noise(1.0) returns None",
    "class model(Own): with_noise = lambda self, sigma: 1 / 0": "with_noise(1.0) raises",
    "class model(Own): with_noise = lambda self: self": "with_noise(1.0) raises",
    "class model(Own): printed = lambda self, delta: 'much'": "printed(1e-05) returns 'much'",
    "class model(Own): printed = lambda self, delta: float('nan')": "printed(1e-05) returns nan",
    "class model(Own): printed = lambda self, delta: 1 / 0": "printed(1e-05) raises",
    "from gnnaudit import Effort\nclass model(Own): effort = Effort(secrets=-1)": "secrets=-1",
    "from gnnaudit import Effort\nclass model(Own): effort = Effort(entries='x')": "entries='x'",
    "class model(Own): name = 3": "name=3",
    "class model(Own): name = 'gap'": "'gap'",
    "class model(Own): name = '../x'": "'../x'",
    "class model(Own): name = 'a\\nb'": "not a valid folder name",
    "class model(Own): name = ' '": "' '",
    "class model(Own): name = 'x' * 300": "not a valid folder name",
    "def dpgnn(graph, seed): return {}\nmodel = Looped(dpgnn)": "name='own-dpgnn'",
    "class model(Own): mode = 'fast'": "mode='fast'",
    "class model(Own): claim = 3": "claim=3",
    "class model(Own):\n    @property\n    def claim(self): raise KeyError('x')": "`claim` raises",
    "class model(Own): claim = Claim(1.0, 0.0, relation='replace')": "relation=replace",
    "class model(Own): max_degree = -1": "max_degree=-1",
    "class model(Own): offers = 'posteriors'": "offers='posteriors'",
    "class model(Own): keep = 3": "keep=3",
    "class model(Own): effort = 'much'": "effort='much'",
    "class model(Own):\n    def __init__(self, sigma): pass": "sigma",
    "class model(Own):\n    @property\n    def ledger(self): return self.sigmaa": "sigmaa",
    "class model(Own):\n    def __init__(self): raise KeyError('x')": "KeyError",
}
TRAINED = {  # the rest of a file whose model cannot be trained -> words of the answer
    "model = returning(lambda g: None)": "returned NoneType",
    "model = returning(lambda g: [1.0])": "returned list",
    "model = returning(lambda g: {})": "not 'posteriors'",
    "model = returning(lambda g: {'posteriors': np.zeros(3)})": "shape (3,)",
    "model = returning(lambda g: {'posteriors': np.full((g.nodes, g.classes), np.nan)})": "NaN",
    "model = returning(lambda g: {'posteriors': np.full((g.nodes, g.classes), 'x')})": "real numbers",
    "model = returning(lambda g: {'posteriors': [[1.0], [1.0, 2.0]]})": "no array of numbers",
    "model = returning(lambda g: {'posteriors': np.zeros((g.nodes, g.classes)), 'more': 1.0})": "'more'",
    "model = returning(lambda g: {'posteriors': np.zeros((g.nodes, g.classes), complex)})": "complex",
    "model = returning(lambda g: 1 / 0)": "ZeroDivisionError",
    "model = returning(lambda g: g.nosuch)": "nosuch",
    "model = returning(lambda g: exit(0))": "SystemExit",
    "model = returning(lambda g: {0: 1.0, 'x': 2.0})": "not 'posteriors'",
    "model = returning(lambda g: {'posteriors': np.full((g.nodes, g.classes), 1e300)})": "infinity",
    "model = returning(lambda g: {'posteriors': np.full((g.nodes, g.classes), 1 / g.classes)})": "logarithms",
    "class model(Own): footprint = lambda self, graph: None": "footprint returned None",
    "class model(Own): footprint = lambda self, graph: 1 / 0": "ZeroDivisionError",
    "class model(Own): footprint = lambda self, graph: 10**30": "--memory",
    "model = Own()": "fit",
    "class model(Own):\n    def fit(self, worlds): return 3": "fit",
    "class model(Own):\n    fit = lambda self, worlds, device='cpu': Release({}, worlds.watch)": "posteriors",
}
PLANS = {  # the lines below [run] -> words of the answer
    "rounds = 1.5": "rounds=1.5",
    "rounds = true": "rounds=True",
    "rounds = '3'x": "line 2",
    "rounds = 3\nrounds = 4": "line 3",
    "epsilon = 'x'": "epsilon",
    "epsilon = [1, 'a']": "epsilon",
    "epsilon = {}": "epsilon",
    "epsilon = []": "epsilon",
    "epsilon = -1": "epsilon=-1",
    "models = 3": "models",
    "models = ['gap', 3]": "models",
    "models = []": "models",
    "models = ['gapp']": "gapp",
    "attacks = ['']": "attacks",
    "audits = ['replayy']": "replayy",
    "param = 3": "param",
    "param = ['hops']": "hops",
    "param = {hops = 2}": "param",
    "memory = '8XB'": "memory='8XB'",
    "memory = true": "memory=True",
    "delta = 'small'": "delta='small'",
    "delta = 1": "delta=1",
    "out = 3": "out=3",
    "unit = ['node']": "unit=['node']",
    "unit = 'edge'": "unit='edge'",
    "mode = 'sounds'": "mode='sounds'",
    "json = true": "json: no such option",
    "record = 'maybe'": "record='maybe'",
    "alpha = [0.05]": "alpha=[0.05]",
    "notices = nan": "notices=nan",
    "rounds = 99999999999999999999": "rounds=99999999999999999999",
    "jobs = -1": "jobs=-1",
    "seed = 3": "seed=3",
    "data = 3": "data=3",
    "data_dir = ''": "data_dir",
    "target = 3": "target=3",
    "model = ['a.py:M']": "model=['a.py:M']",
    "preset = 'fast'": "preset=fast",
    "device = 'tpu'": "device='tpu'",
    "split = -1": "split=-1",
    "[run.more]\nx = 1": "more: no such option",
    "[other]\nx = 1": "other",
}
DECLARED = {  # what a good declaration is changed to -> words of the answer
    "unit = 'directed-edge'": "command: missing",
    "command = 'true {worlds} {out}'": "unit: missing",
    "comand = 'true'": "Did you mean command",
    "command = 3": "command=3",
    "command = ''": "command=''",
    "command = 'true'\nunit = 'node'": "{worlds}",
    "command = 'true {worlds}'\nunit = 'node'": "{out}",
    "command = '''true \"{worlds} {out}'''\nunit = 'node'": "command=",
    "command = 'nosuchprogram {worlds} {out}'\nunit = 'node'": "nosuchprogram",
}
GOOD = "command = 'true {worlds} {out}'\nunit = 'directed-edge'\n"
MORE_DECLARED = {  # what follows the command and the unit -> words of the answer
    "ledger = 'gaussian'": "'gaussian' has no value",
    "ledger = 'gaussian(sigma)'": "sigma",
    "ledger = 'gaussian(-1)'": "-1",
    "ledger = 'laplace(nan)'": "nan",
    "ledger = 'poisson(2, gaussian(1))'": "rate=2.0",
    "ledger = '-1 * gaussian(1)'": "count=-1",
    'ledger = \'__import__("os").system("true")\'': "is not allowed",
    "ledger = 3": "ledger=3",
    "noise_std = -1": "noise_std=-1",
    "noise_std = 'x'": "'x' has no value",
    "noise_std = true": "noise_std=True",
    "releases = ['posterior']": "releases='posterior'",
    "releases = ['posteriors', 'aggregates']": "aggregates and inputs",
    "releases = 'posteriors'": "releases='posteriors'",
    "releases = []": "releases=[]",
    "name = 'a/b'": "a/b",
    "ledger = 'gaussian(9**9**9)'": "out of range",
    "requires = ['numpy']": "{python}",
    "values = 3": "values=3",
    "values = {sigma = 'x'}": "values=",
    "checkout = 'nowhere'": "checkout=nowhere",
    "public = 'all'": "public='all'",
    "name = 3": "name=3",
    "claim = 3": "claim=3",
    "claim = {epsilon = -1}": "epsilon=-1",
    "claim = {epsilon = 'x'}": "epsilon='x'",
    "claim = {epsilom = 1}": "epsilom",
    "claim = {epsilon = 1, unit = 'edge'}": "unit='edge'",
}
PROGRAMS = {  # what a program does with numpy as np and its two folders `worlds` and `out` -> words of the answer
    "pass": "posteriors.npy",
    "sys.exit(3)": "exit code 3",
    "raise KeyError('lost')": "lost",
    "os.kill(os.getpid(), 9)": "SIGKILL",
    "np.save(out / 'posteriors.npy', np.zeros((1, 2, 3)))": "shape (1, 2, 3)",
    "np.save(out / 'posteriors.npy', np.full((1, n, c), np.nan))": "NaN",
    "np.save(out / 'posteriors.npy', np.full((1, n, c), -1.0))": "negative",
    "np.save(out / 'posteriors.npy', np.zeros((1, n, c)))": "row of zeros",
    "np.save(out / 'posteriors.npy', np.full((1, n, c), 'x'))": "posteriors.npy",
    "np.save(out / 'posteriors.npy', np.full((1, n, c), None), allow_pickle=True)": "posteriors.npy",
    "(out / 'posteriors.npy').write_text('0.1 0.9')": "posteriors.npy",
    "(out / 'posteriors.npy').mkdir()": "posteriors.npy",
    "import time; time.sleep(60)": "--target-timeout",
}
PROGRAM = """
import os, sys
from pathlib import Path
import numpy as np
worlds, out = Path(sys.argv[1]), Path(sys.argv[2])
graph = np.load(worlds / "graph.npz")
n, c = graph["y"].size, int(graph["classes"])
"""
TABLES: dict[str, tuple[str, str, str]] = {  # name -> edges.csv, nodes.csv, words of the answer
    "no-nodes": ("source,target\n0,1\n", "", "nodes"),
    "no-edges": ("", "id,label,a\n0,0,1\n1,1,0\n", "edges"),
    "one-column": ("source\n0\n", "id,label,a\n0,0,1\n1,1,0\n", "edges.csv"),
    "words": ("source,target\na,b\n", "id,label,a\n0,0,1\n1,1,0\n", "edges.csv"),
    "outside": ("source,target\n0,9\n", "id,label,a\n0,0,1\n1,1,0\n", "9"),
    "negative": ("source,target\n0,-1\n", "id,label,a\n0,0,1\n1,1,0\n", "-1"),
    "nan": ("source,target\n0,1\n", "id,label,a\n0,0,nan\n1,1,0\n", "x[0, 0]"),
    "text": ("source,target\n0,1\n", "id,label,a\n0,0,x\n1,1,0\n", "nodes.csv"),
    "twice": ("source,target\n0,1\n", "id,label,a\n0,0,1\n0,1,0\n", "0"),
    "ragged": ("source,target\n0,1,2,3\n0\n", "id,label,a\n0,0,1\n1,1,0\n", "edges.csv"),
    "header": ("source,target\n", "id,label,a\n", "nodes"),
}
ARRAYS: dict[str, tuple[dict[str, Any], str]] = {  # name -> arrays of an .npz, words of the answer
    "nothing": ({}, "x"),
    "no-labels": ({"x": np.ones((4, 2)), "edge_index": np.array([[0], [1]])}, "y"),
    "short-labels": ({"x": np.ones((4, 2)), "y": np.arange(3) % 2, "edge_index": np.array([[0], [1]])}, "y has 3"),
    "flat-edges": ({"x": np.ones((4, 2)), "y": np.arange(4) % 2, "edge_index": np.array([0, 1])}, "edges"),
    "tall-edges": ({"x": np.ones((4, 2)), "y": np.arange(4) % 2, "edge_index": np.zeros((5, 2), int)}, "Transpose"),
    "outside": ({"x": np.ones((4, 2)), "y": np.arange(4) % 2, "edge_index": np.array([[0], [7]])}, "7"),
    "nan": ({"x": np.full((4, 2), np.nan), "y": np.arange(4) % 2, "edge_index": np.array([[0], [1]])}, "x"),
    "half": ({"x": np.ones((4, 2)), "y": np.arange(4) / 2, "edge_index": np.array([[0], [1]])}, "y"),
    "mask": (
        {
            "x": np.ones((4, 2)),
            "y": np.arange(4) % 2,
            "edge_index": np.array([[0], [1]]),
            **{f"{s}_mask": np.full(4, 2) for s in ("train", "val", "test")},
        },
        "train_mask holds 2",
    ),
    "objects": ({"x": np.array([[None] * 2] * 4), "y": np.arange(4) % 2, "edge_index": np.array([[0], [1]])}, "graph"),
}
SCORES: dict[str, tuple[bytes, str]] = {  # name -> content of a CSV file, words of the answer
    "header": (b"score,bit\n", "rows"),
    "semicolons": (b"score;bit\n0.1;1\n0.2;0\n", "score"),
    "half-bit": (b"score,bit\n0.1,0.5\n0.2,0\n", "line 2"),
    "one-world": (b"score,bit\n" + b"0.1,1\n" * 50, "bit"),
    "twice": (b"score,score,bit\n0.1,0.2,1\n0.2,0.3,0\n", "score"),
    "null": (b"score,bit\n0.1,1\n\0,0\n", "line 3"),
    "truncated": (b"score,bit\n0.1,1\n0.2", "line 3"),
    "latin": ("score,bit\n0.1,1\né,0\n".encode("latin-1"), "line 3"),
    "page": (b"<!DOCTYPE html>\n<html></html>\n", "score"),
}
DAMAGED: dict[str, Callable[[bytes], bytes]] = {  # what happens to a file of a run
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "list": lambda content: b"[]",
    "object": lambda content: b"{}",
    "utf-16": lambda content: content.decode().encode("utf-16"),
    "binary": lambda content: bytes(range(256)),
    "kind": lambda content: content.replace(b'"kind": "utility"', b'"kind": "futility"'),
    "type": lambda content: content.replace(b'"value": ', b'"value": "x", "was": '),
    "schema": lambda content: content.replace(b'"schema": 1', b'"schema": 99'),
    "nan": lambda content: content.replace(b'"runs": 1', b'"runs": NaN'),
    "seconds": lambda content: content.replace(b'"seconds": ', b'"seconds": "inf", "was": '),
    "deep": lambda content: b"[" * 10**5,
}


def write(path: Path, content: str | bytes) -> str:
    """Writes a file, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def inputs(room: Path) -> Iterator[Wrong]:
    """All wrong commands."""
    quick = ["-q", "--mlflow", "none", "--data", "campus:n=120:degree=6", "--epsilon", "1", "--attacks", "none", "--repeats", "1"]
    quick += ["--jobs", "1"]
    for at, (rest, named) in enumerate((LOADED | TRAINED).items()):
        file = write(room / "models" / f"own{at}.py", HEAD + rest + "\n")
        yield ["run", *quick, "--model", f"{file}:model", "--out", str(room / f"out{at}")], named
        if rest in LOADED:
            yield ["contract", f"{file}:model"], named
            yield ["account", "--model", f"{file}:model"], named
    for name, content in (("latin", "x = 'é'".encode("latin-1")), ("null", b"x = 1\0"), ("utf-16", "x = 1".encode("utf-16"))):
        file = write(room / "models" / f"{name}.py", content)
        yield ["run", *quick, "--model", f"{file}:model"], f"{name}.py"
    for name in ("random", "numpy"):
        file = write(room / "models" / f"{name}.py", HEAD + "model = Looped(train)")
        yield ["run", *quick, "--model", f"{file}:model"], f"the module {name}"
    for at, (lines, named) in enumerate(PLANS.items()):
        yield ["run", "-q", write(room / f"plan{at}.toml", f"[run]\n{lines}\n")], named
    for content in ("[run]\nrounds = 3".encode("utf-16"), b"[run]\nseed = '\xff'", b"[run]\nseed = '\0'", b"[[run]]\nrounds = 3"):
        yield ["run", "-q", write(room / "encoded.toml", content)], "encoded.toml"
    declarations = {**DECLARED, **{GOOD + rest: named for rest, named in MORE_DECLARED.items()}}
    for at, (text, named) in enumerate(declarations.items()):
        file = write(room / "declarations" / f"d{at}.toml", text + "\n")
        yield (
            [
                "run",
                "-q",
                "--mlflow",
                "none",
                "--data",
                "campus:n=120:degree=6",
                "--target",
                file,
                "--out",
                str(room / f"declared{at}"),
            ],
            named,
        )
    for at, (does, named) in enumerate(PROGRAMS.items()):
        file = write(room / "programs" / f"p{at}.py", PROGRAM + does + "\n")
        command = f"{sys.executable} {file} {{worlds}} {{out}}"
        yield (
            ["run", *quick, "--target", command, "--target-timeout", "10", "--audits", "none", "--out", str(room / f"ran{at}")],
            named,
        )
    yield from recipes(room, quick)
    yield from graphs(room, quick)
    for name, (content, named) in SCORES.items():
        yield ["bound", write(room / "scores" / f"{name}.csv", content)], named
    good = write(room / "good.csv", b"score,bit\n" + b"".join(b"%f,%d\n" % (i / 7 % 1, i % 2) for i in range(200)))
    for words, named in (
        (["--alpha", "0"], "alpha"),
        (["--alpha", "1"], "alpha"),
        (["--delta", "inf"], "delta"),
        (["--sd", "-1"], "sd"),
        (["--threshold", "x"], "threshold"),
        (["--pilot", write(room / "pilot.csv", "score,bit\n0.1,1\n")], "pilot"),
        (["--pilot", str(room)], "folder"),
    ):
        yield ["bound", good, *words], named
    yield from damaged(room, quick)
    for command in ("models", "attacks", "audits", "accountants", "selftest"):
        yield [command, "extra"], "extra"
        yield [command, "--nosuch"], "--nosuch"
    yield from (
        (["data", "list", "extra"], "extra"),
        (["data", "nosuch"], "nosuch"),
        (["data", "map", "campus:n=120:degree=6"], "folder"),
        (["selftest", "--data", "campus:n=x"], "n=x"),
        (["selftest", "--seed", ""], "--seed"),
        (["ui", str(room), "--mlflow", "nonsense://x"], "nonsense"),
        (["ui", str(room), "--mlflow", "http://127.0.0.1:9"], "is a server"),
        (["ui", str(room), "--mlflow", f"sqlite:///{write(room / 'text.db', 'no database')}"], "no SQLite database"),
        (["ui", str(room / "models")], "has no MLflow store yet"),
        (["mirror"], "runs"),
        (["report"], "'run'"),
        (["report", "a", "b"], "b"),
        (["compare", "a", "b", "c"], "c"),
        (["--nosuch"], "--nosuch"),
        (["runn"], "run"),
    )


def recipes(room: Path, quick: list[str]) -> Iterator[Wrong]:
    """Wrong uses of --recipe, --checkout and --python."""
    empty = room / "checkout"
    empty.mkdir()
    run = ["run", *quick, "--out", str(room / "recipe")]
    yield [*run, "--recipe", "gapp"], "gapp"
    yield [*run, "--recipe", "gap"], "--checkout"
    yield [*run, "--recipe", "gap", "--checkout", str(room / "nowhere")], "nowhere"
    yield [*run, "--recipe", "gap", "--checkout", write(room / "file.txt", "x")], "file.txt"
    yield [*run, "--recipe", "gap", "--checkout", str(empty), "--python", str(room / "nopython")], "nopython"
    yield [*run, "--recipe", "gap", "--checkout", str(empty), "--target", "true {worlds} {out}"], "--target"
    yield [*run, "--checkout", str(empty)], "checkout="
    yield [*run, "--python", sys.executable], "python="


def graphs(room: Path, quick: list[str]) -> Iterator[Wrong]:
    """Graphs of one's own that are wrong, for `audit run` and `audit data info`."""
    for name, (edges, nodes, named) in TABLES.items():
        folder = room / "tables" / name
        folder.mkdir(parents=True)
        for file, content in (("edges.csv", edges), ("nodes.csv", nodes)):
            if content:
                write(folder / file, content)
        yield ["data", "info", str(folder)], named
    for name, (arrays, named) in ARRAYS.items():
        np.savez(room / f"graph-{name}.npz", **arrays)
        yield ["run", "--models", "gap", *quick, "--data", str(room / f"graph-{name}.npz")], named
    yield ["data", "info", write(room / "graph.txt", "0 1\n")], "graph.txt"


def damaged(room: Path, quick: list[str]) -> Iterator[Wrong]:
    """Commands on a run whose files are damaged."""
    run = ["run", "--models", "gap", *quick, "--audits", "none"]
    honest = room / "honest"
    if tried([*run, "--out", str(honest)])[0] != 3:
        raise SystemExit("The run whose files are then damaged did not end as expected.")
    for name, damage in DAMAGED.items():
        folder = room / f"damaged-{name}"
        folder.mkdir()
        (folder / "plan.toml").write_bytes((honest / "plan.toml").read_bytes())
        content = (honest / "results.json").read_bytes()
        (folder / "results.json").write_bytes(damage(content))
        if damage(content) == content:
            raise SystemExit(f"The damage '{name}' changes nothing.")
        yield ["report", str(folder)], "results.json"
        yield ["mirror", str(folder), "--mlflow", f"sqlite:///{room}/mirror.db"], "results.json"
        yield ["compare", str(honest), str(folder)], "results.json"
        yield ["compare", str(folder), str(honest)], "results.json"
    for name in ("cut", "empty", "list", "utf-16", "binary"):
        folder = room / f"plan-{name}"
        folder.mkdir()
        (folder / "results.json").write_bytes((honest / "results.json").read_bytes())
        (folder / "plan.toml").write_bytes(DAMAGED[name]((honest / "plan.toml").read_bytes()))
        yield [*run, "--out", str(folder)], "plan.toml"


def calls() -> Iterator[tuple[str, str]]:
    """Wrong calls of the library, in the names of `gnnaudit` and `np`, and the words that the ValueError must contain."""
    scores = "[0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]"
    yield from (
        ("Claim('1', 0.0)", "epsilon='1'"),
        ("Claim(1.0, 2.0)", "delta=2.0"),
        ("Claim(float('nan'), 0.0)", "epsilon=nan"),
        ("Claim(1.0, 0.0, unit='edge')", "unit='edge'"),
        ("Claim(1.0, 0.0, exposes='posteriors')", "exposes='posteriors'"),
        (f"lower({scores}, 1.0)", "claim=1.0"),
        ("lower([], [], Claim(1.0, 0.0))", "no rounds"),
        ("lower([0.1, 0.2], [1], Claim(1.0, 0.0))", "bits"),
        ("lower([0.1, float('nan')], [0, 1], Claim(1.0, 0.0))", "scores"),
        ("lower([0.1, 0.2], [0, 2], Claim(1.0, 0.0))", "bits"),
        (f"lower({scores}, Claim(1.0, 0.0), alpha=2)", "alpha=2"),
        ("upper(3, Claim(1.0, 0.0))", "ledger=3"),
        ("upper(PureDpEvent(1.0), 2)", "delta=2"),
        ("PureDpEvent(-1.0)", "epsilon=-1.0"),
        ("PureDpEvent('x')", "epsilon='x'"),
        ("load(3)", "3"),
        ("load('')", "''"),
        ("load('campus:n=x')", "n=x"),
        ("load('nosuch')", "nosuch"),
        ("audit(Looped, load('campus:n=120:degree=6'))", "class"),
        ("audit(TRAIN, load('campus:n=120:degree=6'), Claim(1.0, 0.0))", "'posteriors'"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'))", "claim=None"),
        ("audit(Looped(TRAIN), 'campus:n=120:degree=6', Claim(1.0, 0.0))", "campus:n=120:degree=6"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'), 1.0)", "claim=1.0"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'), Claim(1.0, 0.0), nosuch=1)", "nosuch"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'), Claim(1.0, 0.0), rounds='x')", "rounds='x'"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'), Claim(1.0, 0.0), epsilon=2)", "epsilon=2"),
        ("audit(Looped(TRAIN), load('campus:n=120:degree=6'), Claim(1.0, 0.0), out=3)", "out=3"),
        ("Looped(unit='edge')(TRAIN)", "unit='edge'"),
        ("Looped(TRAIN, claim=3)", "claim=3"),
        ("normal([1], 3, 'x')", "shape"),
        ("judge(3, [], [])", "claim=3"),
        ("calibrate(3, Claim(1.0, 1e-5))", "3"),
        ("curve(3)", "3"),
        ("gaussian_curve('x')", "'x'"),
    )


def answer(call: str) -> str:
    """What is wrong with the answer to a wrong call; empty if the call raises a ValueError of one line."""
    import gnnaudit

    names: dict[str, Any] = {name: getattr(gnnaudit, name) for name in gnnaudit.__all__}
    names |= {"np": np, "TRAIN": lambda graph, seed: {"posteriors": np.zeros((graph.nodes, graph.classes))}}
    try:
        return f"returned {str(eval(call, names))[:100]}"
    except ValueError as fault:
        return f"audit: {fault}"
    except Exception as fault:
        return f"{type(fault).__name__}: {fault}"


def main(only: str = "") -> int:
    """Tries all inputs, prints those with a wrong answer, and returns their number."""
    os.environ["GNNAUDIT_CACHE"] = "off"
    failed = count = 0

    def judged(line: str, why: str, said: str, named: str) -> None:
        nonlocal failed, count
        last = said.strip().splitlines()[-1] if said.strip() else ""
        why = why or ("" if named in last else f"no word of {named!r}")
        count += 1
        if why:
            failed += 1
            print(f"{why}: {line}\n    {said.strip()[-300:]}", flush=True)
        elif only:
            print(f"{line}\n    {said.strip()}")

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for words, named in inputs(Path(folder)):
            line = " ".join(repr(word) if not word or " " in word else word for word in words).replace(folder, ".")
            if only not in line:
                continue
            code, said, _ = tried(words)
            file = next((w.rpartition(":")[0] for w in words if w.endswith(".py:model")), "")
            line += f"  # {Path(file).read_text().removeprefix(HEAD).strip()!r}" if "own" in file else ""
            judged(f"audit {line}", wrong(code, said), said, named)
        os.chdir("/")
    for call, named in calls():
        if only in call:
            said = answer(call)
            judged(call, "" if said.startswith("audit: ") and "\n" not in said else "no ValueError of one line", said, named)
    print(f"{count} wrong files and calls: {count - failed} are named in one line, {failed} are not")
    return failed


if __name__ == "__main__":
    raise SystemExit(1 if main(" ".join(sys.argv[1:])) else 0)
