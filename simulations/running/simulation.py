"""Run one simulation, at once or step by step, with or without a run folder."""

from __future__ import annotations

import contextvars
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from inspect import GEN_SUSPENDED, getgeneratorstate
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Unpack

import numpy as np

from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.graphs.files import read_graph
from kernelswarm.simulations.core.errors import (
    GIVEN_GRAPH,
    InputError,
    SimulationError,
    listed,
    number_of,
    plain,
    shown,
)
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.core.machine import versions
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.core.toml_tables import NotTOML, parse
from kernelswarm.simulations.data.file import held_by, with_data_in
from kernelswarm.simulations.engine.engine import EngineError
from kernelswarm.simulations.experiment.changes import entries
from kernelswarm.simulations.experiment.experiment import Experiment, Keywords, digests, experiment_from, refuse_changed
from kernelswarm.simulations.experiment.registry import listed_parts_only, may_import, names_code
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.checkpoints import FOLDER, Checkpoint, Checkpoints, newest, paths
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.records.run_folder import require_whole
from kernelswarm.simulations.running.driver import Driver
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.state import Callback, CallbackError, OwnColumns, State
from kernelswarm.simulations.running.state import Progress as Progress

Observer = Callable[[Progress], None]


def simulate(
    experiment: Experiment | None = None,
    observe: Observer | None = None,
    checkpoints: Checkpoints | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    **tables: Unpack[Keywords],
) -> Result:
    """Run an experiment and measure it.

    Parameters
    ----------
    experiment : Experiment, optional
        The experiment. If it is left out, ``tables`` describe it.
    observe : callable, optional
        Called with the progress about twice a second. If it is left out, a notebook shows a progress bar.
    checkpoints : Checkpoints, optional
        The run folder for measurements and checkpoints, and the checkpoint to resume from. Checkpoints are written
        every ``checkpoint_every`` rounds and at SIGINT, SIGTERM or SIGHUP. Without a run folder, the result exists in
        memory only. :func:`~kernelswarm.simulations.running.simulation.run` creates this object.
    callbacks : sequence of callables
        Called with a :class:`~kernelswarm.simulations.running.state.State` after each evaluation. A callback may return
        a dict of columns for the tables: a number is a column of the network's table, an array with one entry per node
        or per directed edge is a column of the nodes' or edges' table.
    **tables
        The experiment, as :func:`~kernelswarm.simulations.experiment.experiment.build_experiment` takes it:
        ``topology``, ``data`` or ``stream``, ``learner``, ``protocol``, ``rounds``, ...

    Returns
    -------
    Result
        Measurements, last models and summary. The models do not depend on backend, checkpoints or observers.

    Raises
    ------
    InputError
        The experiment's parts do not fit one another; nothing has started.
    SimulationError
        A node diverges, a process dies, hangs or raises, or a callback raises; ``partial`` holds the measurements
        before the failure.
    Interrupted
        A signal arrived, and a checkpoint was written. Without checkpoints, signals have their usual effect.
    """
    with (
        watched(observe, "run_bar") as observer,
        Simulation(experiment, observer, checkpoints, callbacks=callbacks, **tables) as simulation,
    ):
        return simulation.run()


class Simulation:
    """A simulation in steps: an iterator over its states, one after each evaluation.

    ``break`` only pauses the simulation; :meth:`result` or the end of a ``with`` block ends it early. Rounds run only
    while the next state is requested.

    Parameters
    ----------
    experiment, observe, checkpoints, callbacks, **tables
        As of :func:`simulate`.
    every : int, optional
        Rounds between two states, in place of the experiment's ``evaluate_every``.

    Raises
    ------
    InputError
        The experiment's parts do not fit one another; nothing has started.

    Examples
    --------
    >>> with Simulation(
    ...     topology={"name": "ring", "nodes": 3},
    ...     stream="sine_regression",
    ...     learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
    ...     protocol="proximity",
    ...     every=20,
    ... ) as simulation:
    ...     for state in simulation:
    ...         if state.round == 60:
    ...             break
    >>> result = simulation.result()
    >>> result.summary["status"], result.network["round"].tolist()
    ('stopped early', [20, 40, 60])
    """

    def __init__(
        self,
        experiment: Experiment | None = None,
        observe: Observer | None = None,
        checkpoints: Checkpoints | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        every: int | None = None,
        **tables: Unpack[Keywords],
    ) -> None:
        experiment = experiment_from(experiment, tables)
        if every is not None:
            if isinstance(every, bool) or not isinstance(every, int | np.integer):
                raise InputError(f"every = {shown(every)} must be a whole number of rounds")
            experiment = replace(experiment, evaluate_every=int(every))
        self._driver = Driver(experiment, observe or (lambda progress: None), checkpoints, OwnColumns(callbacks))
        self._ended: Result | SimulationError | None = None
        self._steps: Generator[State] | None = None
        self._context = contextvars.copy_context()  # context of every step, also in other threads

    def __repr__(self) -> str:
        done, network = self._driver.done, self._driver.network
        ended = ", ended" if self._driver.functions is not None or self._ended is not None else ""
        nodes = number_of(network.adjacency.number_of_nodes(), "node")
        return f"Simulation({nodes}, round {done:,} of {network.rounds:,}{ended})"

    def __enter__(self) -> Simulation:
        """Return the simulation, which ends with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the simulation after its last round, and stop its processes."""
        if self._steps is not None and getgeneratorstate(self._steps) == GEN_SUSPENDED:
            self._end()  # keep the result, also after an error in the block

    def __iter__(self) -> Iterator[State]:
        """Return the simulation, which continues after its last state."""
        return self

    def __next__(self) -> State:
        """Run the rounds to the next evaluation, and return the state after it.

        Raises
        ------
        StopIteration
            The last round is done, or :meth:`stop` was called.
        SimulationError
            As :func:`simulate`.
        """
        with self._driver.at_work():
            state = self._step()
        if state is None:
            raise StopIteration
        return state

    def stop(self) -> None:
        """Run no more rounds: the iteration ends."""
        self._driver.stop()

    def run(self) -> Result:
        """Run all rounds that are left, and return the result."""
        with self._driver.at_work():
            while self._step() is not None:
                pass
        return self.result()

    def result(self) -> Result:
        """Return the result; a simulation with rounds left ends after its last one.

        Returns
        -------
        Result
            Its status is "stopped early" if rounds were left.

        Raises
        ------
        InputError
            Nothing has been run yet.
        SimulationError
            The simulation has failed; ``partial`` holds its measurements.
        """
        if self._steps is None:
            raise InputError("nothing has been run yet: iterate over the simulation, or call its run()")
        self._end()
        if self._ended is None:
            failed = self._driver.failure()
            if self._driver.functions is None:
                self._ended = self._driver.result({}, "failed", f"broken off in round {self._driver.done:,}", "broken")
            elif failed is None:
                left = self._driver.done < self._driver.network.rounds
                self._ended = self._driver.result(self._driver.functions, "stopped early" if left else "done")
            else:
                partial = self._driver.result({}, "failed", failed.reason, "diverged")
                self._ended = SimulationError(failed.reason, node=failed.node, round=self._driver.done, partial=partial)
        if isinstance(self._ended, SimulationError):
            raise self._ended
        return self._ended

    def _end(self) -> None:
        """End the simulation with the present functions."""
        self._driver.stop()
        if self._driver.functions is None:
            with self._driver.at_work():
                self._step()

    def _step(self) -> State | None:
        """Run the rounds to the next evaluation; None after the last."""
        if self._ended is not None:
            return None
        if self._steps is None:
            self._steps = self._driver.states()
        if self._driver.reading is not None:
            self._driver.reading.close()
        try:
            state: State | None = self._context.run(next, self._steps, None)
        except (DivergenceError, EngineError, CallbackError) as failure:
            raise self._failed(failure) from failure
        return state

    def _failed(self, failure: DivergenceError | EngineError | CallbackError) -> SimulationError:
        kind, node, done = "diverged", None, self._driver.done
        if isinstance(failure, DivergenceError):
            node, done = failure.node, failure.round
        elif isinstance(failure, EngineError):
            kind, node, done = "broken", failure.nodes[0], failure.round
        else:
            kind = "callback"
        partial = self._driver.result({}, "failed", str(failure), kind)
        self._ended = SimulationError(str(failure), node=node, round=done, partial=partial)
        return self._ended


# Runs with a run folder: started, interrupted and resumed.

CHANGEABLE = ("rounds", "backend", "evaluate_every", "checkpoint_every")
"""Keys that a resumed run may change: the rounds done do not depend on them."""


class Finished(NamedTuple):
    """A complete run; ``before`` tells whether it was complete before the call."""

    result: Result
    folder: Path
    before: bool = False


def run(
    experiment: Experiment | None = None,
    folder: str | Path | None = None,
    observe: Observer | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    **tables: Unpack[Keywords],
) -> Finished:
    """Run an experiment and write its run folder, with checkpoints if the experiment asks for them.

    The folder is created when the first round begins, and each evaluation is written at once. The result reads a
    table's column from the folder when the column is used.

    Parameters
    ----------
    experiment : Experiment, optional
        The experiment. If it is left out, ``tables`` describe it.
    folder : str or Path
        The run folder; a taken name gets a number. Data in memory are written into it.
    observe : callable, optional
        Called with the progress about twice a second. If it is left out, a notebook shows a progress bar.
    callbacks : sequence of callables
        Called after each evaluation, as :func:`~kernelswarm.simulations.running.simulation.simulate` says; their
        columns are in the folder's tables.
    **tables
        The experiment, as :func:`~kernelswarm.simulations.experiment.experiment.build_experiment` takes it.

    Raises
    ------
    InputError, SimulationError
        As :func:`~kernelswarm.simulations.running.simulation.simulate`. The folder holds the measurements before a
        failure.
    """
    if folder is None:
        raise InputError("folder is missing: name the run folder, such as folder='runs/first', or call simulate")
    experiment = experiment_from(experiment, tables)
    folder = Path(folder)
    data = digests(experiment) if experiment.checkpoint_every else {}
    held = held_by(experiment.stream)
    with closing(Checkpoints(folder, data, beside=None if held is None else held.write)) as checkpoints:
        return _run_and_write(experiment, observe, callbacks, checkpoints)


def resume(
    folder: str | Path,
    changes: Sequence[str] = (),
    observe: Observer | None = None,
    safe: bool = False,
    *,
    callbacks: Sequence[Callback] = (),
) -> Finished:
    """Resume a run from its newest checkpoint; the models equal, bit for bit, the models of an uninterrupted run.

    Parameters
    ----------
    folder : str or Path
        The run folder; a run that is complete is returned as it is.
    changes : sequence of str
        Changes such as "rounds=1000" or "backend.name=ray". Only the rounds, the backend, ``evaluate_every`` and
        ``checkpoint_every`` may change.
    observe : callable, optional
        Called with the progress about twice a second. If it is left out, a notebook shows a progress bar.
    safe : bool
        If True, parts that the run folder names as "package.module:Class" raise an error, so that the folder cannot
        choose the code that runs.
    callbacks : sequence of callables
        The callbacks of the first call, if there were any: their columns are continued.

    Raises
    ------
    InputError
        There is no sound checkpoint, another key or a data file has changed, or another process writes the run.
    SimulationError
        As :func:`run`.
    """
    folder = Path(folder)
    run_folder.require_folder(folder)
    with listed_parts_only(safe), ExitStack() as stack:
        if _ended_early(folder):
            try:
                (folder / FOLDER).mkdir(exist_ok=True)
            except OSError as error:
                raise SimulationError(f"{folder} may not be written: {error.strerror or error}") from error
        if (folder / FOLDER).is_dir():
            stack.enter_context(held(folder / FOLDER))
        return _resumed(folder, changes, observe, callbacks)


def _resumed(folder: Path, changes: Sequence[str], observe: Observer | None, callbacks: Sequence[Callback]) -> Finished:
    result = _result(folder)
    if result is not None and not changes and result.summary["rounds"] >= result.config["rounds"]:
        return Finished(result, folder, before=True)
    if _ended_early(folder):
        return _begun_again(folder, changes, observe, callbacks)
    since = newest(folder) if result is None or paths(folder / FOLDER) else None
    own = since.folder if since is not None and names_code(_config(folder)) and may_import() else None
    if own is not None and own not in sys.path:
        sys.path.append(own)  # the user's modules, behind all others
    experiment = _described(folder, changes)
    for known in (since, result):
        if known is not None:
            _refuse_changes(folder, known.config, experiment)
    if result is not None:
        done: int = result.summary["rounds"]
        # The data may end before the experiment's last round.
        if experiment.rounds <= done or open_network(experiment).rounds <= done:
            return Finished(result, folder, before=True)
    since = newest(folder) if since is None else since
    if experiment.rounds < since.round:
        raise InputError(f"rounds = {experiment.rounds} must be at least {since.round}: so many rounds are done")
    data = digests(experiment)
    refuse_changed(experiment, since.data, data, f"kernelswarm run {folder / 'config.toml'}")
    _compare_versions(since)
    return _run_and_write(experiment, observe, callbacks, Checkpoints(folder, data, since))


def _ended_early(folder: Path) -> bool:
    """Return whether a run with checkpoints ended before the first checkpoint."""
    every = _config(folder).get("checkpoint_every", 0)
    return bool(every) and not (folder / "summary.json").exists() and not paths(folder / FOLDER)


def _begun_again(
    folder: Path, changes: Sequence[str], observe: Observer | None, callbacks: Sequence[Callback]
) -> Finished:
    """Start a run again in its folder, after it stopped before its first checkpoint."""
    experiment = _described(folder, changes)
    _refuse_changes(folder, _described(folder, ()).to_dict(), experiment)
    return _run_and_write(experiment, observe, callbacks, Checkpoints(folder, digests(experiment), anew=True))


def _result(folder: Path) -> Result | None:
    """Return the result in the folder of a complete run, or None if rounds are left or the run has failed.

    Raises
    ------
    InputError
        The folder is not a run folder, or is damaged.
    """
    if not (folder / "config.toml").is_file():
        raise InputError(f"{folder} is no run folder: it holds no config.toml")
    if not (folder / "summary.json").is_file():
        return None
    result = run_folder.read(folder)
    try:
        require_whole(result.config, result.summary)
    except ValueError as error:
        raise InputError(
            f"{folder} is not what a run wrote: {error}: kernelswarm run {folder / 'config.toml'} runs it anew"
        ) from error
    return None if result.failed else result


def _run_and_write(
    experiment: Experiment, observe: Observer | None, callbacks: Sequence[Callback], checkpoints: Checkpoints
) -> Finished:
    def written(result: Result) -> Finished:
        if checkpoints.measured is None:
            return Finished(result, run_folder.write(result, checkpoints.folder))
        return Finished(run_folder.complete(result, checkpoints.folder), checkpoints.folder)

    try:
        result = simulate(experiment, observe, checkpoints, callbacks=callbacks)
    except SimulationError as error:
        if error.partial is None:
            raise
        partial, place, _ = written(error.partial)
        text = f"{error}; measurements until then are in {place}"
        if isinstance(error.__cause__, EngineError) and checkpoints.last is not None:
            text += f"; {checkpoints.command} goes on from round {checkpoints.last:,}"
        raise SimulationError(text, node=error.node, round=error.round, partial=partial) from error
    except KeyboardInterrupt as stop:
        if checkpoints.measured is not None:
            with suppress(OSError):  # on a full disk the status is lost, as after a kill
                checkpoints.measured.sync()
        stop.add_note(_left(checkpoints))
        raise
    return written(result)


def _left(checkpoints: Checkpoints) -> str:
    """Return the message for a run stopped in the middle of a round: its files, and how to continue."""
    if checkpoints.last is not None:
        return f"{checkpoints.command} goes on from round {checkpoints.last:,}"
    folder = checkpoints.folder
    if checkpoints.measured is None:
        return "no round had begun, and nothing is kept: give the command again, with checkpoint_every to keep rounds"
    if _ended_early(folder):
        return f"{checkpoints.command} begins it again from the first round"
    return (
        f"measurements until then are in {folder}, and kernelswarm plot {shlex.quote(str(folder))} draws them; "
        f"kernelswarm run {shlex.quote(str(folder / 'config.toml'))} begins it anew"
    )


def _described(folder: Path, changes: Sequence[str]) -> Experiment:
    """Return the experiment of a run folder with some changes."""
    experiment = Experiment.from_file(folder / "config.toml", changes)
    table = _config(folder).get("topology", {})
    given = {key: value for key, value in table.items() if key not in ("schedule", "strict")}
    # The topology was a networkx graph, and is read as one again.
    if given == GIVEN_GRAPH:
        experiment = replace(experiment, topology=read_graph(folder / "graph.graphml"))
    try:
        return replace(experiment, stream=with_data_in(experiment.stream, folder))
    except ValueError as error:
        raise InputError(f"stream.{error}") from error


def _config(folder: Path) -> dict[str, Any]:
    """Read the tables of a run folder's experiment; empty for invalid TOML, which `Experiment.from_file` refuses."""
    try:
        return parse((folder / "config.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NotTOML):
        return {}


def _refuse_changes(folder: Path, before: Mapping[str, Any], experiment: Experiment) -> None:
    old, new = dict(entries(plain(before))), dict(entries(plain(experiment.to_dict())))
    changed = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    changed = [key for key in changed if key.split(".")[0] not in CHANGEABLE]
    if experiment.evaluation.regret and old["rounds"] != new["rounds"]:
        raise InputError(
            f"rounds = {new['rounds']} must stay {old['rounds']} with evaluation.regret = true, which is measured "
            "against what fits the samples of all rounds; "
            f"kernelswarm run {folder / 'config.toml'} --set rounds=... runs another one"
        )
    if changed:
        key = changed[0]
        given, was = (shown(table[key]) if key in table else "not set" for table in (new, old))
        raise InputError(
            f"{key} is {given} and was {was} when the run began: a run that is resumed may change only "
            f"{listed(CHANGEABLE)}; kernelswarm run {folder / 'config.toml'} --set {key}=... runs another one"
        )


def _compare_versions(since: Checkpoint) -> None:
    now = versions()
    others = [name for name in now if name not in ("kernelswarm", "ray") and since.versions.get(name) != now[name]]
    if others:
        differing = ", ".join(f"{name} {since.versions.get(name, '?')} then and {now[name]} now" for name in others)
        warnings.warn(f"other versions than when the run began ({differing}): last digits may differ", stacklevel=3)
