"""What crosses between the parties, what A refuses, and what A's parameters may depend on."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnaudit.models.vesper.channel import EMPTY, BudgetSpent, Pipe, Recorder, ask, in_one_process, pack, unpack
from gnnaudit.models.vesper.parties import gaussian_noise, party_a, party_b, train

from .test_vesper import PAPER, SOUND, small_graph

SEEDS = ([11], [12])


def parties(model, graph, perturb=None):
    """Both parties of one run on the whole graph, and B's end of their channel."""
    present = np.ones((1, graph.edges.shape[1]), dtype=bool)
    a = party_a(model, graph.x, graph.edges, present, SEEDS[0], perturb=perturb)
    b = party_b(model, graph.y, graph.classes, graph.train[None], SEEDS[1])
    return a, b, Recorder(in_one_process(a.answer), ("FWD", "BWD", "EVAL", "BATCH"))


def parameters(a):
    return torch.cat([p.detach().flatten() for p in a.sender.learner.weights]).numpy()


def fresh_and_recorded(model):
    """A perturb function that draws noise and writes down every noisy tensor by its path."""
    tape, noise = {}, gaussian_noise(SEEDS[0], model.noise_std)

    def perturb(path, clean):
        tape[path] = noise(path, clean)
        return tape[path]

    return tape, perturb


def replayed(tape):
    """Replaces fresh noise by the earlier release; gradients still reach the clean tensor, as in a normal run."""
    return lambda path, clean: clean + (tape[path].detach() - clean.detach())


def other_world(graph):
    """The graph without the last edge of node 0, and the ends of that edge."""
    gone = np.flatnonzero((graph.edges == 0).any(axis=0))[-1]
    return replace(graph, edges=np.delete(graph.edges, gone, axis=1)), graph.edges[:, gone]


@pytest.mark.parametrize("model", SOUND, ids=str)
def test_in_sound_modes_a_learns_from_the_transcript_alone(model):
    graph = small_graph()
    tape, perturb = fresh_and_recorded(model)
    a, b, channel = parties(model, graph, perturb)
    train(model, b, channel, SEEDS[1], EMPTY)
    there, b2, channel2 = parties(model, other_world(graph)[0], replayed(tape))
    train(model, b2, channel2, SEEDS[1], EMPTY)
    for (kind, rows), (kind2, rows2) in zip(channel.messages, channel2.messages, strict=True):
        assert kind == kind2
        np.testing.assert_allclose(rows, rows2, atol=1e-5)
    np.testing.assert_allclose(parameters(a), parameters(there), atol=1e-5)


def test_in_paper_mode_a_learns_from_private_edges_and_shows_it_in_rows_that_never_touch_them():
    graph = small_graph(share=0.3)
    everyone = np.arange(graph.nodes)
    model = replace(PAPER[0], layers=1, fan_out=30, batch_size=30)
    tape, perturb = fresh_and_recorded(model)
    a, b, channel = parties(model, graph, perturb)
    less, ends = other_world(graph)
    there, _, channel2 = parties(model, less, replayed(tape))
    for _ in range(model.passes):
        rows = ask(channel, "BATCH", everyone, "FWD")
        same = ask(channel2, "BATCH", everyone, "FWD")
        np.testing.assert_allclose(rows, same, atol=1e-5)  # B sees the same in both worlds ...
        gradient = b.learn(everyone, rows)
        for end in (channel, channel2):
            ask(end, "BWD", gradient, "DONE")
    assert abs(parameters(a) - parameters(there)).max() > 1e-3  # ... and A's weights differ,
    a.sender.perturb = there.sender.perturb = lambda path, clean: clean
    far = np.setdiff1d(everyone, ends)
    means = [ask(end, "EVAL_REQ", far, "EVAL") for end in (channel, channel2)]
    # so rows without the edge have different means; the proof needs a difference of 0
    assert abs(means[0] - means[1]).max() > 1e-3


@pytest.mark.parametrize("size", [1e6, 3e38])
def test_gradients_are_clipped_before_they_cross_the_adjacency(size):
    graph = small_graph()
    graph = replace(graph, edges=graph.edges[:, :1])
    model, crossing = replace(SOUND[4], layers=1), []

    def perturb(path, clean):
        crossing.extend([clean] if path[0] == "backward" else [])
        return clean

    _, _, channel = parties(model, graph, perturb)
    ask(channel, "REFRESH", EMPTY, "DONE")
    rows = ask(channel, "BATCH", np.arange(30), "FWD")
    with nullcontext() if size < 1e30 else pytest.raises(ValueError, match="too large"):
        ask(channel, "BWD", np.full_like(rows, size), "DONE")
    norms = crossing[0][0].norm(dim=0)
    ends = graph.edges[:, 0]
    assert (norms[ends] <= 1 + 1e-6).all()
    assert (norms[ends] > 0.99).any() == (size < 1e30)  # far above the clip; a row whose norm overflows is sent as zero
    assert norms.sum() == norms[ends].sum()  # and no other node has a neighbour


@pytest.mark.parametrize("model", [SOUND[0], SOUND[2], SOUND[4], PAPER[0]], ids=str)
def test_a_refuses_what_the_ledger_does_not_hold(model):
    graph = small_graph()
    a, b, channel = parties(model, graph)
    train(model, b, channel, SEEDS[1], EMPTY)
    assert a.odometer.spent == model.ledger
    (kind,) = model.answers
    with pytest.raises(BudgetSpent, match=f"refused {kind}"):
        ask(channel, kind, np.arange(4) if kind == "BATCH" else EMPTY, "FWD")
    assert b.posteriors(channel, np.arange(3)).shape == (1, 3, 3)  # rows that were charged can be requested again


def test_a_counts_what_it_has_spent_so_far():
    model = SOUND[2]
    a, _, channel = parties(model, small_graph())
    assert a.odometer.spent == replace(model, layers=0).ledger  # nothing yet
    ask(channel, "REFRESH", EMPTY, "DONE")
    assert a.odometer.spent == model.prices["REFRESH"][0]


def test_only_messages_on_the_whitelist_cross():
    for kind, payload in [("LABELS", EMPTY), ("BATCH", np.zeros(3, np.float32)), ("FWD", np.zeros((2, 2), np.float32))]:
        with pytest.raises(ValueError, match="whitelist"):
            pack(kind, payload)
    header, body = pack("BATCH", np.arange(3))
    with pytest.raises(ValueError, match="whitelist"):
        unpack(header.replace(b"BATCH", b"EDGES"), body)


def test_a_message_arrives_as_a_copy():
    a, b = Pipe(), Pipe()
    b.inbox = a.outbox
    rows = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    a.send("FWD", rows)
    rows[:] = 0
    kind, got = b.receive()
    assert kind == "FWD"
    np.testing.assert_array_equal(got.ravel(), np.arange(24))
    assert a.sent == 96  # 4 bytes a number


def test_a_batch_costs_as_many_bytes_as_its_rows_have_both_ways():
    model = PAPER[0]
    a, b, _ = parties(model, small_graph())
    pipe = in_one_process(a.answer)
    b.teach(pipe, np.arange(8))
    rows = 8 * model.layers * model.hidden * 4
    assert pipe.sent == 8 * 8 + rows  # ids and the gradient; as many bytes of rows came the other way


def test_a_answers_requests_only():
    _, b, channel = parties(SOUND[0], small_graph())
    with pytest.raises(ValueError, match="did not ask to learn"):
        ask(channel, "BWD", np.zeros((1, 1, 6, 4), np.float32), "DONE")
    rows = ask(channel, "LAYER0", np.arange(4), "FWD")
    with pytest.raises(ValueError, match="NaN"):
        ask(channel, "BWD", np.full_like(rows, np.nan), "DONE")
    with pytest.raises(ValueError, match="not a request"):
        ask(channel, "FWD", np.zeros((1, 1, 6, 4), np.float32), "DONE")
    b.hello = b"something else.."
    with pytest.raises(ValueError, match="different recipes"):
        b.greet(channel)


@pytest.mark.parametrize("model", [SOUND[0], SOUND[2], SOUND[4]], ids=str)
@pytest.mark.parametrize(("size", "answer"), [(1e10, nullcontext()), (3e38, pytest.raises(ValueError, match="too large"))])
def test_no_gradient_of_party_b_brings_anything_but_numbers_into_the_sums(model, size, answer):
    """Weights of NaN would make NaN of every sum but those of nodes without neighbours."""
    graph = small_graph()
    graph = replace(graph, edges=graph.edges[:, :20])
    a, _, channel = parties(model, graph)
    kind = "LAYER0" if model.variant == "s1" else "BATCH"
    for sign in (1, -1):
        if kind == "BATCH":
            ask(channel, "REFRESH", EMPTY, "DONE")
        rows = ask(channel, kind, np.arange(30), "FWD")
        with answer:
            ask(channel, "BWD", np.full_like(rows, sign * size), "DONE")
    ask(channel, "REFRESH", EMPTY, "DONE")
    assert np.isfinite(ask(channel, "EVAL_REQ", np.arange(30), "EVAL")).all()
    assert np.isfinite(parameters(a)).all()


def test_a_starts_only_on_a_recipe_that_keeps_its_budget():
    from gnnaudit.accounting.claim import Claim, Unit

    graph = small_graph()
    present = np.ones((1, graph.edges.shape[1]), dtype=bool)

    def start(model, budget):
        return party_a(model, graph.x, graph.edges, present, [1], budget=budget)

    enough = replace(SOUND[0], sigma=5.975)  # what two Gaussian layers need for epsilon 1, delta 1e-6
    start(enough, Claim(1.0, 1e-6))
    for model, budget in [
        (replace(enough, sigma=5.9), Claim(1.0, 1e-6)),
        (enough, Claim(1.0, 1e-6, Unit.NODE)),
        (PAPER[0], Claim(100.0, 1e-6)),
    ]:
        with pytest.raises(ValueError, match="budget"):
            start(model, budget)
