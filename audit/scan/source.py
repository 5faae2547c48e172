"""One parsed Python file, and functions that find its calls, its names, and the names from which a value is computed."""

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Source:
    """One parsed file. functions: all functions in it, methods and nested functions included."""

    tree: ast.Module

    @property
    def functions(self) -> Iterator[ast.AST]:
        yield from (n for n in below(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def below(node: ast.AST) -> tuple[ast.AST, ...]:
    """The node and all nodes below it. The scanner clears the cache after each file."""
    return tuple(ast.walk(node))


def name_of(node: ast.AST | None) -> str:
    """The last part of a dotted name, of a call or of a subscript: `a.b.c(…)` -> "c"."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.Call]:
    return (n for n in below(node) if isinstance(n, ast.Call) and name_of(n.func) in names)


@cache
def names_in(node: ast.AST) -> frozenset[str]:
    """Every name, attribute, parameter and keyword below a node. The scanner clears the cache after each file."""
    return frozenset(
        value for n in below(node) for key in ("id", "attr", "arg") if isinstance(value := getattr(n, key, None), str)
    )


def any_like(names: Set[str], pattern: str) -> bool:
    return any(re.search(pattern, name, re.I) for name in names)


def is_private(node: ast.AST) -> bool:
    """Whether code is about privacy: it names a privacy library, or has names like epsilon or privacy and names like noise."""
    names = names_in(node)
    return any_like(names, r"^(opacus|noise_multiplier|PrivacyEngine|dp_accounting)$") or (
        any_like(names, r"^(eps|epsilon|target_epsilon)|_eps(ilon)?$|privacy")
        and any_like(names, r"noise|sigma|laplace|binomial|randn")
    )


def assigned(function: ast.AST) -> dict[str, set[str]]:
    """For each variable, the names in the expressions that are assigned to it."""
    made: dict[str, set[str]] = {}
    for n in below(function):
        if isinstance(n, ast.Assign | ast.AnnAssign | ast.AugAssign) and n.value is not None:
            for target in n.targets if isinstance(n, ast.Assign) else [n.target]:
                for part in below(target):
                    if isinstance(part, ast.Name):
                        made.setdefault(part.id, set()).update(names_in(n.value))
    return made


def traced(names: Set[str], made: dict[str, set[str]]) -> set[str]:
    """The given names, and all names from which they are computed, over any number of assignments."""
    seen: set[str] = set()
    while names - seen:
        new = names - seen
        seen |= new
        names = seen.union(*(made.get(n, set()) for n in new))
    return seen


def factors(tree: ast.AST, call: ast.Call) -> set[str]:
    """The names that scale a draw of noise: those in its arguments, and those in products with the draw."""
    found = set().union(*(names_in(a) for a in (*call.args, *call.keywords))) if call.args or call.keywords else set()
    for n in below(tree):
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and call in below(n):
            found |= names_in(n)
    return found
