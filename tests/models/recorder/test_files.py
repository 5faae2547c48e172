"""A recording survives its file, also if its mechanisms belong to another run's draws."""

import numpy as np

from gnnaudit.models.recorder.draws.draw import Draw
from gnnaudit.models.recorder.files import Recording, load, save
from gnnaudit.models.recorder.mechanisms.found import Mechanism


def test_a_mechanism_keeps_its_draw_though_the_run_gets_other_numbers(tmp_path):
    old, new = (Draw("normal", np.full(3, value), "line") for value in (1.0, 2.0))
    mechanism = Mechanism("line", old, 2.0, np.zeros(3), np.full(3, 2.0), shared=(0,))
    save(tmp_path / "r.npz", Recording([new], [mechanism]))
    found = load(tmp_path / "r.npz", 1 << 20)
    assert found.mechanisms is not None
    assert [draw.values.tolist() for draw in found.draws] == [[2.0] * 3]
    assert found.mechanisms[0].draw.values.tolist() == [1.0] * 3
    assert found.mechanisms[0].shared == (0,)
