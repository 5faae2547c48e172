"""Figures of models with long names."""

import warnings

import pytest

from gnnaudit.reports.figures.style import LABEL, TICK, Plot, legend, save, wrapped

NAME = "undirected-edge-charged-as-one-directed-edge-and-some-more-words-after-it (paper) " * 2


@pytest.mark.parametrize("width", [TICK, LABEL])
def test_a_wrapped_name_keeps_its_characters_and_its_width(width):
    lines = wrapped(NAME, width).split("\n")
    assert "".join(lines).replace(" ", "") == NAME.replace(" ", "")
    assert max(map(len, lines)) <= width


def test_a_long_name_leaves_room_for_the_axes(tmp_path):
    def draw(axes):
        axes.barh([0], [1.0], label=NAME)
        axes.set_yticks([0], [wrapped(NAME)])
        legend(axes)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns if no room is left
        save(Plot("long", "Long names", "A bar.", ("x",), ((1,),), draw), tmp_path)
    assert (tmp_path / "long.png").exists()
