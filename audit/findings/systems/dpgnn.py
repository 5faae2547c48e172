"""Experiments on the DP-GNN baseline (Daigavane et al. 2021), as the code of ProGAP and GAP runs it."""

import numpy as np

from ....accounting.claim import Claim, Unit
from ....accounting.gaussian import mu_of
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, bars, computed, confirmed
from ..finding import with_experiments

LEAVES, CAP = 30, 5
STEP = Claim(1.0, 1e-5, Unit.NODE)


def hub_leaves(own: bool) -> Certificate:
    """Computes the epsilon of one full-batch step on a star: how far the hub's removal moves the sum of clipped gradients.

    own: the cap limits how many neighbours a node reads; a leaf reads only the hub, so the cap cuts no edge. Otherwise the cap
    limits to CAP how many nodes read the hub.
    """
    kept = np.arange(LEAVES) < (LEAVES if own else CAP)
    hub = np.array([100.0, 0.0])  # the features of the hub; leaves have zero features, so the hub alone causes a leaf's gradient
    terms = kept[:, None] * hub
    clipped = terms / np.maximum(1.0, np.linalg.norm(terms, axis=1, keepdims=True))
    shift = float(np.linalg.norm(clipped.sum(0)))
    noise = 2 * (CAP + 1) / float(mu_of(STEP.epsilon, STEP.delta))
    moves = {"noise covers": 2.0 * (CAP + 1), "hub changes": shift}
    figure = bars("change of the summed gradients, in clipping norms", moves, "one step")
    libraries = exact.gaussian(shift / noise, STEP.delta)
    summary = (
        f"Removing the hub changes {int(terms.any(axis=1).sum())} of {LEAVES} gradients, by {shift:.0f} clipping norms in total; "
        f"the noise covers {2 * (CAP + 1)}. One step costs epsilon = {min(libraries.values()):.2f}."
    )
    return confirmed(STEP, libraries, summary, figure)


def accountant(key: Key) -> Certificate:
    """Compares the noise by the plain DP-SGD accountant with the noise by the multi-term accountant."""
    shares = {"D = 10": 0.6403835 / 0.6720876, "D = 100": 0.6403835 / 0.3054855}
    figure = bars("noise used / noise that its accountant asks for", shares, "sigma", level=1.0)
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
