"""MLflow and Weights & Biases: they receive every row of the network's table, by calls that their libraries have."""

from __future__ import annotations

import inspect
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running import trackers
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.state import State
from kernelswarm.simulations.running.trackers import tracked
from tests.helpers.small_comparisons import experiment, finite

SMALL = experiment(rounds=10, evaluate_every=5)


class Calls:
    """In the place of a library: writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def answering(self, name: str, answer: Any = None) -> Callable[..., Any]:
        """Return a function that answers something, or with its arguments."""

        def call(*values: Any, **named: Any) -> Any:
            self.calls.append((name, values, named))
            return values if answer is None else answer

        return call

    def named(self, name: str) -> list[dict[str, Any]]:
        return [named for called, _, named in self.calls if called == name]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")  # what an import would set for good
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


CLIENT = {
    "get_experiment_by_name": SimpleNamespace(experiment_id="7"),
    "create_run": SimpleNamespace(info=SimpleNamespace(run_id="r")),
    "log_batch": None,
    "set_terminated": None,
}


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    client = SimpleNamespace(**{name: calls.answering(name, answer) for name, answer in CLIENT.items()})
    library, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    vars(library).update(entities=entities, MlflowClient=calls.answering("MlflowClient", client))
    vars(entities).update(Metric=calls.answering("Metric"), Param=calls.answering("Param"))
    monkeypatch.setitem(sys.modules, "mlflow", library)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return calls


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    run = SimpleNamespace(log=calls.answering("log"), finish=calls.answering("finish"))
    library = ModuleType("wandb")
    vars(library).update(init=calls.answering("init", run), Settings=calls.answering("Settings"))
    monkeypatch.setitem(sys.modules, "wandb", library)
    return calls


def tracked_run(tracker: str, folder: Path) -> Result:
    with tracked(tracker, folder, SMALL) as callback:
        return simulate(SMALL, callbacks=[callback])


def test_mlflow_receives_every_finite_figure_and_every_key(mlflow: Calls, tmp_path: Path) -> None:
    result = tracked_run("mlflow", tmp_path / "runs" / "one")
    batches = mlflow.named("log_batch")
    metrics = [metric for batch in batches for metric in batch.get("metrics", ())]
    assert {(name, value, round) for name, value, _, round in metrics} == finite(result)
    assert len(metrics) == len(finite(result))
    params = dict(param for batch in batches for param in batch.get("params", ()))
    assert params["learner.kernel.bandwidth"] == "0.2" and params["learner.name"] == "polk" and params["rounds"] == "10"
    assert mlflow.named("MlflowClient") == [
        {"tracking_uri": f"sqlite:///{(tmp_path / 'runs' / 'mlflow.db').as_posix()}"}
    ]
    assert mlflow.named("create_run") == [{"run_name": "one"}]
    assert mlflow.named("set_terminated") == [{"status": "FINISHED"}]


def test_mlflow_goes_to_the_server_that_is_named(
    mlflow: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    tracked_run("mlflow", tmp_path / "runs" / "one")
    assert mlflow.named("MlflowClient") == [{"tracking_uri": "http://server:5000"}]
    assert not any(tmp_path.iterdir())


def test_no_call_holds_more_than_mlflow_takes(mlflow: Calls, tmp_path: Path) -> None:
    writer = trackers.MLflow(tmp_path / "one", {f"key{place}": place for place in range(250)})
    for round in range(25):
        writer.write(round, {f"figure{place}": 0.5 for place in range(100)})
    writer.close(failed=False)
    batches = mlflow.named("log_batch")
    assert [len(batch["params"]) for batch in batches if "params" in batch] == [100, 100, 50]
    assert [len(batch["metrics"]) for batch in batches if "metrics" in batch] == [1000, 1000, 500]


def test_wandb_receives_every_finite_figure_offline(wandb: Calls, tmp_path: Path) -> None:
    result = tracked_run("wandb", tmp_path / "one")
    rows = [(values[0], named["step"]) for name, values, named in wandb.calls if name == "log"]
    assert {(name, value, round) for row, round in rows for name, value in row.items()} == finite(result)
    (begun,) = wandb.named("init")
    assert (begun["mode"], begun["dir"], begun["name"]) == ("offline", str(tmp_path / "one"), "one")
    assert begun["config"]["learner"]["kernel"]["bandwidth"] == 0.2
    assert wandb.named("finish") == [{"exit_code": 0}]


def test_wandb_is_online_where_it_is_asked_to_be(wandb: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    tracked_run("wandb", tmp_path / "one")
    assert [(begun["mode"], begun["project"]) for begun in wandb.named("init")] == [("online", "mine")]


def test_a_run_that_breaks_is_marked_as_failed(mlflow: Calls, wandb: Calls, tmp_path: Path) -> None:
    def broken(state: State) -> None:
        raise ValueError

    for tracker in ("mlflow", "wandb"):
        with pytest.raises(SimulationError), tracked(tracker, tmp_path / "one", SMALL) as callback:
            simulate(SMALL, callbacks=[callback, broken])
    assert mlflow.named("set_terminated") == [{"status": "FAILED"}] and wandb.named("finish") == [{"exit_code": 1}]
    assert any(batch.get("metrics") for batch in mlflow.named("log_batch"))


def test_mlflow_has_the_calls_and_its_database_the_figures(mlflow: Calls, tmp_path: Path) -> None:
    tracked_run("mlflow", tmp_path / "fake" / "one")
    for name in ("mlflow", "mlflow.entities"):
        del sys.modules[name]  # the fixture's
    real = pytest.importorskip("mlflow", reason="an extra")
    entities = pytest.importorskip("mlflow.entities")
    for name, values, named in mlflow.calls:
        if name in CLIENT:
            inspect.signature(getattr(real.MlflowClient, name)).bind(None, *values, **named)
        else:
            where = real if name == "MlflowClient" else entities
            inspect.signature(getattr(where, name)).bind(*values, **named)
    result = tracked_run("mlflow", tmp_path / "one")
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        found = database.execute("SELECT key, value, step FROM metrics").fetchall()
        (status,) = database.execute("SELECT status FROM runs").fetchone()
    assert set(found) == finite(result) and status == "FINISHED"


def test_wandb_has_the_calls_and_its_file_the_figures(wandb: Calls, tmp_path: Path) -> None:
    tracked_run("wandb", tmp_path / "fake")
    del sys.modules["wandb"]
    real = pytest.importorskip("wandb", reason="an extra")
    for name, values, named in wandb.calls:
        owner, own = (real.Run, (None,)) if name in ("log", "finish") else (real, ())
        inspect.signature(getattr(owner, name)).bind(*own, *values, **named)
    result = tracked_run("wandb", tmp_path / "one")
    (path,) = tmp_path.glob("one/wandb/offline-run-*/run-*.wandb")
    real.teardown()  # waits for the process that writes
    written = path.read_bytes()
    assert all(repr(value).encode() in written for value in result.network["risk"].tolist())
