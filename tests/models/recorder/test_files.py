"""A recording survives its file, also if its mechanisms belong to another run's draws."""

import numpy as np

from gnnaudit.models.recorder.draws.draw import Draw
from gnnaudit.models.recorder.files import Recording, kept, load, save
from gnnaudit.models.recorder.mechanisms.mechanism import Mechanism


def test_a_mechanism_keeps_its_draw_though_the_run_gets_other_numbers(tmp_path):
    old, new = (Draw("normal", np.full(3, value), "line") for value in (1.0, 2.0))
    mechanism = Mechanism("line", old, 2.0, np.zeros(3), np.full(3, 2.0), shared=(0,))
    save(tmp_path / "r.npz", Recording([new], [mechanism]))
    found = load(tmp_path / "r.npz", 1 << 20)
    assert found.mechanisms is not None
    assert [draw.values.tolist() for draw in found.draws] == [[2.0] * 3]
    assert found.mechanisms[0].draw.values.tolist() == [1.0] * 3
    assert found.mechanisms[0].shared == (0,)


def test_every_field_survives_with_its_type_and_its_shape(tmp_path):
    chances = np.array([[0.25, 0.75], [0.5, 0.5]])
    laws = {"loc": np.arange(2.0), "scale": 3.0, "lowest": -np.inf, "highest": 1.0, "among": (0.0, 1.0), "chances": chances}
    kinds = {"parameters": (np.array(5), np.array([[True]])), "calls": ("a", "b"), "weights": True, "state": 7}
    draw = Draw("bernoulli", np.array([1, 0]), "line", **laws, **kinds)
    one = Draw("gauss", np.array(0.5), "line")
    parts = {"mirrored": True, "shared": (0, 1), "parts": 2, "closely": True, "terms": (1, 2), "computed": "normal"}
    mechanism = Mechanism("line", draw, np.ones(2), chances, np.array([1.0, 0.0], np.float32), (one,), (0.0, 1.0), **parts)
    save(tmp_path / "r.npz", Recording([draw, one], [mechanism], "left", ["note"], constant=(1,)))
    found = load(tmp_path / "r.npz", 1 << 20)
    assert (found.diverged, found.notes, found.constant) == ("left", ["note"], (1,))
    (same,) = found.mechanisms
    assert (same.draw, same.beside) == (found.draws[0], (found.draws[1],))
    for before, after in ((draw, found.draws[0]), (one, found.draws[1]), (mechanism, same)):
        for name in {*kept(type(before))} - {"draw", "beside", "parameters"}:
            was, now = getattr(before, name), getattr(after, name)
            assert type(was) is type(now), name
            np.testing.assert_array_equal(was, now)
            assert (np.asarray(was).dtype, np.shape(was)) == (np.asarray(now).dtype, np.shape(now)), name
    for before, after in zip(draw.parameters, found.draws[0].parameters, strict=True):
        assert (before.dtype, before.shape, before.tolist()) == (after.dtype, after.shape, after.tolist())
