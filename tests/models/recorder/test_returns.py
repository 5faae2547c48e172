"""The values that a program's functions return."""

import torch

from gnnaudit.models.recorder.draws.returns import returned


def test_functions_within_vmap_and_grad_are_passed_over():
    def loss(weights, row):
        return (weights * row).sum() ** 2

    with returned() as found:
        torch.func.vmap(torch.func.grad(loss), (None, 0))(torch.ones(3), torch.ones(4, 3))
    assert all(r.function != "test_returns.py:loss" for r in found)


def test_two_runs_with_other_numbers_return_other_values():
    def sums(x):
        return x.sum(0)

    with returned() as one:
        sums(torch.ones(4, 3))
    with returned() as other:
        sums(torch.ones(5, 3))
    assert [r.value for r in one] != [r.value for r in other]
