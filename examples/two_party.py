"""Runs VESPER in two processes: party A has the edges and features, party B the labels. They share nothing but messages.

python examples/two_party.py                                  # splits `campus` into two files and starts both parties
python examples/two_party.py a PART_A.npz --address HOST:PORT  # starts one party by hand, each on a host of its own
python examples/two_party.py b PART_B.npz --address HOST:PORT
"""

from __future__ import annotations

import argparse
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gloo_channel import PARTY_A, PARTY_B, connected

from gnnaudit import Claim, calibrate, upper
from gnnaudit.models.vesper.channel import EMPTY
from gnnaudit.models.vesper.parties import party_a, party_b, train
from gnnaudit.models.vesper.vesper import Vesper


def run_a(part: Path, recipe: Vesper, claim: Claim, address: str) -> None:
    """Runs party A, which answers until party B sends STOP. It never reads a label."""
    data = np.load(part)
    noise_seed = secrets.randbits(128)  # from the operating system: anyone who knows the seed can subtract the noise
    present = np.ones((1, data["edges"].shape[1]), dtype=bool)
    a = party_a(recipe, data["x"], data["edges"], present, [noise_seed], budget=claim)
    with connected(PARTY_A, address) as channel:
        while a.answer(channel):
            pass
    bounds = [row.epsilon for row in upper(a.odometer.spent, claim) if row.is_upper_bound and row.epsilon is not None]
    passes = a.odometer.taken["REFRESH"]
    print(f"party A: released {passes} noisy pass(es), spent epsilon = {min(bounds):.3f} of {claim.epsilon:g}")


def run_b(part: Path, recipe: Vesper, address: str) -> None:
    """Runs party B, which trains, requests the rows of all nodes, and prints the accuracy on the test nodes. It never reads an
    edge or a feature.
    """
    data = np.load(part)
    seeds = [7]
    b = party_b(recipe, data["y"], int(data["y"].max()) + 1, data["train"][None], seeds)
    with connected(PARTY_B, address) as channel:
        train(recipe, b, channel, seeds, EMPTY)
        guess = b.posteriors(channel, np.arange(data["y"].size))[0].argmax(1)
        channel.send("STOP", EMPTY)
    print(f"party B: test accuracy {np.mean(guess[data['test']] == data['y'][data['test']]):.3f}")


def both(options: argparse.Namespace) -> None:
    """Writes each party's part of a graph to its own file, and starts both parties."""
    from gnnaudit import load

    graph = load(options.data, data_dir=options.data_dir)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
        np.savez(Path(folder, "a.npz"), x=x, edges=graph.edges)
        np.savez(Path(folder, "b.npz"), y=graph.y, train=graph.train, test=graph.test)
        common = ["--address", address, "--epsilon", str(options.epsilon), "--variant", options.variant]
        started = [subprocess.Popen([sys.executable, __file__, p, str(Path(folder, f"{p}.npz")), *common]) for p in "ab"]
        failed = [process.wait() for process in started]
        if any(failed):
            raise SystemExit("a party failed; see its message above")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("party", nargs="?", choices=["a", "b"])
    parser.add_argument("part", nargs="?", type=Path, help="the party's own data, an .npz file")
    parser.add_argument("--address", default="127.0.0.1:29500", help="host:port where party A waits")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--variant", default="s1", choices=["s1", "s2"])
    parser.add_argument("--data", default="campus")
    parser.add_argument("--data-dir", default=None)
    chosen = parser.parse_args()
    promise = Claim(chosen.epsilon, 1e-5)
    calibrated = calibrate(Vesper(variant=chosen.variant), promise)
    if chosen.party == "a":
        run_a(chosen.part, calibrated, promise, chosen.address)
    elif chosen.party == "b":
        run_b(chosen.part, calibrated, chosen.address)
    else:
        both(chosen)
