"""A program that ignores its seed is refuted; one that uses it, and one whose seed repeats nothing, are not."""

import math
import sys

import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

READ = """
import sys
import numpy as np
graph, worlds = (np.load(f"{sys.argv[1]}/{name}.npz") for name in ("graph", "worlds"))
n, edges, out = len(graph["y"]), graph["edge_index"], []
for run, seed in enumerate(worlds["seeds"]):
    there = np.ones(edges.shape[1], dtype=bool)
    if "edge_mask" in worlds:
        there = np.unpackbits(worlds["edge_mask"], axis=1, count=edges.shape[1])[run].astype(bool)
"""
PROGRAM = (
    READ
    + """    degree = np.bincount(edges[1, there], minlength=n) + np.random.default_rng(SEED).normal(size=n)
    one = 1 / (1 + np.exp(-degree))
    out.append(np.stack([one, 1 - one], axis=1)[worlds["watch"]])
np.save(f"{sys.argv[2]}/posteriors.npy", np.array(out, dtype=np.float32))
"""
)


def audited(seed: str, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("SEED", seed))
    program = External(f"{sys.executable} {file} {{worlds}} {{out}}", record=False)
    setting = Setting(Case(program, Claim(1.0, 1e-6)), tiny(48), Store(tmp_path), Key("seeds"), alpha=0.01)
    assert AUDITS["differential"].refuses(setting.case) is None
    (bound,) = AUDITS["differential"].run(setting).bounds
    return bound


@pytest.mark.nightly
def test_a_program_with_a_constant_seed_is_refuted_from_fresh_seeds_on_two_graphs(tmp_path):
    bound = audited("7", tmp_path)
    assert bound.refuted
    assert bound.shape == "any"
    assert 1 < bound.epsilon < 3  # the largest epsilon that 32 trainings in each world can prove at this level


CASES = [
    ("int(seed)", "the release repeats with the same seed and changes with another seed"),
    *nightly(("None", "a second run with the same seed gives another release")),
]


@pytest.mark.parametrize(("seed", "told"), CASES)
def test_a_program_that_draws_is_not_refuted_and_nothing_is_claimed_of_its_noise(seed, told, tmp_path):
    bound = audited(seed, tmp_path)
    assert not bound.refuted
    assert bound.epsilon == 0
    assert math.isinf(bound.notices)
    assert told in bound.method
    assert [c.detail for c in bound.conditions] == ["no answer was counted, so nothing more is stated"]


NOISE = "np.random.default_rng(SEED).normal(size=n)"
UNREPLAYED = [
    (f"{sys.executable} -I", NOISE.replace("SEED", "int(seed)"), "nothing was recorded"),
    (sys.executable, NOISE.replace("SEED", "__import__('time').time_ns()"), "the release changes when the run is recorded"),
    (sys.executable, "np.sin(int(seed) % 1000003 * np.arange(n))", "random numbers that were not recorded"),
]


@pytest.mark.parametrize(("python", "noise", "told"), UNREPLAYED)
def test_no_condition_says_that_a_run_repeats_if_its_recording_cannot_be_replayed(python, noise, told, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace(NOISE, noise))
    program = External(f"{python} {tmp_path}/program.py {{worlds}} {{out}}", Unit.NODE)
    case = Case(program, Claim(1.0, 1e-6, Unit.NODE))
    (bound,) = AUDITS["differential"].run(Setting(case, tiny(48), Store(tmp_path), Key("seeds"), alpha=0.01)).bounds
    assert told in bound.method
    assert [(c.how, told in c.detail) for c in bound.conditions] == [("failed", True)]


COINS = (
    READ
    + """    pairs = set(map(tuple, edges[:, there].T.tolist()))
    coins = np.random.default_rng(SEED)
    flipped = np.nonzero(coins.random((n, n)) < 0.2)  # places in a list, which the recorder does not follow to the data
    pairs ^= {(i, j) for i, j in zip(*flipped) if i < j}
    noisy = np.zeros((n, n))
    for i, j in pairs:
        noisy[i, j] = noisy[j, i] = 1.0
    fresh = np.random.default_rng(int(seed))
    degree = noisy.sum(1) AFTER
    one = 1 / (1 + np.exp(-degree / 9))
    out.append(np.stack([one, 1 - one], axis=1)[worlds["watch"]])
np.save(f"{sys.argv[2]}/posteriors.npy", np.array(out, dtype=np.float32))
"""
)
LINE = 1 + COINS.splitlines().index(next(line for line in COINS.splitlines() if "flipped =" in line))


def with_coins(tmp_path, seed, after=""):
    file = tmp_path / "coins.py"
    file.write_text(COINS.replace("SEED", seed).replace("AFTER", after))
    program = External(f"{sys.executable} {file} {{worlds}} {{out}}", Unit.UNDIRECTED_EDGE)
    claim = Claim(math.log(4), 1e-6)  # a pair is flipped with probability 1/5
    return AUDITS["differential"].run(Setting(Case(program, claim), tiny(48), Store(tmp_path), Key("coins"), alpha=0.01)).bounds


def test_coins_of_a_constant_seed_make_the_release_a_function_of_the_graph_so_no_finite_epsilon_holds(tmp_path):
    (bound,) = with_coins(tmp_path, "42")
    assert bound.refuted
    assert math.isinf(bound.epsilon)
    assert f"the numbers drawn at coins.py, line {LINE} are the same in each run" in bound.method
    assert not bound.failed
    assert any(c.detail == "the run makes no other draw" for c in bound.conditions)


def test_if_fresh_numbers_change_the_release_too_the_verdict_names_the_coins_of_the_constant_seed(tmp_path):
    bounds = with_coins(tmp_path, "42", "* (fresh.random(n) < 0.5)")
    assert not any(b.refuted for b in bounds)
    assert any(
        f"the numbers drawn at coins.py, line {LINE} are the same in each run" in text for b in bounds for text in b.failed
    )


@pytest.mark.parametrize("seed", ["int(seed)", *nightly("int(seed) % 2**16", "int(seed) // 2**50")])
def test_coins_that_follow_from_the_seed_are_not_said_to_be_the_same_in_each_run(seed, tmp_path):
    bounds = with_coins(tmp_path, seed)
    assert not any(b.refuted for b in bounds)
    assert not any("the same in each run" in text for b in bounds for text in (b.method, *b.failed))
