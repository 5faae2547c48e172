"""The store: parts are whole or absent, resumed, and made again when damaged."""

import os
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage import store as store_module
from gnnaudit.audit.storage.executor import processes
from gnnaudit.audit.storage.store import Store, identity
from gnnaudit.models.base import Release
from gnnaudit.models.graph import memory_mapped
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.random.streams import normal


@dataclass(frozen=True)
class Degrees:
    """Releases noisy degrees: the smallest model that reads its worlds."""

    sigma: float = 1.0
    name: str = "degrees"
    releases: tuple[str, ...] = ("degrees",)

    def footprint(self, graph):
        return store_module.CHUNK_BYTES // 4  # four runs in a chunk

    def fit(self, worlds, device="cpu"):
        present = worlds.edge_present()
        degree = np.stack([np.bincount(worlds.graph.edges[:, p].ravel(), minlength=worlds.graph.nodes) for p in present])
        noisy = degree[:, worlds.watch] + self.sigma * normal(worlds.seeds, worlds.watch.shape, "degrees")
        return Release({"degrees": noisy}, worlds.watch, {"noise_std": self.sigma})


@pytest.fixture
def game(graph):
    return Game(graph, "edge", np.arange(20, dtype=np.int64), Key("store"))


def parts(root):
    return sorted(p.name for p in root.rglob("*.npz"))


def test_what_is_stored_is_what_one_call_computes(tmp_path, game):
    seen = Store(tmp_path).fit(Degrees(), game, 10)
    whole = Degrees().fit(game.rounds(10).worlds)
    np.testing.assert_array_equal(seen.release["degrees"], whole["degrees"])
    assert parts(tmp_path) == ["000000.npz", "000004.npz", "000008.npz"]
    assert seen.release.public == {"noise_std": 1.0}


@dataclass(frozen=True)
class WithPairs(Degrees):
    """Also releases a number for each pair of nodes, and cannot leave these numbers out."""

    releases: tuple[str, ...] = ("degrees", "pairs")

    def fit(self, worlds, device="cpu"):
        made = super().fit(worlds, device)
        pairs = normal(worlds.seeds, (worlds.watch.size, worlds.graph.nodes), "pairs")
        return replace(made, arrays={**made.arrays, "pairs": pairs})


@pytest.mark.parametrize("workers", [1, 2])
def test_arrays_that_nobody_reads_are_not_stored(tmp_path, game, workers):
    with processes(workers) if workers > 1 else nullcontext(store_module.in_process) as execute:
        store = Store(tmp_path / "some", execute=execute)
        some = store.fit(WithPairs(), game, 10, ("degrees",))
        everything = Store(tmp_path / "all", execute=execute).fit(WithPairs(), game, 10)
    assert set(some.release.arrays) == {"degrees"}
    assert set(everything.release.arrays) == {"degrees", "pairs"}
    np.testing.assert_array_equal(some.release["degrees"], everything.release["degrees"])
    size = {name: sum(p.stat().st_size for p in (tmp_path / name).rglob("*.npz")) for name in ("some", "all")}
    assert size["some"] < size["all"] / 10


def test_parts_of_some_arrays_do_not_stand_for_parts_of_others(tmp_path, game):
    store = Store(tmp_path)
    first = store.fit(WithPairs(), game, 4, ("degrees",))
    assert set(store.fit(WithPairs(), game, 4, ("pairs",)).release.arrays) == {"pairs"}
    assert set(store.fit(WithPairs(), game, 4, ("degrees", "pairs")).release.arrays) == {"degrees", "pairs"}
    again = store.fit(WithPairs(), game, 4, ("degrees",))
    np.testing.assert_array_equal(again.release["degrees"], first.release["degrees"])
    assert len(parts(tmp_path)) == 3


def test_a_model_that_computes_no_more_than_is_read_has_one_part_with_and_without_that_list(tmp_path, game):
    store = Store(tmp_path)
    store.fit(Degrees(), game, 4, ("degrees",))
    store.fit(Degrees(), game, 4)
    assert len(parts(tmp_path)) == 1


def test_a_resumed_run_computes_only_what_is_missing(tmp_path, game):
    first = Store(tmp_path).fit(Degrees(), game, 10)
    made = []

    def watched(tasks):
        for task in tasks:
            made.append(task[2][-10:])
            yield store_module.fit_part(task)

    next(tmp_path.rglob("000004.npz")).unlink()
    again = Store(tmp_path, execute=watched).fit(Degrees(), game, 14)
    assert made == ["000004.npz", "000008.npz", "000012.npz"]  # the missing part, the one that grew, the new one
    np.testing.assert_array_equal(again.release["degrees"][:10], first.release["degrees"])


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:], lambda b: b""])
def test_a_damaged_part_is_made_again_not_trusted(tmp_path, game, damage):
    first = Store(tmp_path).fit(Degrees(), game, 10)
    path = next(tmp_path.rglob("000000.npz"))
    path.write_bytes(damage(path.read_bytes()))
    again = Store(tmp_path).fit(Degrees(), game, 10)
    np.testing.assert_array_equal(again.release["degrees"], first.release["degrees"])


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
@pytest.mark.parametrize("how", ["writable", "another's", "link"])
def test_a_part_that_another_user_planted_is_made_again(tmp_path, game, how, as_another):
    """A part of the right form with right checksums decides a verdict. One that others could have written is not read."""
    first = Store(tmp_path).fit(Degrees(), game, 4)
    (path,) = tmp_path.rglob("*.npz")
    forged = Release({"degrees": first.release["degrees"] + 1000}, first.release.watch, first.release.public)
    store_module.save(forged, path)
    np.testing.assert_array_equal(Store(tmp_path).fit(Degrees(), game, 4).release["degrees"], forged["degrees"])
    as_another(path, how)
    np.testing.assert_array_equal(Store(tmp_path).fit(Degrees(), game, 4).release["degrees"], first.release["degrees"])


@pytest.mark.skipif(not hasattr(os, "umask"), reason="files have no modes here")
def test_a_part_is_nobody_elses_to_write_whatever_the_umask(tmp_path, game):
    before = os.umask(0)
    try:
        Store(tmp_path).fit(Degrees(), game, 4)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.rglob("*.npz")] == [0o644]


def test_another_recipe_graph_or_key_is_another_part(graph, game):
    others = [
        identity(Degrees(sigma=2.0), game),
        identity(Degrees(), replace(game, key=Key("other"))),
        identity(Degrees(), replace(game, graph=replace(graph, x=graph.x + 1))),
        identity(Degrees(), replace(game, items=game.items[:5])),
    ]
    assert len({identity(Degrees(), game), *others}) == 5


@dataclass(frozen=True)
class PartlyInTorch(Degrees):
    def fit(self, worlds, device="cpu"):
        compiled.in_torch("hub: too wide")
        return super().fit(worlds, device)


@pytest.mark.skipif(not compiled.found(), reason="Numba is not installed or switched off")
def test_a_stored_part_says_what_torch_trained_of_it(game, tmp_path):
    with processes(2) as execute:
        here = Store(tmp_path, execute=execute)
        made = here.fit(PartlyInTorch(), game, 4)
    again, other = Store(tmp_path), Store(tmp_path)
    np.testing.assert_array_equal(again.fit(PartlyInTorch(), game, 4).release["degrees"], made.release["degrees"])
    other.fit(Degrees(), game, 4)
    assert here.in_torch == again.in_torch == {PartlyInTorch().name: {"hub: too wide"}}
    assert other.in_torch == {}


def test_a_graph_that_is_mapped_shares_no_parts_with_its_copy_in_memory(graph, game, tmp_path):
    mapped = memory_mapped.write(graph, tmp_path / "mapped")
    assert mapped.digest == graph.digest
    assert identity(Degrees(), replace(game, graph=mapped)) != identity(Degrees(), game)


def test_recipes_are_told_apart_by_every_number_of_their_arrays_and_not_by_their_place_in_memory(game):
    @dataclass(frozen=True)
    class Weighted:
        weights: np.ndarray

    class Plain:
        def __init__(self, sigma):
            self.sigma = sigma

    late = np.zeros(5000)
    late[2500] = 1e-12
    assert identity(Weighted(np.zeros(5000)), game) == identity(Weighted(np.zeros(5000)), game)
    assert identity(Weighted(np.zeros(5000)), game) != identity(Weighted(late), game)
    assert identity(Plain(1.0), game) == identity(Plain(1.0), game) != identity(Plain(2.0), game)


def test_neither_key_nor_bits_are_written(tmp_path, graph):
    secret = "0123456789abcdef0123456789abcdef"
    Store(tmp_path).fit(Degrees(), Game(graph, "edge", np.arange(20, dtype=np.int64), Key("secret", secret)), 4)
    for path in tmp_path.rglob("*"):
        assert secret not in path.name
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
            with np.load(path) as f:
                assert set(f.files) == {"array:degrees", "watch", "public"}


def test_worker_processes_make_the_same_parts(tmp_path, game):
    here = Store(tmp_path / "here").fit(Degrees(), game, 10)
    with processes(2) as execute:
        there = Store(tmp_path / "there", execute=execute).fit(Degrees(), game, 10)
    np.testing.assert_array_equal(here.release["degrees"], there.release["degrees"])


def test_a_killed_writer_leaves_no_half_part(tmp_path):
    """A process that dies in the middle of writing leaves nothing that a later run would read."""
    code = f"""
    import os, numpy as np
    from pathlib import Path
    from gnnaudit.audit.storage import store
    from gnnaudit.models.base import Release
    real = np.savez
    def dies(f, **arrays):
        f.write(b"half")
        f.flush()
        os.kill(os.getpid(), 9)
    np.savez = dies
    store.save(Release({{"a": np.zeros(3)}}, np.arange(3)), Path({str(tmp_path)!r}) / "000000.npz")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=os.environ)
    assert done.returncode == -9
    assert parts(tmp_path) in ([], [p for p in parts(tmp_path) if p.startswith(".")])
    assert store_module.load(tmp_path / "000000.npz") is None
