"""The same experiment under several protocols, networks or other keys, each over several seeds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
from threadpoolctl import threadpool_limits

from kernelswarm.simulations import parallel
from kernelswarm.simulations.errors import InputError, SimulationError
from kernelswarm.simulations.experiment import Experiment
from kernelswarm.simulations.network import open_network
from kernelswarm.simulations.outcome import METRICS, Comparison, Row, Run, gather, run_of
from kernelswarm.simulations.ray_backend import keep_ray
from kernelswarm.simulations.rehearsal import rehearse
from kernelswarm.simulations.result import Result
from kernelswarm.simulations.run_folder import check_place, free, write
from kernelswarm.simulations.serial import Serial
from kernelswarm.simulations.simulation import Progress, simulate
from kernelswarm.simulations.variation import Cell, Plan, cells, parse_vary, read_compare

__all__ = [
    "METRICS",
    "Comparison",
    "ComparisonProgress",
    "Plan",
    "Row",
    "Run",
    "compare",
    "gather",
    "parse_vary",
    "read_compare",
]


@dataclass(frozen=True)
class ComparisonProgress:
    """A word to whoever watches a comparison.

    Parameters
    ----------
    done, total, failed : int
        Runs that have ended, all runs, and those among the ended that failed.
    share : float
        The part of all rounds that is done, in [0, 1].
    latest : str
        The run that ended last, and how; empty before.
    remaining : float or None
        Seconds to go at the pace so far; None before there is a pace.
    """

    done: int
    total: int
    failed: int
    share: float
    latest: str
    remaining: float | None


def compare(
    experiment: Experiment,
    vary: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    jobs: int | None = None,
    out: Path | str | None = None,
    observe: Callable[[ComparisonProgress], None] | None = None,
) -> Comparison:
    """Run every combination of the varied values over several seeds and gather the final figures.

    All cells share the seeds, hence networks and data where these are not varied. On the serial backend the runs go to
    several processes; with another backend they follow one another, each on that backend. A run that fails is recorded
    with its reason, and the others go on.

    Parameters
    ----------
    experiment : Experiment
        What all cells have in common.
    vary : mapping of str to sequence
        Dotted keys with the values to try, such as ``{"protocol.name": ["isolated", "consensus"]}``; see
        :func:`kernelswarm.simulations.variation.cells` for tables as values and for keys that only some parts have.
    seeds : int
        Runs of each cell, with ``experiment.seed``, the next one, and so on.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script that uses several calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    out : Path, optional
        Folder for run folders (``runs/<cell>/seed_<seed>``), tables and figures; a taken name gets a number. Nothing is
        written when it is left out.
    observe : callable, optional
        Hears of the progress, about twice a second.

    Raises
    ------
    InputError
        When a combination is refused before anything has started, or every run is refused at its start.
    SimulationError
        When the processes cannot be started.
    """
    if seeds < 1:
        raise InputError(f"seeds = {seeds!r} must be at least 1")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    if out is not None:
        check_place(Path(out))
    found = cells(experiment.to_dict(), vary)
    tasks = list(_tasks(experiment, found, seeds))
    serial = all(isinstance(task.experiment.backend, Serial) for task in tasks)
    count = min(parallel.cores() if jobs is None else jobs, len(tasks)) if serial else 1
    watcher = _Watcher(tasks, observe)
    if count > 1:
        _compile(tasks)
    runs: dict[int, Run] = {}
    folder = None if out is None else free(Path(out))
    if folder is not None:
        folder.mkdir(parents=True)
        tasks = [replace(task, folder=folder / task.folder, written=True) for task in tasks]
    # Closed, so that an interruption ends the processes at once; Ray's actors are started once for all runs.
    with keep_ray(), closing(_runs(tasks, count, watcher)) as ended:
        for place, run in ended:
            runs[place] = run
            watcher.ended(place, run)
    if all(run.refused for run in runs.values()):
        if folder is not None:
            folder.rmdir()
        raise InputError(runs[0].failure)
    # With defaults: what two rows differ in without being asked is often one of them.
    resolved = {task.cell: task.experiment.to_dict() for task in tasks}
    found = [replace(cell, config=resolved[place]) for place, cell in enumerate(found)]
    comparison = Comparison(tuple(vary), tuple(found), tuple(runs[place] for place in sorted(runs)), folder)
    if folder is not None:
        _publish(comparison, experiment, vary, seeds, folder)
    return comparison


@dataclass(frozen=True)
class _Task:
    cell: int
    name: str
    experiment: Experiment
    folder: Path
    written: bool = False


def _tasks(experiment: Experiment, found: Sequence[Cell], seeds: int) -> Iterator[_Task]:
    """Build every experiment before the first one starts, so that a wrong combination stops all."""
    slugs: list[str] = []
    for cell in found:
        slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", "__".join(cell.labels)).strip("_.")[:80] or "all"
        slugs.append(slug if slug not in slugs else f"{slug}_{len(slugs)}")
    for place, cell in enumerate(found):
        table = dict(cell.config)
        if isinstance(experiment.topology, nx.Graph) and table.get("topology") == experiment.to_dict()["topology"]:
            table["topology"] = experiment.topology
        for seed in range(experiment.seed, experiment.seed + seeds):
            try:
                built = Experiment.from_dict({**table, "seed": seed}, experiment.folder)
            except InputError as error:
                where = ", ".join(cell.labels)
                raise InputError(f"{where}: {error}" if where else str(error)) from error
            folder = Path("runs") / slugs[place] / f"seed_{seed}"
            yield _Task(place, ", ".join([*cell.labels, f"seed {seed}"]), built, folder)


def _compile(tasks: Sequence[_Task]) -> None:
    """Compile, once for each learner, what the processes to come would otherwise each compile for themselves."""
    learners = {task.experiment.to_dict()["learner"]["name"]: task for task in reversed(tasks)}
    for task in learners.values():
        with suppress(InputError), threadpool_limits(1):  # a refusal is said of the run that it ends
            rehearse(open_network(task.experiment).plans, apart=False)


class _Watcher:
    """Keeps what an observer hears: ended runs, the share that is done, the pace."""

    def __init__(self, tasks: Sequence[_Task], observe: Callable[[ComparisonProgress], None] | None) -> None:
        self.tasks = tasks
        self.observe = observe
        self.shares = [0.0] * len(tasks)
        self.done = self.failed = 0
        self.latest = ""
        self.clock: float | None = None  # of the first rounds: the start of the processes says nothing about the pace

    def hear(self, shares: Sequence[float]) -> None:
        self.shares = [max(pair) for pair in zip(self.shares, shares, strict=True)]
        self._speak()

    def ended(self, place: int, run: Run) -> None:
        self.shares[place] = 1.0
        self.done += 1
        self.failed += bool(run.failure)
        self.latest = f"{self.tasks[place].name}: {'failed' if run.failure else 'done'}"
        self._speak()

    def _speak(self) -> None:
        if self.observe is None:
            return
        share = sum(self.shares) / len(self.shares)
        if self.clock is None and share > 0:
            self.clock = time.perf_counter()
        spent = 0.0 if self.clock is None else time.perf_counter() - self.clock
        remaining = spent * (1 - share) / share if spent > 0 else None
        self.observe(ComparisonProgress(self.done, len(self.tasks), self.failed, share, self.latest, remaining))


def _runs(tasks: Sequence[_Task], jobs: int, watcher: _Watcher) -> Generator[tuple[int, Run], None, None]:
    if jobs == 1:
        for place, task in enumerate(tasks):

            def tell(share: float, place: int = place) -> None:
                watcher.hear([share if k == place else 0.0 for k in range(len(tasks))])

            yield place, _execute(task, tell)
        return
    with closing(parallel.answers(_execute, tasks, jobs, watcher.hear)) as answers:
        for place, answer in answers:
            if isinstance(answer, parallel.Lost):
                task = tasks[place]
                yield place, Run(task.cell, task.experiment.seed, failure=answer.cause)
            else:
                yield place, answer


def _execute(task: _Task, tell: Callable[[float], None]) -> Run:
    """Run one cell with one seed; write its run folder, whole or partial."""

    def observe(progress: Progress) -> None:
        if progress.phase != "starting" and progress.total:
            tell(progress.done / progress.total)

    try:
        result: Result | None = simulate(task.experiment, observe)
        failure, refused = "", False
    except SimulationError as error:
        result, failure, refused = error.partial, str(error), False
    except InputError as error:
        result, failure, refused = None, str(error), True
    if result is None:
        return Run(task.cell, task.experiment.seed, failure=failure, refused=refused)
    folder = write(result, task.folder) if task.written else None
    return run_of(task.cell, result, folder, failure)


def _publish(
    comparison: Comparison, experiment: Experiment, vary: Mapping[str, Sequence[Any]], seeds: int, folder: Path
) -> None:
    """Write tables, figures and the experiment that repeats the comparison."""
    import tomli_w

    from kernelswarm.simulations import plots, tables
    from kernelswarm.simulations.wording import plain

    folder.mkdir(parents=True, exist_ok=True)
    again = {**experiment.to_dict(), "compare": {"seeds": seeds, "vary": plain(vary)}}
    written = [run.folder for run in comparison.runs if run.folder is not None]
    if isinstance(experiment.topology, nx.Graph) and written:
        again["topology"]["path"] = (written[0].relative_to(folder) / "graph.graphml").as_posix()
    tables.replace(folder / "experiment.toml", tomli_w.dumps(again))
    tables.write(comparison, folder)
    plots.draw_comparison(comparison, folder / "figures")
