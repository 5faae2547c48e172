"""Looks in Python source for patterns that have broken privacy promises. A hit says "look here"; it is never a verdict.

Each rule is a function from a parsed file to the nodes that it points at. A line that ends with `# scan: intended` is skipped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

INTENDED = "# scan: intended"
NOISE = (
    "laplace",
    "normal",
    "normal_",
    "standard_normal",
    "randn",
    "randn_like",
    "random_normal",
    "binomial",
    "bernoulli",
    "Laplace",
)
TASKS = ("apply_async", "map_async", "starmap", "starmap_async", "submit", "imap", "imap_unordered", "Process")
GENERATORS = ("default_rng", "RandomState", "Generator")
SEEDS = ("seed", "manual_seed", "default_rng", "RandomState", "PRNGKey", "set_seed", "seed_everything")
ACCOUNTANTS = (
    "compute_rdp",
    "RDPAccountant",
    "PoissonSampledDpEvent",
    "compute_dp_sgd_privacy",
    "sampled_gaussian",
    "PRVAccountant",
)


@dataclass(frozen=True)
class Source:
    """One parsed file. functions: each function with its own nodes; the module itself is among them."""

    path: str
    text: str
    tree: ast.Module

    @property
    def functions(self) -> Iterator[ast.AST]:
        yield from (n for n in below(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@dataclass(frozen=True)
class Rule:
    """name: its id. reason: which promise the pattern has broken. advice: what to do. find: the places in one file."""

    name: str
    reason: str
    advice: str
    find: Callable[[Source], Iterator[ast.AST]]


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    column: int
    rule: Rule

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: {self.rule.reason} {self.rule.advice}"


@cache
def below(node: ast.AST) -> tuple[ast.AST, ...]:
    """The node and all nodes below it, remembered for as long as one file is read."""
    return tuple(ast.walk(node))


def name_of(node: ast.AST | None) -> str:
    """The last part of a dotted name or of what is called: `a.b.c(…)` -> "c"."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.Call]:
    return (n for n in below(node) if isinstance(n, ast.Call) and name_of(n.func) in names)


def names_in(node: ast.AST) -> set[str]:
    """Every name, attribute, parameter and keyword below a node."""
    found: set[str] = set()
    for n in below(node):
        found |= {value for key in ("id", "attr", "arg") if isinstance(value := getattr(n, key, None), str)}
    return found


def any_like(names: set[str], pattern: str) -> bool:
    return any(re.search(pattern, name, re.I) for name in names)


def is_private(node: ast.AST) -> bool:
    """Whether code speaks of privacy: epsilon or a budget, together with noise, or a library for it."""
    names = names_in(node)
    return any_like(names, r"^(opacus|noise_multiplier|PrivacyEngine|dp_accounting)$") or (
        any_like(names, r"^(eps|epsilon|target_epsilon)|_eps(ilon)?$|privacy")
        and any_like(names, r"noise|sigma|laplace|binomial|randn")
    )


def assigned(function: ast.AST) -> dict[str, set[str]]:
    """For each local variable, the names that its values are made of."""
    made: dict[str, set[str]] = {}
    for n in below(function):
        if isinstance(n, ast.Assign | ast.AnnAssign | ast.AugAssign) and n.value is not None:
            for target in n.targets if isinstance(n, ast.Assign) else [n.target]:
                for part in below(target):
                    if isinstance(part, ast.Name):
                        made.setdefault(part.id, set()).update(names_in(n.value))
    return made


def traced(names: set[str], made: dict[str, set[str]]) -> set[str]:
    """The names and, step by step, those that they are made of."""
    seen: set[str] = set()
    while names - seen:
        new = names - seen
        seen |= new
        names = seen.union(*(made.get(n, set()) for n in new))
    return seen


def factors(tree: ast.AST, call: ast.Call) -> set[str]:
    """The names that scale a draw of noise: its arguments, and what the draw is multiplied with."""
    found = set().union(*(names_in(a) for a in (*call.args, *call.keywords))) if call.args or call.keywords else set()
    for n in below(tree):
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and call in below(n):
            found |= names_in(n)
    return found


def shared_generator(source: Source) -> Iterator[ast.AST]:
    made = assigned(source.tree)
    for call in calls(source.tree, TASKS):
        for n in below(call):
            is_name = isinstance(n, ast.Name | ast.Attribute) and n is not call.func
            looks = bool(re.fullmatch(r"(.*_)?(rng|generator|random_state)", name_of(n))) or bool(
                made.get(name_of(n), set()) & {*GENERATORS}
            )
            if is_name and looks and not any(n in below(c) for c in calls(call, ("spawn", "fork", "split", "jumped"))):
                yield call
                break


def state_dict_assignment(source: Source) -> Iterator[ast.AST]:
    for n in below(source.tree):
        for target in n.targets if isinstance(n, ast.Assign) else ():
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Call) and name_of(target.value) == "state_dict":
                yield n


def noise_without_clip(source: Source) -> Iterator[ast.AST]:
    for function in source.functions:
        made, names = assigned(function), names_in(function)
        if not any_like(names, r"clip_grad|max_grad_norm|clip_norm|grad.*clip|clip.*grad"):
            continue
        for call in calls(function, NOISE[:7]):
            scaled = traced(factors(function, call), made)
            if any_like(scaled, r"noise_mult|multiplier|sigma|noise_scale") and not any_like(
                scaled, r"clip|max_grad_norm|sensitivity|bound"
            ):
                yield call


def noise_per_tensor(source: Source) -> Iterator[ast.AST]:
    for loop in (n for n in below(source.tree) if isinstance(n, ast.For)):
        if not any(calls(loop.iter, ("parameters", "named_parameters"))):
            continue
        body = ast.Module(loop.body, [])
        own_norm = any(calls(body, ("norm", "clip_grad_norm_", "vector_norm"))) and any_like(
            names_in(body), r"clip|max_norm|max_grad_norm"
        )
        if own_norm and any(calls(body, NOISE[:7])):
            yield loop


def fixed_seed(source: Source) -> Iterator[ast.AST]:
    for function in (source.tree, *source.functions):
        own: Any = function.body if isinstance(function, ast.Module) else [function]
        scope = ast.Module(
            [n for n in own if not (function is source.tree and isinstance(n, ast.FunctionDef | ast.ClassDef))], []
        )
        if not (any(calls(scope, NOISE)) and is_private(scope)):
            continue
        for call in calls(scope, SEEDS):
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "seed")]
            if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
                yield call

    for call in calls(source.tree, ("add_argument",)):
        default = next((k.value for k in call.keywords if k.arg == "default"), None)
        option = " ".join(str(a.value) for a in call.args if isinstance(a, ast.Constant))
        if re.search(r"noise.?seed", option) and isinstance(default, ast.Constant) and isinstance(default.value, int):
            yield call


def classical_gaussian(source: Source) -> Iterator[ast.AST]:
    for n in below(source.tree):
        if not (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and any_like(names_in(n.right), "delta")):
            continue
        around = next((f for f in source.functions if n in below(f)), source.tree)
        checked = any(isinstance(c, ast.Compare) and any_like(names_in(c), "eps") for c in below(around))
        if not checked and any(isinstance(part, ast.Constant) and part.value == 1.25 for part in below(n.left)):
            yield n


def private_maximum(source: Source) -> Iterator[ast.AST]:
    for function in source.functions:
        made = assigned(function)
        for n in below(function):
            if not (isinstance(n, ast.Call) and name_of(n.func) in ("max", "amax")):
                continue
            over = names_in(n)
            if not any_like(over, r"deg"):
                continue
            users = {name for name, parts in made.items() if n in _values(function, name)}
            reached = users | {name for name in made if traced({name}, made) & users}
            in_noise = any(n in below(c) or names_in(c) & reached for c in calls(function, NOISE[:7]))
            if in_noise or any_like(reached, r"sensitiv|sigma|noise|threshold|clip"):
                yield n


def _values(function: ast.AST, name: str) -> set[ast.AST]:
    """All nodes of the values that are assigned to a variable."""
    found: set[ast.AST] = set()
    for n in below(function):
        if isinstance(n, ast.Assign) and any(name in names_in(t) for t in n.targets):
            found |= set(below(n.value))
    return found


def best_on_private_data(source: Source) -> Iterator[ast.AST]:
    if not is_private(source.tree):
        return
    for n in below(source.tree):
        if isinstance(n, ast.If) and any(isinstance(c, ast.Compare) for c in below(n.test)):
            test, kept = (
                names_in(n.test),
                {t for a in below(n) if isinstance(a, ast.Assign) for x in a.targets for t in names_in(x)},
            )
            if (
                any_like(test, r"^(best|max)_?")
                and any_like(test, r"val|acc|metric|score")
                and any_like(kept & test, r"best|max")
            ):
                yield n


def shuffled_batches(source: Source) -> Iterator[ast.AST]:
    names = names_in(source.tree) | {
        a.name.split(".")[-1] for n in below(source.tree) for a in getattr(n, "names", []) if isinstance(a, ast.alias)
    }
    if not names & {*ACCOUNTANTS} or names & {"make_private", "make_private_with_epsilon", "UniformWithReplacementSampler"}:
        return
    for call in calls(source.tree, ("DataLoader",)):
        if any(k.arg == "shuffle" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords):
            yield call


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "shared-generator",
            "A random generator goes to tasks of other processes; each gets a copy and draws the same numbers.",
            "Give each task a child: rng.spawn(n). See lpgnet-shared-noise.",
            shared_generator,
        ),
        Rule(
            "state-dict-assignment",
            "state_dict() makes a new dictionary, so this assignment changes no weight.",
            "Use load_state_dict, or copy into the parameter. See dpdgc-normalisation-noop.",
            state_dict_assignment,
        ),
        Rule(
            "noise-without-clip",
            "The noise does not grow with the clipping norm, but the sensitivity does.",
            "Multiply the noise by the clipping norm, or check that it is 1. See dpgnns-noise-without-clip.",
            noise_without_clip,
        ),
        Rule(
            "noise-per-tensor",
            "Each tensor is clipped and gets noise by itself; one example moves all of them at once.",
            "Clip all tensors together, or scale the noise by the norm of all clips. See dpgnn-per-tensor.",
            noise_per_tensor,
        ),
        Rule(
            "fixed-seed",
            "Private noise is drawn after a seed that stands in the code; whoever reads it can subtract the noise.",
            "Take the seed of the noise from the operating system. See dpar-fixed-noise.",
            fixed_seed,
        ),
        Rule(
            "classical-gaussian",
            "The formula sqrt(2 ln(1.25 / delta)) / epsilon is proved for epsilon below 1 only.",
            "Use the exact Gaussian calibration, or check epsilon. See dpar-row-sensitivity.",
            classical_gaussian,
        ),
        Rule(
            "private-maximum",
            "The largest degree of the private graph sets noise or a threshold, and changes with one edge.",
            "Use a public degree bound. See pushflow-max-degree.",
            private_maximum,
        ),
        Rule(
            "best-on-private-data",
            "The best epoch or model is chosen by a score; if its data are private, the choice costs privacy.",
            "Keep the last epoch, choose on public data, or charge the choice. See gap-best-epoch.",
            best_on_private_data,
        ),
        Rule(
            "shuffled-batches",
            "Batches are shuffled, while the accountant assumes that each example joins each batch independently.",
            "Draw Poisson batches, or use an accountant for shuffled ones. See dpar-cached-batches.",
            shuffled_batches,
        ),
    )
}


def scan_text(text: str, path: str = "<text>") -> list[Hit]:
    """The hits in one file, by line. Raises SyntaxError where the text is no Python."""
    source, lines = Source(path, text, ast.parse(text)), text.splitlines()
    places = {(n.lineno, n.col_offset, rule.name) for rule in RULES.values() for n in _found(rule, source)}
    below.cache_clear()
    return [Hit(path, line, column, RULES[name]) for line, column, name in sorted(places) if INTENDED not in lines[line - 1]]


def _found(rule: Rule, source: Source) -> Iterator[Any]:
    return iter(rule.find(source))


def scan(path: Path) -> tuple[list[Hit], list[str]]:
    """The hits in a file, or in all Python files of a folder, and one line for each file that could not be read.

    Raises ValueError if there is no such path, or no Python file in it.
    """
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder. Name a Python file, or a folder that holds some.")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*.py") if not any(q.startswith(".") for q in p.parts[1:]))
    if not files:
        raise ValueError(f"{path}: holds no Python file (*.py).")
    hits: list[Hit] = []
    unread: list[str] = []
    for file in files:
        try:
            hits += scan_text(file.read_text(encoding="utf-8"), str(file))
        except (SyntaxError, UnicodeDecodeError, ValueError) as fault:
            unread.append(f"{file}: not read as Python: {fault}")
    return hits, unread


def row(hit: Hit) -> dict[str, Any]:
    """A hit as one row of JSON, of kind "look"."""
    rule = hit.rule
    return {"kind": "look", "path": hit.path, "line": hit.line, "rule": rule.name, "reason": rule.reason, "advice": rule.advice}


def sarif(hits: list[Hit]) -> dict[str, Any]:
    """The hits as SARIF 2.1.0, with level "note": a note is not a verdict."""
    rules = [{"id": r.name, "shortDescription": {"text": r.reason}, "help": {"text": r.advice}} for r in RULES.values()]
    results = [
        {
            "ruleId": hit.rule.name,
            "level": "note",
            "message": {"text": f"Look here. {hit.rule.reason} {hit.rule.advice}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": Path(hit.path).as_posix()},
                        "region": {"startLine": hit.line, "startColumn": hit.column + 1},
                    }
                }
            ],
        }
        for hit in hits
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "gnnaudit scan", "rules": rules}}, "results": results}],
    }
