"""Node membership by a classifier that is trained on the posteriors of shadow models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ...models.random.streams import stream
from ..base import AttackDefaults, Challenge, Pilot, learnt, shadows_of
from ..signals import logs

EXAMPLES = 20_000  # the classifier trains on at most this many rows; more rows take longer and do not improve the attack


@dataclass(frozen=True, eq=False)
class ShadowMlp(AttackDefaults):
    """A perceptron on the posteriors of one or several queries, trained on the rows of the pilot's runs.

    The defaults are those of Olatunji et al. 2021 (TSTF, TSTS). `ShadowMlp.he(queries)` is the attack of He et al. 2021 (0-hop,
    2-hop, combined), which sorts the probabilities. `ShadowMlp.gap()` is GAP's node attack, which adds the label, here with ReLU
    instead of SELU. The pilot may come from another graph: PrivGNN's Attack-1 draws it from the distribution of the private
    nodes, Attack-2 from that of the public nodes.

    ranked: whether probabilities are sorted. labelled: whether the node's label is an input. rate, epochs, batch, hidden: those
    of Adam and the perceptron. Training stops early if the loss stops falling. seed: that of the initial weights and shuffles.
    Two flags say which pilot the caller must pass. public: shadow models of public nodes. within: the run under attack
    itself.
    """

    queries: tuple[str, ...] = ("posteriors",)
    hidden: tuple[int, ...] = (100, 50)
    ranked: bool = False
    labelled: bool = False
    rate: float = 0.01
    epochs: int = 100
    batch: int = 32
    seed: int = 0
    public: bool = False
    within: bool = False
    name: str = "shadow-mlp"
    classifier: Any = None
    kinds: tuple[str, ...] = ("node", "label")

    @staticmethod
    def he(queries: tuple[str, ...]) -> ShadowMlp:
        name = "shadow-mlp-ranked" if len(queries) == 1 else "shadow-mlp-combined"
        return ShadowMlp(queries, (128, 64), ranked=True, rate=0.001, batch=128, name=name)

    @staticmethod
    def gap(query: str = "posteriors") -> ShadowMlp:
        return ShadowMlp((query,), (64, 64), labelled=True, name="nmi")

    @property
    def needs(self) -> tuple[str, ...]:
        return self.queries

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models."""
        pilot = shadows_of(self, pilot)
        rows, bits = np.concatenate(self._rows(pilot.release, pilot.challenge)), pilot.bits.ravel()
        chosen = stream(self.seed, "examples").permutation(len(bits))[:EXAMPLES]
        trained = perceptron(rows[chosen], bits[chosen], self.hidden, self.rate, self.epochs, self.batch, self.seed)
        return dataclasses.replace(self, classifier=trained)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        classifier = learnt(self, self.classifier)
        return np.stack([decision(classifier, run) for run in self._rows(release, challenge)])

    def _rows(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """The inputs of the perceptron: (runs, c, features)."""
        each = [np.exp(logs(release, challenge.items, query)) for query in self.queries]
        if self.ranked:
            each = [-np.sort(-p, axis=-1) for p in each]
        if self.labelled:
            one_hot = np.eye(challenge.known.classes)[challenge.known.y[challenge.items]]
            each.append(np.broadcast_to(one_hot, (len(release), *one_hot.shape)))
        return np.concatenate(each, axis=-1)


def perceptron(
    rows: NDArray[np.float64], bits: NDArray[np.bool_], hidden: tuple[int, ...], rate: float, epochs: int, batch: int, seed: int
) -> Any:
    """A scikit-learn pipeline of a standard scaler and an MLPClassifier, fitted on these rows. rows: (n, dim). bits: (n,)."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    net = MLPClassifier(hidden, learning_rate_init=rate, max_iter=epochs, batch_size=min(batch, len(rows)), random_state=seed)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # the papers fix the number of epochs
        return make_pipeline(StandardScaler(), net).fit(rows, bits)


def decision(classifier: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) float64: the logits of class True, which a sigmoid would round to 1 if they are large."""
    *before, net = (step for _, step in classifier.steps)
    value = rows
    for step in before:
        value = step.transform(value)
    for i, (weight, bias) in enumerate(zip(net.coefs_, net.intercepts_, strict=True)):
        value = value @ weight + bias
        value = np.maximum(value, 0) if i + 1 < len(net.coefs_) else value
    return np.asarray(value[:, 0], dtype=np.float64)
