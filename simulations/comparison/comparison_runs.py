"""The runs of a comparison, each with one cell and one seed, in several processes."""

from __future__ import annotations

import logging
import math
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.simulations.comparison.comparison_folder import AFRESH, identified
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError, plain, toml
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.core.machine import one_thread, versions
from kernelswarm.simulations.engine.cache_warmup import warm_cache
from kernelswarm.simulations.engine.ray_backend import keep_ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import checkpoints, run_folder
from kernelswarm.simulations.records.checkpoints import FOLDER
from kernelswarm.simulations.records.outcome import Run, State, run_of
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running import simulation as running
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Finished, Observer, Progress, simulate

# The state of an earlier run in the comparison's folder.


@dataclass(frozen=True)
class Earlier:
    """The state of an earlier run.

    Attributes
    ----------
    state : {"new", "resumed", "reused"}
        Whether the run starts, resumes from its last checkpoint, or is complete.
    result : Result, optional
        The result of a complete run.
    """

    state: State
    result: Result | None = None


def earlier(folder: Path, experiment: Experiment, behind: Mapping[str, str]) -> Earlier:
    """Return the state of a run in its folder.

    A run is complete if it has the requested rounds, or if a node diverged in them. Aborted runs (a process died, a
    part raised an error), stopped runs and runs with fewer rounds resume from a checkpoint if there is one. Damaged
    runs start again, with a warning.

    Parameters
    ----------
    folder : Path
        The run folder, which may be missing.
    experiment : Experiment
        The requested experiment.
    behind : dict of str to str
        The contents of its files, whose paths may have changed: see
        :func:`kernelswarm.simulations.comparison.comparison_folder.origins`.

    Raises
    ------
    InputError
        The folder has another run, or the run with more rounds, which must not be replaced.
    """
    if not folder.exists():
        return Earlier("new")
    saved = bool(checkpoints.paths(folder / FOLDER))
    if not (folder / "summary.json").is_file():
        return Earlier("resumed" if saved else "new")
    try:
        result = run_folder.read(folder)
    except InputError as damage:
        warnings.warn(f"{damage}; it begins again", stacklevel=2)
        return Earlier("new")
    _refuse_another(folder, experiment, behind, result.config)
    if experiment.rounds > result.config["rounds"] or result.summary.get("failure") == "broken":
        return Earlier("resumed" if saved else "new")
    return Earlier("reused", result)


def start_or_resume(experiment: Experiment, folder: Path, state: State, observe: Observer, safe: bool) -> Finished:
    """Run an experiment in its run folder, from the first round or from its last checkpoint.

    Without an undamaged checkpoint, the run starts again with a warning, and the old folder is removed.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    folder : Path
        The run folder.
    state : {"new", "resumed"}
        The state found by :func:`earlier`.
    observe : callable
        Called with the progress.
    safe : bool
        Whether parts from outside kernelswarm raise an error.

    Raises
    ------
    InputError, SimulationError
        As :func:`kernelswarm.simulations.running.simulation.run`; or another process writes the run.
    """
    if state == "resumed":
        asked = experiment.to_dict()
        changes = [f"{key}={toml(plain(asked[key]))}" for key in ("rounds", "checkpoint_every", "backend")]
        try:
            return running.resume(folder, changes, observe, safe)
        except InputError as refusal:
            with _unwritten(folder):  # otherwise the lock's error is raised
                warnings.warn(f"{refusal}; it begins again", stacklevel=2)
    if folder.exists():
        with _unwritten(folder):
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise SimulationError(f"{folder} could not be removed: {error.strerror or error}") from error
    return running.run(experiment, folder, observe)


def _unwritten(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a run, if it has one; raises InputError if another process holds it."""
    return held(folder / FOLDER) if (folder / FOLDER).is_dir() else nullcontext()


def _refuse_another(folder: Path, experiment: Experiment, behind: Mapping[str, str], config: Mapping[str, Any]) -> None:
    apart = {"backend", "checkpoint_every", "rounds"}
    if automatic_keys(experiment.learner) or experiment.overrides:
        apart |= {"learner", "node"}  # the run folder has numbers in place of words such as "auto"
    asked, found = (identified(table, behind) for table in (experiment.to_dict(), config))
    asked["protocol"], found["protocol"] = (
        {key: value for key, value in table["protocol"].items() if key not in automatic_keys(experiment.protocol)}
        for table in (asked, found)
    )
    other = [key for key in dict.fromkeys([*asked, *found]) if key not in apart and asked.get(key) != found.get(key)]
    if other:
        raise InputError(
            f"{folder} holds a run of another experiment than the comparison began there, in {other[0]}: move it away"
        )
    if found["rounds"] > asked["rounds"]:
        raise InputError(
            f"{folder} holds a run of {found['rounds']:,} rounds, and the comparison asks for {asked['rounds']:,}: ask "
            "for as many, or move it away"
        )


def compare_versions(made_by: Sequence[Mapping[str, str]]) -> None:
    """Warn if reused runs were made with other versions of libraries that affect the models."""
    now = versions()
    others = [
        {name: then.get(name, "?") for name in now if name != "ray" and then.get(name) != now[name]} for then in made_by
    ]
    differing = dict.fromkeys(f"{name} {then}" for other in others for name, then in other.items())
    if differing:
        count = sum(bool(other) for other in others)
        today = ", ".join(f"{name} {now[name]}" for name in now if any(name in other for other in others))
        warnings.warn(
            f"{count} of {len(made_by)} runs that are reused were made by {', '.join(differing)}, and this is {today}: "
            f"{AFRESH}",
            stacklevel=4,
        )


# The progress of a comparison.

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparisonProgress:
    """The progress of a comparison, as passed to observers.

    Parameters
    ----------
    done, total, failed : int
        Number of finished runs, of all runs, and of failed runs.
    share : float
        The finished share of all rounds, in [0, 1].
    latest : str
        The last finished run and its outcome; empty before the first.
    remaining : float or None
        Estimated remaining seconds; None before the first estimate, and after the last rounds.
    """

    done: int
    total: int
    failed: int
    share: float
    latest: str
    remaining: float | None


class Watcher:
    """Keeps the progress for an observer.

    Parameters
    ----------
    names : sequence of str
        The names of the runs.
    before : dict of int to Run
        The runs that were complete before the call, by place.
    observe : callable, optional
        The observer.
    """

    def __init__(
        self, names: Sequence[str], before: dict[int, Run], observe: Callable[[ComparisonProgress], None] | None
    ) -> None:
        self._names = names
        self._observe = observe
        self._shares = [float(place in before) for place in range(len(names))]
        self.done = len(before)
        self._failed = sum(bool(run.failure) for run in before.values())
        self._latest = ""
        self._clock: float | None = None  # starts with the first rounds, since process starts do not count
        self._at = len(before) / len(names)  # the finished share at that time

    def on_progress(self, place: int, share: float) -> None:
        """Record the finished share of a run."""
        self._shares[place] = max(self._shares[place], share)

    def ended(self, place: int, run: Run) -> None:
        """Record the end of a run."""
        self._shares[place] = 1.0
        self.done += 1
        self._failed += bool(run.failure)
        risk = run.final.get("risk", math.nan)
        done = f"risk {risk:.4g}" if math.isfinite(risk) else "done"
        self._latest = f"{self._names[place]}: {'failed' if run.failure else done}"
        LOG.info("%d of %d runs: %s", self.done, len(self._names), self._latest)
        self.show_progress()

    def show_progress(self) -> None:
        """Call the observer."""
        if self._observe is None:
            return
        share = sum(self._shares) / len(self._shares)
        remaining = self._remaining(share)
        self._observe(ComparisonProgress(self.done, len(self._names), self._failed, share, self._latest, remaining))

    def _remaining(self, share: float) -> float | None:
        if self.done == len(self._names):
            return 0.0
        if self._clock is None:
            if share > self._at:
                self._clock, self._at = time.perf_counter(), share
            return None
        if share == self._at or share == 1.0:  # no estimate before the first and after the last round
            return None
        return (time.perf_counter() - self._clock) * (1.0 - share) / (share - self._at)


@dataclass(frozen=True)
class Task:
    """A run to execute, with its state in the folder, if it has one."""

    cell: int
    name: str
    experiment: Experiment
    folder: Path | None = None
    state: State = "new"
    safe: bool = False

    @property
    def place(self) -> Path:
        """The run folder."""
        assert self.folder is not None
        return self.folder


def run_all(
    tasks: Sequence[Task],
    runs: dict[int, Run],
    jobs: int | None,
    observe: Callable[[ComparisonProgress], None] | None,
    folder: Path | None,
) -> None:
    """Execute all incomplete tasks, and add their runs to ``runs`` by index."""
    watcher = Watcher([task.name for task in tasks], runs, observe)
    left = [place for place in range(len(tasks)) if place not in runs]
    if not left:
        watcher.show_progress()
        return
    waiting = [tasks[place] for place in left]
    serial = all(isinstance(task.experiment.backend, Serial) for task in waiting)
    count = min(parallel.cores() if jobs is None else jobs, len(waiting)) if serial else 1
    if count > 1:
        compile_once(waiting)

    def saved() -> str:
        done = f"{watcher.done} of {len(tasks)} runs have ended and are in {folder}"
        return f"{done}: the same command goes on with the others"

    def on_progress(place: int, share: float) -> None:
        watcher.on_progress(left[place], share)

    try:
        # Closing ends the processes at once after an interruption; Ray's actors are started once for all runs.
        with keep_ray(), closing(_runs(waiting, count, on_progress, watcher.show_progress)) as ended:
            for place, run in ended:
                runs[left[place]] = run
                watcher.ended(left[place], run)
    except KeyboardInterrupt as stop:
        if folder is not None:
            stop.add_note(saved())
        raise
    except Interrupted as stop:
        raise Interrupted(f"{str(stop).partition(';')[0]}; {saved()}", stop.number, stop.round or 0) from stop


def compile_once(tasks: Sequence[Task]) -> None:
    """Compile the code of each learner once, so that the processes can load it."""
    learners = {task.experiment.to_dict()["learner"]["name"]: task for task in reversed(tasks)}
    for task in learners.values():
        with suppress(InputError), one_thread():  # the run itself reports errors
            warm_cache(open_network(task.experiment).plans, apart=False)


def _runs(
    tasks: Sequence[Task], jobs: int, on_progress: Callable[[int, float], None], show_progress: Callable[[], None]
) -> Generator[tuple[int, Run], None, None]:
    if jobs == 1:
        for place, task in enumerate(tasks):

            def tell(share: float, place: int = place) -> None:
                on_progress(place, share)
                show_progress()

            yield place, _execute(task, tell)
        return

    def watch(shares: Sequence[float]) -> None:
        for place, share in enumerate(shares):
            on_progress(place, share)
        show_progress()

    warned: dict[str, list[str]] = {}
    with ExitStack() as stack:
        answers = stack.enter_context(
            closing(parallel.answers(_execute_apart, tasks, jobs, watch, what="the comparison"))
        )
        stack.callback(_warn, warned, len(tasks))
        for place, answer in answers:
            task = tasks[place]
            if isinstance(answer, parallel.Lost):
                yield place, Run(task.cell, task.experiment.seed, failure=answer.cause, origin=task.state)
                continue
            run, texts = answer
            for text in texts:
                warned.setdefault(text, []).append(task.name)
            yield place, run


def _warn(warned: Mapping[str, Sequence[str]], runs: int) -> None:
    """Repeat the warnings of runs; each text once, with the names of the runs."""
    for text, names in warned.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        which = "all runs" if len(names) == runs > 1 else "; ".join(names[:3]) + more
        warnings.warn(f"{which}: {text}", stacklevel=2)


def _execute_apart(task: Task, tell: Callable[[float], None]) -> tuple[Run, list[str]]:
    """Run one cell and seed in a subprocess; warnings are returned to the parent, which prints them."""
    with warnings.catch_warnings(record=True) as caught:
        run = _execute(task, tell)
    return run, list(dict.fromkeys(str(warning.message) for warning in caught))


def _execute(task: Task, tell: Callable[[float], None]) -> Run:
    """Run one cell and seed; with a folder, the run folder is written during the run."""

    def observe(progress: Progress) -> None:
        if progress.phase != "starting" and progress.total:
            tell(progress.done / progress.total)

    cell, seed, state = task.cell, task.experiment.seed, task.state
    try:
        if task.folder is None:
            return run_of(cell, simulate(task.experiment, observe))
        finished = start_or_resume(task.experiment, task.folder, state, observe, task.safe)
        return replace(run_of(cell, finished.result, finished.folder), origin="reused" if finished.before else state)
    except Interrupted:
        raise
    except SimulationError as error:
        if error.partial is None:
            return Run(cell, seed, failure=str(error), origin=state)
        failure = str(error.partial.summary.get("reason") or error)
        return replace(run_of(cell, error.partial, task.folder, failure), origin=state)
    except InputError as error:
        return Run(cell, seed, failure=str(error), refused=True, origin=state)
