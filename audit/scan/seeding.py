"""Which seeds in Python code may determine which noise: a global seed does not determine what another generator draws."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from .source import assigned, below, calls, name_of, names_in, traced

GENERATORS = ("default_rng", "RandomState", "Generator")
SEEDS = ("seed", "manual_seed", "default_rng", "RandomState", "PRNGKey", "set_seed", "seed_everything")
DRAWN = ("randint", "randrange", "getrandbits", "integers", "random", "rand", "random_", "initial_seed", "get_rng_state")
OPTIONS = ("generator", "rng", "random_state")  # arguments that give a draw its generator


def constant_seeds(scope: ast.AST) -> Iterator[ast.Call]:
    """The calls that take a seed, where the seed is a whole number in the code."""
    for call in calls(scope, SEEDS):
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "seed")]
        if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
            yield call


def is_generator(name: str, made: dict[str, set[str]]) -> bool:
    """Whether a variable is a random generator, by its name or by what is assigned to it."""
    return bool(re.fullmatch(r"(.*_)?(rng|gen|generator|random_state)", name)) or bool(made.get(name, set()) & {*GENERATORS})


def generator_of(call: ast.Call, made: dict[str, set[str]]) -> str:
    """The name of the generator that a draw is given, or whose method it is; "" for the global generator."""
    given = next((k.value for k in call.keywords if k.arg in OPTIONS), None)
    if given is not None:
        return name_of(given)  # "" for None
    name = name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return name if is_generator(name, made) else ""


def may_reach(seed: ast.Call, noise: ast.Call, scope: ast.AST) -> bool:
    """Whether the generator that `seed` seeds may be that of the draw `noise`. scope: the code that contains the seed.

    A global seed reaches the draws that are given no generator of their own, and generators whose seed is drawn. The seed of a
    generator reaches every draw but those from another generator, which the same code makes.
    """
    made = assigned(scope)
    generator = generator_of(noise, made)
    if not generator:
        return True
    if not _seeds_one_generator(seed, made):
        return any(any(calls(value, DRAWN)) for value in assigned_to(generator, scope))
    own = _holders(seed, scope)
    return not own or generator not in made or bool(traced({generator}, made) & own)


def _seeds_one_generator(seed: ast.Call, made: dict[str, set[str]]) -> bool:
    """Whether a seed is that of one generator, such as `default_rng(0)` or `gen.manual_seed(0)`, and not of the global one."""
    if name_of(seed.func) in (*GENERATORS, "PRNGKey"):
        return True
    receiver = name_of(seed.func.value) if isinstance(seed.func, ast.Attribute) else ""
    return receiver in GENERATORS or is_generator(receiver, made)


def _holders(seed: ast.Call, scope: ast.AST) -> set[str]:
    """The variables that hold the generator of a seed."""
    made = (n for n in below(scope) if isinstance(n, ast.Assign) and seed in below(n.value))
    held = {name for n in made for target in n.targets for name in names_in(target)}
    receiver = name_of(seed.func.value) if isinstance(seed.func, ast.Attribute) else ""
    return held | ({receiver} - {"", "random", *GENERATORS})


def assigned_to(name: str, scope: ast.AST) -> Iterator[Any]:
    """The values that are assigned to a variable."""
    for n in below(scope):
        if isinstance(n, ast.Assign) and any(name in names_in(target) for target in n.targets):
            yield n.value
