"""Noise that is a sum of fresh numbers and of numbers that every seed draws alike: only the fresh numbers hide a secret."""

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

GRAPH = load("campus:n=120:degree=6")
STD, DELTA = 4.0, 1e-6
TRUE = float(epsilon_of(2**0.5 / STD, DELTA))  # if all noise is fresh: an edge moves two degrees by 1
SHARE = 0.1  # of the variance that is fresh


def numbers(source, nodes):
    return np.random.default_rng(source).standard_normal(nodes)


def mixed(graph, seed, other):
    """Unit noise, of which the part SHARE of the variance is fresh. other: the seed of the rest."""
    return (1 - SHARE) ** 0.5 * numbers(other, graph.nodes) + SHARE**0.5 * numbers(seed, graph.nodes)


def rounded(graph, noise):
    return np.round(graph.degree + STD * noise)


def clipped(graph, noise):
    return np.maximum(graph.degree + STD * noise, 0)


def squashed(graph, noise):
    return torch.tanh(torch.from_numpy(graph.degree + STD * noise) / 9).numpy()


def bare(graph, noise):
    return graph.degree + STD * noise


def judged(train, claimed, tmp_path):
    claim = Claim(claimed, DELTA, Unit.UNDIRECTED_EDGE, exposes=("sent",))
    setting = Setting(Case(Looped(train, releases=("sent",)), claim), GRAPH, Store(tmp_path), Key("partly"), 2, 1e-4)
    return judge(claim, (), AUDITS["differential"].run(setting).bounds, notices=1.5)


@pytest.mark.parametrize("released", [rounded, clipped, squashed, bare], ids=lambda released: released.__name__)
def test_a_part_of_the_noise_that_every_seed_draws_alike_hides_nothing(released, tmp_path):
    def train(graph, seed):
        return {"sent": released(graph, mixed(graph, seed, 0))}

    verdict = judged(train, TRUE * 1.001, tmp_path)
    assert verdict.kind in ("refuted", "inconclusive")
    assert verdict.kind == "refuted" or "is the same for two seeds" in verdict.sentence


@pytest.mark.parametrize("released", [rounded, clipped, squashed, bare], ids=lambda released: released.__name__)
def test_a_sum_of_two_fresh_noises_is_supported(released, tmp_path):
    def train(graph, seed):
        return {"sent": released(graph, mixed(graph, seed, [seed, 1]))}

    assert judged(train, TRUE * 1.001, tmp_path).kind == "not-refuted"


@pytest.mark.parametrize("released", [rounded, bare], ids=lambda released: released.__name__)
def test_a_small_constant_jitter_of_the_data_is_no_noise(released, tmp_path):
    """Fixed numbers that break ties are public; the noise that comes after them is fresh."""

    def jittered(graph, seed):
        degrees = graph.degree + 0.01 * numbers(0, graph.nodes)
        sent = degrees + STD * numbers(seed, graph.nodes)
        return {"sent": np.round(sent, 2) if released is rounded else sent}

    assert judged(jittered, TRUE * 1.001, tmp_path).kind == "not-refuted"
    assert judged(jittered, TRUE * 0.9, tmp_path).kind == "refuted"
