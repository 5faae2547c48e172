"""Counts the cores that this process may use. Its affinity mask and its control groups may allow fewer than the machine has."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def usable_cores(groups: Path = GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """The number of cores that this process may use: the smallest of the affinity mask and the quotas of its control groups and
    of those above them, rounded up.

    groups, own: where the system describes control groups. Both versions of control groups are supported.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([float(cores), *_quotas(groups, own)])))


def _quotas(groups: Path, own: Path) -> Iterator[float]:
    """Yields the number of cores that each control group allows, if it has a limit."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / controllers if controllers else groups
        inside = root / path.lstrip("/")
        for folder in (inside, *(p for p in inside.parents if p.is_relative_to(root))):
            try:
                if controllers:
                    quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
                else:
                    quota, period = (folder / "cpu.max").read_text().split()
                if quota not in ("max", "-1"):
                    yield int(quota) / int(period)
            except (OSError, ValueError):
                continue
