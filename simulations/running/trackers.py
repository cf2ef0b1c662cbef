"""Measurements of a run for a tracker, written during the run: curves of many runs beside one another."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tomli_w

from kernelswarm.simulations.core.errors import InputError, leaves, nearest, plain, shown
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.state import State

PROJECT = "kernelswarm"
"""The name of MLflow's experiment and of the project of Weights & Biases."""


class Writer(Protocol):
    """The writer of a tracker's files."""

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        """Write the measurements after a round."""
        ...

    def close(self, failed: bool) -> None:
        """Write the remaining rows, and whether the run failed."""
        ...


class TensorBoard:
    """Writes the event files of TensorBoard, by tensorboardX.

    Parameters
    ----------
    folder : Path
        Made when it is missing. TensorBoard shows every folder with such files as a run.
    config : dict
        The experiment, written as a text.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._writer: Any = tensorboard_library().SummaryWriter(str(folder), flush_secs=10)
        indented = [f"    {line}" for line in tomli_w.dumps(config).splitlines()]  # so that it is shown as it is
        self._writer.add_text("experiment", "\n".join(indented), 0)

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, round)

    def close(self, failed: bool) -> None:
        self._writer.close()


class MLflow:
    """Writes a run of MLflow: to the database beside all runs, or to the server that MLFLOW_TRACKING_URI names.

    MLflow's plain files are refused by its present versions; a database is one file, and needs no server either.

    Parameters
    ----------
    folder : Path
        Its name is the run's, and the database ``mlflow.db`` lies beside it.
    config : dict
        The experiment; its keys are the run's parameters.
    """

    FLUSH = 10.0
    """Seconds between two writes: one row takes a database 20 to 80 ms, thirty rows at once 260."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from filelock import FileLock

        self._library = mlflow_library()
        if "MLFLOW_TRACKING_URI" not in os.environ:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / "mlflow.lock"):  # two processes at once would both make its tables
                self._begin(mlflow_place(folder), folder, config)
        else:
            self._begin(mlflow_place(folder), folder, config)

    def _begin(self, place: str, folder: Path, config: Mapping[str, Any]) -> None:
        entities = self._library.entities
        self._client: Any = self._library.MlflowClient(tracking_uri=place)
        found = self._client.get_experiment_by_name(PROJECT)
        number = self._client.create_experiment(PROJECT) if found is None else found.experiment_id
        self._run: str = self._client.create_run(number, run_name=folder.name).info.run_id
        parameters = [entities.Param(key, value) for key, value in leaves(config)]
        for first in range(0, len(parameters), 100):  # as many as a call may hold
            self._client.log_batch(self._run, params=parameters[first : first + 100])
        self._kept: list[Any] = []
        self._written = time.monotonic()

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        """Keep each figure as a metric at its round, and write all that are kept from time to time."""
        now = int(1000 * time.time())
        self._kept += [self._library.entities.Metric(name, value, now, round) for name, value in figures.items()]
        if time.monotonic() - self._written >= self.FLUSH:
            self._flush()

    def close(self, failed: bool) -> None:
        self._flush()
        self._client.set_terminated(self._run, status="FAILED" if failed else "FINISHED")

    def _flush(self) -> None:
        for first in range(0, len(self._kept), 1000):  # as many as a call may hold
            self._client.log_batch(self._run, metrics=self._kept[first : first + 1000])
        self._kept.clear()
        self._written = time.monotonic()


class WeightsAndBiases:
    """Writes a run of Weights & Biases, offline unless WANDB_MODE says otherwise.

    Parameters
    ----------
    folder : Path
        Its name is the run's, and its files go there; ``wandb sync`` uploads them.
    config : dict
        The experiment.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        library = wandb_library()
        folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            dir=str(folder),
            name=folder.name,
            config=dict(config),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",  # runs of one process are apart
            settings=library.Settings(console="off", silent=True, disable_git=True),
        )

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        self._run.log(dict(figures), step=round)

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


def tensorboard_library() -> Any:
    """Import tensorboardX."""
    import tensorboardX

    return tensorboardX


def mlflow_library() -> Any:
    """Import MLflow, which tells nobody that it is used unless a server is named."""
    if "MLFLOW_TRACKING_URI" not in os.environ:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read at the import
    import mlflow
    import mlflow.entities

    return mlflow


def wandb_library() -> Any:
    """Import wandb, which reports nothing unless WANDB_MODE says whether to be online."""
    if "WANDB_MODE" not in os.environ:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at the import
    import wandb

    return wandb


def mlflow_place(folder: Path) -> str:
    """Return the address of MLflow's store for a run that would have this folder."""
    if "MLFLOW_TRACKING_URI" in os.environ:
        return os.environ["MLFLOW_TRACKING_URI"]
    database = (folder.parent / "mlflow.db").resolve().as_posix()
    if set("?#%") & set(database):
        raise InputError(f"--track mlflow needs an address, and {database} is none with ?, # or %: use another --out")
    return f"sqlite:///{database}"


@dataclass(frozen=True)
class Tracker:
    """The functions that write for a tracker.

    Parameters
    ----------
    opened : callable
        Begins a run in a folder, given its experiment.
    library : callable
        Imports the tracker's library.
    package, extra : str
        The package to install, and the extra of ours that holds it.
    place : callable
        Says where a run with a folder is to be found.
    """

    opened: Callable[[Path, Mapping[str, Any]], Writer]
    library: Callable[[], Any]
    package: str
    extra: str
    place: Callable[[Path], str] = str


TRACKERS = {
    "tensorboard": Tracker(TensorBoard, tensorboard_library, "tensorboardX", "trackers"),
    "mlflow": Tracker(MLflow, mlflow_library, "mlflow", "mlflow", mlflow_place),
    "wandb": Tracker(WeightsAndBiases, wandb_library, "wandb", "wandb"),
}
"""The trackers that there are."""


def find(name: str) -> Tracker:
    """Return a tracker whose library is there.

    Raises
    ------
    InputError
        The tracker is unknown, or its library is not installed.
    """
    if name not in TRACKERS:
        raise InputError(f"track = {shown(name)} is unknown{nearest(name, TRACKERS)} (known: {', '.join(TRACKERS)})")
    tracker = TRACKERS[name]
    try:
        tracker.library()
    except ImportError as error:
        raise InputError(
            f'track = "{name}" needs {tracker.package}, which cannot be imported ({error}): pip install '
            f"kernelswarm[{tracker.extra}]"
        ) from error
    return tracker


@contextmanager
def tracked(tracker: str, folder: Path | str, experiment: Experiment) -> Iterator[Callable[[State], None]]:
    """Write the rows of the network's table for a tracker; yields a callback for ``run`` and ``simulate``.

    Figures that are not finite are left out. The callback changes nothing that is learned.

    Parameters
    ----------
    tracker : str
        One of ``TRACKERS``.
    folder : Path or str
        Where its files go, or, for a tracker that keeps all runs in one file, beside which.
    experiment : Experiment
        The experiment; its keys are written too.

    Raises
    ------
    InputError
        The tracker is unknown, or its library is not installed.
    """
    opened = find(tracker).opened
    writers: list[Writer] = []  # made with the first row: a refused run leaves no folder

    def write(state: State) -> None:
        if not writers:
            writers.append(opened(Path(folder), plain(experiment.to_dict())))
        row = {name: value for name, value in state.row.items() if name != "round" and math.isfinite(value)}
        writers[0].write(state.round, row)

    failed = True
    try:
        yield write
        failed = False
    finally:
        for writer in writers:
            writer.close(failed)
