"""Comparisons: which cells there are, that each is run and counted as it ended, and that nothing is left behind."""

from __future__ import annotations

import csv
import multiprocessing
import textwrap
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.comparison import comparison_runs
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import Plan, cells, parse_vary, read_compare
from kernelswarm.simulations.records.outcome import gather
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.records.run_folder import read
from kernelswarm.simulations.running import simulation as running
from tests.helpers.small_comparisons import TABLE, experiment


def invented(tried: Experiment, observe: Callable[[Any], None] | None = None, *_: Any, **__: Any) -> Result:
    """Stand for a simulation: the risk says which cell and seed it is, isolated nodes diverge with odd seeds."""
    config = tried.to_dict()
    graph: nx.Graph[int] = nx.path_graph(2)
    rounds = np.array([10, 20, 30, 40])
    penalty = float(config["protocol"].get("penalty", 0.0))
    network = {"round": rounds, "samples": rounds * 1.0, "risk": 1.0 / rounds + tried.seed + 100 * penalty}
    final = {"round": 40.0, "risk": float(network["risk"][-1]), "violation": None}
    result = Result(config, graph, network=network, summary={"status": "done", "final": final})
    if config["protocol"]["name"] == "isolated" and tried.seed % 2:
        result.summary |= {"status": "failed", "reason": "node 1 diverged in round 30"}
        raise SimulationError("node 1 diverged in round 30", partial=result)
    if config["protocol"]["name"] == "proximity":
        raise InputError("protocol.step must be implicit here")
    return result


# Which cells there are


def test_cells_are_the_product_in_the_order_of_the_lists() -> None:
    vary = {"protocol.name": ["isolated", "consensus"], "topology.name": ["ring", "complete"]}
    found = cells(TABLE, vary)
    assert [cell.labels for cell in found] == [(p, t) for p in vary["protocol.name"] for t in vary["topology.name"]]
    for cell in found:
        built = Experiment.from_dict(cell.config)
        assert (built.to_dict()["protocol"]["name"], built.to_dict()["topology"]["name"]) == cell.labels
        assert built.to_dict()["topology"]["nodes"] == 5  # what both topologies know is kept
    assert TABLE["topology"]["name"] == "erdos_renyi"


def test_keys_of_another_part_are_dropped_with_its_name() -> None:
    resolved = experiment().to_dict()
    (isolated,) = cells(resolved, {"protocol.name": ["isolated"]})
    assert isolated.config["protocol"] == {"name": "isolated"}
    (matern,) = cells(resolved, {"learner.kernel.name": ["matern"]})
    assert matern.config["learner"]["kernel"] == {"name": "matern", "bandwidth": 0.2}
    Experiment.from_dict(matern.config)


def test_tables_replace_tables_and_partial_ones_change_keys() -> None:
    vary: dict[str, list[Any]] = {
        "protocol": [
            {"name": "isolated"},
            {"name": "consensus", "penalty": 0.3},
            {"name": "consensus", "penalty": 0.4},
        ],
        "learner.kernel": [{"bandwidth": 0.5}],
    }
    found = cells(TABLE, vary)
    assert [cell.labels[0] for cell in found] == ["isolated", "consensus, penalty = 0.3", "consensus, penalty = 0.4"]
    assert found[1].config["protocol"] == {"name": "consensus", "penalty": 0.3}
    assert found[1].config["learner"]["kernel"] == {"name": "gaussian", "bandwidth": 0.5}


def test_a_label_names_its_table_and_stays_out_of_the_experiment() -> None:
    (cell,) = cells(TABLE, {"protocol": [{"label": "no talk", "name": "isolated"}]})
    assert cell.labels == ("no talk",)
    assert cell.config["protocol"] == {"name": "isolated"}


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"protocol.penalti": [1.0]}, "penalti.*penalty"),
        ({"protocl.name": ["isolated"]}, "protocl"),
        ({"protocol.name": ["consensu"]}, "consensu.*consensus"),
        ({"rounds": []}, "rounds"),
        ({"rounds": "50"}, "list of values"),
        ({"seed": [1, 2]}, "--seeds"),
        ({"learner.step_size": [0.1, -1.0]}, "step_size = -1"),
    ],
)
def test_wrong_variations_are_refused_before_anything_runs(
    vary: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "simulate", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(InputError, match=message):
        compare(experiment(), vary, jobs=1, out=tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_options_are_read_as_in_the_file() -> None:
    options = [
        "protocol.name=isolated, consensus",
        'protocol={name="consensus",penalty=0.1},{name="isolated"}',
        "a.b=[1,2],3",
    ]
    assert parse_vary(options) == {
        "protocol.name": ["isolated", "consensus"],
        "protocol": [{"name": "consensus", "penalty": 0.1}, {"name": "isolated"}],
        "a.b": [[1, 2], 3],
    }
    for wrong in (["protocol.name"], ["=1"], ["rounds="], ["rounds=1", "rounds=2"]):
        with pytest.raises(InputError, match="--vary"):
            parse_vary(wrong)


def test_the_file_says_what_to_vary_and_options_come_first(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        textwrap.dedent(
            """
            rounds = 5
            [compare]
            seeds = 4
            [compare.vary]
            topology.name = ["ring", "star"]
            protocol = [{ name = "isolated" }, { name = "consensus", penalty = 0.02 }]
            """
        )
    )
    plan = read_compare(path)
    assert read_compare(path, ["rounds=3", "compare.tune=true", "compare.seeds=2"]) == replace(plan, tune=True, seeds=2)
    with pytest.raises(InputError, match=r"compare\.tuned is not known"):
        read_compare(path, ["compare.tuned=true"])
    protocols = [{"name": "isolated"}, {"name": "consensus", "penalty": 0.02}]
    assert plan == Plan({"topology.name": ["ring", "star"], "protocol": protocols}, 4)
    assert plan.with_options() == plan
    assert plan.with_options({"rounds": [1, 2]}, 7) == Plan({"rounds": [1, 2]}, 7)
    tables = [{"name": "isolated"}, {"name": "consensus", "form": "symmetric"}]
    assert plan.with_options({"protocol": tables}) == Plan({"protocol": tables}, 4)
    narrowed = plan.with_options({"protocol.name": ["consensus", "centralized"]})
    assert narrowed == Plan({"protocol": [protocols[1], {"name": "centralized"}]}, 4)
    path.write_text("rounds = 5\n")
    assert read_compare(path) == Plan({}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "compare = 1",
        "[compare]\nseed = 1",
        "[compare]\nseeds = 0",
        "[compare]\nseeds = 1.5",
        "[compare.vary]\nrounds = 5",
        "[[[",
    ],
)
def test_wrong_tables_are_refused_with_the_file_and_the_key(text: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"experiment\.toml"):
        read_compare(path)


# What becomes of the runs


def test_rows_are_means_and_deviations_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_runs, "simulate", invented)
    found = compare(experiment(), {"protocol.penalty": [0.1, 0.2]}, seeds=3, jobs=1)
    assert [run.seed for run in found.runs] == [3, 4, 5] * 2
    for row, penalty in zip(found.rows(), (0.1, 0.2), strict=True):
        risks = [1 / 40 + seed + 100 * penalty for seed in (3, 4, 5)]
        assert row.mean["risk"] == pytest.approx(np.mean(risks))
        assert row.deviation["risk"] == pytest.approx(np.std(risks, ddof=1))
        assert np.isnan(row.mean["violation"]) and np.isnan(row.mean["error"])
    series = found.series(0, "risk")
    assert series is not None
    np.testing.assert_allclose(series.values, 1 / series.samples[:, None] + np.array([3, 4, 5]) + 10.0)


def test_risk_change_is_paired_by_seed_and_circumstances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_runs, "simulate", invented)
    vary: dict[str, list[Any]] = {"topology.name": ["ring", "complete"], "protocol.penalty": [0.1, 0.3]}
    first, second, third, fourth = compare(experiment(), vary, seeds=3, jobs=1).rows()
    for reference in (first, third):
        assert np.isnan(reference.mean["risk_change"])
    for changed in (second, fourth):
        assert changed.mean["risk_change"] == pytest.approx(20.0)
        assert changed.deviation["risk_change"] == pytest.approx(0.0, abs=1e-9)  # though the risks of the seeds differ
    # Isolated nodes are the reference wherever they stand, with the seeds that did not fail.
    found = compare(experiment(seed=2), {"protocol.name": ["consensus", "isolated"]}, seeds=3, jobs=1)
    assert found.reference(0) == 1
    assert found.rows()[0].mean["risk_change"] == pytest.approx(5.0)


def test_a_failed_run_is_recorded_and_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_runs, "simulate", invented)
    reports: list[ComparisonProgress] = []
    names = ["isolated", "consensus", "proximity"]
    found = compare(experiment(), {"protocol.name": names}, seeds=3, jobs=1, observe=reports.append)
    isolated, consensus, proximity = found.rows()
    assert (isolated.done, isolated.failed, isolated.reasons) == (1, 2, ("node 1 diverged in round 30",))
    assert isolated.mean["risk"] == pytest.approx(1 / 40 + 4)
    assert (consensus.done, consensus.failed) == (3, 0)
    assert (proximity.done, proximity.reasons) == (0, ("protocol.step must be implicit here",))
    assert len(found.failed) == 5
    last = reports[-1]
    assert (last.done, last.total, last.failed, last.share) == (9, 9, 5, 1.0)
    assert all(a.share <= b.share for a, b in pairwise(reports))
    assert last.latest == "proximity, seed 5: failed"


def test_what_every_run_refuses_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(running, "simulate", invented)
    with pytest.raises(InputError, match="must be implicit here"):
        compare(experiment(), {"protocol.name": ["proximity"]}, seeds=2, jobs=1, out=tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_results_are_gathered_by_what_they_have_in_common() -> None:
    results = [
        invented(experiment(seed=seed, protocol={"name": "consensus", "penalty": c}))
        for c in (0.1, 0.2)
        for seed in (0, 2)
    ]
    found = gather(results[::-1])
    assert found.keys == ("protocol",)
    assert [cell.labels for cell in found.cells] == [("consensus, penalty = 0.2",), ("consensus, penalty = 0.1",)]
    assert [(run.cell, run.seed) for run in found.runs] == [(0, 0), (0, 2), (1, 0), (1, 2)]


@pytest.mark.usefixtures("blank")
def test_processes_give_the_same_as_one_and_everything_is_written(tmp_path: Path) -> None:
    vary = {"protocol.name": ["isolated", "consensus"]}
    alone = compare(experiment(), vary, seeds=1, jobs=1)
    found = compare(experiment(), vary, seeds=1, jobs=2, out=tmp_path / "out")
    assert found.folder == tmp_path / "out"
    assert multiprocessing.active_children() == []
    for one, other in zip(alone.runs, found.runs, strict=True):
        assert other.folder is not None
        result = read(other.folder)
        assert result.summary["protocol"] == found.cells[other.cell].labels[0]
        assert one.final["risk"] == other.final["risk"] == result.final["risk"]
        for name in ("risk", "error", "model_order", "disagreement"):
            np.testing.assert_array_equal(one.network[name], other.network[name])
            np.testing.assert_array_equal(one.network[name], result.network[name])
    names = {path.name for path in (tmp_path / "out").iterdir()}
    kinds = {f"comparison.{kind}" for kind in ("txt", "csv", "md", "tex")}
    assert names == kinds | {"runs.csv", "pairs.csv", "experiment.toml", "runs", "figures"}
    assert {"risk.png", "final.png"} <= {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    with open(tmp_path / "out" / "runs.csv", newline="") as file:
        assert [line["folder"] for line in csv.DictReader(file)] == ["runs/isolated/seed_3", "runs/consensus/seed_3"]


def test_learners_are_held_against_the_first_where_there_is_one_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(tried: Experiment, observe: Any) -> Result:
        result = invented(tried)
        worse = 7.0 if tried.to_dict()["learner"]["name"] == "linear" else 0.0
        result.summary["final"]["risk"] += worse
        return result

    monkeypatch.setattr(comparison_runs, "simulate", slow)
    learners = {"learner.name": ["polk", "linear"]}
    for vary, references in (
        (learners, [0, 0]),
        ({**learners, "protocol.name": ["consensus"]}, [0, 0]),
        ({"protocol.name": ["consensus"], **learners}, [0, 0]),
        ({**learners, "topology.name": ["ring", "star"]}, [0, 1, 0, 1]),
        ({**learners, "protocol.name": ["centralized", "consensus"]}, [0, 0, 2, 2]),
    ):
        found = compare(experiment(seed=2), vary, seeds=2, jobs=1)
        assert [found.reference(cell) for cell in range(len(found.cells))] == references
        for cell, row in enumerate(found.rows()):
            one, other = (found.cells[place].config["learner"]["name"] for place in (cell, references[cell]))
            change = row.mean["risk_change"]
            if one != other:
                assert change == pytest.approx(7.0)
            assert np.isnan(change) == (references[cell] == cell)


def test_where_every_run_failed_there_is_no_table_but_the_first_reason(tmp_path: Path) -> None:
    diverging = experiment(protocol={"name": "isolated", "step": "explicit"})
    learner = [{"name": "linear", "step_size": size} for size in (6.0, 7.0)]
    for out in (None, tmp_path / "out"):
        with pytest.raises(
            SimulationError, match=r"^all 4 runs failed, the first of them: node .*step_size = 6"
        ) as failed:
            compare(diverging, {"learner": learner}, seeds=2, jobs=1, out=out)
        assert "\n" not in str(failed.value)
        assert (str(tmp_path) in str(failed.value)) == (out is not None)
