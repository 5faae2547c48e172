"""Two real processes over gloo against one process, with the same keys."""

import multiprocessing
import socket
import sys
from pathlib import Path
from subprocess import run as start
from sys import executable

import numpy as np
import pytest
import torch

from gnnaudit.models.vesper.channel import EMPTY, Recorder, in_one_process
from gnnaudit.models.vesper.parties import party_a, party_b, train

from .test_protocol import SEEDS
from .test_vesper import PAPER, SOUND, small_graph

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from gloo_channel import PARTY_A, PARTY_B, connected

MODELS = (SOUND[0], SOUND[2], PAPER[0])


def answering(model):
    graph = small_graph()
    return party_a(model, graph.x, graph.edges, np.ones((1, graph.edges.shape[1]), dtype=bool), SEEDS[0])


def serve(address):
    """Party A in a separate process: one conversation for each model."""
    torch.set_num_threads(1)
    with connected(PARTY_A, address, 60) as channel:
        for model in MODELS:
            a = answering(model)
            while a.answer(channel):
                pass


def transcript(model, channel):
    """Everything that crosses in one training, in order, and B's end stays open."""
    graph, watch = small_graph(), np.arange(30)
    b = party_b(model, graph.y, graph.classes, graph.train[None], SEEDS[1])
    recorder = Recorder(channel, ("BATCH", "FWD", "BWD", "EVAL_REQ", "EVAL", "DONE", "HELLO", "REFRESH"))
    train(model, b, recorder, SEEDS[1], watch)
    b.posteriors(recorder, watch)
    channel.send("STOP", EMPTY)
    return recorder.messages


@pytest.mark.nightly
def test_two_processes_exchange_what_one_process_would():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    other = multiprocessing.get_context("spawn").Process(target=serve, args=(address,), daemon=True)
    other.start()
    try:
        with connected(PARTY_B, address, 60) as channel:
            apart = [transcript(model, channel) for model in MODELS]
        other.join(30)
        assert other.exitcode == 0
        for model, there in zip(MODELS, apart, strict=True):
            here = transcript(model, in_one_process(answering(model).answer))
            assert [kind for kind, _ in here] == [kind for kind, _ in there]
            for (kind, mine), (_, theirs) in zip(here, there, strict=True):
                np.testing.assert_array_equal(mine, theirs, err_msg=kind)
    finally:
        torch.set_num_threads(threads)
        if other.is_alive():
            other.terminate()


@pytest.mark.nightly
def test_the_example_starts_both_parties():
    example = Path(__file__).parents[3] / "examples" / "two_party.py"
    done = start(
        [executable, str(example), "--data", "campus:n=500", "--epsilon", "4"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "spent epsilon = 4.000 of 4" in done.stdout
    assert "test accuracy" in done.stdout
