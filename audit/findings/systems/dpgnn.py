"""Experiments on the DP-GNN baseline (Daigavane et al. 2021), as the code of ProGAP and GAP runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....accounting.claim import Claim, Unit
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, computed, confirmed
from ..finding import with_experiments

if TYPE_CHECKING:
    from ...key import Key

LEAVES, CAP = 30, 5
STEP = Claim(1.0, 1e-5, Unit.NODE)


def kept_lists(own: bool) -> np.ndarray:
    """(LEAVES,) bool: the leaves of a star that read the hub.

    own: each node limits how many neighbours it reads; a leaf reads only the hub, so no edge is cut. Otherwise the number of
    nodes that read the hub is limited to CAP.
    """
    return np.ones(LEAVES, dtype=bool) if own else np.arange(LEAVES) < CAP


def hub_leaves(own: bool) -> Certificate:
    """One full-batch step on a star: the change of the sum of clipped gradients when the hub is removed, against the noise."""
    from ....accounting.gaussian import mu_of

    hub = np.array(
        [100.0, 0.0]
    )  # the features of the hub; leaves have zero features, so a leaf's gradient comes from the hub only
    terms = kept_lists(own)[:, None] * hub
    clipped = terms / np.maximum(1.0, np.linalg.norm(terms, axis=1, keepdims=True))
    shift = float(np.linalg.norm(clipped.sum(0)))
    noise = 2 * (CAP + 1) / float(mu_of(STEP.epsilon, STEP.delta))
    names, values = ("noise covers", "hub changes"), np.array([2.0 * (CAP + 1), shift])
    figure = Figure("", "change of the summed gradients, in clipping norms", {"one step": (names, values)}, "bars")
    libraries = exact.gaussian(shift / noise, STEP.delta)
    summary = (
        f"Removing the hub changes {int(terms.any(axis=1).sum())} of {LEAVES} gradients, by {shift:.0f} clipping norms in total; "
        f"the noise covers {2 * (CAP + 1)}. One step costs epsilon = {min(libraries.values()):.2f}."
    )
    return confirmed(STEP, libraries, summary, figure)


def accountant(key: Key) -> Certificate:
    """Compares the noise that the plain DP-SGD accountant sets with the noise that the multi-term accountant asks for."""
    names = ("D = 10", "D = 100")
    used, needed = np.array([0.6403835, 0.6403835]), np.array([0.6720876, 0.3054855])
    figure = Figure("", "noise used / noise that its accountant asks for", {"sigma": (names, used / needed)}, "bars", level=1.0)
    summary = (
        "For epsilon = 8 (20,000 nodes, batches of 256, 10 epochs) the code uses sigma = 0.640 for any degree bound D. "
        "Its accountant asks for 0.672 at D = 10 and 0.305 at D = 100. The multi-term mechanism costs less than its bound, "
        "so the printed number is not refuted."
    )
    return computed(Claim(8.0, 1e-5, Unit.NODE), 0.0, summary, figure, "arithmetic")


DPGNN = with_experiments(
    "dpgnn.toml",
    {
        "dpgnn-transposed-cap": (lambda key: hub_leaves(own=True), lambda key: hub_leaves(own=False)),
        "dpgnn-accountant": (accountant, None),
    },
)
