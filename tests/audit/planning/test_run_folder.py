"""The folder of a run: one run at a time, also where Python has no POSIX modules, as on Windows."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gnnaudit.audit.key import Key
from gnnaudit.audit.planning.plan import Plan
from gnnaudit.audit.planning.run_folder import opened, randomness, room_taken, root_key
from gnnaudit.models.engine.dpsgd import add_noise
from gnnaudit.models.engine.network import Weights
from gnnaudit.models.random.streams import normal32, stream

WITHOUT_POSIX = """
import os, sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None  # an import of it raises ImportError
for name in [name for name in dir(os) if name.startswith("sched_")]:
    delattr(os, name)
import gnnaudit.audit.cli.main, gnnaudit.audit.run
from gnnaudit.audit.planning.plan import Plan
from gnnaudit.audit.planning.run_folder import opened, root_key
plan = Plan(out=sys.argv[1])
with opened(plan) as folder:
    print(root_key(plan, folder), (folder / "plan.toml").is_file())
"""


def test_audit_run_starts_without_fcntl_resource_and_the_scheduler(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_POSIX, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "Key() True\n", done.stderr


def test_a_folder_in_use_is_refused_and_free_again_afterwards(tmp_path):
    plan = Plan(out=tmp_path / "out")
    with opened(plan), pytest.raises(ValueError, match="another run is writing here"), opened(plan):
        pass
    with opened(plan) as folder:
        assert folder == tmp_path / "out"


HOLD = """
import fcntl, os, sys
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held")
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
def test_another_user_cannot_hold_the_lock_of_a_run():
    """A lock can be held by whoever can read its file: the next run would be told that another run is writing."""
    with tempfile.TemporaryDirectory() as folder:  # all folders above it are open to others, unlike those of tmp_path
        Path(folder).chmod(0o755)
        with opened(Plan(out=Path(folder, "out"))):
            pass
        lock = Path(folder, "out", ".lock")
        hold = [sys.executable, "-I", "-c", HOLD, str(lock)]
        assert subprocess.run(hold, capture_output=True, text=True, check=True).stdout == "refused\n"
        lock.chmod(0o644)
        assert subprocess.run(hold, capture_output=True, text=True, check=True).stdout == "held\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written"), opened(Plan(out=tmp_path / "file" / "out")):
        pass
    (tmp_path / "run" / ".lock").mkdir(parents=True)
    with pytest.raises(ValueError, match="cannot be written"), opened(Plan(out=tmp_path / "run")):
        pass


@pytest.mark.parametrize(("bytes_each", "says"), [(2 * 10**8, ""), (3 * 10**8, "The stored trainings take 0.6 GB in ")])
def test_a_run_that_fills_the_disk_says_so(tmp_path, bytes_each, says):
    for name in ("a", "b"):
        (tmp_path / "model" / name).mkdir(parents=True)
        with (tmp_path / "model" / name / "000000.npz").open("wb") as part:
            part.truncate(bytes_each)
    line = room_taken(tmp_path)
    assert line.startswith(says)
    assert bool(line) == bool(says)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
@pytest.mark.parametrize("how", ["writable", "another's", "link"])
def test_a_key_that_another_user_planted_is_refused(tmp_path, how, as_another):
    """Whoever knows the key can subtract the noise: a planted key of the right form was taken."""
    (tmp_path / "key").write_text("0" * 64)
    assert root_key(Plan(), tmp_path).seed == Key("secret", "0" * 64).seed
    as_another(tmp_path / "key", how)
    with pytest.raises(ValueError, match=r"key: .*could subtract the noise\. Choose another folder") as said:
        root_key(Plan(), tmp_path)
    assert "\n" not in str(said.value)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes here")
@pytest.mark.parametrize(("how", "told"), [("writable", True), ("another's", True), ("mine", False)])
def test_a_run_in_a_folder_that_another_user_could_change_says_so(tmp_path, caplog, how, told, as_another):
    (tmp_path / "out").mkdir()
    if how != "mine":
        as_another(tmp_path / "out", how)
    (tmp_path / "link").symlink_to("out")  # one's own link to one's own folder is harmless
    with opened(Plan(out=tmp_path / "link")):
        pass
    assert ("another user could change the stored parts" in caplog.text) == told


def root_seed(folder, **options):
    plan = Plan(out=folder, **options)
    with opened(plan) as out:
        return root_key(plan, out).seed


def test_a_run_that_is_resumed_keeps_its_key_and_a_fresh_run_draws_a_new_one(tmp_path):
    seeds = [root_seed(tmp_path / "run", fresh=fresh) for fresh in (False, False, True, True, False)]
    assert seeds[0] == seeds[1]
    assert seeds[3] == seeds[4]
    assert len(set(seeds)) == 3


def test_a_fresh_run_with_a_seed_has_the_noise_of_the_seed(tmp_path):
    assert root_seed(tmp_path / "run", seed="word", fresh=True) == root_seed(tmp_path / "other", seed="word")


def test_a_fresh_run_removes_the_stored_trainings_and_no_other_file(tmp_path):
    training, mine = tmp_path / "mlp" / "0123456789abcdef01234567" / "000000.npz", tmp_path / "mlp" / "000000.npz"
    training.parent.mkdir(parents=True)
    for path in (training, mine):
        path.touch()
    root_seed(tmp_path)
    assert training.exists()
    root_seed(tmp_path, fresh=True)
    assert not training.exists()
    assert mine.exists()


def test_the_report_says_what_the_noise_came_from_and_what_it_is_not():
    """The numbers are those of the code: bits of the key, of a seed, of the stream's key, and the precision of the noise."""
    secret, repeatable = randomness(Plan()), randomness(Plan(seed="word"))
    assert "256 bits from the operating system" in secret
    assert "word" not in secret
    assert "256 bits" not in repeatable
    assert len(Key.fresh()) * 4 == 256
    assert "whoever knows it can subtract the noise" in repeatable
    assert "seed of 64 bits" in secret
    assert Key("a").seeds(0, 1).dtype.itemsize * 8 == 64
    assert type(stream(1, "x").bit_generator).__name__ == "Philox"
    assert "not for cryptography" in secret
    assert "DP-SGD steps and to LPGNN's reports in float32" in secret
    drawn = normal32(stream(1, "x"), 4)
    weights = Weights([((torch.zeros(1, 4),), ())])
    add_noise(weights, [stream(1, "x")], 1.0)
    np.testing.assert_array_equal(weights.flat.numpy(), drawn)


@pytest.mark.parametrize(("name", "fits"), [("figures", False), ("evidence", False), ("results.json", True), ("plan.toml", True)])
def test_a_folder_with_a_file_in_place_of_a_folder_or_the_reverse_is_refused_before_the_run(tmp_path, name, fits):
    plan = Plan(out=tmp_path / "out")
    with opened(plan):
        pass
    path = tmp_path / "out" / name
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.mkdir() if fits else path.write_text("")
    with pytest.raises(ValueError, match=f"{name}: must be {'a file' if fits else 'a folder'}, because"), opened(plan):
        pass
