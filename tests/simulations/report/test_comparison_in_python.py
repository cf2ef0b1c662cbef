"""A comparison in Python shows what its files and the command show: one table, in words, as HTML, as a frame."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from html import unescape
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelswarm import Comparison, InputError, compare
from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.records.result import SHOWN, MeasuredTable
from tests.helpers.small_comparisons import experiment


@pytest.fixture(scope="module")
def found() -> Comparison:
    vary: dict[str, Any] = {
        "learner": [{"name": "polk", "label": "<a|b>"}, "ogd"],
        "protocol.name": ["isolated", "consensus"],
    }
    return compare(experiment(), vary, seeds=2, jobs=1)


def test_it_prints_the_table_and_the_words_of_the_command(found: Comparison) -> None:
    assert f"{found}\n" == tables.as_text(found) and "--seeds 6" in str(found)
    assert len(repr(found).splitlines()) == 5


def test_a_notebook_has_the_cells_of_the_markdown_table(found: Comparison) -> None:
    page = found._repr_html_()
    (table,) = re.findall("<table>.*?</table>", page)
    lines = [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall("<tr>(.*?)</tr>", table)]
    shown = [[unescape(re.sub("</?b>", "**", cell)) for cell in line] for line in lines]
    written = [line for line in tables.as_markdown(found).splitlines() if line.startswith("| ")]
    assert [" | ".join(line) for line in shown] == [
        line[2:-2].replace(r"\|", "|").replace(r"\_", "_") for line in written if "---" not in line
    ]
    assert "<a|b>" not in page and "at least 6 seeds are needed" in page


def test_its_frame_is_its_csv_file(found: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = SimpleNamespace(DataFrame=dict)  # it is not installed here
    monkeypatch.setitem(sys.modules, "pandas", cast(Any, pandas))
    frame = found.to_pandas()
    header, *lines = csv.reader(io.StringIO(tables.as_csv(found)))
    assert list(frame) == header and {len(column) for column in frame.values()} == {len(lines)} == {4}
    for name, entries in zip(header, zip(*lines, strict=True), strict=True):
        for value, entry in zip(frame[name], entries, strict=True):
            if isinstance(value, float):
                assert (math.isnan(value) and entry == "") or value == float(entry)
            else:
                assert str(value) == entry
    assert frame["risk_mean"].dtype == np.float64 and frame["runs"].dtype == np.int64


def test_its_latex_is_that_of_the_command(found: Comparison) -> None:
    assert found.to_latex(["risk"], spread=False) == tables.as_latex(found, ["risk"], False)
    with pytest.raises(InputError, match="no figure"):
        found.to_latex(["fisk"])


def test_its_plots_have_a_line_for_each_row(found: Comparison) -> None:
    for figure in (found.plot.risk(), found.plot.curve("model_order", against="rounds")):
        names = {str(line.get_label()) for ax in figure.axes for line in ax.lines}
        assert len(figure.axes) == 2 and {"isolated", "consensus"} <= names
    assert len(found.plot.final().axes[0].get_yticks()) == 4


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"column": "fisk"}, 'columns = "fisk" was not measured'),
        ({"column": "risk", "against": "time"}, 'against = "time" is unknown'),
        ({"column": "risk", "ax": Figure().subplots()}, "ax cannot hold the 2 panels of the comparison: leave it out"),
    ],
)
def test_plots_refuse_what_they_cannot_draw(found: Comparison, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        found.plot.curve(**keys)


@pytest.mark.parametrize("rows", [0, 2, 2 * SHOWN, 2 * SHOWN + 1, 1000])
def test_a_long_table_shows_both_its_ends(rows: int) -> None:
    page = MeasuredTable({"<round>": np.arange(rows), "risk": np.arange(rows) / 3.0})._repr_html_()
    cells = re.findall("<td[^>]*>(.*?)</td>", page)
    shown = [cell for cell in cells[::2] if cell != "…"]
    assert "&lt;round&gt;" in page and shown == [
        str(place) for place in range(rows) if min(place, rows - 1 - place) < SHOWN
    ]
