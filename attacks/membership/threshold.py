"""Node membership from one number computed from one prediction: confidence, entropy, modified entropy, or correctness."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Challenge, OneQuery, Pilot, Untrained
from ..signals import label_logit, log_rest, logs


@dataclass(frozen=True)
class OnePrediction(Untrained, OneQuery):
    """The base class of attacks that compute a score from one prediction for each challenge node, without shadow models."""

    query: str = "posteriors"
    name: str = ""
    kinds: tuple[str, ...] = ("node", "label")


@dataclass(frozen=True)
class Confidence(OnePrediction):
    """The logit of the probability of a node's own label, which is larger for members (Yeom et al. 2018)."""

    name: str = "confidence"

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        return label_logit(release, challenge, self.query)


@dataclass(frozen=True)
class Entropy(OnePrediction):
    """Minus the logarithm of the entropy, which is larger for members (Salem et al. 2019). The attack needs no label."""

    name: str = "entropy"

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        log_p = logs(release, challenge.items, self.query)
        return minus_log(-(np.exp(log_p) * log_p).sum(-1))


@dataclass(frozen=True)
class LabelOnly(OnePrediction):
    """1 if the node's label is predicted correctly, else 0: the gap attack of Yeom et al. 2018.

    Its balanced accuracy is 1/2 + (accuracy on members - accuracy on others) / 2.
    """

    name: str = "label-only"

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        guess = logs(release, challenge.items, self.query).argmax(-1)
        return (guess == challenge.known.y[challenge.items]).astype(np.float64)


@dataclass(frozen=True)
class ModifiedEntropy(OnePrediction):
    """An entropy that uses the label, with one threshold for each class (Song and Mittal 2021, equation 8).

    The score is -log(m) minus the threshold of the class, where m = -(1 - p_y) log p_y - sum over other classes of p log(1 - p).
    thresholds: (classes,), fitted on a pilot; without a pilot there are none.
    """

    name: str = "modified-entropy"
    thresholds: tuple[float, ...] = ()

    def fit(self, pilot: Pilot | None) -> Self:
        """Fits for every class the threshold with the highest accuracy on the pilot's units of that class."""
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


def minus_log(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log(value) for values >= 0. Values below the smallest normal float64 count as that number."""
    return -np.log(np.maximum(value, np.finfo(np.float64).tiny))


def best_threshold(signal: NDArray[np.float64], bits: NDArray[np.bool_]) -> float:
    """The threshold t for which `signal > t` agrees with `bits` most often; the median if all bits are equal."""
    value, bit = signal.ravel(), bits.ravel()
    if not bit.any() or bit.all():
        return float(np.median(value)) if value.size else 0.0
    order = np.argsort(value)
    value, bit = value[order], bit[order]
    # right[i]: how many predictions are right if the first i scores are predicted as non-members and the others as members
    right = np.concatenate([[0], np.cumsum(~bit)]) + np.concatenate([np.cumsum(bit[::-1])[::-1], [0]])
    fences = np.concatenate([[value[0] - 1], (value[1:] + value[:-1]) / 2, [value[-1] + 1]])
    right[1:-1][value[1:] == value[:-1]] = -1  # no cut between equal values
    return float(fences[right.argmax()])
