"""`--jobs` counts the cores that the process may use."""

import os
from pathlib import Path

import pytest

from gnnaudit.audit.planning.cores import usable_cores
from gnnaudit.audit.planning.plan import Plan


def test_the_plan_takes_them():
    assert Plan().jobs == usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_a_process_that_is_bound_to_one_core_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/box\n", {"box/cpu.max": "50000 100000"}, 1),
        ("0::/box/inner\n", {"box/inner/cpu.max": "max 100000", "box/cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "100000 100000"}, 1),
        (
            "4:cpu,cpuacct:/box\n",
            {"cpu,cpuacct/box/cpu.cfs_quota_us": "100000", "cpu,cpuacct/box/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("4:cpu,cpuacct:/\n", {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 4),
        ("0::/box\n", {"box/cpu.max": "strange"}, 4),
        ("", {}, 4),
    ],
)
def test_a_quota_of_any_group_above_limits_them(tmp_path: Path, monkeypatch, own: str, files: dict[str, str], cores: int):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert usable_cores(tmp_path, tmp_path / "own") == cores
