"""The black-box test of canary nodes in a crafted graph. A pilot chooses how the posteriors reveal them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.score_law import pooled_sd
from ...attacks.canary.fisher import log_likelihood_ratio
from ...attacks.signals import logs
from ...models.capabilities import BoundedDegree, has
from ...models.graph.graph import Graph, stored_like
from ...reports.rounding import several
from ..case import Outcome, Setting, keeping
from ..games.crafted_features import CraftedFeatures, crafted_features
from ..games.crafted_stars import KINDS, CraftedStars, crafted_stars
from ..games.game import Game, Seen
from ..key import Key
from .affordable import check_cost
from .blackbox import CANARIES, READ, odds, tested

DEGREE = 100  # number of neighbours of a canary node if the model declares no bound on degrees
PILOTS = 3  # trainings of each design on which one is chosen


@dataclass(frozen=True, eq=False)
class Design:
    """A crafted graph whose posteriors reveal private nodes. name: what a canary is, in words. canaries: (c,) int64 ids of the
    private nodes. watch: ids of the nodes whose posteriors the adversary asks for. score: maps the releases of some runs to
    (runs, c) float64, above 0 if the canary is likelier present than absent. It must not read the coins.
    """

    name: str
    graph: Graph
    canaries: NDArray[np.int64]
    watch: NDArray[np.int64]
    score: Callable[[Seen], NDArray[np.float64]]

    def game(self, key: Key) -> Game:
        """The game with a coin for every canary."""
        return Game(self.graph, "node", self.canaries, key, watch=self.watch)


def of_neighbours(canaries: int, degree: int, train_nodes: int) -> Design:
    """Canaries that change the sums of many neighbours, and the weights of a class. Raises ValueError as `crafted_stars`."""
    made = crafted_stars(canaries, degree, train_nodes)
    watch = np.unique(np.concatenate([made.bare, made.joined, made.leaves.ravel(), made.probes]))
    name = f"canary nodes of degree {degree} with a class of their own"
    return Design(name, made.graph, made.centres, watch, lambda seen: star_scores(seen, made))


def of_features(canaries: int, degree: int, train_nodes: int) -> Design:
    """Canaries that change gradients. Raises ValueError as `crafted_features`."""
    made = crafted_features(canaries, degree, train_nodes)
    name = "canary nodes with a feature of their own"
    return Design(name, made.graph, made.centres, made.twins, lambda seen: twin_scores(seen, made))


def aligned_nodes(setting: Setting) -> Outcome:
    """Tests canary nodes in a graph that the adversary chooses. See `tested` for the tests.

    Canaries are training nodes. There are two designs: canaries with a class of their own and as many neighbours as the model's
    declared bound on degrees allows, or DEGREE, and canaries with a feature of their own. PILOTS trainings of each, with other
    coins, choose the design whose scores differ more between the two worlds. Each graph has as many training nodes as the audited
    one, because a ledger may depend on this number. Raises ValueError if neither graph can be made, or if a user's model needs
    too much memory or time for both.
    """
    model: Any = setting.case.model
    train_nodes = int(setting.graph.train.sum())
    degree = model.max_degree if has(model, BoundedDegree) else DEGREE
    canaries = min(CANARIES, train_nodes // 2)
    designs, refused = list[Design](), list[str]()
    for make in (of_neighbours, of_features):
        try:
            made = make(canaries, degree, train_nodes)
            made = replace(made, graph=stored_like(setting.graph, made.graph))
            check_cost(setting, made.graph)
            designs.append(made)
        except ValueError as error:
            refused.append(str(error))
    if not designs:
        raise ValueError(refused[0])
    design = max(designs, key=lambda one: separation(setting, one)) if len(designs) > 1 else designs[0]
    other = f"not tried: {refused[0]}" if refused else f"chosen on {several(PILOTS, 'other training')} of each of two graphs"
    what = f"{len(design.canaries)} {design.name} in a crafted graph ({other})"
    return tested(setting, design.game(setting.key.fold("game")), design.score, what)


def separation(setting: Setting, design: Design) -> float:
    """How far a pilot of PILOTS trainings sets the scores of the two worlds apart, see `apart`."""
    game = design.game(setting.key.fold("pilot", design.name))
    seen = setting.store.fit(keeping(setting.case.model, READ), game, PILOTS, READ)
    return apart(design.score(seen), seen.bits)


def apart(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> float:
    """The difference of the mean scores of the two worlds over their pooled standard deviation; 0 if the scores do not vary."""
    present, absent = scores[bits], scores[~bits]
    spread = pooled_sd(absent, present)
    return float(present.mean() - absent.mean()) / spread if spread > 0 else 0.0


def star_scores(seen: Seen, made: CraftedStars) -> NDArray[np.float64]:
    """(runs, canaries) float64: the sum, over the neighbours of a canary, of the log-likelihood ratios of their posteriors, and
    that of its class. Known leaves and classes alone determine how posteriors become a score.
    """
    asked, bare, joined = (odds(seen, nodes) for nodes in (made.leaves.ravel(), made.bare, made.joined))
    ratios = np.stack([log_likelihood_ratio(*run, made.senders) for run in zip(asked, bare, joined, strict=True)])
    return ratios.reshape(len(ratios), *made.leaves.shape).sum(axis=-1) + class_scores(seen, made)


def class_scores(seen: Seen, made: CraftedStars) -> NDArray[np.float64]:
    """(runs, canaries) float64: the log-likelihood ratio of the mean log-probability that the probes have a canary's class. The
    classes without a training node give the mean and the spread in each run. Those with one give the difference, over all runs.
    """
    means = logs(seen.release, made.probes).mean(axis=1)[:, KINDS:]
    absent, present, asked = np.split(means, (made.known, 2 * made.known), axis=1)
    centre, spread = absent.mean(axis=1, keepdims=True), absent.std(axis=1, ddof=1, keepdims=True)
    moved, scores = (np.divide(by - centre, spread, out=np.zeros_like(by), where=spread > 0) for by in (present, asked))
    step = moved.mean()
    found: NDArray[np.float64] = step * (scores - step / 2)
    return found


def twin_scores(seen: Seen, made: CraftedFeatures) -> NDArray[np.float64]:
    """(runs, canaries) float64: the log-likelihood ratio of the log-odds that the canary's twin has the canary's label, against
    the mean of the other classes. In each run, the twins of the references alone determine how log-odds become a score.
    """
    log_p, labels = logs(seen.release, made.twins), made.graph.y[made.twins]
    own = log_p[:, np.arange(len(labels)), labels]
    rows = (own - (log_p.sum(axis=-1) - own) / (log_p.shape[-1] - 1))[..., None]
    absent, present, asked = np.split(rows, (made.known, 2 * made.known), axis=1)
    return np.stack([log_likelihood_ratio(*run, 1) for run in zip(asked, absent, present, strict=True)])
