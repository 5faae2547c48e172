"""The recorder changes no operation of a program, follows noise through views, and turns its own failures into notes."""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.libraries import of_numpy
from gnnaudit.models.recorder.mechanisms import found_torch, reports
from gnnaudit.models.recorder.mechanisms.followed import noise
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

DATA = np.arange(12.0).reshape(4, 3)


def dropped(rng):
    noisy = DATA + rng.standard_normal(DATA.shape)
    np.multiply(noisy, 0.0, out=noisy, where=rng.random(DATA.shape) < 0.5)
    return noisy


def added_where(rng):
    noisy = DATA.copy()
    np.add(noisy, rng.standard_normal(DATA.shape), out=noisy, where=rng.random(DATA.shape) < 0.5)
    return noisy


def largest_where(rng):
    scores = DATA + rng.gumbel(size=DATA.shape)
    return np.maximum(scores, 0.0, out=np.zeros(DATA.shape), where=rng.random(DATA.shape) < 0.5)


def chosen(rng):
    coins = rng.random(DATA.shape) < 0.5
    return np.sum(DATA, where=coins), np.concatenate([coins, coins]), np.select([coins], [DATA], default=0.0)


def scores_in_lists(rng):
    scores = DATA + rng.gumbel(size=DATA.shape)
    return np.concatenate([scores, DATA]), np.mean(a=scores)


def sparse(rng):
    torch.manual_seed(int(rng.integers(2**30)))
    full = torch.from_numpy(DATA).float().to_sparse()
    return 2 * torch.randn(4, 3) + full, (torch.randn(4, 3) * full).to_dense(), (torch.rand(4, 3) < 0.5).to_sparse().to_dense()


@pytest.mark.parametrize("program", [dropped, added_where, largest_where, chosen, scores_in_lists, sparse])
def test_a_program_computes_the_same_while_it_is_recorded(program):
    plain = program(np.random.default_rng(1))
    with recording(follow=Mechanisms()) as recorded:
        followed = program(of_numpy.default_rng(1))
    assert recorded.notes == []
    both = [value if isinstance(value, tuple) else (value,) for value in (plain, followed)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


VIEWS = {
    "all": lambda z: z,
    "one of two": lambda z: torch.stack([z, z])[0],
    "select": lambda z: z[None][0],
    "slice": lambda z: z[:4],
    "transposed": lambda z: z.T.contiguous().T,
    "permuted": lambda z: z.permute(1, 0).permute(1, 0),
    "unbind": lambda z: z.unsqueeze(0).unbind(0)[0],
    "split": lambda z: z.split(4)[0],
    "chunk": lambda z: z.chunk(1)[0],
    "in another order": lambda z: z[torch.tensor([3, 1, 0, 2])],
    "index_select": lambda z: z.index_select(0, torch.tensor([3, 1, 0, 2])),
    "scale by column": lambda z: z * torch.tensor([1.0, 2.0, 4.0]),
    "scale by row, then a view": lambda z: (z * torch.tensor([[1.0], [2.0], [4.0], [8.0]]))[[1, 0, 3, 2]],
    "divided": lambda z: z.T.div(torch.tensor([1.0, 2.0, 4.0, 8.0])).T,
    "masked": lambda z: z[torch.tensor([True, True, True, True])],
}


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "one of two"])
def test_noise_of_pytorch_is_followed_through_views_and_scales(view):
    """The noise is noisy - clean; its numbers at scale 1 are the drawn ones, in another order."""
    data = torch.from_numpy(DATA)
    torch.manual_seed(1)
    with recording(follow=Mechanisms()) as recorded:
        noisy = data + VIEWS[view](torch.randn(4, 3, dtype=torch.float64))
    (mechanism,) = recorded.follow.found
    np.testing.assert_array_equal(mechanism.noisy, noisy.numpy())
    np.testing.assert_array_equal(mechanism.clean, DATA)
    np.testing.assert_allclose(np.sort(mechanism.units, axis=None), np.sort(mechanism.draw.values, axis=None), rtol=1e-12)


ONLY = np.arange(12).reshape(4, 3) % 5 > 1  # where noise is kept
MASK = torch.from_numpy(ONLY)
REMOVED = {
    "product": lambda z: z * MASK,
    "product in place": lambda z: z.mul_(MASK.double()),
    "a column": lambda z: z * torch.tensor([1.0, 0.0, 1.0]),
    "where": lambda z: torch.where(MASK, z, 0.0),
    "where not": lambda z: torch.where(~MASK, torch.zeros(4, 3, dtype=torch.float64), z),
    "masked_fill": lambda z: z.masked_fill(~MASK, 0.0),
    "masked_fill_": lambda z: z.masked_fill_(~MASK, 0.0),
    "index_fill": lambda z: z.index_fill(0, torch.tensor([2, 0]), 0.0),
    "written": lambda z: (z.__setitem__(~MASK, 0.0), z)[1],
    "written by index": lambda z: (z.__setitem__(torch.tensor([1, 3]), 0.0), z)[1],
    "np.where": lambda z: torch.from_numpy(np.where(ONLY, z.numpy(), 0.0)),
}


@pytest.mark.parametrize("removed", REMOVED.values(), ids=REMOVED)
def test_noise_that_is_removed_at_some_entries_is_kept_at_the_others(removed):
    data = torch.from_numpy(DATA)
    torch.manual_seed(1)
    with recording(follow=Mechanisms()) as recorded:
        noise = removed(3 * torch.randn(4, 3, dtype=torch.float64))
        noisy = data + noise
    (mechanism,) = recorded.follow.found
    assert recorded.notes == []
    assert np.array_equal(mechanism.covered, noise.numpy() != 0)
    assert np.array_equal(mechanism.clean, DATA)
    assert np.array_equal(noisy.numpy()[~mechanism.covered], DATA[~mechanism.covered])
    assert np.allclose(mechanism.units, np.where(mechanism.covered, mechanism.draw.values, 0), rtol=1e-9)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda z: z[[0, 0, 1, 2]],
        lambda z: z @ torch.ones(3, 3),
        lambda z: z.cumsum(0),
        lambda z: z * 0.0,
        lambda z: z / torch.tensor([1.0, 0.0, 1.0]),
        lambda z: torch.where(torch.eye(4, 3) > 0, z, 1.0),
        lambda z: torch.where(torch.eye(4, 3) > 0, z, torch.randn(4, 3)),
        lambda z: z.masked_fill(torch.eye(4, 3) > 0, 2.0),
    ],
    ids=["a row twice", "a product", "sums", "no noise", "infinite noise", "noise or 1", "noise of two draws", "noise or 2"],
)
def test_noise_of_pytorch_is_not_followed_where_its_numbers_are_mixed(mixed):
    with recording(follow=Mechanisms()) as recorded:
        torch.ones(4, 3) + mixed(torch.randn(4, 3))
    assert recorded.follow.found == []
    assert recorded.notes == []


@pytest.mark.parametrize(
    ("module", "step", "program"),
    [
        (noise, "_before", lambda rng: DATA + rng.standard_normal(DATA.shape)),
        (noise, "_after", lambda rng: DATA + rng.standard_normal(DATA.shape)),
        (reports, "_combined", lambda rng: rng.random(DATA.shape) < 0.5),
        (found_torch, "_met", lambda rng: torch.ones(3) + torch.randn(3, generator=torch.Generator().manual_seed(1))),
        (of_numpy, "asked", lambda rng: rng.random(3)),
    ],
    ids=["before a sum", "after a sum", "coins", "torch", "a draw"],
)
def test_a_failure_of_the_recorder_is_a_note_and_does_not_end_the_program(module, step, program, monkeypatch):
    def fails(*args, **options):
        raise RuntimeError("broken")

    plain = np.asarray(program(np.random.default_rng(1)))
    monkeypatch.setattr(module, step, fails)
    with recording(follow=Mechanisms()) as recorded:
        np.testing.assert_array_equal(np.asarray(program(of_numpy.default_rng(1))), plain)
    assert any("broken" in note and "test_operations.py, line" in note for note in recorded.notes)


def test_an_error_of_the_program_itself_is_not_hidden():
    with recording(follow=Mechanisms()), pytest.raises(ValueError, match="broadcast"):
        np.ones((2, 2)) + of_numpy.default_rng(1).standard_normal(3)
