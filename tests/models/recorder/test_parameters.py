"""Random numbers that fill a parameter of PyTorch are initial weights, however they get there."""

import pytest
import torch
import torch_geometric
from torch import nn

from gnnaudit.models.recorder import recording


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3, bias=False)

    def start(self):
        self.layer.weight.data.normal_(0, 0.1)


def started(module):
    if isinstance(module, nn.Linear):
        module.weight.data.uniform_(-1, 1)


def of_pyg():
    torch_geometric.nn.GCNConv(5, 3)


def of_pyg_linear():
    torch_geometric.nn.Linear(5, 3)


def by_method():
    Own().start()


def by_apply():
    Own().apply(started)


def by_parameters():
    for parameter in Own().parameters():
        parameter.data.normal_()


def by_torch():
    model = Own()
    nn.init.kaiming_uniform_(model.layer.weight.data)


def truncated():
    nn.init.trunc_normal_(Own().layer.weight, std=0.5)


def truncated_far():
    nn.init.trunc_normal_(Own().layer.weight, a=1.0, b=2.0)  # PyTorch rejects most numbers, so it draws many


def truncated_data():
    model = Own()
    nn.init.trunc_normal_(model.layer.weight.data, std=0.5)


def orthogonal():
    nn.init.orthogonal_(Own().layer.weight)


INITS = [truncated, truncated_far, truncated_data, orthogonal]


@pytest.mark.parametrize("build", [of_pyg, of_pyg_linear, by_method, by_apply, by_parameters, by_torch, *INITS])
def test_numbers_that_fill_a_parameter_are_initial_weights(build):
    with recording() as found:
        build()
    assert found.draws
    assert all(draw.weights for draw in found.draws)


@pytest.mark.parametrize("build", INITS)
def test_a_function_that_draws_other_numbers_than_the_weights_is_one_draw_with_every_seed(build):
    """A Linear draws its weights by one operator when it is made."""
    drawn = []
    for seed in range(12):
        torch.manual_seed(seed)
        with recording() as found:
            build()
        drawn.append(found.draws[-1])
        assert len(found.draws) == 2
    assert {draw.law for draw in drawn} == {"initial weights"}
    assert len({draw.values.tobytes() for draw in drawn}) == len({draw.began for draw in drawn}) == 12


def test_a_run_with_another_seed_gets_the_weights_of_the_script():
    def weights(seed):
        torch.manual_seed(seed)
        layer = nn.Linear(5, 3, bias=False)
        nn.init.trunc_normal_(layer.weight, a=1.0, b=2.0)
        return layer.weight.detach().numpy()

    with recording() as first:
        before = weights(1)
    with recording(lambda at, draw: first.draws[at].values):
        after = weights(2)
    assert (before == after).all()
    assert (weights(2) != before).all()


def test_a_tensor_that_is_no_parameter_keeps_the_draws_of_its_operators():
    with recording() as found:
        nn.init.trunc_normal_(torch.empty(40), a=1.0, b=2.0)
    assert len(found.draws) > 1
    assert not any(draw.weights for draw in found.draws)


def onto_gradients():
    model = Own()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad.normal_()


def onto_a_copy():
    weights = Own().layer.weight.detach().clone()
    weights.normal_()


def beside_a_network():
    model = Own()
    noise = torch.empty(3, 5).normal_()
    return model.layer.weight.data + noise


def before_a_module_begins():
    class Late(nn.Module):
        def __init__(self):
            self.noise = torch.empty(3).normal_()

    Late()


@pytest.mark.parametrize("draw", [onto_gradients, onto_a_copy, beside_a_network, before_a_module_begins])
def test_numbers_that_fill_gradients_copies_or_arrays_of_the_same_shape_are_none(draw):
    with recording() as found:
        draw()
    assert not found.draws[-1].weights
    assert not found.notes


def test_a_layer_without_memory_draws_nothing_and_is_no_reason_for_a_note():
    with recording() as found:
        layer = nn.utils.skip_init(nn.Linear, 5, 3)
        nn.init.normal_(layer.weight)
    assert len(found.draws) == 1
    assert found.draws[0].weights
    assert not found.notes


def test_a_draw_without_memory_says_nothing_of_the_state_before_the_next_draw():
    with recording() as found:
        torch.manual_seed(7)
        torch.empty(3, device="meta").normal_()
        assert found.begun is None
        torch.manual_seed(8)
        torch.distributions.Laplace(0.0, 1.0).sample((3,))
        torch.manual_seed(8)
        torch.distributions.Laplace(0.0, 1.0).sample((3,))
    one, other = found.draws
    assert one.began == other.began > 0
