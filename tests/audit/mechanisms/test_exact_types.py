"""A training that refuses the recorder's arrays runs to its end, and the verdict says why its mechanisms are not known."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.released_noise import ANYWHERE
from gnnaudit.audit.storage.store import Store

from ..recorded.votes import counts, released

GRAPH = load("campus:n=120:degree=6")


def votes(scale, exact, shown=False):
    def train(graph, seed):
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        if exact and type(noise) is not np.ndarray:
            raise TypeError("an array of NumPy is needed")
        noisy = counts(graph) + scale * noise
        return released(np.tanh(noisy / 8)) | ({"votes": noisy} if shown else {})

    return Looped(train, releases=("posteriors", "votes") if shown else ("posteriors",))


def audited(model, tmp_path):
    return AUDITS["differential"].run(Setting(Case(model, Claim(1.0, 1e-5)), GRAPH, Store(tmp_path), Key("type"), 3, 1e-4))


def test_a_training_that_ends_only_with_the_recorders_arrays_says_so_with_its_line(tmp_path):
    outcome = audited(votes(5.4, exact=True), tmp_path)
    (reason,) = (c.detail for b in outcome.bounds for c in b.conditions if c.how == "failed")
    assert "the recorder's arrays end the training: " in reason
    assert "test_exact_types.py, line 22: TypeError: an array of NumPy is needed" in reason
    assert not outcome.covers
    assert not any(b.refuted for b in outcome.bounds)


def test_the_same_training_without_a_test_of_types_is_judged(tmp_path):
    outcome = audited(votes(5.4, exact=False), tmp_path)
    assert "posteriors" in outcome.covers
    assert not any(c.how == "failed" for b in outcome.bounds for c in b.conditions)


@pytest.mark.parametrize(("scale", "refuted"), [(5.4, False), (2.7, True)])
def test_noise_on_the_release_is_judged_even_so(scale, refuted, tmp_path):
    outcome = audited(votes(scale, exact=True, shown=True), tmp_path)
    assert any(b.refuted for b in outcome.bounds) == refuted
    assert outcome.covers["votes"] == f"noise too small {ANYWHERE} in"


def test_a_training_that_ends_without_the_recorder_too_still_raises(tmp_path):
    def broken(graph, seed):
        raise TypeError("an error of the user")

    with pytest.raises(TypeError, match="an error of the user"):
        audited(Looped(broken), tmp_path)
