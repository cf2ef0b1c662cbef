"""The protocol batch: which samples are fitted, and that what comes out is a run like any other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
import tomli_w
from matplotlib.figure import Figure

from kernelswarm import load_model
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import cells, plots, sheet
from kernelswarm.simulations.figures.learned import rebuild
from kernelswarm.simulations.running import batch
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Progress, resume, run, simulate
from tests.helpers.command_line import Command, commands

call = pytest.fixture(commands)

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
POLK = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}, "step_size": 0.2, "batch_size": 2}


def experiment(protocol: Any = "batch", stream: Any = "sine_regression", **keys: Any) -> Experiment:
    tables = {"topology": GRAPH, "stream": stream, "learner": POLK, "protocol": protocol, "rounds": 30}
    return Experiment.from_dict({**tables, "evaluation": {"local_samples": 50}, **keys})


def written(folder: Path, rows: int = 200, classes: int = 0, test: int = 40, seed: int = 0) -> dict[str, Any]:
    """Write data of four nodes with unequal numbers of rows, and return the stream that reads it."""
    random = np.random.default_rng(seed)
    x = random.random((rows + test, 2))
    y = np.sin(6 * x[:, 0]) + x[:, 1] + 0.1 * random.normal(size=rows + test)
    if classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, classes) / classes), y)
    node = np.array([0, 1, 2, 7, 7])[np.arange(rows) % 5]
    parts = {"x": x[:rows], "y": y[:rows], "node": node, "x_test": x[rows:], "y_test": y[rows:]}
    np.savez(folder / "data.npz", **parts)
    return {
        "name": "file",
        "path": str(folder / "data.npz"),
        "standardize": False,
    }  # rows are known by their numbers


def drawn(description: Experiment, rounds: int) -> tuple[Any, Any]:
    """The samples of all nodes in so many rounds, as the nodes draw them."""
    sources, size = open_network(description).source.nodes, description.learner.batch_size
    samples = [source.draw(rounds * size) for source in sources]
    points, targets = zip(*samples, strict=True)
    return np.concatenate(points), np.concatenate(targets)


def as_rows(array: Any) -> set[tuple[float, ...]]:
    return set(map(tuple, np.asarray(array).tolist()))


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What the solver is given, run by run."""
    seen: list[tuple[Any, Any]] = []
    original = batch.fit

    def fit(kernel: Any, loss: Any, outputs: int, points: Any, targets: Any, *rest: Any) -> Any:
        seen.append((points, targets))
        return original(kernel, loss, outputs, points, targets, *rest)

    monkeypatch.setattr(batch, "fit", fit)
    return seen


# What is fitted


def test_model_is_kernel_ridge_on_all_samples_of_the_run() -> None:
    description = experiment()
    result = simulate(description)
    points, targets = drawn(description, 30)
    assert len(points) == 4 * 30 * 2
    gram = Gaussian(0.3).cross(points, points)
    weight = len(points) * result.summary["backend"]["regularization"] / 2  # of the squared loss, whose curvature is 2
    expected = gram @ np.linalg.solve(gram + weight * np.eye(len(points)), targets)
    found = load(result).values(points)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def load(result: Any) -> Any:
    return rebuild(result).function(0)


def test_rows_of_a_file_count_once_however_many_epochs_there_are(tmp_path: Path, fitted: list[Any]) -> None:
    stream = written(tmp_path)
    with np.load(tmp_path / "data.npz") as data:
        rows, answers = data["x"], data["y"]
    digests = set()
    for epochs, rounds in ((1, 500), (3, 500), (3, 60)):
        result = simulate(experiment(stream={**stream, "epochs": epochs}, rounds=rounds))
        points, targets = fitted[-1]
        assert sorted(map(tuple, points.tolist())) == sorted(map(tuple, rows.tolist()))
        assert sorted(targets[:, 0]) == sorted(answers)
        digests.add(result.summary["digest"])
    assert len(digests) == 1


def test_rounds_end_before_the_data_does(tmp_path: Path, fitted: list[Any]) -> None:
    stream = {**written(tmp_path), "order": "file"}
    simulate(experiment(stream=stream, rounds=5))
    with np.load(tmp_path / "data.npz") as data:
        nodes = [data["x"][data["node"] == node] for node in (0, 1, 2, 7)]
    np.testing.assert_array_equal(fitted[0][0], np.concatenate([rows[:10] for rows in nodes]))


def test_of_more_samples_an_even_choice_is_fitted_and_said(fitted: list[Any]) -> None:
    protocol = {"name": "batch", "rows": 50, "landmarks": 20}
    description = experiment(protocol, rounds=700)  # 1,400 of each node, which sources hand out in several draws
    results = [simulate(description) for _ in range(2)]
    assert len(as_rows(fitted[0][0])) == 50 and as_rows(fitted[0][0]) <= as_rows(drawn(description, 700)[0])
    assert results[0].summary["digest"] == results[1].summary["digest"]
    assert results[0].summary["digest"] != simulate(description.with_changes({"seed": 1})).summary["digest"]
    counted = results[0].summary["backend"]
    assert (counted["samples"], counted["rows"], counted["landmarks"]) == (5600, 50, 20)
    assert results[0].final["model_order"] == 20


def test_nodes_give_in_proportion_to_what_they_have() -> None:
    counts = np.array([10_000, 0, 1, 30_000, 5])
    owned = [
        np.stack([np.full(count, node), np.arange(count)], axis=1, dtype=float) for node, count in enumerate(counts)
    ]
    sources = [FiniteSource(rows, rows[:, 1:], HeldOut(rows[:1], rows[:1, 1:]), 1) for rows in owned]
    points, targets = batch.collect(sources, counts.tolist(), 400, seed=3)
    np.testing.assert_array_equal(points[:, 1:], targets)
    shares = np.bincount(points[:, 0].astype(int), minlength=5)
    assert shares.sum() == 400 and np.abs(shares - 400 * counts / counts.sum()).max() <= 1.0
    for node in (0, 3):
        places = points[points[:, 0] == node, 1]
        assert (np.diff(places) > 0).all() and np.histogram(places, bins=4, range=(0, counts[node]))[0].min() > 10


def test_held_out_samples_are_never_fitted(tmp_path: Path, fitted: list[Any]) -> None:
    for stream in ("sine_regression", "drifting", written(tmp_path), {**written(tmp_path), "node_column": ""}):
        description = experiment(stream=stream, rounds=80)
        simulate(description)
        source = open_network(description).source
        held_out = [node.held_out(160) for node in source.nodes]
        points = as_rows(fitted[-1][0])
        assert not any(points & as_rows(one.points) for one in held_out), stream


# How good it is

COMMON: list[tuple[Any, str, float]] = [
    ("sine_regression", "squared", 0.1),
    ({"name": "gaussian_mixture", "classes": 2}, "hinge", 0.8),
    ({"name": "gaussian_mixture", "classes": 5}, "multiclass_logistic", 0.8),
]


@pytest.mark.parametrize(("stream", "loss", "bandwidth"), COMMON)
def test_no_online_row_is_better_on_a_common_target(stream: Any, loss: str, bandwidth: float) -> None:
    learner = {**POLK, "loss": loss, "kernel": {"name": "gaussian", "bandwidth": bandwidth}}
    protocol = {"name": "consensus", "form": "symmetric", "step": "implicit"}
    rows: dict[str, Any] = {
        "isolated": {"name": "isolated", "step": "implicit"},
        "consensus": protocol,
        "centralized": {"name": "centralized", "step": "implicit"},
        "batch": {"name": "batch", "landmarks": 40},
    }
    final = {label: simulate(experiment(row, stream, learner=learner, rounds=100)).final for label, row in rows.items()}
    best = min(final[label]["global_risk"] for label in rows if label != "batch")
    assert final["batch"]["global_risk"] <= best


# That it is a run like any other


def test_it_counts_what_sending_every_sample_costs(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = simulate(experiment(stream={**written(tmp_path), "epochs": 4}, rounds=1000))
    assert result.final["scalars_sent"] == 200 * (2 + 1)
    assert simulate(experiment()).final["scalars_sent"] == simulate(experiment("centralized")).final["scalars_sent"]
    tables = experiment(stream={**written(tmp_path), "epochs": 4}, rounds=1000).to_dict()
    tables["topology"] = {"name": "ring", "nodes": 4}
    tables["stream"]["node_column"] = ""
    Path("own.toml").write_text(tomli_w.dumps(tables))
    lines = {" ".join(line.split()) for line in call("check", "own.toml").out.splitlines()}
    assert "sent in the whole run 4.8 kB" in lines
    assert "execution one solver after the last round, on all 200 samples" in lines
    answer = call("check", "own.toml", "--set", "protocol.rows=90")
    lines = {" ".join(line.split()) for line in answer.out.splitlines()}
    assert "execution one solver after the last round, on 90 of 200 samples, chosen evenly" in lines
    answer = call("run", "own.toml", "--set", "protocol.rows=90", "--no-figures", "--out", "own")
    assert "fitted to 90 of 200 samples" in {" ".join(line.split()) for line in answer.out.splitlines()}


def test_every_node_is_measured_once_by_the_one_model(tmp_path: Path, sketched: list[Figure]) -> None:
    description = experiment(stream="sensor_field", evaluate_every=7)
    result = run(description, tmp_path / "run").result
    np.testing.assert_array_equal(result.network["round"], [30])
    np.testing.assert_array_equal(result.nodes["node"], [0, 1, 2, 7])
    model = load_model(tmp_path / "run")
    source = open_network(description).source
    for place in range(4):
        held_out = source.nodes[place].held_out(60)
        risk = np.mean((model.predict(held_out.points) - held_out.targets[:, 0]) ** 2)
        assert result.nodes["risk"][place] == pytest.approx(risk, rel=1e-9)
    assert {path.name for path in plots.draw(result, tmp_path / "figures")} >= {"functions.png", "network.png"}
    assert len(sketched) >= 2


def test_backend_and_execution_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any, *arguments: Any) -> Any:
        raise AssertionError("there is nothing for actors to do")

    monkeypatch.setattr(Ray, "start", refused)
    serial, ray = simulate(experiment()), simulate(experiment(backend={"name": "ray"}))
    assert serial.summary["digest"] == ray.summary["digest"]
    assert ray.summary["backend"]["name"] == "batch"


@pytest.mark.parametrize("end", [30, 60])
def test_resumed_runs_end_as_if_in_one_go(end: int, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def observe(progress: Progress) -> None:
        if progress.done >= 20:
            raise Killed

    description = experiment(checkpoint_every=10)
    with pytest.raises(Killed):
        run(description, tmp_path / "killed", observe)
    assert (tmp_path / "killed" / "checkpoints").is_dir()
    whole = simulate(description.with_changes({"rounds": end}))
    finished = resume(tmp_path / "killed", [f"rounds={end}"])
    assert finished.result.summary["digest"] == whole.summary["digest"]
    assert finished.result.final["risk"] == whole.final["risk"]
    further = resume(tmp_path / "killed", [f"rounds={end + 30}"])  # a run that had come to its end
    longer = simulate(description.with_changes({"rounds": end + 30}))
    assert further.result.summary["digest"] == longer.summary["digest"]
    np.testing.assert_array_equal(further.result.network["round"], longer.network["round"])


def test_a_comparison_holds_it_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Figure] = {}

    def keep(figure: Figure, path: Path) -> Path:
        drawn[path.name] = figure
        return path

    monkeypatch.setattr(sheet, "save", keep)
    vary = {"protocol.name": ["isolated", "batch"]}
    found = compare(experiment("isolated", evaluate_every=10), vary, seeds=2, jobs=1, out=tmp_path / "out")
    assert [row.done for row in found.rows()] == [2, 2]
    assert found.rows()[1].mean["risk"] < found.rows()[0].mean["risk"]
    (panel,) = cells.panels(found, "risk")
    assert [len(curve.series.samples) for curve in panel.curves] == [3, 1]
    axes = drawn["risk.png"].axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "batch"]
    np.testing.assert_array_equal(line.get_xdata(), [20, 60])  # as far as the curves reach
    np.testing.assert_allclose(line.get_ydata(), found.rows()[1].mean["risk"])
    summary = json.loads((tmp_path / "out/runs/batch/seed_0/summary.json").read_text())
    assert summary["backend"]["samples"] == 240


# What is refused


@pytest.mark.parametrize(
    ("keys", "cause"),
    [
        ({"learner": {"name": "policy_evaluation"}, "stream": "markov_reward"}, "are no values of its function"),
        (
            {
                "learner": {"name": "spppot", "loss": {"name": "poisson_process", "low": [-4], "high": [4]}},
                "stream": "gaussian_density",
            },
            "no least value",
        ),
    ],
    ids=["bootstrapped targets", "integral"],
)
def test_what_cannot_be_fitted_is_refused_at_once(keys: dict[str, Any], cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        simulate(experiment(**keys))


@dataclass(frozen=True)
class Unlucky(Gaussian):
    """A user's own kernel with a mistake in it."""

    supremum: ClassVar[float | None] = 1.0

    def cross(self, points: Any, centers: Any) -> Any:
        raise LookupError("no such key")


def test_an_exception_of_a_users_own_part_is_named() -> None:
    learner = {**POLK, "kernel": Unlucky(1.0)}
    with pytest.raises(SimulationError, match=r"node 0 failed in round 30: LookupError: no such key \(test_batch.py"):
        simulate(experiment(learner=learner))
