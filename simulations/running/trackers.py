"""Write the measurements of a running run for experiment trackers, which show many runs together."""

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
"""Name of the experiment in MLflow and of the project in Weights & Biases."""


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
        The folder, created if it is missing. TensorBoard shows each folder with event files as a run.
    config : dict
        The experiment, written as a text.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._writer: Any = tensorboard_library().SummaryWriter(str(folder), flush_secs=10)
        indented = [f"    {line}" for line in tomli_w.dumps(config).splitlines()]  # shown verbatim by Markdown
        self._writer.add_text("experiment", "\n".join(indented), 0)

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, round)

    def close(self, failed: bool) -> None:
        self._writer.close()


class MLflow:
    """Writes an MLflow run to a database beside the runs, or to the server in MLFLOW_TRACKING_URI.

    Present versions of MLflow reject its plain files. A database is a single file and needs no server either.

    Parameters
    ----------
    folder : Path
        The run folder. Its name is the run's name, and the database ``mlflow.db`` lies beside the folder.
    config : dict
        The experiment; its keys are the run's parameters.
    """

    FLUSH = 10.0
    """Seconds between two writes: writing one row takes 20 to 80 ms, writing thirty rows at once takes 260 ms."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from filelock import FileLock

        self._library = mlflow_library()
        if "MLFLOW_TRACKING_URI" not in os.environ:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / "mlflow.lock"):  # only one process may create the tables
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
        """Add each figure as a metric of the round, and write the collected metrics every ``FLUSH`` seconds."""
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
        The run folder. Its name is the run's name; the files in it are uploaded by ``wandb sync``.
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
            reinit="create_new",  # separate runs in one process
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
    """Import MLflow, with its telemetry off unless a server is named."""
    if "MLFLOW_TRACKING_URI" not in os.environ:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read at the import
    import mlflow
    import mlflow.entities

    return mlflow


def wandb_library() -> Any:
    """Import wandb, with its error reports off unless WANDB_MODE is set."""
    if "WANDB_MODE" not in os.environ:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at the import
    import wandb

    return wandb


def mlflow_place(folder: Path) -> str:
    """Return the address of the MLflow store for a run in this folder."""
    if "MLFLOW_TRACKING_URI" in os.environ:
        return os.environ["MLFLOW_TRACKING_URI"]
    database = (folder.parent / "mlflow.db").resolve().as_posix()
    if set("?#%") & set(database):
        raise InputError(f"--track mlflow needs an address, and {database} is none with ?, # or %: use another --out")
    return f"sqlite:///{database}"


@dataclass(frozen=True)
class Tracker:
    """A tracker, as functions that open it and import its library.

    Parameters
    ----------
    opened : callable
        Begins a run, given its folder and its experiment.
    library : callable
        Imports the tracker's library.
    package, extra : str
        The package to install, and the extra of kernelswarm that contains it.
    place : callable
        Returns the address at which the tracker shows a run, given its folder.
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
"""All trackers, by name."""


def find(name: str) -> Tracker:
    """Return a tracker if its library is installed.

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
    """Yield a callback for ``run`` and ``simulate`` that writes the rows of the network's table for a tracker.

    Non-finite figures are left out. The callback does not change the learned functions.

    Parameters
    ----------
    tracker : str
        One of ``TRACKERS``.
    folder : Path or str
        The folder of the tracker's files. A tracker with one file for all runs writes it beside this folder.
    experiment : Experiment
        The experiment; its keys are written too.

    Raises
    ------
    InputError
        The tracker is unknown, or its library is not installed.
    """
    opened = find(tracker).opened
    writers: list[Writer] = []  # created with the first row, so that an invalid run leaves no folder

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
