"""The same experiment under several protocols, networks or other keys, each over several seeds."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelswarm.simulations.backends.cache_warmup import warm_cache
from kernelswarm.simulations.backends.ray_backend import keep_ray
from kernelswarm.simulations.backends.serial import Serial
from kernelswarm.simulations.comparison import comparison_folder, tuning
from kernelswarm.simulations.comparison.comparison_folder import RUNS, Described, Index
from kernelswarm.simulations.comparison.comparison_progress import ComparisonProgress, Watcher
from kernelswarm.simulations.comparison.earlier_run import compare_versions, earlier, start_or_resume
from kernelswarm.simulations.comparison.origins import Digests, origins
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError
from kernelswarm.simulations.core.messages import plain
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.experiment.draws import drawn_keys
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import may_import
from kernelswarm.simulations.experiment.variation import Cell, Plan, cells, read_compare
from kernelswarm.simulations.figures.sheet import Drawing
from kernelswarm.simulations.machine import parallel
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.records.outcome import Comparison, Run, State, run_of
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Progress, simulate


def compare(
    experiment: Experiment,
    vary: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    jobs: int | None = None,
    out: Path | str | None = None,
    observe: Callable[[ComparisonProgress], None] | None = None,
    *,
    afresh: bool = False,
    numbered: bool = False,
    drawing: Drawing | None = None,
    tune: bool = False,
    pooled: bool = False,
) -> Comparison:
    """Run every combination of the varied values over several seeds and gather the final figures.

    All cells share the seeds, hence networks and data where these are not varied. On the serial backend the runs go to
    several processes; with another backend they follow one another, each on that backend. A run that fails is recorded
    with its reason, and the others go on.

    A folder that holds this comparison already is gone on with: runs that ended there are read and not run again, those
    that were stopped go on from their last checkpoint (``checkpoint_every``) or begin again, and only new ones are
    begun. There may be more seeds, values, keys and rounds than before.

    Parameters
    ----------
    experiment : Experiment
        What all cells have in common.
    vary : mapping of str to sequence
        Dotted keys with the values to try, such as ``{"protocol.name": ["isolated", "consensus"]}``, or with how they
        are drawn, such as ``{"learner.step_size": "log:0.01:1:8"}``; see
        :func:`kernelswarm.simulations.experiment.variation.cells` for tables as values and for keys that only
        some parts have.
    seeds : int
        Runs of each cell, with ``experiment.seed``, the next one, and so on.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script that uses several calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    out : Path, optional
        Folder for run folders (``runs/<cell>/seed_<seed>``), tables and figures. Without it nothing is written.
    observe : callable, optional
        Hears of the progress, about twice a second. Where it is left out a notebook shows a bar.
    afresh : bool
        Whether all runs begin again, in a folder ``out-2``, ``out-3``, ... where ``out`` exists.
    numbered : bool
        Whether such a folder is taken where ``out`` holds something else, which is refused otherwise.
    drawing : Drawing, optional
        Formats and style of the figures; PNG files for the screen when left out.
    tune : bool
        Whether each cell's step size, penalty, ridge and tolerances are searched before, by the same search for all
        and on other seeds than those that are measured, see :func:`kernelswarm.simulations.suggestion.tuning.tuned`.
    pooled : bool
        Whether that search compares the risk on all nodes' data, and not that on each node's own.

    Raises
    ------
    InputError
        When a combination is refused before anything has started, every run is refused at its start, the folder holds
        another comparison (the message says in which keys), or another process writes it.
    SimulationError
        When the processes cannot be started, or all runs failed.
    Interrupted
        When a signal came and what runs in this process is saved; what has ended is in the folder.
    """
    if seeds < 1:
        raise InputError(f"seeds = {seeds!r} must be at least 1")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    tuning.refuse(tune, pooled, seeds)
    if out is not None:
        check_place(Path(out))
    found = cells(experiment.to_dict(), vary)
    tasks = list(_tasks(experiment, found, seeds))
    found = _resolved(found, tasks)
    with ExitStack() as stack:
        folder, made = None, False
        runs: dict[int, Run] = {}
        digests: Digests = {}
        if out is not None:
            base = Described(plain(experiment.to_dict()), origins(experiment, digests))
            opening = comparison_folder.opened(Path(out), base, vary, afresh=afresh, numbered=numbered)
            folder, index, made = stack.enter_context(opening)
        hearing = stack.enter_context(watched(observe, "comparison_bar"))
        if tune:
            with comparison_folder.unmade(folder if made else None):
                found = _tuned(tasks, found, vary, pooled, jobs, folder, hearing)
            tasks = list(_tasks(experiment, found, seeds))
        if folder is not None:
            made_by: list[Mapping[str, str]] = []
            described = [_described(task, digests) for task in tasks]
            tasks, index = _placed(tasks, described, found, vary, folder, replace(index, base=base))
            for place, task in enumerate(tasks):
                before = earlier(task.place, task.experiment, described[place].behind)
                tasks[place] = replace(task, state=before.state)
                if before.result is not None:
                    runs[place] = replace(run_of(task.cell, before.result, task.place), origin="reused")
                    made_by.append(before.result.summary.get("versions") or {})
            compare_versions(made_by)
            _prepare(experiment, Plan(vary, seeds, tune, pooled), folder, index)
        _run(tasks, runs, jobs, hearing, folder)
        if all(run.refused for run in runs.values()):
            if folder is not None and made:
                shutil.rmtree(folder)
            raise InputError(runs[0].failure)
        if all(run.failure for run in runs.values()):
            where = "" if folder is None else f"; what they measured is in {folder / RUNS}"
            raise SimulationError(f"all {len(runs)} runs failed, the first of them: {runs[0].failure}{where}")
        ended = tuple(runs[place] for place in sorted(runs))
        comparison = Comparison(tuple(vary), tuple(found), ended, folder, drawn_keys(vary))
        if folder is not None:
            _publish(comparison, folder, drawing or Drawing())
    return comparison


def read(folder: Path | str, safe: bool = False) -> Comparison:
    """Read a comparison from its folder: the cells that it was last asked for, and their runs.

    Runs that have not ended are among the failed.

    Parameters
    ----------
    folder : Path or str
        The folder that :func:`compare` wrote.
    safe : bool
        Whether parts named as "package.module:Class" are refused, so that none of the folder's choice of code is run.

    Raises
    ------
    InputError
        The folder holds no comparison, or is damaged.
    """
    folder = Path(folder)
    index = comparison_folder.read_index(folder)
    plan = read_compare(folder / EXPERIMENT)
    experiment = Experiment.from_file(folder / EXPERIMENT, safe=safe)
    found = cells(experiment.to_dict(), plan.vary)
    tasks = list(_tasks(experiment, found, plan.seeds))
    found = _resolved(found, tasks)
    if plan.tune:
        found = tuning.kept_cells(_first(tasks), found, plan.vary, plan.pooled, folder)
        tasks = list(_tasks(experiment, found, plan.seeds))
    digests: Digests = {}
    described = [_described(task, digests) for task in tasks]
    tasks, _ = _placed(tasks, described, found, plan.vary, folder, index)
    runs = []
    for task, asked in zip(tasks, described, strict=True):
        result = earlier(task.place, task.experiment, asked.behind).result
        runs.append(
            Run(task.cell, task.experiment.seed, failure="it has not ended")
            if result is None
            else replace(run_of(task.cell, result, task.place), origin="reused")
        )
    return Comparison(tuple(plan.vary), tuple(found), tuple(runs), folder, drawn_keys(plan.vary))


EXPERIMENT = "experiment.toml"
"""The file in a comparison's folder that repeats it."""


@dataclass(frozen=True)
class _Task:
    cell: int
    name: str
    experiment: Experiment
    folder: Path | None = None
    state: State = "new"
    safe: bool = False

    @property
    def place(self) -> Path:
        assert self.folder is not None
        return self.folder


def _tasks(experiment: Experiment, found: Sequence[Cell], seeds: int) -> Iterator[_Task]:
    """Build every experiment before the first one starts, so that a wrong combination stops all."""
    for place, cell in enumerate(found):
        for seed in range(experiment.seed, experiment.seed + seeds):
            try:
                built = experiment.other({**cell.config, "seed": seed})
            except InputError as error:
                where = ", ".join(cell.labels)
                raise InputError(f"{where}: {error}" if where else str(error)) from error
            yield _Task(place, ", ".join([*cell.labels, f"seed {seed}"]), built, safe=not may_import())


def _resolved(found: Sequence[Cell], tasks: Sequence[_Task]) -> list[Cell]:
    """Return the cells with defaults: what two rows differ in without being asked is often one of them."""
    return [replace(cell, config=one.to_dict()) for cell, one in zip(found, _first(tasks), strict=True)]


def _first(tasks: Sequence[_Task]) -> list[Experiment]:
    """Return the experiment of each cell, with the first seed."""
    return list({task.cell: task.experiment for task in reversed(tasks)}.values())[::-1]


def _tuned(
    tasks: Sequence[_Task],
    found: Sequence[Cell],
    vary: Mapping[str, Sequence[Any]],
    pooled: bool,
    jobs: int | None,
    folder: Path | None,
    observe: Callable[[ComparisonProgress], None] | None,
) -> list[Cell]:
    """Search the values of each cell, in as many processes as there are for runs."""

    def watch(done: int) -> None:
        if observe is not None:
            observe(ComparisonProgress(0, len(tasks), 0, 0.0, f"{done} of {len(found)} rows are tuned", None))

    count = min(parallel.cores() if jobs is None else jobs, len(found))
    if count > 1:
        _compile(tasks)
    return tuning.tuned_cells(_first(tasks), found, vary, pooled, count, folder, watch)


def _described(task: _Task, digests: Digests) -> Described:
    return Described(plain(task.experiment.to_dict()), origins(task.experiment, digests))


def _placed(
    tasks: Sequence[_Task],
    described: Sequence[Described],
    found: Sequence[Cell],
    vary: Mapping[str, Sequence[Any]],
    folder: Path,
    index: Index,
) -> tuple[list[_Task], Index]:
    """Give each task its run folder."""
    asked = [(run, found[task.cell].labels) for task, run in zip(tasks, described, strict=True)]
    places, index = comparison_folder.assigned(asked, index, vary)
    placed = [replace(task, folder=folder / RUNS / place) for task, place in zip(tasks, places, strict=True)]
    return placed, index


def _run(
    tasks: Sequence[_Task],
    runs: dict[int, Run],
    jobs: int | None,
    observe: Callable[[ComparisonProgress], None] | None,
    folder: Path | None,
) -> None:
    """Run what has not ended yet, and add it to ``runs`` by its place."""
    watcher = Watcher([task.name for task in tasks], runs, observe)
    left = [place for place in range(len(tasks)) if place not in runs]
    if not left:
        watcher.show_progress()
        return
    waiting = [tasks[place] for place in left]
    serial = all(isinstance(task.experiment.backend, Serial) for task in waiting)
    count = min(parallel.cores() if jobs is None else jobs, len(waiting)) if serial else 1
    if count > 1:
        _compile(waiting)

    def saved() -> str:
        done = f"{watcher.done} of {len(tasks)} runs have ended and are in {folder}"
        return f"{done}: the same command goes on with the others"

    def on_progress(place: int, share: float) -> None:
        watcher.on_progress(left[place], share)

    try:
        # Closed, so that an interruption ends the processes at once; Ray's actors are started once for all runs.
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


def _compile(tasks: Sequence[_Task]) -> None:
    """Compile, once for each learner, what the processes to come would otherwise each compile for themselves."""
    learners = {task.experiment.to_dict()["learner"]["name"]: task for task in reversed(tasks)}
    for task in learners.values():
        with suppress(InputError), one_thread():  # a refusal is said of the run that it ends
            warm_cache(open_network(task.experiment).plans, apart=False)


def _runs(
    tasks: Sequence[_Task], jobs: int, on_progress: Callable[[int, float], None], show_progress: Callable[[], None]
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

    with closing(parallel.answers(_execute_apart, tasks, jobs, watch, what="the comparison")) as answers:
        for place, answer in answers:
            task = tasks[place]
            if isinstance(answer, parallel.Lost):
                yield place, Run(task.cell, task.experiment.seed, failure=answer.cause, origin=task.state)
                continue
            run, texts = answer
            for text in texts:
                warnings.warn(f"{task.name}: {text}", stacklevel=2)
            yield place, run


def _execute_apart(task: _Task, tell: Callable[[float], None]) -> tuple[Run, list[str]]:
    """Run one cell with one seed in a process of its own, and return what it warned of to who can say it."""
    with warnings.catch_warnings(record=True) as heard:
        run = _execute(task, tell)
    return run, list(dict.fromkeys(str(warning.message) for warning in heard))


def _execute(task: _Task, tell: Callable[[float], None]) -> Run:
    """Run one cell with one seed; with a folder it writes its run folder as it goes on."""

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


def _prepare(experiment: Experiment, plan: Plan, folder: Path, index: Index) -> None:
    """Write which run is where, and the experiment that repeats the comparison, before the first run begins."""
    asked = {key: True for key in ("tune", "pooled") if getattr(plan, key)}
    again = {**experiment.to_dict(), "compare": {"seeds": plan.seeds, **asked, "vary": plain(plan.vary)}}
    comparison_folder.write_index(folder, index)
    comparison_folder.write_experiment(folder / EXPERIMENT, experiment, again)


def _publish(comparison: Comparison, folder: Path, drawing: Drawing) -> None:
    """Write tables and figures."""
    from kernelswarm.simulations.comparison import tables
    from kernelswarm.simulations.figures import plots

    tables.write(comparison, folder)
    plots.draw_comparison(comparison, folder / "figures", drawing.formats, drawing.style)
