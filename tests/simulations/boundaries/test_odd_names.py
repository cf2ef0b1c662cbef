"""Labels of classes, names of nodes and columns are any text: what is written of a run holds them as they stand."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import matplotlib
import networkx as nx
import numpy as np
import pyarrow
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from pyarrow import parquet

from kernelswarm.simulations.comparison.tables import escape
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.graphml import lines
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import SMALL, Command

LABELS = ['<b>&"x"', "$\\frac{1}$", "Größe_1%#{}~^", "a\nb"]
NODES = ["n<&>", "$x_{1$", "Zoë\t'q'", "x" * 150]


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every text of every figure is added as it is saved, but those of formulas as such."""
    found: list[str] = []
    saved: Callable[..., object] = Figure.savefig

    def save(figure: Figure, *arguments: object, **named: object) -> object:
        answer = saved(figure, *arguments, **named)
        for text in figure.findobj(Text):
            assert isinstance(text, Text)
            formula = matplotlib.cbook.is_math_text(text.get_text()) and text.get_parse_math()
            found.append("" if formula else text.get_text())
        return answer

    monkeypatch.setattr(Figure, "savefig", save)
    return found


@pytest.mark.filterwarnings("error")  # matplotlib's, of letters that it lacks and of figures without room
def test_a_run_writes_and_draws_names_of_any_letters(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    centers = draws.normal(size=(4, 2)) * 4
    with Path("odd.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ["$in_{$", "b\n&<", "la_bel", "no$de"],
                *([*(centers[k % 4] + draws.normal(size=2)), LABELS[k % 4], NODES[k // 4 % 4]] for k in range(320)),
            ]
        )
    answer = call("init", "--data", "odd.csv", "--target", "la_bel", "--nodes", "no$de")
    assert answer.code == 0, answer.err
    texts = drawn(monkeypatch)
    answer = call("run", "experiment.toml", "--rounds", "12", "--out", "odd", "--quiet", "--format", "png,svg")
    assert (answer.code, answer.err) == (0, "")
    assert "rounds         12 " in answer.out
    for wanted in ("$x_{1$", "n<&>", "Zoë 'q'", "$in_{$", "b &<", "$\\frac{1}$", '<b>&"x"', "Größe_1%#{}~^"):
        assert wanted in texts, wanted
    assert all(len(line) <= 200 for text in texts for line in text.split("\n"))
    graph = nx.read_graphml("odd/graph.graphml")
    assert sorted(name for _, name in graph.nodes(data="name")) == sorted(NODES)
    result = simulate(Experiment.from_file("odd/config.toml"))
    assert result.data.classes is not None
    assert sorted(result.data.classes.tolist()) == sorted(LABELS)
    figure = result.model("$x_{1$").plot()
    figure.savefig("model.png")
    assert "$in_{$" in {text.get_text().replace(r"\$", "$") for text in figure.findobj(Text)}


def test_files_may_be_called_as_addresses_begin(call: Command) -> None:
    """pyarrow takes a relative path for an address where it begins with a word and a colon."""
    Path("small.toml").write_text(SMALL)
    folder = "file:50%20off?#{x}"
    assert call("run", "small.toml", "--out", folder, "--no-figures", "--set", "checkpoint_every=2").code == 0
    assert call("plot", folder).code == 0
    assert call("resume", folder, "--set", "rounds=6", "--no-figures").code == 0
    table = pyarrow.table({"x": np.arange(40.0), "y": np.arange(40.0) % 3 + 0.25})
    parquet.write_table(table, Path("hdfs:rows.parquet").absolute())
    assert len(File(Path("hdfs:rows.parquet")).read()[0]) == 40
    assert {path.name for path in Path().iterdir()} == {"small.toml", folder, "hdfs:rows.parquet"}


def test_texts_of_latex_are_on_one_line_and_no_argument_of_the_row_before() -> None:
    assert escape("a\n\nb\tc") == "a b c"
    assert escape("[]") == "{}[]"
    assert escape("*") == "{}*"


def test_letters_that_xml_has_none_for_do_not_make_a_file_that_nobody_reads() -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: "bell\x07", 1: "a\n<b>&"}, "name")
    read = nx.parse_graphml("".join(lines(graph)))
    assert [name for _, name in read.nodes(data="name")] == ["bell\N{REPLACEMENT CHARACTER}", "a\n<b>&"]


def test_formulas_are_those_of_the_numbers_on_axes_alone() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1.0, 1000.0], [1.0, 2.0], label="$a_1$")
    axes.set_xscale("log")
    axes.set_title(style.literal("costs $5 or $6"))
    axes.legend()
    style.without_formulas(figure)
    figure.canvas.draw()
    shown = {text.get_text() for text in figure.findobj(Text) if not text.get_parse_math()}  # type: ignore[attr-defined]
    assert {"costs $5 or $6", "$a_1$"} <= shown
    assert any("mathdefault" in tick.get_text() and tick.get_parse_math() for tick in axes.get_xticklabels())
