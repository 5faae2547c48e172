"""All masks of dropout in a run follow from one recorded number."""

import numpy as np
import pytest
import torch
from torch.nn.functional import dropout as imported

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.draws.draw import Diverged
from gnnaudit.models.recorder.libraries.masks_torch import KEYS
from gnnaudit.models.recorder.script import Script

NODES = 40
TRAINED = np.arange(0, NODES, 2)


def masks(epochs, seed=3, script=None, instead=None, shape=(NODES, 5), trained=None):
    """The masks of a run, and its draws."""
    change = None if script is None else Script(script, instead or {})
    with recording(change, trained=trained, nodes=NODES) as recorded:
        torch.manual_seed(seed)
        found = [torch.nn.functional.dropout(torch.ones(shape), 0.25) > 0 for _ in range(epochs)]
        torch.randn(3)
    return found, recorded.draws


def equal(some, others):
    return [bool(torch.equal(a, b)) for a, b in zip(some, others, strict=False)]


def test_a_run_of_any_length_records_one_draw_for_its_masks():
    assert [[d.law for d in masks(epochs)[1]] for epochs in (1, 7)] == [["randint", "normal"]] * 2


def test_a_longer_run_with_the_draws_of_a_shorter_one_starts_with_its_masks():
    short, draws = masks(3)
    longer, again = masks(6, seed=4, script=draws)
    assert equal(short, longer) == [True] * 3
    assert np.array_equal(draws[1].values, again[1].values)
    assert not any(equal(longer[3:], longer[:3]))


def test_another_key_gives_other_masks():
    first, draws = masks(3)
    assert not any(equal(first, masks(3, seed=4)[0]))
    assert not any(equal(first, masks(3, script=draws, instead={0: np.array([KEYS // 3])})[0]))


def test_masks_keep_each_unit_with_the_probability_that_was_asked_for():
    kept = torch.stack(masks(200)[0]).double()
    assert abs(float(kept.mean()) - 0.75) < 5 * np.sqrt(0.75 * 0.25 / kept.numel())
    assert abs(float((kept[1:] * kept[:-1]).mean()) - 0.75**2) < 0.01  # masks of a run are independent


def test_a_mask_of_another_shape_departs_from_the_run_that_is_repeated():
    _, draws = masks(2)
    with pytest.raises(Diverged):
        masks(2, script=draws, shape=(NODES - 1, 5))


def test_a_training_node_keeps_its_row_in_a_graph_without_others():
    whole, draws = masks(2, shape=(20, 5), trained=TRAINED)
    fewer, _ = masks(2, script=draws, shape=(18, 5), trained=np.delete(TRAINED, [4, 11]))
    kept = np.delete(np.arange(20), [4, 11])
    assert equal([m[kept] for m in whole], fewer) == [True, True]


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_is_what_it_is_without_a_recording_but_for_its_numbers(inplace):
    with recording():
        x = torch.arange(1.0, 1001.0, requires_grad=True)
        y = torch.nn.Dropout(0.5, inplace)(x * 1)
        y.sum().backward()
        assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False), x)
    zero = y.detach() == 0
    assert 400 < int(zero.sum()) < 600
    assert torch.equal(y.detach(), torch.where(zero, 0.0, 2 * x.detach()))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(zero, 0.0, 2.0))


def test_a_mask_of_few_numbers_is_a_draw_of_its_own():
    with recording() as recorded:
        for size in (1, 8, 9):
            torch.nn.functional.dropout(torch.ones(size), 0.25)
    assert [(d.law, d.values.size) for d in recorded.draws] == [("bernoulli", 1), ("bernoulli", 8), ("randint", 1)]


def test_an_imported_name_is_recorded_in_the_same_way():
    with recording() as recorded:
        imported(torch.ones(30))
        torch.nn.Dropout()(torch.ones(30))
    assert [d.law for d in recorded.draws] == ["randint"]
