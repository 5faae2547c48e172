"""How long accounting takes: `audit account` with and without stored results, one calibration of each kind, and each accountant
on one ledger.

Run: python benchmarks/accounting.py [--models gap,progap,…]. Prints a section of RESULTS.md. Times are of the whole process,
start included; with stored results, the better of two times. CPU seconds are the user and system time of the process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from measured import process_seconds


def child(arguments: list[str], cache: str) -> tuple[float, float]:
    """The wall and CPU seconds of one process with these arguments. cache: its folder of stored results."""
    environment = {**os.environ, "GNNAUDIT_CACHE": cache, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return process_seconds([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)


def command(models: str) -> None:
    asked = ["account", "--models", models, "--mode", "both", "--epsilon", "1,8", "--json"]
    start = ["-c", "import sys; from gnnaudit.audit.cli.main import main; sys.argv[0] = 'audit'; main()"]
    with tempfile.TemporaryDirectory() as cache:
        cold = child([*start, *asked], cache)
        warm = min(child([*start, *asked], cache) for _ in range(2))
    print(f"| `audit {' '.join(asked)}` | cold {_both(cold)} | warm {_both(warm)} |")


def _both(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.2f} s wall, {seconds[1]:.2f} s CPU"


@dataclass(frozen=True)
class Recipe:
    """The part of a model that calibration reads."""

    make: Callable[[float], Any]
    sigma: float = 1.0
    unit: Any = None
    name: str = "recipe"

    @property
    def ledger(self) -> Any:
        return self.make(self.sigma)

    def with_noise(self, sigma: float) -> Recipe:
        return replace(self, sigma=sigma)

    def printed(self, delta: float) -> None:
        return None


def calibrations() -> None:
    from gnnaudit.accounting import events
    from gnnaudit.accounting.claim import Claim, Unit
    from gnnaudit.accounting.upper.calibration import calibrate
    from gnnaudit.accounting.upper.tradeoff import curve

    kinds = {
        "two Gaussian hops, epsilon 1": (lambda s: events.gaussian_hops(s, 2), 1.0, 1e-6),
        "1000 sampled Gaussians, epsilon 1": (lambda s: events.dp_sgd(s, 0.01, 1000), 1.0, 1e-5),
        "node level (2 hops, 2343 sampled), epsilon 8": (
            lambda s: events.composed(events.gaussian_hops(s, 2), events.dp_sgd(s, 0.0128, 2343)),
            8.0,
            1e-5,
        ),
        "1000 sampled labels, epsilon 8": (lambda s: events.noisy_argmax(10, s, 0.3, 1000), 8.0, 1e-4),
    }
    for name, (make, epsilon, delta) in kinds.items():
        begin = time.process_time()
        sigma = calibrate(Recipe(make, unit=Unit.NODE), Claim(epsilon, delta, Unit.NODE)).sigma
        took = time.process_time() - begin
        reached = curve(make(sigma)).epsilon(delta)
        print(f"| calibrate: {name} | {took:.2f} s CPU | sigma {sigma:.6g}, epsilon reached {reached:.6f} |")


def accountants() -> None:
    from gnnaudit.accounting import events
    from gnnaudit.accounting.upper.accountants import upper

    for row in upper(events.dp_sgd(1.0, 0.01, 1000), 1e-5):
        value = f"{row.epsilon:.5f}" if row.epsilon is not None else "declines"
        print(f"| 1000 Gaussians sampled at 0.01, sigma 1: {row.accountant} | {row.seconds:.3f} s | {value} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="all")
    chosen = parser.parse_args()
    os.environ["GNNAUDIT_CACHE"] = "off"
    print("| what | time | result |\n|---|---|---|")
    command(chosen.models)
    calibrations()
    accountants()
