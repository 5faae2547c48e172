"""dp_accounting, autodp and Opacus as accountants. autodp and Opacus are imported on first use."""

import importlib
import importlib.util
import math
import sys
import types
import warnings
from functools import cache
from typing import Any

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from ..claim import Relation
from ..events.tree import Unsupported, parts
from ..events.types import PureDpEvent
from .pld import grid, scale

# an accountant's values are no bounds if delta is below this; see `lost_to_rounding`
SMALLEST = {"opacus-prv": 2e-11, "dp_accounting-pld": 1e-12}
ROUNDED = 1e-15  # nor if delta divided by the number of steps is below this
LARGEST_PRV = 200.0  # largest range of losses, in nats; a grid over a wider range takes gigabytes


@np.errstate(over="ignore")  # where an overflow matters, the library raises OverflowError
def dp_accounting_pld(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """epsilon (nats) from dp_accounting's own PLDAccountant. Raises Unsupported for events that it declines, and under
    replacement.
    """
    if relation is Relation.REPLACE:
        raise Unsupported("dp_accounting doubles every sensitivity under replacement, which sigma already contains.")
    asked = dp.pld.PLDAccountant(value_discretization_interval=grid(ledger, relation))
    try:
        for event, count in parts(ledger):
            asked.compose(event, count)
    except (dp.UnsupportedEventError, NotImplementedError) as reason:
        raise Unsupported(f"dp_accounting's PLD accountant: {str(reason).splitlines()[0]}") from None
    return float(asked.get_epsilon(delta))


def autodp_rdp(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """epsilon (nats) from autodp's RDP curves. Its privacy-loss functions can return negative values, so they are not used.
    Raises Unsupported for delta = 0 and for events without such a curve.
    """
    found = parts(ledger)
    if not found:
        return 0.0
    if any(isinstance(e, dp.NonPrivateDpEvent) for e, _ in found):
        return math.inf
    if delta == 0:
        raise Unsupported("delta=0: finite Renyi orders give no bound. Use a delta above 0.")
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        from autodp.transformer_zoo import Composition

        each = [_autodp(event, relation) for event, _ in found]
        whole = Composition()(each, [count for _, count in found])
        return float(whole.get_approxDP(delta))


def _autodp(event: DpEvent, relation: Relation) -> Any:
    from autodp import mechanism_zoo as zoo
    from autodp.transformer_zoo import AmplificationBySampling

    match event:
        case dp.GaussianDpEvent():
            return zoo.GaussianMechanism(event.noise_multiplier, phi_off=True)
        case dp.LaplaceDpEvent():
            return zoo.LaplaceMechanism(b=event.noise_multiplier, phi_off=True)
        case PureDpEvent():
            return zoo.PureDP_Mechanism(event.epsilon)
        case dp.ZCDpEvent() if event.xi == 0:
            return zoo.zCDP_Mechanism(event.rho)
        case dp.RandomizedResponseDpEvent() if event.num_buckets == 2:
            return zoo.RandresponseMechanism(1 - event.noise_parameter / 2, phi_off=True)
        case dp.PoissonSampledDpEvent() if relation is Relation.ADD_REMOVE and isinstance(
            event.event, dp.GaussianDpEvent | dp.LaplaceDpEvent
        ):
            inner = _autodp(event.event, relation)
            return AmplificationBySampling(PoissonSampling=True)(inner, event.sampling_probability, improved_bound_flag=True)
        case dp.SampledWithoutReplacementDpEvent() if isinstance(event.event, dp.GaussianDpEvent):
            inner = _autodp(event.event, relation)
            inner.neighboring = "replace_one"
            rate = event.sample_size / event.source_dataset_size
            return AmplificationBySampling(PoissonSampling=False)(inner, rate, improved_bound_flag=True)
    raise Unsupported(f"autodp has no RDP curve for {_words(event)} under {relation} neighbours.")


def opacus_rdp(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """epsilon (nats) from Opacus' RDP accountant. Raises Unsupported for delta = 0 and for events other than Gaussian noise,
    Poisson-sampled or not.
    """
    return _opacus("RDPAccountant", ledger, delta, relation)


def sampled_gaussian_rdp(rate: float, sigma: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """The Renyi divergence (nats) of one Poisson-sampled Gaussian at each order, by Opacus. Its series also converges at
    fractional orders. -> (orders,) float64.
    """
    analysis = _opacus_accountants().rdp.privacy_analysis
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        return np.asarray(analysis.compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=list(orders)), dtype=np.float64)


def opacus_prv(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """epsilon (nats) from Opacus' privacy random variables: the upper end of an interval with an error of 0.01 nats. Raises
    Unsupported as `opacus_rdp`, and for losses whose grid would not fit in memory.
    """
    if _opacus_history(ledger, relation) and LARGEST_PRV < (reach := scale(ledger, relation)) < math.inf:
        raise Unsupported(f"losses reach about {reach:.0f} nats: a grid beyond {LARGEST_PRV:g} would not fit in memory.")
    return _opacus("PRVAccountant", ledger, delta, relation)


def lost_to_rounding(accountant: str, ledger: DpEvent, delta: float) -> str:
    """The reason why an accountant gives no bound for this ledger at this delta, or an empty string.

    Opacus' privacy random variables and dp_accounting's privacy-loss distributions are raised to the power of the number of steps
    in the Fourier domain, in double precision, so the tail has an error of about 1e-16 per step. At q = 1e-3, sigma = 0.6,
    100,000 steps and delta = 1e-12 Opacus returns 11.33; the true value is 11.69. For 10,000 mechanisms of epsilon = 0.01 and
    delta = 1e-13, dp_accounting returns 7.530; the true value is 7.556.
    """
    if accountant not in SMALLEST:
        return ""
    steps = sum(count for _, count in parts(ledger))
    least = max(SMALLEST[accountant], ROUNDED * steps)
    return f"not a bound below delta={least:.0e}: rounding errors of {steps} steps exceed it" if 0 < delta < least else ""


def opacus_gdp(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """epsilon (nats) by the central limit theorem. It is no upper bound: it may be far too small. Raises Unsupported as
    `opacus_rdp`, and for several kinds of step.
    """
    if len(parts(ledger)) > 1:
        raise Unsupported("Opacus' GDP accountant supports one kind of step; this ledger has several.")
    return _opacus("GaussianAccountant", ledger, delta, relation)


def _opacus_history(ledger: DpEvent, relation: Relation) -> list[tuple[float, float, int]] | None:
    """(noise multiplier, sampling rate, steps) of every part; None for a ledger without privacy. Raises Unsupported for other
    events.
    """
    history: list[tuple[float, float, int]] = []
    for event, count in parts(ledger):
        match event:
            case dp.NonPrivateDpEvent():
                return None
            case dp.GaussianDpEvent():
                history.append((event.noise_multiplier, 1.0, count))
            case dp.PoissonSampledDpEvent() if isinstance(event.event, dp.GaussianDpEvent):
                if relation is Relation.REPLACE:
                    raise Unsupported("Opacus supports Poisson samples under add-remove neighbours only.")
                history.append((event.event.noise_multiplier, event.sampling_probability, count))
            case _:
                raise Unsupported(f"Opacus supports Gaussian noise with or without Poisson sampling, not {_words(event)}.")
    return history


def _opacus(accountant: str, ledger: DpEvent, delta: float, relation: Relation) -> float:
    history = _opacus_history(ledger, relation)
    if not history:
        return math.inf if history is None else 0.0
    if delta == 0:
        raise Unsupported("delta=0: a Gaussian mechanism has no finite epsilon there. Use a delta above 0.")
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        asked = getattr(_opacus_accountants(), accountant)()
        asked.history = history
        try:
            return float(asked.get_epsilon(delta=delta))
        except (ValueError, RuntimeError, OverflowError, FloatingPointError, IndexError) as failure:
            raise Unsupported(f"Opacus' {accountant} failed: {str(failure).splitlines()[0]}.") from None


@cache
def _opacus_accountants() -> types.ModuleType:
    """opacus.accountants without importing opacus, which imports torch and takes seconds.

    While Python imports the accountants, empty modules replace `opacus` and `opacus.optimizers`; they are removed afterwards.
    """
    if "opacus" in sys.modules:
        return importlib.import_module("opacus.accountants")
    spec = importlib.util.find_spec("opacus")
    if spec is None or spec.submodule_search_locations is None:
        raise Unsupported("Opacus is not installed. pip install 'opacus>=1.6,<2'.")
    stand_in, optimizers = types.ModuleType("opacus"), types.ModuleType("opacus.optimizers")
    stand_in.__path__ = list(spec.submodule_search_locations)
    optimizers.DPOptimizer = object  # type: ignore[attr-defined]
    sys.modules["opacus"], sys.modules["opacus.optimizers"] = stand_in, optimizers
    try:
        return importlib.import_module("opacus.accountants")
    finally:
        for name in [n for n in sys.modules if n == "opacus" or n.startswith("opacus.")]:
            del sys.modules[name]


def _words(event: DpEvent) -> str:
    inner = getattr(event, "event", None)
    name = type(event).__name__.removesuffix("DpEvent")
    return f"{name}({_words(inner)})" if inner is not None else name
