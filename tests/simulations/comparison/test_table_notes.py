"""What stands above and under a comparison's table, and what counts as one run."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.comparison.table_notes import above, differing_keys, under
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import Cell
from kernelswarm.simulations.records.outcome import METRICS, Comparison, Run
from kernelswarm.simulations.running.network import open_network

TABLE: dict[str, Any] = {
    "rounds": 60,
    "evaluate_every": 30,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sine_regression"},
    "learner": {
        "name": "polk",
        "step_size": 0.5,
        "kernel": {"name": "gaussian", "bandwidth": 0.2},
        "budget": {"parsimony": 0.03},
    },
    "protocol": {"name": "consensus"},
    "evaluation": {"local_samples": 20, "global_samples": 40},
}


def rows_of(risks: list[list[float]], **changes: Any) -> Comparison:
    """One cell for each list of risks, the first of isolated nodes; everything else is alike."""
    protocols = ["isolated", "consensus", "proximity"]
    runs = [
        Run(place, seed, final=dict.fromkeys(METRICS, 1.0) | {"risk": risk}, digest=f"{place} {seed}", **changes)
        for place, found in enumerate(risks)
        for seed, risk in enumerate(found)
    ]
    cells = tuple(Cell((name,), {"protocol": {"name": name}}) for name in protocols[: len(risks)])
    return Comparison(("protocol.name",), cells, tuple(runs))


def column(found: Comparison, heading: str) -> list[str]:
    lines = [line for line in tables.as_markdown(found).splitlines() if line.startswith("|")]
    place = [cell.strip() for cell in lines[0].strip("|").split("|")].index(heading)
    return [line.strip("|").split("|")[place].strip() for line in lines[2:]]


# Runs that are the same


def test_runs_with_equal_models_and_figures_count_once_and_have_no_spread() -> None:
    found = rows_of([[1.0, 1.0, 1.0], [2.0, 3.0, 2.5]])
    same = [replace(run, digest="same", final={**run.final, "seconds": run.seed}) for run in found.runs[:3]]
    found = replace(found, runs=(*same, *found.runs[3:]))
    first, second = found.rows()
    assert (first.done, first.equal) == (1, ((0, 1, 2),))
    assert math.isnan(first.deviation["risk"])
    assert (second.done, second.equal) == (3, ())
    assert second.mean["risk_change"] == pytest.approx(np.mean([1.0, 2.0, 1.5]))  # each seed has its reference still
    assert "equal: protocol = isolated: the runs with seeds 0, 1, 2 are the same" in tables.as_text(found)
    assert column(found, "runs") == ["1 of 3, 2 equal", "3"]
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert [(line["runs"], line["equal"]) for line in lines] == [("1", "2"), ("3", "0")]


def test_equal_models_with_other_figures_are_other_runs() -> None:
    found = rows_of([[1.0, 1.5]])  # both have learned nothing, on other data
    found = replace(found, runs=tuple(replace(run, digest="empty") for run in found.runs))
    assert (found.rows()[0].done, found.rows()[0].equal) == (2, ())


# The step, and keys that differ unasked


def test_one_step_form_is_said_above_the_table() -> None:
    vary = {"protocol": [{"name": "isolated", "step": "implicit"}, {"name": "consensus", "step": "implicit"}]}
    found = compare(Experiment.from_dict(TABLE), vary, jobs=1)
    form = found.runs[1].form
    assert above(found)[0] == f"all rows: step = implicit, form = {form} where nodes communicate"
    for text in (tables.as_text(found), tables.as_markdown(found).replace("\\_", "_"), tables.as_latex(found)):
        assert text.index("step = implicit") < text.index("isolated")


def test_nothing_is_said_of_steps_where_nobody_communicates() -> None:
    found = compare(Experiment.from_dict({**TABLE, "protocol": {"name": "isolated"}}), {"rounds": [2, 4]}, jobs=1)
    assert [run.form for run in found.runs] == ["", ""]
    assert not [line for line in above(found) if "step" in line]


def test_rows_that_differ_in_a_key_that_is_not_compared_are_warned_of() -> None:
    vary = {"protocol": [{"name": "isolated", "step": "explicit"}, {"name": "consensus", "step": "implicit"}]}
    found = compare(Experiment.from_dict({**TABLE, "learner": {**TABLE["learner"], "step_size": 0.2}}), vary, jobs=1)
    warning = 'warning: rows differ in protocol.step, which is not compared: "explicit" in isolated; "implicit" in'
    assert warning in tables.as_text(found)
    assert "step = " not in above(found)[0]


@pytest.mark.parametrize(
    ("vary", "keys"),
    [
        ({"protocol.name": ["isolated", "consensus"]}, set()),
        ({"protocol": [{"name": "consensus", "penalty": 0.1}, {"name": "consensus", "penalty": 0.2}]}, set()),
        ({"protocol.penalty": [0.1, 0.2], "learner.step_size": [0.1, 0.2]}, set()),
        ({"learner.kernel.name": ["gaussian", "laplacian"]}, set()),
        ({"learner": [{"name": "polk", "batch_size": 2}, {"name": "ogd", "batch_size": 1}]}, {"learner.batch_size"}),
        ({"topology": [{"name": "ring", "nodes": 4}, {"name": "path", "nodes": 5}]}, {"topology.nodes"}),
    ],
    ids=["names", "values of one part", "keys", "inner names", "learners", "networks"],
)
def test_keys_that_are_compared_are_not_warned_of(vary: dict[str, list[Any]], keys: set[str]) -> None:
    protocol = {"name": "consensus", "step": "implicit"}
    found = compare(Experiment.from_dict({**TABLE, "rounds": 2, "protocol": protocol}), vary, jobs=1)
    unasked = set(differing_keys(found))
    if "learner" in vary:  # defaults of the two learners may differ besides
        assert keys <= unasked
    else:
        assert unasked - {"protocol.step", "protocol.form"} == keys


# Verdicts


def test_a_verdict_is_marked_at_its_figure_and_explained() -> None:
    found = rows_of([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    verdict = {"worse_than_constant": "worse than the constant prediction", "everything_kept": "everything kept"}
    runs = tuple(replace(run, verdict=verdict) if run.cell == 1 and run.seed else run for run in found.runs)
    found = replace(found, runs=runs)
    assert column(found, "risk")[1].endswith(" †")
    assert column(found, "model order")[1].endswith(" §")
    assert not any(mark in cell for cell in (column(found, "risk")[0], *column(found, "error")) for mark in "†‡§")
    text = tables.as_text(found)
    assert "† protocol = consensus, 2 of 3 runs: risk 5.0 ± 1.0, of the best constant " in text
    assert "; seed 1: worse than the constant prediction" in text
    assert "§ protocol = consensus, 2 of 3 runs: model order 1; seed 1: everything kept" in text
    assert r"^{\dagger}$" in tables.as_latex(found)
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert [line["verdict"] for line in lines] == ["", "worse_than_constant; everything_kept"]
    assert under(rows_of([[1.0]]), rows_of([[1.0]]).rows()) == []


# Random choices


@pytest.mark.parametrize("name", ["random_features", "rls", "raker", "adaraker", "dual_sgd", "bogd", "npbsgd"])
def test_each_seed_has_its_own_draw_which_all_nodes_share_unless_a_key_gives_it(name: str) -> None:
    def seeds(of: int, **keys: Any) -> set[int]:
        other = {"nodes": [1], "learner": {"loss": "huber"}}, {"nodes": [2], "learner": {"name": name}}
        learner = {"name": name, "kernel": {"name": "gaussian", "bandwidth": 0.2}, **keys}
        if name == "rls":
            other = other[1:]
        table = {**TABLE, "learner": learner, "protocol": "isolated", "seed": of, "node": other}
        return {plan.learner.seed for plan in open_network(Experiment.from_dict(table)).plans}  # type: ignore[attr-defined]

    found = [seeds(seed) for seed in range(3)]
    assert [len(each) for each in found] == [1, 1, 1] and len(set.union(*found)) == 3
    assert min(abs(a - b) for a in found[0] for b in found[1]) > 1000  # members of mixtures count up from it
    assert seeds(0, seed=7) == seeds(1, seed=7) == {7}
    large = [max(seeds(seed)) for seed in (2**31, 2**40, 2**62)]
    assert len({*large}) == 3 and max(large) < 2**63  # as many bits as an experiment file holds


def test_a_draw_of_the_experiments_seed_gives_no_node_a_learner_of_its_own() -> None:
    table = {**TABLE, "learner": "random_features", "protocol": "centralized", "node": [{"nodes": [1], "data": False}]}
    resolved = open_network(Experiment.from_dict({**table, "seed": 3})).experiment.to_dict()
    assert (
        open_network(Experiment.from_dict(resolved)).experiment.to_dict() == resolved
    )  # as a run's config.toml is read


def test_a_table_names_what_all_of_its_seeds_share() -> None:
    found = rows_of([[1.0, 2.0], [2.0, 3.0]])
    fixed = {"learner": {"name": "rls", "seed": 3}, "topology": {"name": "file"}, "stream": {"test_path": "x.csv"}}
    cells = found.cells[0], replace(found.cells[1], config={**fixed, "seed": 5, "node": [{"learner": {"seed": 4}}]})
    notes = under(replace(found, cells=cells), found.rows())
    assert [note.partition(" is ")[0] for note in notes] == [
        "learner.seed = 3 or 4",
        "all seeds have the same network and test rows, from a file",
    ]
    assert under(replace(found, cells=cells, runs=found.runs[::2]), found.rows()) == []
    assert not any("seed" in note for note in under(found, found.rows()))


def test_runs_without_a_result_count_as_failed_in_a_comparison() -> None:
    table = {**TABLE, "rounds": 8, "protocol": {"name": "isolated", "step": "explicit"}}
    learner = [{"name": "linear", "step_size": 6.0}, {"name": "linear", "step_size": 0.05}]
    found = compare(Experiment.from_dict(table), {"learner": learner}, seeds=2, jobs=1)
    wild, tame = found.rows()
    assert (wild.done, wild.failed, tame.done) == (0, 2, 2)
    assert all("ended with risk" in reason and "learner.step_size = 6" in reason for reason in wild.reasons)
    text = tables.as_text(found)
    assert text.count("failed: learner = linear, step_size = 6.0: node ") == 1 and "(and 1 more run alike)" in text
    lines = list(csv.DictReader(io.StringIO(tables.runs_csv(found))))
    assert all(float(line["constant_risk"]) > 0 for line in lines if not line["reason"])
