"""The model contract as checks ("clauses"). A failed clause is reported with the smallest test graph on which it fails."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Claim, Unit
from ...accounting.upper.accountants import upper
from ...accounting.upper.calibration import calibrate
from ...models.base import Model, Release
from ...models.errors import is_deliberate, raised
from ...models.facts import Facts, default_delta
from ...models.fitted import apart, not_a_release
from ...models.graph.graph import Features, Graph, Worlds, stored_as
from ...models.graph.rows_redrawn import redrawn
from ...models.random.streams import stream
from ..case import noise_of_its_own
from ..games.game import Game
from ..key import Key
from .model_file import is_built_in
from .new_process import NotTrained, sent, trained

SIZES = (6, 12, 48)  # numbers of nodes of the test graphs, smallest first, so that the first failure is the smallest example
COLUMNS, CLASSES = 5, 2  # of features and labels, if no graph is given
PARTS = 6  # one node in so many is a validation node, and one a test node; a class needs as many nodes
RUNS = 3
KEYS = 32  # other seeds: the index of a largest noisy count, for example, is often the same for two seeds
TOLERANCE = 1e-4  # relative difference that is ignored: float32 trainings may add numbers in another order


EARLIER, SAME = "a training does not depend on earlier ones", "the same seed gives the same release"
UNREPEATED = (
    "the same seed gives another release, so no two trainings can be compared (audit it as a program, docs/own-program.md: each "
    "training is then a process of its own)"
)
RAISED = "raised at "  # begins the failure of a clause that the model answered with an error, before the line of the error


@dataclass(frozen=True)
class Check:
    """The result of one clause. failure: how it failed, or None. unasked: why it does not apply, or was not tested, or None.
    applies: False if it does not apply. sizes: the numbers of nodes of the graphs on which it holds.
    """

    name: str
    failure: str | None
    unasked: str | None = None
    applies: bool = True
    sizes: tuple[int, ...] = ()

    @property
    def how(self) -> str:
        if self.unasked:
            return "not tested" if self.applies else "does not apply"
        return "fails" if self.failure else "holds"


class Clause(NamedTuple):
    """A clause of the contract. test: what is wrong with a model on a graph, or None. compares: whether it compares two trainings
    with one seed. hint: how to fix a model that fails. sizes: of the graphs on which it is tested.
    """

    test: Callable[[Model, Graph], str | None]
    compares: bool = False
    hint: str | None = None
    sizes: tuple[int, ...] = SIZES


class Unasked(Exception):
    """Raised by a clause that does not apply to the model, with the reason."""


class Untested(Unasked):
    """Raised by a clause that applies and cannot be tested, with the reason."""


def contract(model: Model, graph: Graph | None = None) -> list[Check]:
    """Checks every clause on graphs of SIZES nodes, each up to its first failure. graph: their features are stored as those of
    this graph, in as many columns, and graphs with enough nodes have as many classes. A clause for which the model refuses all of
    them is checked on it.
    """
    checks = []
    for name, clause in CLAUSES.items():
        try:
            checks.append(_checked(name, clause, model, graph))
        except Unasked as reason:
            checks.append(Check(name, None, str(reason), applies=isinstance(reason, Untested)))
    if not any(check.name == SAME and _differed(check) for check in checks):
        return checks
    return [Check(c.name, None, UNREPEATED) if CLAUSES[c.name].compares and _differed(c) else c for c in checks]


def _differed(check: Check) -> bool:
    """Whether a clause fails because releases differ, and not because the model raised an error."""
    return check.failure is not None and RAISED not in check.failure


def _checked(name: str, clause: Clause, model: Model, audited: Graph | None) -> Check:
    """Checks one clause. A graph that the model or a library refuses does not count if another one is accepted, and neither does
    one with too few classes on which the model raises an error.
    """
    refusals: list[str] = []
    held: list[int] = []
    columns, classes, stored = (COLUMNS, CLASSES, None) if audited is None else (audited.dim, audited.classes, audited.x)
    graphs = [tiny(n, columns, classes if n >= PARTS * classes else CLASSES, stored) for n in clause.sizes]
    for graph in (*graphs, *([] if audited is None else [audited])):
        if graph is audited and held:
            break
        failure, refused = None, False
        try:
            failure = clause.test(model, graph)
        except Unasked:
            raise
        except (Exception, SystemExit) as fault:  # any other exception of a user's model fails the clause
            failure, refused = f"{RAISED}{raised(fault)}", is_deliberate(fault) or graph.classes < classes
        if failure is None:
            held.append(graph.nodes)
            continue
        failure = f"{graph.nodes} nodes, {graph.edges.shape[1]} edges: {failure}"
        if not refused:
            return Check(name, failure)
        refusals.append(failure)
    return Check(name, None if held else refusals[0], sizes=tuple(held))


def tiny(nodes: int, columns: int = COLUMNS, classes: int = CLASSES, stored: Features = None) -> Graph:
    """A random undirected graph: training nodes of each class, noisy columns of features that show the class, one node without
    edges. stored: features as which its own are stored, see `stored_as`.
    """
    rng = stream(nodes, "contract")
    pairs = np.array([(u, v) for u in range(nodes - 1) for v in range(u + 1, nodes - 1)], dtype=np.int64)
    chosen = np.sort(rng.permutation(len(pairs))[: max(nodes, 3)])
    place, part = np.divmod(np.arange(nodes, dtype=np.int64), PARTS)
    y = (part + place * (classes > CLASSES)) % classes
    x = (np.eye(classes, columns)[y] + 0.3 * rng.standard_normal((nodes, columns))).astype(np.float32)
    return Graph(stored_as(stored, x), y, pairs[chosen].T.copy(), part < 4, part == 4, part == 5, name="contract")


def worlds(graph: Graph, kind: str) -> Worlds:
    count = graph.edges.shape[1] if kind == "edge" else graph.nodes
    items = np.arange(count // 2, dtype=np.int64)
    if kind == "label":
        items = np.flatnonzero(graph.train)[::3]
    return Game(graph, kind, items, Key("contract")).rounds(RUNS).worlds


def differs(a: Release, b: Release, tolerance: float) -> str | None:
    """Says where two releases differ by more than `tolerance`, relative to the largest entry or 1; None if nowhere."""
    for name in a.arrays:
        x, y = np.asarray(a[name], dtype=np.float64), np.asarray(b[name], dtype=np.float64)
        if x.shape != y.shape:
            return f"'{name}' has shape {x.shape} here and {y.shape} there"
        gap = np.abs(x - y)
        scale = max(1.0, float(np.abs(x).max(initial=0)))
        if not (gap <= tolerance * scale).all():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape))
            return f"'{name}' differs by {gap.max():.2g} at (run, …) = {place}"
    return None


def depends_on_nothing_earlier(model: Model, graph: Graph) -> str | None:
    """Compares a training that follows others with the same training in a new process. The two graphs have the same name and the
    same number of nodes, which a cache may have as its key.
    """
    if is_built_in(model):
        raise Unasked("a system of this package, which its own tests check")
    half = np.arange(0, graph.nodes, 2, dtype=np.int64)
    other = redrawn(dataclasses.replace(graph, edges=graph.edges[:, ::2]), half, Key("earlier").generator())
    first, later = (Worlds.of(g, worlds(graph, "edge").seeds[:1]) for g in (graph, other))
    try:
        content = sent(model, later)
        model.fit(first)
        alone, after = trained(content), model.fit(later)
    except NotTrained as reason:
        raise Untested(f"the model cannot be trained in a new process: {reason}") from None
    found = differs(alone, after, TOLERANCE)
    why = "a training keeps data for later ones, or depends on the process, as hash() of a text does"
    return None if found is None else f"{found} from the same training in a new process: {why}"


def declares(model: Model, graph: Graph) -> str | None:
    sampled = worlds(graph, "edge")
    release, changed = apart(model.fit, sampled)
    return changed or not_a_release(release, model.releases, sampled)


def same_key(model: Model, graph: Graph) -> str | None:
    sampled = worlds(graph, "edge")
    return differs(model.fit(sampled), model.fit(sampled), 0.0)


def other_key(model: Model, graph: Graph) -> str | None:
    sampled = worlds(graph, "edge")
    release, first = model.fit(sampled), ~sampled.seeds  # all bits differ: a model may ignore the lowest bits of a seed
    for number in range(KEYS):
        other = dataclasses.replace(sampled, seeds=first ^ np.uint64(number * 0x9E3779B97F4A7C15 % 2**64))
        if differs(release, model.fit(other), 0.0):
            return None
    return f"{KEYS + 1} seeds give the same release: the noise is fixed, or it seldom changes what is released"


def independent_of_batch(model: Model, graph: Graph) -> str | None:
    sampled = worlds(graph, "edge")
    return differs(model.fit(sampled).part(slice(1, 2)), model.fit(sampled[1:2]), TOLERANCE)


def masked_is_absent(kind: str) -> Callable[[Model, Graph], str | None]:
    def clause(model: Model, graph: Graph) -> str | None:
        sampled = worlds(graph, kind)
        together = model.fit(sampled)
        for run in range(RUNS):
            failure = differs(together.part(slice(run, run + 1)), model.fit(sampled.removed(run)), TOLERANCE)
            if failure:
                return failure
        return None

    return clause


def order_does_not_matter(model: Model, graph: Graph) -> str | None:
    order: NDArray[np.int64] = stream(1, "order").permutation(graph.edges.shape[1])
    shuffled = dataclasses.replace(graph, edges=graph.edges[:, order])
    one = np.array([7], dtype=np.uint64)
    return differs(model.fit(Worlds.of(graph, one)), model.fit(Worlds.of(shuffled, one)), TOLERANCE)


def name_does_not_matter(model: Model, graph: Graph) -> str | None:
    one = np.array([7], dtype=np.uint64)
    renamed = dataclasses.replace(graph, name="another")
    return differs(model.fit(Worlds.of(graph, one)), model.fit(Worlds.of(renamed, one)), 0.0)


def ledger_is_public(model: Model, graph: Graph) -> str | None:
    before = str(model.ledger)
    model.fit(worlds(graph, "edge"))
    return None if str(model.ledger) == before else "the ledger changed when a graph was fitted"


def zero_noise_is_not_private(model: Model, graph: Graph) -> str | None:
    if noise_of_its_own(model):
        raise Unasked("its noise is fixed")
    found = upper(model.with_noise(0.0).ledger, 1e-5)
    finite = [u.accountant for u in found if u.epsilon is not None and math.isfinite(u.epsilon)]
    return f"without noise, {finite[0]} still gives a finite epsilon" if finite else None


def calibrates(model: Model, graph: Graph) -> str | None:
    if noise_of_its_own(model):
        raise Unasked("its noise is fixed")
    if model.printed(1e-5) is not None:
        raise Unasked("its noise follows the paper's own accounting, so calibration is not checked")
    delta = default_delta(model.unit, model.mode, Facts.of(graph)) if model.unit is not Unit.FEATURES else 0.0
    claim = Claim(2.0, delta, model.unit)
    made = calibrate(model, claim)
    values = [u.epsilon for u in upper(made.ledger, delta) if u.is_upper_bound and u.epsilon is not None]
    if not values:
        return "no accountant can bound its ledger"
    return None if min(values) <= 2.0 * (1 + 1e-3) else f"calibrated to epsilon=2, its ledger costs {min(values):.4g}"


FROM_SEEDS = "Derive all randomness of run k from worlds.seeds[k] (in a function, from `seed`), none from a global generator."
FROM_MASKS = "Drop masked edges, nodes and labels before any computation, including statistics and normalisation."
NO_MASK = (
    "worlds.edges is None if no run lacks an edge; likewise .nodes and .labels. In worlds.removed(k) all three are None. "
    "The edges of run k are worlds.removed(k).graph.edges, once each; .graph.edge_index has both directions."
)
CLAUSES = {
    # first, because it sends the model as it is before any training; on one graph, because a new process takes seconds
    EARLIER: Clause(depends_on_nothing_earlier, compares=True, sizes=SIZES[-1:]),
    "releases what it declares": Clause(declares),
    SAME: Clause(same_key, hint=FROM_SEEDS),
    "another seed gives another release": Clause(other_key, hint=FROM_SEEDS),
    "other runs of a batch do not change a run": Clause(independent_of_batch, compares=True, hint=FROM_SEEDS),
    "a masked edge is an absent edge": Clause(masked_is_absent("edge"), compares=True, hint=FROM_MASKS),
    "a masked node is an absent node": Clause(masked_is_absent("node"), compares=True, hint=FROM_MASKS),
    "a masked label is not trained on": Clause(masked_is_absent("label"), compares=True, hint=FROM_MASKS),
    "the order of the edges does not matter": Clause(order_does_not_matter, compares=True),
    "the name of the graph does not matter": Clause(name_does_not_matter, compares=True),
    "the ledger does not depend on the graph": Clause(ledger_is_public),
    "a ledger without noise states no privacy": Clause(zero_noise_is_not_private),
    "calibrated within the claim": Clause(calibrates),
}


def hint(check: Check) -> str | None:
    """How to fix a failed clause, if that is known."""
    if RAISED in (check.failure or ""):
        return NO_MASK if "'NoneType'" in (check.failure or "") else None
    return CLAUSES[check.name].hint
