"""The likelihood ratio on real releases of GAP and ProGAP: its distribution must hold exactly."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.canary.gaussian_ratio import LikelihoodRatio
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Mask, Worlds


def matching(edges, rng):
    """Ids of edges without a common end."""
    taken, chosen = set(), []
    for i in rng.permutation(edges.shape[1]):
        if not taken & set(edges[:, i].tolist()):
            taken |= set(edges[:, i].tolist())
            chosen.append(i)
    return np.sort(np.array(chosen))


@pytest.mark.parametrize("model", [Gap(hops=2, sigma=2.0), ProGap(depth=2, sigma=2.0)], ids=lambda m: m.name)
def test_scores_have_the_law_that_the_ledger_is_built_on(model, graph):
    rng = np.random.default_rng(5)
    ids = matching(graph.edges, rng)
    bits = rng.random((60, len(ids))) < 0.5
    worlds = Worlds(graph, np.arange(60, dtype=np.uint64), np.arange(graph.nodes), edges=Mask(ids, bits))
    release = dataclasses.replace(model, keep=("aggregates", "inputs"), epochs=2).fit(worlds)
    known = dataclasses.replace(graph, edges=np.delete(graph.edges, ids, axis=1))
    challenge, attack = Challenge("edge", known, graph.edges[:, ids].T.copy()), LikelihoodRatio()
    scores, shift = attack.score(release, challenge), attack.shift(release, challenge)
    # Two unit rows a hop, two hops; the noise is sigma times the sensitivity sqrt(2) of an undirected edge.
    np.testing.assert_allclose(shift, np.sqrt(2 * 2) / (2.0 * np.sqrt(2)), rtol=1e-5)
    centred = np.where(bits, scores - shift, scores)
    assert kstest(centred.ravel(), "norm").pvalue > 1e-6  # fails once in a million honest runs
    residuals = attack.residuals(release, challenge)
    assert 1e-6 < chi2.cdf((residuals**2).sum(), residuals.size) < 1 - 1e-6  # fails twice in a million honest runs
