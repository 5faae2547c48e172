"""The likelihood ratio of directions against quadrature, closed forms and simulation."""

import numpy as np
import pytest
from scipy import integrate, special
from scipy.stats import chi2, kstest, norm

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.canary.direction_ratio import DirectionRatio, log_density, log_moment
from gnnaudit.attacks.canary.gaussian_ratio import LikelihoodRatio
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.models.vesper.vesper import Vesper


@pytest.mark.parametrize("power", [0, 1, 3, 15, 63])
@pytest.mark.parametrize("t", [-30.0, -3.0, 0.0, 0.7, 12.0])
def test_the_moment_is_what_adaptive_quadrature_finds(power, t):
    peak = (t + np.sqrt(t * t + 4 * power)) / 2
    top = (power * np.log(peak) if peak > 0 else 0) - peak**2 / 2 + peak * t

    def integrand(r):
        return (
            np.exp((power * np.log(r) if power else 0) - r * r / 2 + r * t - top) if r > 0 else float(power == 0) * np.exp(-top)
        )

    value = sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in ((0, peak), (peak, peak + 40)))
    assert log_moment(np.array([t]), power)[0] == pytest.approx(np.log(value) + top, abs=1e-7)


def test_without_a_mean_all_directions_are_alike():
    u = np.eye(4, dtype=np.float32)
    density = log_density(u, np.zeros_like(u), 2.0)
    np.testing.assert_allclose(density, (4 / 2 - 1) * np.log(2) + special.gammaln(2), rtol=1e-9)


def test_in_the_plane_it_is_a_density():
    angle = np.linspace(0, 2 * np.pi, 2001)[:-1]
    u = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    mean = np.broadcast_to(np.float32([1.3, -0.4]), u.shape)
    assert np.exp(log_density(u, mean, 0.8)).mean() * 2 * np.pi == pytest.approx(2 * np.pi, rel=1e-6)


@pytest.fixture(scope="module")
def played():
    from ...conftest import small_graph

    graph = small_graph(nodes=200, edges=300, seed=3)
    ids = np.array([e for e in range(300) if graph.degree[graph.edges[:, e]].max() <= 3], dtype=np.int64)
    chosen, used = [], set()
    for e in ids:
        if not used & set(graph.edges[:, e].tolist()):
            used |= set(graph.edges[:, e].tolist())
            chosen.append(e)
    model = Vesper(sigma=1.0, epochs=2, keep=("transcript", "aggregates", "inputs"))
    rounds = Game(graph, "edge", np.array(chosen), Key("directions")).rounds(60)
    return model.fit(rounds.worlds), rounds


def test_messages_are_the_directions_of_own_row_and_released_sums(played):
    release, _ = played
    y = release["aggregates"] + release["inputs"]
    np.testing.assert_allclose(release["transcript"][:, 1:], y / np.linalg.norm(y, axis=3, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(release["transcript"][:, :-1], release["inputs"], atol=1e-5)


def test_scores_are_log_likelihood_ratios(played):
    """E[e^score] without the edge and E[e^-score] with it are both one, which no other statistic but the ratio satisfies."""
    release, rounds = played
    scores = DirectionRatio().score(release, rounds.challenge)
    for ratio in (np.exp(scores[~rounds.bits]), np.exp(-scores[rounds.bits])):
        assert abs(ratio.mean() - 1) < 5.5 * ratio.std() / np.sqrt(ratio.size)  # fails twice in ten million honest runs


def test_directions_tell_less_than_the_sums_and_more_than_nine_tenths_of_them(played):
    release, rounds = played
    told = DirectionRatio().score(release, rounds.challenge)
    whole = LikelihoodRatio().score(release, rounds.challenge)
    gain = [
        (s[rounds.bits].mean() - s[~rounds.bits].mean()) / np.sqrt((s[rounds.bits].var() + s[~rounds.bits].var()) / 2)
        for s in (told, whole)
    ]
    assert 0.9 * gain[1] < gain[0] < 1.03 * gain[1]


def test_what_lies_across_the_edges_is_chi_squared_and_tells_nothing_of_the_bits(played):
    release, rounds = played
    attack = LikelihoodRatio()
    squares, freedom = attack.across(release, rounds.challenge)
    assert freedom == 60 * len(rounds.challenge) * (2 * 2 * 16 - 1)
    assert 1e-6 < chi2.cdf(squares, freedom) < 1 - 1e-6  # fails twice in a million honest runs
    scores = attack.score(release, rounds.challenge)
    assert kstest(scores[~rounds.bits], norm.cdf).pvalue > 1e-6


def test_edges_that_share_an_end_are_refused(played):
    release, rounds = played
    twice = Challenge("edge", rounds.challenge.known, np.array([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match="2 challenge edges reach node 1"):
        DirectionRatio().score(release, twice)
