"""No attack is fitted on its target, neither directly nor through counts from which the target is missing."""

import numpy as np
import pytest

from gnnaudit.attacks.base import Pilot
from gnnaudit.attacks.membership.cross_fit import scores_split, scores_within
from gnnaudit.attacks.membership.lira import Lira
from gnnaudit.attacks.membership.shadow_classifier import ShadowMlp
from gnnaudit.attacks.roc import measure
from gnnaudit.models.base import Release

ATTACK = Lira(query="posteriors", shrinkage=0)


def test_a_run_that_is_shadow_and_target_is_refused(noise_release):
    release, challenge, bits = noise_release
    with pytest.raises(ValueError, match="run 9 is both shadow and target"):
        scores_split(ATTACK, release, challenge, bits, np.arange(10), np.arange(9, 20))


def test_what_is_learnt_within_a_run_is_of_that_run_alone(noise_release):
    """Members of even runs are predicted well and members of odd runs badly: so one run carries no information about the next."""
    release, challenge, bits = noise_release
    sign = np.where(np.arange(40) % 2, -1, 1)[:, None] * np.where(bits, 1, -1)
    own = np.arange(4) == challenge.known.y[:, None]
    log_p = np.where(own[None], 0.0, -3.0 * sign[:, :, None])
    log_p = (log_p - np.log(np.exp(log_p).sum(-1, keepdims=True))).astype(np.float32)
    told, attack = Release({"posteriors": log_p}, release.watch).part(slice(0, 8)), ShadowMlp.gap()
    taught = np.arange(80) % 2 == 0
    within = scores_within(attack, told, challenge, bits[:8], taught)
    assert within.shape == (8, 40)
    assert measure(within, bits[:8, ~taught]).auc > 0.95
    across = scores_split(attack, told, challenge, bits[:8], np.arange(4), np.arange(4, 8))
    assert measure(across, bits[4:8]).auc < 0.7


def test_bits_of_another_shape_are_refused(noise_release):
    release, challenge, bits = noise_release
    with pytest.raises(ValueError, match=r"must be \(runs, challenges\) = \(40, 80\)"):
        scores_split(ATTACK, release, challenge, bits[:, :5], np.arange(20), np.arange(20, 40))


def test_scoring_runs_that_were_fitted_would_find_a_signal_in_noise(noise_release):
    """The fault that cross-fitting avoids: GAP's own LiRA scores a model with Gaussians fitted on that model."""
    release, challenge, bits = noise_release
    few = release.part(slice(0, 16))
    contaminated = ATTACK.fit(Pilot(few, challenge, bits[:16])).score(few, challenge)
    honest = scores_split(ATTACK, release, challenge, bits, np.arange(16, 40), np.arange(16))
    assert measure(contaminated, bits[:16]).auc > 0.6
    assert abs(measure(honest, bits[:16]).auc - 0.5) < 0.05  # 1,280 coins: standard error 0.016
