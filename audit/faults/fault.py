"""The type of a planted fault: a model with a privacy fault, the claim that it breaks, and the audit that must catch it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...accounting.claim import Claim, Unit
from ...accounting.upper.calibration import calibrate
from ...models.dpar.dpar import Dpar
from ...models.facts import Facts
from ...models.gap.gap import Gap
from ...models.gap.mlp import Mlp
from ...models.graph.graph import Graph
from ...models.lpgnn.lpgnn import Lpgnn
from ...models.privgnn.privgnn import PrivGnn

Recipe = Callable[[Facts], Any]  # makes a model before its noise is calibrated
Factory = Callable[[Facts], Any]  # makes a model with its noise
Shortfall = Callable[[Any, Graph], float]
EDGE = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
DIRECTED_EDGE = dataclasses.replace(EDGE, unit=Unit.DIRECTED_EDGE)
SMALL_EPSILON = dataclasses.replace(EDGE, epsilon=0.5)
LARGE_EPSILON = dataclasses.replace(EDGE, epsilon=16.0)  # so large that the calibrated sigma is below one
NODE = Claim(4.0, 1e-5, Unit.NODE)
LOCAL = Claim(2.0, 0.0, Unit.FEATURES)
VOTES = Claim(2.0, 0.0, Unit.NODE)


@dataclass(frozen=True)
class Fault:
    """A model with a privacy fault, or an honest model.

    name: the fault in words, or the honest model. model: makes the model. audit: the audit that must catch the fault, or
    "account", which compares the ledger with the claim. shortfall(model, graph): the factor by which the noise is too small for
    the claim, computed from what the model does; infinity if no noise would be enough, None if there is no such factor.
    undetectable: whether no sampling can show the fault. rounds: the number of trainings or draws of the audit. With this number,
    the audit misses the fault for fewer than one in a thousand seeds.
    """

    name: str
    model: Factory
    claim: Claim
    audit: str
    shortfall: Shortfall | None = None
    undetectable: bool = False
    rounds: int = 5


def faulty(
    honest: Recipe, claim: Claim, name: str, kind: type[Any], audit: str, shortfall: Shortfall | None = None, **fields: Any
) -> Fault:
    """A fault of the model `kind`, which has the fields of the honest model that is calibrated to the claim."""

    def make(facts: Facts) -> Any:
        model = calibrate(honest(facts), claim)
        same = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
        return kind(**{**same, **fields})

    return Fault(name, make, claim, audit, shortfall)


def calibrated(recipe: Recipe, claim: Claim) -> Factory:
    """A factory of the model with the noise that its own accounting requires, even if this accounting is wrong."""
    return lambda facts: calibrate(recipe(facts), claim)


def of_own_noise(
    recipe: Recipe, claim: Claim, name: str, audit: str, shortfall: Shortfall | None = None, rounds: int = 5
) -> Fault:
    """A fault of a model with the noise that its own accounting requires for the claim; or an honest model."""
    return Fault(name, calibrated(recipe, claim), claim, audit, shortfall, rounds=rounds)


def gap(facts: Facts) -> Any:
    return Gap()


def gap_as_published(facts: Facts) -> Any:
    return Gap(mode="paper")


def mlp(facts: Facts, kind: type[Any] = Mlp, **other: Any) -> Any:
    """DP-SGD on all training nodes: ten epochs of about five batches, with a norm that clips every gradient."""
    usual = {"unit": Unit.NODE, "train_nodes": facts.train, "batch": facts.train // 5, "epochs": 10, "clip": 0.1}
    return kind(**{**usual, **other})


def gap_for_nodes(facts: Facts, **other: Any) -> Any:
    return mlp(facts, Gap, **{"max_degree": facts.nodes, "clip": 1.0, **other})


def dpar(facts: Facts) -> Any:
    return Dpar(train_nodes=facts.train, batch=facts.train // 5, epochs=4)


def lpgnn(facts: Facts) -> Any:
    """LPGNN with few epochs, because its reports are drawn before the training."""
    return Lpgnn(epochs=20)


def privgnn(kind: type[Any] = PrivGnn, **fields: Any) -> Recipe:
    return lambda facts: kind(queries=20, classes=facts.classes, epochs=20, student_epochs=20, **fields)
