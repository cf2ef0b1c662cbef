"""Numbers that are the same stand once in tables and figures, and both where they differ in a single run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.comparison.table_notes import supported, under
from kernelswarm.simulations.experiment.variation import Cell
from kernelswarm.simulations.figures import cells, plots
from kernelswarm.simulations.records.outcome import METRICS, Comparison, Run, gather
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.report import learning_curves, page
from kernelswarm.simulations.report import tables as page_tables
from kernelswarm.simulations.running.simulation import simulate

random = np.random.default_rng(0)
POINTS = random.normal(size=(160, 2))
FRAME = {"a": POINTS[:, 0], "b": POINTS[:, 1], "y": POINTS[:, 0] + 0.1 * random.normal(size=160)}


def learned(protocol: str = "consensus", seed: int = 0, loss: str = "squared") -> Result:
    """A run on own data whose rows name their nodes."""
    names = np.array(["Aachen", "Bonn", "Celle", "Duren"])[np.arange(160) % 4]
    return simulate(
        data={**FRAME, "place": names},
        target="y",
        node="place",
        topology={"name": "ring", "nodes": 4},
        learner={
            "name": "polk",
            "loss": loss,
            "step_size": 0.1,
            "kernel": {"name": "gaussian", "bandwidth": 1.0},
            "budget": {"epsilon": 0.05},
        },
        protocol=protocol,
        seed=seed,
        rounds=20,
        evaluate_every=5,
    )


@pytest.fixture(scope="module")
def squared() -> Comparison:
    return gather([learned(protocol, seed) for protocol in ("isolated", "consensus") for seed in range(2)])


def header(text: str) -> list[str]:
    return [cell.strip() for cell in next(line for line in text.splitlines() if line.startswith("|")).split("|")]


def test_an_error_that_is_the_risk_is_one_column_with_a_note(squared: Comparison) -> None:
    assert squared.repeated == {"error", "global_error"}
    note = "error: the same numbers as risk in all runs, shown once"
    for text in (tables.as_text(squared, 300), tables.as_markdown(squared), tables.as_latex(squared)):
        assert note in text and f"pooled {note.replace('as risk', 'as pooled risk')}" in text
    assert "error" not in header(tables.as_markdown(squared)) and "risk" in header(tables.as_markdown(squared))
    assert "error_mean" in tables.as_csv(squared) and ",error," in tables.runs_csv(squared)  # programs find them all
    asked = tables.as_markdown(squared, ["risk", "error"])
    assert {"risk", "error"} <= set(header(asked)) and note not in asked


def test_the_words_say_a_difference_once(squared: Comparison) -> None:
    runs = [
        replace(run, seed=seed, final={name: value + 0.01 * seed for name, value in run.final.items()}, digest="")
        for run in squared.runs
        for seed in range(6 * (run.seed + 1))[-6:]
    ]
    lines = supported(replace(squared, runs=tuple(runs)))
    assert any(line.startswith("risk: ") for line in lines) and not any("error: " in line for line in lines)


def test_an_error_that_is_the_risk_has_no_figure_of_its_own(squared: Comparison, tmp_path: Path) -> None:
    drawn = {path.name for path in plots.draw_comparison(squared, tmp_path)}
    assert {"risk.png", "global_risk.png"} <= drawn and not {"error.png", "global_error.png"} & drawn
    assert "error" not in cells.measured(squared) and list(cells.to_references(squared)) == ["risk", "global_risk"]
    assert [panel["column"] for panel in learning_curves.of_comparison(squared)["panels"]][:2] == [
        "risk",
        "global_risk",
    ]
    for table in page_tables.of_comparison(squared):
        assert not any(column["label"] in ("error", "pooled error") for column in table["columns"])
    result = learned()
    assert "error" not in [panel["column"] for panel in learning_curves.of_run(result)["panels"]]
    for table in page_tables.of_run(result):
        shown = [column["label"] for column in table["columns"]] + list(table["columns"][0]["cells"])
        assert "error" not in shown and "pooled error" not in shown


def test_both_are_shown_where_they_differ(squared: Comparison) -> None:
    other = gather([learned(loss="huber", seed=seed) for seed in range(2)])
    assert other.repeated == frozenset()
    assert {"risk", "error"} <= set(header(tables.as_markdown(other)))
    last = squared.runs[-1]
    changed = replace(last, final={**last.final, "error": last.final["error"] * (1 + 1e-9)})
    assert replace(squared, runs=(*squared.runs[:-1], changed)).repeated == {"global_error"}
    learning_curve = {
        **last.network,
        "error": np.asarray(last.network["error"]) + np.eye(4)[0][: len(last.network["error"])],
    }
    assert replace(squared, runs=(*squared.runs[:-1], replace(last, network=learning_curve))).repeated == {
        "global_error"
    }


def test_notes_under_a_table_quote_the_means_that_stand_in_it() -> None:
    risks = {3: 0.9, 4: 0.7, 5: 0.8}
    sentence = "worse than the constant prediction at all 4 nodes: risk {}, where the best constant has 0.5: scale"
    runs = [
        Run(
            0,
            seed,
            final={**dict.fromkeys(METRICS, risk), "constant_risk": 0.5, "model_order": 3.0},
            verdict={"worse_than_constant": sentence.format(risk)} if seed > 3 else {},
        )
        for seed, risk in risks.items()
    ]
    found = Comparison(("protocol.name",), (Cell(("isolated",), {}),), tuple(runs))
    (note,) = under(found, found.rows())
    assert note == (
        "† protocol = isolated, 2 of 3 runs: risk 0.80 ± 0.10, of the best constant 0.5; seed 4: "
        + sentence.format(0.7)
    )
    assert "0.80 ± 0.10 †" in tables.as_text(found)
    single = replace(found, runs=found.runs[1:2])
    assert under(single, single.rows()) == [f"† protocol = isolated: {sentence.format(0.7)}"]


def test_a_page_is_called_by_its_data_and_names_their_nodes(tmp_path: Path) -> None:
    result = learned()
    config = {**result.config, "stream": {"name": "file", "path": "measured/stations 2024.csv"}}
    assert page.title(replace(result, config=config)) == "consensus · ring · stations 2024.csv · polk"
    cell = Cell(("isolated",), config)
    assert page.comparison_title(Comparison(("protocol.name",), (cell, cell), ())) == (
        "Comparison of protocol on stations 2024.csv"
    )
    found = {table["name"]: table for table in page_tables.of_run(result)}
    named = {column["label"]: column["cells"] for table in ("nodes", "edges") for column in found[table]["columns"]}
    assert named["name"] == ["Aachen", "Bonn", "Celle", "Duren"]
    assert set(named["source"]) == set(named["target"]) == set(named["name"])


def test_the_end_of_a_run_says_a_number_once() -> None:
    lines = as_text(learned()).splitlines()
    named = [line.split("  ")[0] for line in lines]
    assert named.count("risk, error") == named.count("pooled risk, error") == 1
    assert not {"risk", "error", "pooled error"} & set(named)
    assert {"risk", "error"} <= {line.split("  ")[0] for line in as_text(learned(loss="huber")).splitlines()}
