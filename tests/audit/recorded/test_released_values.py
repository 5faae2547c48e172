"""Every released number counts to its last place: whole numbers of any size, fractions, imaginary parts, and public numbers. A
number that an edge changes and no noise covers is an infinite epsilon.
"""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Release, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.playing import Cell, Play, cells, kinds
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import counts, released

GRAPH = load("campus:n=120:degree=6")
CLAIM = Claim(3.32, 1e-6)  # noise of std 2 on two rows that move by 1 costs 3.308


class Model:
    """Noisy counts, and further released values. key, public: (graph, generator) -> an array, public numbers."""

    name, mode, unit, ledger = "values", "sound", Unit.UNDIRECTED_EDGE, dp.GaussianDpEvent(2**0.5)
    releases = offers = ("posteriors", "counts", "key")
    public = ()

    def __init__(self, key=None, public=None):
        self.key, self.numbers = key or (lambda graph, random: np.arange(graph.nodes)), public or (lambda graph, random: {})

    def footprint(self, graph):
        return 1 << 20

    def fit(self, worlds, device="cpu"):
        graph, random = worlds.removed(0).graph, np.random.default_rng(worlds.seeds[0])
        noisy = counts(graph) + 2 * random.standard_normal((graph.nodes, graph.classes))
        arrays = released(noisy) | {"counts": noisy, "key": self.key(graph, random)}
        public = self.numbers(graph, random)
        return Release({name: np.asarray(each)[None] for name, each in arrays.items()}, worlds.watch, public)


def bounds(model, folder):
    return AUDITS["differential"].run(Setting(Case(model, CLAIM), GRAPH, Store(folder), Key("values"), 3, 1e-9)).bounds


def code(model, folder):
    return judge(CLAIM, (), bounds(model, folder), 1.5).exit_code


KEYS = {
    "whole numbers": lambda place, degree: (20_260_000 + place) * 1000 + degree,
    "beyond 2^53": lambda place, degree: place * 10**16 + degree,
    "unsigned": lambda place, degree: (place * 10**16 + degree).astype(np.uint64),
    "floats that are whole": lambda place, degree: ((20_260_000 + place) * 1000 + degree).astype(float),
    "fractions": lambda place, degree: (20_260_000 + place) * 1000 + degree / 2,
    "fractions in float32": lambda place, degree: (place * 1000 + degree / 2).astype(np.float32),
    "small fractions": lambda place, degree: 1 + degree * 1e-9,
    "an imaginary part": lambda place, degree: 1 + 1j * degree,
}


@pytest.mark.parametrize("name", nightly(*KEYS.keys() - {"unsigned"}, among=KEYS))
def test_the_degree_in_the_last_places_of_a_key_is_refuted_and_a_public_key_is_not(name, tmp_path):
    def with_degree(graph, random):
        return KEYS[name](np.arange(graph.nodes), graph.degree)

    def with_place(graph, random):
        return KEYS[name](np.arange(graph.nodes), np.arange(graph.nodes) % 7)

    assert any(b.refuted and np.isinf(b.epsilon) for b in bounds(Model(with_degree), tmp_path / "degree"))
    assert code(Model(with_place), tmp_path / "place") == 0


@pytest.mark.parametrize(
    ("public", "expected"),
    [
        (lambda graph, random: {"noise_std": 2.0, "version": "1"}, 0),
        (lambda graph, random: {"edges": graph.edges.shape[1]}, 1),
        (lambda graph, random: {"noise_std": 2.0, "edges": f"{graph.edges.shape[1]} edges"}, 1),
        *nightly((lambda graph, random: {"edges": graph.edges.shape[1] + random.geometric(0.1)}, 3)),
    ],
)
def test_a_public_number_is_released_and_must_not_depend_on_an_edge(public, expected, tmp_path):
    assert code(Model(public=public), tmp_path) == expected


def test_only_a_few_units_in_the_last_place_of_a_fraction_count_as_rounding():
    arrays = {"a": np.array([[0.5, 2.0**40 + 0.5]]), "b": np.array([[0.5]], dtype=np.float32), "c": np.array([[1.0, 2.0**40]])}
    release = Release(arrays, np.zeros(1, dtype=np.int64))
    play = Play(cells(release), [], kinds=kinds(release))
    assert play.last_places(Cell("a")) == pytest.approx(16 * np.array([2.0**-53, 2.0**-12]))
    assert play.last_places(Cell("b")) == pytest.approx([16 * 2.0**-24])
    assert not play.last_places(Cell("c")).any()
