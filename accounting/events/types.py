"""Mechanisms for which dp_accounting has no event. Each accountant supports them or declines with a reason."""

import attr
from dp_accounting import DpEvent

from .well_formed import check_field


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):
    """An epsilon-differentially private mechanism without further known properties. epsilon: nats.

    Raises ValueError if epsilon is no finite number of at least 0.
    """

    epsilon: float

    def __attrs_post_init__(self) -> None:
        check_field("epsilon", self.epsilon)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):
    """An epsilon-bounded-range mechanism: the privacy losses of one pair of neighbours span at most epsilon (nats).

    The exponential mechanism and one-shot Gumbel selection (Durfee and Rogers 2019) are of this kind; each is
    epsilon-DP and (epsilon^2 / 8)-zCDP.
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FiniteDpEvent(DpEvent):
    """A mechanism with finitely many outputs. upper, lower: the two output distributions of the neighbours that are easiest to
    distinguish. Both orders are charged; on a secret sample, each of them in turn is that of the unit that is present.
    """

    upper: tuple[float, ...]
    lower: tuple[float, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class VisibleMixtureDpEvent(DpEvent):
    """One of several mechanisms is drawn, and the adversary sees which one. probabilities: of the events, adding up to one."""

    probabilities: tuple[float, ...]
    events: tuple[DpEvent, ...]
