"""Membership by one number of one prediction: confidence, entropy, modified entropy, or just the label."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..signals import label_logit, log_rest, logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Release
    from ..base import Challenge, Pilot


@dataclass(frozen=True)
class Confidence:
    """A member's own label is predicted with more confidence (Yeom et al. 2018): the logit of its probability."""

    query: str = "posteriors"
    name: str = "confidence"
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        return label_logit(release, challenge, self.query)


@dataclass(frozen=True)
class Entropy:
    """A member's prediction has less entropy (Salem et al. 2019): minus its logarithm. Needs no label."""

    query: str = "posteriors"
    name: str = "entropy"
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        log_p = logs(release, challenge.items, self.query)
        return minus_log(-(np.exp(log_p) * log_p).sum(-1))


@dataclass(frozen=True)
class ModifiedEntropy:
    """Entropy that knows the label, with one threshold for each class (Song and Mittal 2021, equation 8).

    -(1 - p_y) log p_y - sum over other classes of p log(1 - p), as minus its logarithm, less the threshold of the class.
    thresholds: (classes,), learnt from a pilot; without one they are all zero and nothing is calibrated.
    """

    query: str = "posteriors"
    thresholds: tuple[float, ...] = ()
    name: str = "modified-entropy"
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        """For every class, the threshold that tells most of the pilot's members of that class from its non-members."""
        if pilot is None:
            return self
        signal = self._signal(pilot.release, pilot.challenge)
        label = pilot.challenge.known.y[pilot.challenge.items]
        best = [best_threshold(signal[:, label == c], pilot.bits[:, label == c]) for c in range(pilot.challenge.known.classes)]
        return dataclasses.replace(self, thresholds=tuple(best))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        signal = self._signal(release, challenge)
        if not self.thresholds:
            return signal
        return signal - np.array(self.thresholds)[challenge.known.y[challenge.items]]

    def _signal(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        log_p = logs(release, challenge.items, self.query)
        log_q = log_rest(log_p)
        own = challenge.known.y[challenge.items, None] == np.arange(log_p.shape[-1])
        terms = np.where(own, np.exp(log_q) * log_p, np.exp(log_p) * log_q)
        return minus_log(-terms.sum(-1))


@dataclass(frozen=True)
class LabelOnly:
    """A member is predicted right (the gap attack of Yeom et al. 2018): 1 or 0, the floor of every label-only attack.

    Its balanced accuracy is 1/2 + (accuracy on members - accuracy on others) / 2.
    """

    query: str = "posteriors"
    name: str = "label-only"
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        guess = logs(release, challenge.items, self.query).argmax(-1)
        return (guess == challenge.known.y[challenge.items]).astype(np.float64)


def minus_log(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log(value) of numbers that are never below zero; what underflows to zero scores as the smallest float64."""
    return -np.log(np.maximum(value, np.finfo(np.float64).tiny))


def best_threshold(signal: NDArray[np.float64], bits: NDArray[np.bool_]) -> float:
    """The threshold t for which `signal > t` agrees with `bits` most often; the median where one side is empty."""
    value, bit = signal.ravel(), bits.ravel()
    if not bit.any() or bit.all():
        return float(np.median(value)) if value.size else 0.0
    order = np.argsort(value)
    value, bit = value[order], bit[order]
    # Cutting after position i calls the first i "out": right are the outs before the cut and the ins after it.
    right = np.concatenate([[0], np.cumsum(~bit)]) + np.concatenate([np.cumsum(bit[::-1])[::-1], [0]])
    fences = np.concatenate([[value[0] - 1], (value[1:] + value[:-1]) / 2, [value[-1] + 1]])
    right[1:-1][value[1:] == value[:-1]] = -1  # no cut between equal values
    return float(fences[right.argmax()])
