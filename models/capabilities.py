"""Capabilities of models: small protocols that audits need. A model declares a capability by having its attributes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..accounting.arguments import check_type, is_whole, shown
from ..accounting.claim import Claim
from .errors import raised, raising
from .graph.graph import Graph, Worlds

SUMS = ("aggregates", "inputs")


@runtime_checkable
class NoisySums(Protocol):
    """A model that can release noisy sums over neighbours, and the rows that were summed.

    offers: all arrays that the model can release, "aggregates" and "inputs" among them, (K, hops, w, dim) float32 each. The
    release states the standard deviation of the noise as `public["noise_std"]`. A field `keep` says which arrays to release.
    """

    @property
    def offers(self) -> tuple[str, ...]: ...


@runtime_checkable
class BoundedDegree(Protocol):
    """A model that bounds out-degrees. max_degree: the public bound on the number of nodes to which a node sends its row. The
    ledger relies on this bound; 0 means no bound.
    """

    @property
    def max_degree(self) -> int: ...


@runtime_checkable
class ClippedGradients(Protocol):
    """A model that DP-SGD trains with one clipped gradient for each node, on full batches or on secret Poisson samples.

    clip: the largest norm of one node's gradient. inclusion_chance: the probability that a node joins a batch, independently of
    all others; 1 if every batch holds all nodes. None means that batches are drawn in another way: with a fixed size, for
    example, a node that joins displaces another. The training reports its samples and sums with `witness.sampled(...)`,
    `witness.clean(...)` and `witness.released(...)`.
    """

    @property
    def clip(self) -> float: ...

    @property
    def inclusion_chance(self) -> float | None: ...


@runtime_checkable
class NoisyVotes(Protocol):
    """A model whose teachers vote. It adds Laplace noise to the counts and releases the label with the largest noisy count.

    vote_noise: scale of the noise / the most that one teacher adds to a count; None if a node's influence on a vote is unbounded.
    share: the share of a query's votes that one node may change: 1 / the number of teachers if a node changes one teacher, or 1
    if it may change the whole answer. The ledger must cover such a change of any shares of votes. queries: the number of votes.
    rate: the probability that a node is in a sample of nodes. single: whether all votes use the same sample; otherwise each vote
    draws its own. classes: the number of classes that the ledger charges for; 0 means the number of classes at which the cost is
    highest.
    """

    queries: int
    rate: float
    single: bool
    classes: int

    @property
    def vote_noise(self) -> float | None: ...

    @property
    def share(self) -> float: ...

    def labels(self, worlds: Worlds, queries: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """(K, queries) noisy labels of teachers that answer with these shares of votes, (K, queries, classes)."""
        ...


@runtime_checkable
class FiniteChannels(Protocol):
    """A model that sends data of one person only through channels with finitely many inputs and outputs."""

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        """For each channel, the matrix of probabilities of an output given an input, (inputs, outputs), and the number of
        independent copies. Empty if some channel is not finite. dim, classes: of the graph.
        """
        ...


@runtime_checkable
class RandomisedReports(FiniteChannels, Protocol):
    """Users send `reports`, (K, w, bits, 2) of feature index and sign, and `label_reports`, (K, w), through two channels."""

    def ends(self, graph: Graph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For every feature, the lowest and the highest value that the channels distinguish: (dim,) each."""
        ...


@runtime_checkable
class RandomisedEdges(Protocol):
    """The network sees a graph whose entries were flipped at random.

    one_density: whether all entries are flipped with the same two probabilities; if not, each block of rows has its own two.
    """

    @property
    def one_density(self) -> bool: ...

    def response(self, worlds: Worlds, run: int) -> NDArray[np.int64]:
        """(2, arcs) int64: the graph that one run draws."""
        ...

    def entry_chances(self, density: float, kappa: float = 1.0) -> tuple[float, float]:
        """The probabilities that an existing edge is kept and that an absent edge appears, in a graph of this density, at `kappa`
        times the epsilon.
        """
        ...


@runtime_checkable
class NoisyRows(Protocol):
    """A model that releases noisy rows of the PageRank matrix, for source nodes that it draws from all nodes.

    gaussian_rows: how many rows the model releases with Gaussian noise on all entries; 0 means none.
    """

    @property
    def gaussian_rows(self) -> int: ...


@runtime_checkable
class NoisyMessages(Protocol):
    """A model that releases messages. noisy_messages: whether every message in its `transcript` is a plain sum over neighbours
    with noise, scaled to length one.
    """

    @property
    def noisy_messages(self) -> bool: ...


@runtime_checkable
class DegreeFloor(Protocol):
    """A model whose sums are divided by degrees. floor: smaller degrees count as this number; 0 means no floor."""

    @property
    def floor(self) -> int: ...


@runtime_checkable
class AnswersOtherFeatures(Protocol):
    """A model that answers queries about the training graph with features that the attacker chooses."""

    def deployed(self, worlds: Worlds, device: str = "cpu") -> Callable[[Any], NDArray[np.float32]]:
        """Trains every run and returns a function. It takes features of all nodes, (nodes, dim), and returns each run's answers
        on its own training graph: log-probabilities, (K, nodes, classes) float32.
        """
        ...


@runtime_checkable
class AnswersOtherGraphs(Protocol):
    """A model that answers queries about graphs that the attacker chooses."""

    def anywhere(self, worlds: Worlds, device: str = "cpu") -> Callable[[Graph], NDArray[np.float32]]:
        """Trains every run and returns a function. It takes any graph with the same feature columns and returns
        log-probabilities, (K, nodes of that graph, classes) float32.
        """
        ...


ANSWERS = {"queries": AnswersOtherFeatures, "graph queries": AnswersOtherGraphs}  # what an adversary may ask -> the capability


@runtime_checkable
class Declines(Protocol):
    """A model that has the attributes of some capability but lacks the capability, or that cannot be trained without single nodes
    ("RepeatsWithoutNode"). declines: the name of each -> the reason, which error messages quote.
    """

    @property
    def declines(self) -> Mapping[str, str]: ...


@runtime_checkable
class StatesClaim(Protocol):
    """A model that says what it claims."""

    @property
    def claim(self) -> Claim | None:
        """The claim that is audited where neither a command nor a plan states one; None for no claim."""
        ...


@runtime_checkable
class RunsElsewhere(Protocol):
    """A model whose trainings run outside this process. A run can repeat all draws of another run; the tool cannot change single
    draws or trace the code.

    record: whether a training records its draws; if so, `recorded` returns them with the release of one world. request: what the
    training must repeat. held: the largest number of bytes that a process of a training on one world holds, None if the system
    does not say it. See `audit/own/programs`.
    """

    @property
    def record(self) -> bool: ...

    def recorded(self, world: Worlds, request: Any) -> tuple[Any, Any]: ...

    def held(self, world: Worlds) -> int | None: ...


@dataclass(frozen=True)
class Effort:
    """How much work the audits of recorded draws spend on a model. A model declares it as `effort`; by default the numbers are
    for a training of seconds.

    thorough: whether these audits also check the model contract, train on a small graph of unusual nodes, search for further
    secrets without a limit of time, and try rare values of draws. All other fields are largest numbers of trainings or of
    what is tried in one training each, for one question. secrets: that are removed one by one. entries: of sums that are
    changed to find those that the run reads. halvings: in a search for the entries of a report that the run reads. shown,
    redrawn: entries of a report that a released number may show, and runs that confirm it; also values of a report that a
    release may tell apart. moved, still: entries that a secret moves, or does not move, and that must show in the release
    whatever other draws are. lines: of draws that may switch noise off. patterns: of rare noise. starts: noisy values at
    which a release is differentiated. probes: runs that estimate the noise of a release, for one noisy value and for several.
    one_by_one: mechanisms whose telling values are chosen one after the other.
    """

    thorough: bool = True
    secrets: int = 12
    entries: int = 48
    halvings: int = 64
    shown: int = 8
    redrawn: int = 64
    moved: int = 2
    still: int = 6
    lines: int = 16
    patterns: int = 6
    starts: int = 3
    probes: tuple[int, int] = (40, 160)
    one_by_one: int = 8

    def __post_init__(self) -> None:
        check_type("thorough", self.thorough, bool, "True or False.")
        if not (isinstance(self.probes, tuple) and len(self.probes) == 2):
            raise ValueError(f"probes={shown(self.probes)}: must be two whole numbers of at least 0, such as (40, 160).")
        for name in (field.name for field in fields(self) if field.name != "thorough"):
            value = getattr(self, name)
            for number in value if name == "probes" else (value,):
                if not (is_whole(number) and number >= 0):
                    raise ValueError(f"{name}={shown(value)}: must be a whole number of at least 0.")


THOROUGH = Effort()
FEW = Effort(  # for a model whose every training starts a program
    thorough=False,
    secrets=4,
    entries=8,
    halvings=12,
    shown=4,
    redrawn=20,
    moved=1,
    still=1,
    lines=1,
    patterns=2,
    starts=1,
    probes=(16, 16),
    one_by_one=0,
)


def effort(model: object) -> Effort:
    """The effort that a model declares; THOROUGH if it declares none."""
    return getattr(model, "effort", THOROUGH)


@runtime_checkable
class StatesTheorem(Protocol):
    """A model whose paper states a theorem about its epsilon."""

    def theorem_epsilon(self, delta: float) -> float | None:
        """The epsilon of the theorem for this recipe, in nats; None if the theorem does not apply, for example without noise."""
        ...


@runtime_checkable
class HasReleasedCode(Protocol):
    """A model whose authors released code that computes its epsilon."""

    def coded_epsilon(self, delta: float) -> float | None:
        """The epsilon that the code computes for this recipe, in nats; None if it computes none, for example without noise."""
        ...


@dataclass(frozen=True)
class Capability:
    """One capability. holds: whether a model with all attributes of the protocol has the capability. declared: how a model
    declares the capability, in words. in_toml: how the declaration of a program does; "" if it cannot. in_call: how the call of
    `Looped` does for a function; "" if it cannot.
    """

    protocol: type
    declared: str
    holds: Callable[[Any], bool] = lambda model: True
    in_toml: str = ""
    in_call: str = ""


CAPABILITIES = {
    c.protocol.__name__: c
    for c in (
        Capability(
            NoisySums,
            "name 'aggregates' and 'inputs' in `offers`, and release them",
            lambda m: set(SUMS) <= set(m.offers),
            'write aggregates.npy and inputs.npy, and set `releases = ["posteriors", "aggregates", "inputs"]` and `noise_std`',
        ),
        Capability(
            BoundedDegree,
            "set `max_degree` to the public bound on a node's degree",
            lambda m: bool(m.max_degree),
            in_call="`Looped(train, max_degree=…)`, with the public bound on a node's degree",
        ),
        Capability(
            ClippedGradients,
            "set `clip` and `inclusion_chance`, and report samples and sums with `gnnaudit.witness`",
            lambda m: m.inclusion_chance is not None,
        ),
        Capability(
            NoisyVotes,
            "define `vote_noise`, `share`, `queries`, `rate`, `single`, `classes` and `labels`",
            lambda m: bool(m.vote_noise) and 0 < m.share <= 1,
        ),
        Capability(
            FiniteChannels,
            "define `channels(dim, classes)`, which is empty if a part is sent without noise or with continuous noise",
            lambda m: bool(m.channels(2, 2)),
        ),
        Capability(RandomisedReports, "define `channels(dim, classes)` and `ends(graph)`", lambda m: bool(m.channels(2, 2))),
        Capability(RandomisedEdges, "define `response(worlds, run)`, `entry_chances(density)` and `one_density`"),
        Capability(NoisyRows, "set `gaussian_rows` to the number of rows with Gaussian noise", lambda m: m.gaussian_rows > 0),
        Capability(NoisyMessages, "set `noisy_messages`, and release `transcript`", lambda m: m.noisy_messages),
        Capability(DegreeFloor, "set `floor`", lambda m: bool(m.floor)),
        Capability(AnswersOtherFeatures, "define `deployed(worlds, device)`"),
        Capability(AnswersOtherGraphs, "define `anywhere(worlds, device)`"),
    )
}


def members(protocol: type) -> list[str]:
    """The attributes by which a model declares a capability."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False) and base is not Protocol]
    names = dict.fromkeys(name for base in bases for name in (*vars(base).get("__annotations__", ()), *vars(base)))
    return [name for name in names if not name.startswith("_")]


def has(model: object, protocol: type) -> bool:
    """Whether a model declares a capability, and does not decline it."""
    return lacks(model, protocol) is None


def lacks(model: Any, protocol: type, advice: bool = True) -> str | None:
    """Why a model lacks a capability; None if the model has it. advice: whether to say how a model declares it."""
    capability = CAPABILITIES[protocol.__name__]
    reason = declined(model, protocol.__name__)
    for name in members(protocol) if reason is None else ():
        if fault := raising(model, name):
            return f"`{name}` of {model.name} raises: {fault}"
    try:
        if reason is None and isinstance(model, protocol) and capability.holds(model):
            return None
    except Exception as fault:  # a user's attribute may have another type, and a user's method may raise any error
        return f"{protocol.__name__} of {model.name} cannot be read: {raised(fault)}"
    because = f" ({reason})" if reason else ""
    if not advice:
        return f"{model.name} does not declare {protocol.__name__}{because}"
    declared, told = f"declares it so: {capability.declared}.", capability.in_call
    way = f"A model {declared}"
    if getattr(model, "by_call", False):
        way = f"A function declares it so: {told}." if told else f"A function cannot declare it. A model in a file {declared}"
    if isinstance(model, RunsElsewhere):
        told = capability.in_toml
        way = f"A program declares it so, in the TOML file of --target: {told}." if told else "A program cannot declare it."
    return f"{model.name} does not declare {protocol.__name__}{because}. {way}"


def declined(model: object, capability: str) -> str | None:
    """The reason that the model itself gives for lacking a capability; None if it gives none."""
    return model.declines.get(capability) if isinstance(model, Declines) else None
