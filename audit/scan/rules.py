"""The rules: patterns in Python source that have broken privacy promises, each with a function that finds it in a file."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .seeding import assigned_to, constant_seeds, is_generator, may_reach
from .source import Source, any_like, assigned, below, calls, factors, is_private, name_of, names_in, traced

ADDED = ("laplace", "normal", "normal_", "standard_normal", "randn", "randn_like", "random_normal")  # draws of added noise
NOISE = (*ADDED, "binomial", "bernoulli", "Laplace")
TASKS = ("apply_async", "map_async", "starmap", "starmap_async", "submit", "imap", "imap_unordered", "Process")
ACCOUNTANTS = (
    "compute_rdp",
    "RDPAccountant",
    "PoissonSampledDpEvent",
    "compute_dp_sgd_privacy",
    "sampled_gaussian",
    "PRVAccountant",
)


@dataclass(frozen=True)
class Rule:
    """find: finds the places in one file, as nodes that have a line. reason: why the pattern can break a privacy promise. advice:
    what to do.
    """

    find: Callable[[Source], Iterator[Any]]
    reason: str
    advice: str

    @property
    def name(self) -> str:
        """The id of the rule: the name of its function, with dashes."""
        return str(getattr(self.find, "__name__", "")).replace("_", "-")


def shared_generator(source: Source) -> Iterator[ast.AST]:
    made = assigned(source.tree)
    for call in calls(source.tree, TASKS):
        children = {n for c in calls(call, ("spawn", "fork", "split", "jumped")) for n in below(c)}
        for n in below(call):
            is_name = isinstance(n, ast.Name | ast.Attribute) and n is not call.func
            if is_name and is_generator(name_of(n), made) and n not in children:
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
        for call in calls(function, ADDED):
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
        if own_norm and any(calls(body, ADDED)):
            yield loop


def fixed_seed(source: Source) -> Iterator[ast.AST]:
    for function in (source.tree, *source.functions) if is_private(source.tree) else ():
        own: Any = function.body if isinstance(function, ast.Module) else [function]
        scope = ast.Module(
            [n for n in own if not (function is source.tree and isinstance(n, ast.FunctionDef | ast.ClassDef))], []
        )
        noise = [
            call
            for call in calls(source.tree if function is source.tree else scope, NOISE)
            if not (isinstance(call.func, ast.Attribute) and name_of(call.func.value) == "init")  # torch.nn.init: weights
        ]
        yield from (seed for seed in constant_seeds(scope) if any(may_reach(seed, call, function) for call in noise))

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
            users = {name for name in made if any(n in below(value) for value in assigned_to(name, function))}
            if not any_like(over, r"deg") and not any_like(users, r"sensitiv"):
                continue
            reached = users | {name for name in made if traced({name}, made) & users}
            in_noise = any(n in below(c) or names_in(c) & reached for c in calls(function, ADDED))
            if in_noise or any_like(reached, r"sensitiv|sigma|noise|threshold|clip"):
                yield n


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
            shared_generator,
            "A random generator goes to tasks of other processes; each gets a copy and draws the same numbers.",
            "Give each task a child: rng.spawn(n). See lpgnet-shared-noise.",
        ),
        Rule(
            state_dict_assignment,
            "state_dict() makes a new dictionary, so this assignment changes no weight.",
            "Use load_state_dict, or copy into the parameter. See dpdgc-normalisation-noop.",
        ),
        Rule(
            noise_without_clip,
            "The noise does not grow with the clipping norm, but the sensitivity does.",
            "Multiply the noise by the clipping norm, or check that it is 1. See dpgnns-noise-without-clip.",
        ),
        Rule(
            noise_per_tensor,
            "Each tensor is clipped alone and gets its own noise, but one example moves all tensors at once.",
            "Clip all tensors together, or scale the noise by the L2 norm of all clipping norms. See dpgnn-per-tensor.",
        ),
        Rule(
            fixed_seed,
            "Private noise is drawn after a seed that is written in the code; whoever reads it can subtract the noise.",
            "Take the seed of the noise from the operating system. See dpar-fixed-noise.",
        ),
        Rule(
            classical_gaussian,
            "The formula sqrt(2 ln(1.25 / delta)) / epsilon is proved for epsilon below 1 only.",
            "Use the exact Gaussian calibration, or check epsilon. See dpar-row-sensitivity.",
        ),
        Rule(
            private_maximum,
            "A maximum over private data, such as the largest degree, sets noise or a threshold, and changes with one record.",
            "Use a public bound. See pushflow-max-degree.",
        ),
        Rule(
            best_on_private_data,
            "The best epoch or model is chosen by a score; if its data are private, the choice costs privacy.",
            "Keep the last epoch, choose on public data, or charge the choice. See gap-best-epoch.",
        ),
        Rule(
            shuffled_batches,
            "Batches are shuffled, while the accountant assumes that each example joins each batch independently.",
            "Draw Poisson batches, or use an accountant for shuffled ones. See dpar-cached-batches.",
        ),
    )
}
