"""The runs of a comparison: one cell with one seed each, several processes at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kernelswarm.simulations.backends.cache_warmup import warm_cache
from kernelswarm.simulations.backends.ray_backend import keep_ray
from kernelswarm.simulations.backends.serial import Serial
from kernelswarm.simulations.comparison.comparison_progress import ComparisonProgress, Watcher
from kernelswarm.simulations.comparison.earlier_run import start_or_resume
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.machine import parallel
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.records.outcome import Run, State, run_of
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Progress, simulate


@dataclass(frozen=True)
class Task:
    """A run to come, with what its folder, if it has one, holds of it already."""

    cell: int
    name: str
    experiment: Experiment
    folder: Path | None = None
    state: State = "new"
    safe: bool = False

    @property
    def place(self) -> Path:
        """The folder, where there is one."""
        assert self.folder is not None
        return self.folder


def run_all(
    tasks: Sequence[Task],
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
        compile_once(waiting)

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


def compile_once(tasks: Sequence[Task]) -> None:
    """Compile, once for each learner, what the processes to come would otherwise each compile for themselves."""
    learners = {task.experiment.to_dict()["learner"]["name"]: task for task in reversed(tasks)}
    for task in learners.values():
        with suppress(InputError), one_thread():  # the run itself reports a refusal
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
    """Repeat the warnings of runs, each text once with the names of the runs."""
    for text, names in warned.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        which = "all runs" if len(names) == runs > 1 else "; ".join(names[:3]) + more
        warnings.warn(f"{which}: {text}", stacklevel=2)


def _execute_apart(task: Task, tell: Callable[[float], None]) -> tuple[Run, list[str]]:
    """Run one cell with one seed in a process of its own, and return what it warned of to who can say it."""
    with warnings.catch_warnings(record=True) as caught:
        run = _execute(task, tell)
    return run, list(dict.fromkeys(str(warning.message) for warning in caught))


def _execute(task: Task, tell: Callable[[float], None]) -> Run:
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
