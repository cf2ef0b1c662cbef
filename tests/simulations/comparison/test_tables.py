"""The comparison's tables: the figures are the recomputed ones, the best is marked, and each format reads back."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.comparison.table_notes import HEADINGS, pair
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.variation import Cell
from kernelswarm.simulations.records.outcome import METRICS, Comparison, Run

LABELS = (("isolated", "ring"), ("consensus, penalty = 0.1", "ring"), ("my_rules:50%", "a|b"))


def comparison(seeds: int = 4, labels: tuple[tuple[str, ...], ...] = LABELS) -> Comparison:
    """Three cells whose risk falls from cell to cell, without constraints; scalars do not vary over seeds."""
    random = np.random.default_rng(5)
    runs = []
    for place in range(len(labels)):
        for seed in range(seeds):
            final = {name: float(random.lognormal() / (place + 1) ** 4) for name in METRICS}
            final |= {"violation": math.nan, "bytes_sent": 1_523_456.0 * place}
            runs.append(Run(place, seed, final=final, folder=Path(f"out/runs/{place}/seed_{seed}")))
    cells = tuple(Cell(label, {}) for label in labels)
    return Comparison(("protocol.name", "topology")[: len(labels[0])], cells, tuple(runs), Path("out"))


def failing() -> Comparison:
    """Every run of the last cell failed, and one of the first."""
    found = comparison()
    runs = tuple(
        Run(run.cell, run.seed, failure="node 3 diverged in round 7:\nlower learner.step_size")
        if run.cell == 2 or (run.cell, run.seed) == (0, 1)
        else run
        for run in found.runs
    )
    return Comparison(found.keys, found.cells, runs, found.folder)


def values(found: Comparison, cell: int, name: str) -> list[float]:
    return [run.final[name] for run in found.runs if run.cell == cell and not run.failure]


@given(st.floats(1e-8, 1e9), st.floats(1e-4, 10.0))
def test_pair_keeps_the_digits_that_the_deviation_leaves(mean: float, ratio: float) -> None:
    deviation = mean * ratio
    text = pair(mean, deviation)
    center, spread, exponent = re.fullmatch(r"\(?([\d.]+) ± ([\d.]+)(?:\)e(-?\d+))?", text).groups()  # type: ignore[union-attr]
    unit = 10.0 ** int(exponent or 0)
    decimals = len(center.partition(".")[2])
    assert decimals == len(spread.partition(".")[2])
    assert float(center) * unit == pytest.approx(mean, abs=0.51 * 10.0**-decimals * unit)
    assert float(spread) * unit == pytest.approx(deviation, abs=0.51 * 10.0**-decimals * unit)
    assert len(text) <= 24


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.0412345, 0.00312, "0.0412 ± 0.0031"),
        (16.0, math.nan, "16"),
        (1523456.0, 0.0, "1.523e6"),
        (123456.0, 1200.0, "123456 ± 1200"),
        (0.0, 0.0, "0"),
        (2.5e-7, 1e-8, "(2.50 ± 0.10)e-7"),
        (math.nan, math.nan, "–"),
        (0.3, 1e-17, "0.3"),
        (0.3, 1e-7, "0.3000 ± 0.0000"),
    ],
)
def test_pair_reads_well(mean: float, deviation: float, text: str) -> None:
    assert pair(mean, deviation) == text


def test_latex_prints_every_character_and_its_columns_match() -> None:
    text = tables.as_latex(comparison(labels=(("100% of_$5", r"a\b"), ("x~y^z", "{k} & #1 – <m>|"))))
    assert r"100\% of\_\$5 & a\textbackslash{}b &" in text
    assert r"x\textasciitilde{}y\textasciicircum{}z & \{k\} \& \#1 -- \textless{}m\textgreater{}\textbar{} &" in text
    columns = len(re.search(r"\\begin{tabular}{([lr]+)}", text).group(1))  # type: ignore[union-attr]
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 3
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {columns - 1}
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


def latex_columns(text: str) -> dict[str, list[str]]:
    lines = [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in text.splitlines() if line.endswith(r"\\")]
    return {heading: list(cells) for heading, *cells in zip(*lines, strict=True)}


def on_a_terminal(cell: str, heading: str) -> str:
    """What a cell for LaTeX would be called on a terminal, where powers of ten stand beside numbers."""
    shared = re.search(r"times 10\^\{(-?\d+)\}", heading)
    text = cell.strip("$").replace(r" \pm ", " ± ").replace("--", "–")
    text = re.sub(r"\^\{\\[^}]*\}", "", re.sub(r"\\mathbf\{([^}]*)\}", r"\1", text))
    text = re.sub(r" \\times 10\^\{(-?\d+)\}", r"e\1", text)
    if shared and text not in ("0", "–"):
        text = f"({text})e{shared[1]}" if "±" in text else f"{text}e{shared[1]}"
    return text


@pytest.mark.parametrize("unit", [1.0, 1e-7, 12_345.0, 1e8])
def test_latex_has_the_digits_of_the_terminal_bold_or_not(unit: float) -> None:
    """Rows whose deviations differ by orders of magnitude keep the digits that each of them leaves."""
    random = np.random.default_rng(3)
    levels, spreads = (0.5, 0.4, 0.03, 9.0), (0.02, 1e-4, 1e-3, 0.7)
    runs = [
        Run(place, seed, final=dict.fromkeys(METRICS, unit * (level + spread * random.normal())))
        for place, (level, spread) in enumerate(zip(levels, spreads, strict=True))
        for seed in range(8)
    ]
    cells = tuple(Cell((str(place),), {}) for place in range(4))
    found = Comparison(("learner.name",), cells, tuple(runs))
    row = found.rows(["risk"])
    expected = [pair(one.mean["risk"], one.deviation["risk"]) for one in row]
    terminal = [line for line in tables.as_text(found, 200, columns=["risk"]).splitlines() if line[:1].isdigit()]
    latex = tables.as_latex(found, ["risk"])
    ((heading, written),) = [(name, cells) for name, cells in latex_columns(latex).items() if name.startswith("risk")]
    assert [on_a_terminal(cell, heading) for cell in written] == expected
    assert all(text in line for text, line in zip(expected, terminal, strict=True))
    assert [r"\mathbf" in cell for cell in written] == [False, False, True, False]
    alone = latex_columns(tables.as_latex(found, ["risk"], spread=False))
    for cell, text in zip(alone[heading], expected, strict=True):  # the digits that the deviation leaves
        assert on_a_terminal(cell, "") == text.strip("(").partition(" ")[0].partition("e")[0] or unit != 1.0


@pytest.mark.parametrize(
    ("amounts", "written"),
    [
        ((679_968.0, 3_312_000.0), ("679968", "3312000")),
        ((0.0, 3_312_000.0), ("0", "3.312e6")),
        ((2.0e5, 3.5e9), ("200000", "3.5e9")),
        ((0.25, 0.000166), ("0.25", "0.000166")),
    ],
)
def test_numbers_of_a_column_have_one_form(amounts: tuple[float, float], written: tuple[str, str]) -> None:
    found = comparison()
    runs = tuple(
        Run(run.cell, run.seed, final={**run.final, "bytes_sent": amounts[run.cell % 2]}) for run in found.runs
    )
    found = Comparison(found.keys, found.cells, runs)
    cells = latex_columns(tables.as_latex(found, ["bytes_sent"], spread=False))
    ((heading, column),) = [(name, cells) for name, cells in cells.items() if name.startswith("bytes")]
    text = tables.as_text(found, 200, columns=["bytes_sent"]).splitlines()
    for cell, row, expected in zip(column, text[2:], written, strict=False):
        assert on_a_terminal(cell, heading) == expected and re.search(rf" {re.escape(expected)} +\d", row)


def test_chosen_columns_are_shown_in_their_order_and_others_not() -> None:
    found = comparison()
    runs = tuple(
        Run(run.cell, run.seed, final={**run.final, "bytes_sent": 8.0 * run.final["bytes_sent"]}) for run in found.runs
    )
    found = Comparison(found.keys, found.cells, runs)
    columns = latex_columns(tables.as_latex(found, ["bytes_sent", "risk"], spread=False))
    assert list(columns) == ["protocol", "topology", r"bytes sent ($\times 10^{7}$)", "risk", "runs"]
    assert not any("pm" in cell for cell in columns["risk"])
    assert columns[r"bytes sent ($\times 10^{7}$)"][1:] == ["$1.219$", "$2.438$"]
    for text in (tables.as_text(found, 200, columns=["error"]), tables.as_markdown(found, ["error"])):
        table = text.partition("mean ±")[0].partition("at least")[0]
        assert "error" in table and "risk" not in table and "scalars" not in table
    with pytest.raises(InputError, match='columns = "eror" has no figure; did you mean "error"'):
        tables.as_latex(found, ["eror"])


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_text_is_aligned_and_keeps_to_the_width(width: int) -> None:
    text = tables.as_text(comparison(), width)
    blocks = [block.splitlines() for block in text.split("\n\n")]
    for block in blocks[:-2]:
        assert len(block) == 2 + len(LABELS)
        assert set(block[1]) == {"-", " "}
        assert max(map(len, block)) <= width
        for line in block[2:]:  # a number ends where its column ends
            assert len(line) == len(block[1])
    for heading in [*HEADINGS.values(), "runs"]:
        assert (heading in text) == (heading != "violation")


def test_failed_runs_are_counted_and_explained() -> None:
    found = failing()
    first, _, last = found.rows()
    assert (first.done, first.failed, last.done, last.failed) == (3, 1, 0, 4)
    assert first.mean["risk"] == pytest.approx(np.mean(values(found, 0, "risk")))
    assert math.isnan(last.mean["risk"])
    text = tables.as_text(found)
    assert "3 of 4" in text
    assert "0 of 4" in text
    assert text.count("failed: protocol = my_rules:50%, topology = a|b: node 3 diverged in round 7") == 1
    assert (
        "% failed: protocol = my_rules:50%, topology = a|b: node 3 diverged in round 7: lower learner."
        in tables.as_latex(found)
    )
