"""Letters that a figure's font lacks are drawn with another font of the machine, or named in one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from kernelswarm import simulate
from kernelswarm.simulations.core import letters
from kernelswarm.simulations.figures.plots import draw
from kernelswarm.simulations.records.result import Result

LETTER = "\U00013000"
"""An Egyptian hieroglyph, which hardly any machine has."""


@pytest.fixture
def font(tmp_path: Path) -> Iterator[str]:
    """Make a font that has the letter known to matplotlib."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((500, 900))
    pen.lineTo((900, 0))
    pen.closePath()
    glyph = pen.glyph()
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder([".notdef", "a"])
    made.setupCharacterMap({ord(LETTER): "a"})
    made.setupGlyf({".notdef": glyph, "a": glyph})
    made.setupHorizontalMetrics({".notdef": (1000, 0), "a": (1000, 0)})
    made.setupHorizontalHeader(ascent=900, descent=-100)
    made.setupNameTable({"familyName": "Hieroglyphs for a test", "styleName": "Regular"})
    made.setupOS2(usWeightClass=400)
    made.setupPost()
    made.save(tmp_path / "font.ttf")
    before = list(fontManager.ttflist)
    fontManager.addfont(tmp_path / "font.ttf")
    yield "Hieroglyphs for a test"
    fontManager.ttflist[:] = before


@pytest.fixture(scope="module")
def result() -> Result:
    graph = nx.relabel_nodes(nx.cycle_graph(3), {0: f"{LETTER}", 1: f"{LETTER}{LETTER}", 2: "Zürich"})
    return simulate(topology=graph, stream="sine_regression", learner="polk", protocol="isolated", rounds=20)


def said(result: Result, folder: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        draw(result, folder)
    return [str(one.message) for one in seen]


def test_letters_without_a_font_are_one_sentence(result: Result, tmp_path: Path) -> None:
    (sentence,) = said(result, tmp_path)
    assert LETTER in sentence and "install a font that has them" in sentence and "Zürich" not in sentence


def test_a_font_of_the_machine_is_borrowed(result: Result, tmp_path: Path, font: str) -> None:
    assert said(result, tmp_path) == []


def test_texts_keep_their_font_for_all_other_letters(font: str) -> None:
    figure = Figure()
    plain, mixed = figure.text(0, 0, "Zürich"), figure.text(0, 0, f"a{LETTER}")
    before = plain.get_fontfamily()
    assert letters.borrow(figure) == set()
    assert plain.get_fontfamily() == before and mixed.get_fontfamily() == [*before, font]
