"""Models with one privacy fault each, in local reports, teachers' votes or the accounting."""

import dataclasses
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from ...accounting import events
from ...accounting.closed_forms import noisy_argmax_epsilon
from ...accounting.upper import rdp
from ...models.base import Release
from ...models.baselines.edgerand import EdgeRand
from ...models.gap.gap import Gap
from ...models.gap.mlp import Mlp
from ...models.graph.degree_cap import arc_present
from ...models.graph.graph import Worlds, dense
from ...models.lpgnn import ldp
from ...models.lpgnn.lpgnn import Lpgnn
from ...models.privgnn.pate import Pate
from ...models.privgnn.privgnn import PrivGnn, Taught
from ...models.privgnn.public_part import Public
from ...models.privgnn.student import learn

SMALL = 3e-2  # nats: the faulty accountant counts a smaller Rényi divergence of one step as 0


class UndeclaredFullBudgetPerFeature(Lpgnn):
    """Declares that two sampled features share the feature budget, and spends the whole budget on each."""

    def _bits(self, dim: int) -> int:
        return 2

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        honest = ldp.multi_bit
        with patch.multiple(ldp, multi_bit=lambda x, budget, bits, *rest: honest(x, bits * budget, bits, *rest)):
            return super().fit(worlds, device)


class FullBudgetPerFeature(UndeclaredFullBudgetPerFeature):
    """Spends the whole feature budget on each of two sampled features, and declares these channels."""

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        return Lpgnn.channels(dataclasses.replace(self, feature_budget=2 * self.feature_budget), dim, classes)


class BinaryLabelProbability(Lpgnn):
    """Keeps a label with the probability that is right for two classes, even if there are more classes."""

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        with _for_two_classes():
            return super().channels(dim, classes)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with _for_two_classes():
            return super().fit(worlds, device)


def _for_two_classes() -> AbstractContextManager[Any]:
    honest = ldp.keep_probability
    return patch.multiple(ldp, keep_probability=lambda budget, classes: honest(budget, 2))


class FullBudgetForFeaturesAndLabel(Lpgnn):
    """Spends the whole budget on the features and again on the label."""

    @property
    def spends(self) -> Lpgnn:
        total = self.feature_budget + self.label_budget
        return Lpgnn(**{**vars(self), "feature_budget": total, "label_budget": total})

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        return self.spends.channels(dim, classes)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return self.spends.fit(worlds, device)


class EitherOfTwoReports(Lpgnn):
    """Reports every sampled feature twice, and releases a one if either report is one."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        honest = ldp.multi_bit

        def either(x: Any, budget: float, bits: int, low: float, high: float, random: np.random.Generator) -> Any:
            index, sign = honest(x, budget, bits, low, high, random)
            values = dense(x)[np.arange(len(index))[:, None], index]
            again = random.random(sign.shape) < ldp.one_probability(values, budget / bits, low, high)
            return index, np.where(again, np.int8(1), sign)

        with patch.multiple(ldp, multi_bit=either):
            return super().fit(worlds, device)


class StoredZeros(EdgeRand):
    """Stores a zero in the sparse matrix for each edge that randomised response drops, as LinkTeller's baselines do."""

    def response(self, worlds: Worlds, run: int) -> NDArray[np.int64]:
        true = worlds.graph.arcs[:, arc_present(worlds[run : run + 1])[0]]
        return np.unique(np.concatenate([super().response(worlds, run), true], axis=1), axis=1)


class PrivateFeatureRange(Lpgnn):
    """Takes the range of the features from the minimum and maximum of the users' private values."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        x = worlds.graph.x
        return Lpgnn.fit(dataclasses.replace(self, low=float(x.min()), high=float(x.max())), worlds, device)


@dataclass(frozen=True)
class TwoClassPate(Pate):
    """PATE with two classes and `parts` teachers. One node changes one vote, and so the margin between the classes by two."""

    parts: int = 21

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        """The channel of one query with Laplace noise on both counts, (2, 2), and the number of its copies, `queries`.

        The inputs are the worst two neighbouring numbers of votes for the first class. The outputs are the two classes.
        """
        margin = (2 * np.arange(self.parts + 1) - self.parts) / self.sigma
        loses = np.exp(-np.abs(margin)) * (2 + np.abs(margin)) / 4  # P(L1 - L2 < -|margin|)
        wins = np.where(margin >= 0, 1 - loses, loses)
        worst = [np.stack([wins[i : i + 2], 1 - wins[i : i + 2]], axis=1) for i in range(self.parts)]
        return ((max(worst, key=lambda pair: float(np.abs(np.diff(np.log(pair), axis=0)).max())), self.queries),)


class MarginSensitivityOne(TwoClassPate):
    """Charges for sensitivity 1 of the margin, because a node changes one vote. The sensitivity is 2."""

    @property
    def ledger(self) -> DpEvent:
        return events.pate(2 * self.sigma, self.queries)


class NoiseOnLogProbabilities(PrivGnn):
    """Adds noise to log-probabilities, whose range is unbounded. The noise is calibrated for probabilities."""

    def votes(self, worlds: Worlds, taught: Taught) -> NDArray[np.int64]:
        # the exponentials of these numbers are the log-probabilities plus 100
        raised = np.log(np.maximum(taught.answers, -99.0) + 100.0)
        return super().votes(worlds, dataclasses.replace(taught, answers=raised))


class NoSampling(PrivGnn):
    """Trains every teacher on all private nodes; its ledger charges for a fresh sample in each query."""

    def _sample(self, members: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.int64]:
        return np.flatnonzero(members)


class HalfTheQueriesCharged(PrivGnn):
    """Charges for only half of its queries."""

    @property
    def ledger(self) -> DpEvent:
        return PrivGnn(self.sigma, queries=self.queries // 2, rate=self.rate, classes=self.classes).ledger


class ScreensBeforeNoise(PrivGnn):
    """Trains the student only on queries whose teachers are confident, and measures confidence on answers without noise."""

    def answered(self, worlds: Worlds, taught: Taught, device: str = "cpu") -> Release:
        kept = dataclasses.replace(self, keep=tuple(dict.fromkeys((*self.keep, "votes"))))
        release = PrivGnn.answered(kept, worlds, taught, device)
        if "posteriors" not in self.keep:
            return release
        confident = np.exp(taught.answers).max(2) >= np.quantile(np.exp(taught.answers).max(2), 0.5, axis=1, keepdims=True)
        classes = worlds.graph.classes
        answers = np.eye(classes, dtype=np.float32)[release["votes"]] * confident[..., None]
        recipe = self._recipe(worlds.graph, self.student_epochs)
        posteriors = learn(Public.of(worlds), recipe, taught.queries, answers.astype(np.float32), device)
        return dataclasses.replace(release, arrays={**release.arrays, "posteriors": posteriors}).only(self.keep)


class EpsilonToBaseTen(Gap):
    """Prints epsilon with logarithms to base ten instead of e."""

    def printed(self, delta: float) -> float | None:
        return rdp.epsilon(self.ledger, delta) / math.log(10) if self.sigma else math.inf


class SmallDivergencesDropped(Mlp):
    """The accountant has the fault: it counts a small divergence of one step as 0 before it adds up the steps."""

    def printed(self, delta: float) -> float | None:
        if not self.sigma:
            return math.inf
        step = rdp.curve(events.dp_sgd(self.sigma, self.batch / self.train_nodes, 1))
        steps = self.epochs * (self.train_nodes // self.batch)
        return rdp.best(steps * np.where(step < SMALL, 0.0, step), delta)


class LinearAmplification(PrivGnn):
    """Multiplies epsilon by the sampling rate, which is nearly right for a small epsilon only."""

    def printed(self, delta: float) -> float | None:
        return self.rate * self.queries * noisy_argmax_epsilon(self.classes, self.sigma) if self.sigma else math.inf
