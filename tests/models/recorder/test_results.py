"""The first line of a program whose result differs between two runs."""

from functools import partialmethod
from threading import Thread

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder.draws.lines import tracing
from gnnaudit.models.recorder.draws.results import Results, parting, results, size


def program(x, begun, kind):
    exact = x.sum()
    begun.append(True)  # the last noise of this program
    same = np.ones(3)
    if kind == "variable":
        total = same * exact
    elif kind == "in place":
        total = same.copy()
        total /= exact
    elif kind == "branch":
        total = same
        if exact > 10:
            total = same + 1
    elif kind == "argument":
        total = halved(same * exact)
    elif kind == "number":
        step = 1 / float(exact)
        total = same * step
    elif kind == "list":
        hops = [exact]
        hops.append(same)
        total = np.full(3, sum(hops)[0])
    else:
        total = halved(same)
    return {"posteriors": total, "raw": exact if kind == "returned" else 0.0}


def halved(x):
    return x / 2


def parts(kind, x):
    begun = []
    with results(lambda: bool(begun)) as found:
        program(x, begun, kind)
    return found


def line_of(text):
    with open(__file__, encoding="utf-8") as file:
        return f"test_results.py, line {next(i for i, line in enumerate(file, 1) if line.strip() == text)}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("variable", "total = same * exact"),
        ("in place", "total /= exact"),
        ("branch", "total = same + 1"),
        ("argument", "total = halved(same * exact)"),
        ("number", "step = 1 / float(exact)"),
        ("list", "total = np.full(3, sum(hops)[0])"),
        ("returned", 'return {"posteriors": total, "raw": exact if kind == "returned" else 0.0}'),
    ],
)
def test_the_first_line_that_computes_another_value_is_named(kind, text):
    assert line_of(text) in parting(parts(kind, np.ones(4)), parts(kind, np.full(4, 9.0)))


def test_values_that_were_there_before_are_no_results():
    assert parting(parts("none", np.ones(4)), parts("none", np.full(4, 9.0))) == ""


def test_functions_within_vmap_and_grad_are_passed_over():
    def loss(weights, row):
        return (weights * row).sum() ** 2

    with results(lambda: True) as found:
        torch.func.vmap(torch.func.grad(loss), (None, 0))(torch.ones(3), torch.ones(4, 3))
    assert all(r.name not in ("weights", "row") for r in found)


@pytest.mark.parametrize("values", [np.zeros((10, 100)), torch.zeros(10, 100), [np.zeros(500), torch.zeros(500)]], ids=type)
def test_arrays_tensors_and_lists_count_by_their_numbers(values):
    assert size(values) == 1000


@pytest.mark.parametrize("values", [np.zeros(1000), torch.zeros(1000)], ids=["array", "tensor"])
def test_a_recording_ends_when_it_has_read_as_many_numbers_as_it_may(values, monkeypatch):
    def steps(x):
        for _ in range(50):
            x = x + 1

    def recorded():
        with results(lambda: True) as found:
            steps(values)
        return sum(result.name == "x" for result in found)

    assert recorded() == 50
    monkeypatch.setattr(Results, "__init__", partialmethod(Results.__init__, left=20_000))
    assert recorded() < 20


def test_a_function_that_no_line_of_the_program_calls_is_named_by_its_own_line():
    """As an installed command calls it: here a thread, whose first line is a line of the standard library."""
    runs = []
    for x in (np.ones(3), np.zeros(3)):
        recorded = Results(lambda: True)
        thread = Thread(target=tracing(recorded)(list), args=(map(halved, [np.arange(3.0), x]),))
        thread.start()
        thread.join()
        runs.append(recorded.found)
    assert parting(*runs) == line_of("def halved(x):")
