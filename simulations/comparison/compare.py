"""Comparisons: an experiment with several protocols, networks or other keys, each over several seeds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.comparison import comparison_folder, tuning
from kernelswarm.simulations.comparison.comparison_folder import Described, Digests, Index, origins
from kernelswarm.simulations.comparison.comparison_runs import (
    ComparisonProgress,
    Task,
    compare_versions,
    compile_once,
    earlier,
    run_all,
)
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError, plain
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.experiment.experiment import Experiment, Keywords, build_experiment, experiment_from
from kernelswarm.simulations.experiment.parts import given_graph
from kernelswarm.simulations.experiment.registry import may_import
from kernelswarm.simulations.experiment.variation import PILOT_SEEDS, Cell, Plan, cells, drawn_keys, read_compare
from kernelswarm.simulations.figures.sheet import Drawing
from kernelswarm.simulations.records.outcome import EXPERIMENT, RUNS, Comparison, Run, run_of
from kernelswarm.simulations.records.run_folder import check_place


def compare(
    experiment: Experiment | Keywords | Mapping[str, Any],
    vary: Mapping[str, Sequence[Any] | AnyArray],
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
    pilot_seeds: int = PILOT_SEEDS,
) -> Comparison:
    """Run all combinations of the varied values over several seeds, and collect the final figures.

    All cells have the same seeds, and thus the same networks and data unless these are varied. With the serial backend,
    runs are distributed over several processes; with other backends, they run one after the other. Failed runs are
    recorded with their reason, and the other runs continue.

    If the folder already has this comparison, it is continued: complete runs are read, stopped runs resume from their
    last checkpoint (``checkpoint_every``) or start again, and missing runs are started. There may be more seeds,
    values, keys and rounds than before.

    Parameters
    ----------
    experiment : Experiment or mapping
        The common experiment of all cells. A mapping has the keywords of
        :func:`~kernelswarm.simulations.experiment.experiment.build_experiment`.
    vary : mapping of str to sequence
        Dotted keys with lists of values, such as ``{"protocol.name": ["isolated", "consensus"]}``, or with draws, such
        as ``{"learner.step_size": "log:0.01:1:8"}``; see :func:`kernelswarm.simulations.experiment.variation.cells` for
        tables as values and for keys that only some parts have.
    seeds : int
        Number of runs of each cell, with consecutive seeds from ``experiment.seed`` on.
    jobs : int, optional
        Maximum number of simultaneous processes; by default the number of cores. A script must call this function under
        ``if __name__ == "__main__":`` if there are several processes, since each process reads the script again.
    out : Path, optional
        Folder for run folders (``runs/<cell>/seed_<seed>``), tables and figures. Without it nothing is written.
    observe : callable, optional
        Called with the progress about twice a second. If it is left out, a notebook shows a progress bar.
    afresh : bool
        Whether all runs start again, in a folder ``out-2``, ``out-3``, ... if ``out`` exists.
    numbered : bool
        Whether such a folder is used if ``out`` has other contents, which otherwise raises an error.
    drawing : Drawing, optional
        Formats and style of the figures; by default PNG files for the screen.
    tune : bool
        Whether step size, penalty, ridge and tolerances of each cell are tuned first, by the same search for all cells
        and on seeds that the comparison does not use, see :func:`kernelswarm.simulations.comparison.tuning.tuned`.
    pooled : bool
        Whether the search compares risks on all nodes' data instead of each node's own data.
    pilot_seeds : int
        Number of seeds of each candidate in the search.

    Raises
    ------
    InputError
        A combination is invalid (before anything starts), all runs are invalid at their start, the folder has another
        comparison (the message names the differing keys), or another process writes it.
    SimulationError
        The processes cannot be started, or all runs failed.
    Interrupted
        A signal arrived, and the runs of this process are saved; complete runs are in the folder.
    """
    _check(seeds, jobs, out)
    tuning.refuse(tune, pooled, seeds, pilot_seeds)
    experiment = build_experiment(**experiment) if isinstance(experiment, Mapping) else experiment_from(experiment, {})
    tried = {key: plain(values) if isinstance(values, np.ndarray) else values for key, values in vary.items()}
    if isinstance(tried.get("topology"), list | tuple):  # a matrix, edges or neighbours are converted to a graph
        tried["topology"] = [_given(value) for value in tried["topology"]]
    plan = Plan(tried, seeds, tune, pooled, pilot_seeds)
    return _compared(experiment, plan, jobs, out, observe, drawing or Drawing(), afresh, numbered)


def _compared(
    experiment: Experiment,
    plan: Plan,
    jobs: int | None,
    out: Path | str | None,
    observe: Callable[[ComparisonProgress], None] | None,
    drawing: Drawing,
    afresh: bool,
    numbered: bool,
) -> Comparison:
    """Run the tasks of a plan that are not complete in the folder."""
    found, tasks = _asked(experiment, plan)
    with ExitStack() as stack:
        folder, made = None, False
        runs: dict[int, Run] = {}
        digests: Digests = {}
        if out is not None:
            comparison_folder.refuse_unwritable(plan.vary)
            base = Described(plain(experiment.to_dict()), origins(experiment, digests))
            opening = comparison_folder.opened(Path(out), base, plan.vary, afresh=afresh, numbered=numbered)
            folder, index, made = stack.enter_context(opening)
        observer = stack.enter_context(watched(observe, "comparison_bar"))
        if plan.tune:
            with comparison_folder.unmade(folder if made else None):
                found = _tuned(tasks, found, plan, jobs, folder, observer)
            tasks = list(_tasks(experiment, found, plan.seeds))
        if folder is not None:
            known = [_described(task, digests) for task in tasks]
            tasks, index = _placed(tasks, known, found, plan.vary, folder, replace(index, base=base))
            tasks, runs = _earlier(tasks, known)
            _prepare(experiment, plan, folder, index)
        run_all(tasks, runs, jobs, observer, folder)
        _refuse_all_failed(runs, folder, made)
        ended = tuple(runs[place] for place in sorted(runs))
        comparison = Comparison(tuple(plan.vary), tuple(found), ended, folder, drawn_keys(plan.vary))
        if folder is not None:
            _publish(comparison, folder, drawing)
    return comparison


def _given(topology: Any) -> Any:
    graph = given_graph(topology)
    return topology if graph is None else graph


def _check(seeds: int, jobs: int | None, out: Path | str | None) -> None:
    """Raise an InputError for numbers below 1 or a folder that cannot be created."""
    if seeds < 1:
        raise InputError(f"seeds = {seeds!r} must be at least 1")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    if out is not None:
        check_place(Path(out))


def read(folder: Path | str, safe: bool = False) -> Comparison:
    """Read a comparison from its folder: the cells of the last call, and their runs.

    Unfinished runs count as failed.

    Parameters
    ----------
    folder : Path or str
        A folder written by :func:`compare`.
    safe : bool
        If True, parts named as "package.module:Class" raise an error, so that the folder cannot choose the code that
        runs.

    Raises
    ------
    InputError
        The folder has no comparison, or is damaged.
    """
    folder = Path(folder)
    index = comparison_folder.read_index(folder)
    plan = read_compare(folder / EXPERIMENT)
    experiment = Experiment.from_file(folder / EXPERIMENT, safe=safe)
    found, tasks = _asked(experiment, plan)
    if plan.tune:
        found = tuning.kept_cells(_first(tasks), found, plan, folder)
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


def _tasks(experiment: Experiment, found: Sequence[Cell], seeds: int) -> Iterator[Task]:
    """Build all experiments before the first run starts, so that an invalid combination is found at once."""
    for place, cell in enumerate(found):
        for seed in range(experiment.seed, experiment.seed + seeds):
            try:
                built = experiment.other({**cell.config, "seed": seed})
            except InputError as error:
                where = ", ".join(cell.labels)
                raise InputError(f"{where}: {error}" if where else str(error)) from error
            yield Task(place, ", ".join([*cell.labels, f"seed {seed}"]), built, safe=not may_import())


def _earlier(tasks: Sequence[Task], described: Sequence[Described]) -> tuple[list[Task], dict[int, Run]]:
    """Return the tasks with their state in the folder, and the complete runs."""
    found: list[Task] = []
    runs: dict[int, Run] = {}
    made_by: list[Mapping[str, str]] = []
    for place, task in enumerate(tasks):
        before = earlier(task.place, task.experiment, described[place].behind)
        found.append(replace(task, state=before.state))
        if before.result is not None:
            runs[place] = replace(run_of(task.cell, before.result, task.place), origin="reused")
            made_by.append(before.result.summary.get("versions") or {})
    compare_versions(made_by)
    return found, runs


def _refuse_all_failed(runs: Mapping[int, Run], folder: Path | None, made: bool) -> None:
    """Raise an error if no run is complete; a folder created for invalid runs is removed."""
    if all(run.refused for run in runs.values()):
        if folder is not None and made:
            shutil.rmtree(folder)
        raise InputError(runs[0].failure)
    if all(run.failure for run in runs.values()):
        where = "" if folder is None else f"; what they measured is in {folder / RUNS}"
        raise SimulationError(f"all {len(runs)} runs failed, the first of them: {runs[0].failure}{where}")


def _asked(experiment: Experiment, plan: Plan) -> tuple[list[Cell], list[Task]]:
    """Return the cells with defaults, in which rows may differ unintentionally, and their runs."""
    found = cells(experiment.to_dict(), plan.vary)
    tasks = list(_tasks(experiment, found, plan.seeds))
    return [replace(cell, config=one.to_dict()) for cell, one in zip(found, _first(tasks), strict=True)], tasks


def _first(tasks: Sequence[Task]) -> list[Experiment]:
    """Return the experiment of each cell, with the first seed."""
    return list({task.cell: task.experiment for task in reversed(tasks)}.values())[::-1]


def _tuned(
    tasks: Sequence[Task],
    found: Sequence[Cell],
    plan: Plan,
    jobs: int | None,
    folder: Path | None,
    observe: Callable[[ComparisonProgress], None] | None,
) -> list[Cell]:
    """Tune the values of each cell, with the same number of processes as for runs."""

    def watch(done: int) -> None:
        if observe is not None:
            observe(ComparisonProgress(0, len(tasks), 0, 0.0, f"{done} of {len(found)} rows are tuned", None))

    count = min(parallel.cores() if jobs is None else jobs, len(found))
    if count > 1:
        compile_once(tasks)
    return tuning.tuned_cells(_first(tasks), found, plan, count, folder, watch)


def _described(task: Task, digests: Digests) -> Described:
    return Described(plain(task.experiment.to_dict()), origins(task.experiment, digests))


def _placed(
    tasks: Sequence[Task],
    described: Sequence[Described],
    found: Sequence[Cell],
    vary: Mapping[str, Sequence[Any]],
    folder: Path,
    index: Index,
) -> tuple[list[Task], Index]:
    """Give each task its run folder."""
    asked = [(run, found[task.cell].labels) for task, run in zip(tasks, described, strict=True)]
    places, index = comparison_folder.assigned(asked, index, vary)
    placed = [replace(task, folder=folder / RUNS / place) for task, place in zip(tasks, places, strict=True)]
    return placed, index


def _prepare(experiment: Experiment, plan: Plan, folder: Path, index: Index) -> None:
    """Write the index of the runs and the experiment file of the comparison, before the first run starts."""
    asked: dict[str, Any] = {key: True for key in ("tune", "pooled") if getattr(plan, key)}
    if plan.pilot_seeds != PILOT_SEEDS:
        asked["pilot_seeds"] = plan.pilot_seeds
    again = {
        **experiment.to_dict(),
        "compare": {"seeds": plan.seeds, **asked, "vary": comparison_folder.written(experiment, plan.vary, folder)},
    }
    comparison_folder.write_index(folder, index)
    comparison_folder.write_experiment(folder / EXPERIMENT, experiment, again)


def _publish(comparison: Comparison, folder: Path, drawing: Drawing) -> None:
    """Write tables and figures."""
    from kernelswarm.simulations.comparison import tables
    from kernelswarm.simulations.figures import plots

    tables.write(comparison, folder)
    plots.draw_comparison(comparison, folder / "figures", drawing.formats, drawing.style)
