"""Each row of a comparison at its own best values, by one search for all, and the file with the results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.comparison.best_values import tuned
from kernelswarm.simulations.comparison.comparison_folder import AFRESH, Described, Digests, origins
from kernelswarm.simulations.comparison.trials import APART
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import write_text
from kernelswarm.simulations.core.messages import plain
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import Figures, Judgement, Tuned
from kernelswarm.simulations.experiment.variation import PILOT_SEEDS, Cell

TUNING = "tuning.json"
"""The file in a comparison's folder with the result of each row's search."""


def refuse(tune: bool, pooled: bool, seeds: int, pilot_seeds: int) -> None:
    """Refuse what cannot be asked for together; raises InputError."""
    if pooled and not tune:
        raise InputError("pooled = true says which risk rows are tuned by: ask for tune too, or leave it out")
    if pilot_seeds < 1:
        raise InputError(f"pilot_seeds = {pilot_seeds!r} must be at least 1")
    if pilot_seeds != PILOT_SEEDS and not tune:
        raise InputError("pilot_seeds says with how many seeds rows are tuned: ask for tune too, or leave it out")
    if tune and seeds > APART:
        raise InputError(
            f"seeds = {seeds!r} must be at most {APART:,} with tune: the seeds after these are the pilots'"
        )


def tuned_cells(
    experiments: Sequence[Experiment],
    found: Sequence[Cell],
    vary: Mapping[str, Any],
    pooled: bool,
    pilot_seeds: int,
    jobs: int,
    folder: Path | None,
    watch: Callable[[int], None],
) -> list[Cell]:
    """Return the cells with their best values, see `tuned`; results in the folder are not searched again.

    Parameters
    ----------
    experiments : sequence of Experiment
        The experiment of each cell, with the comparison's seed.
    found : sequence of Cell
        The cells.
    vary : mapping
        The varied keys.
    pooled : bool
        Whether the pooled risk is compared.
    pilot_seeds : int
        With how many seeds each candidate is tried.
    jobs : int
        Processes at a time; a cell is searched by one of them, so that the values are the same for any number.
    folder : Path, optional
        The comparison's folder.
    watch : callable
        Called with the number of cells that are done.

    Raises
    ------
    InputError
        A cell cannot be tuned, for lack of data, say, or what the folder keeps is damaged.
    SimulationError
        A process ended before its search.
    """
    names = _names(experiments, vary, pooled, pilot_seeds)
    known = {} if folder is None else _read(folder)
    left = [place for place, name in enumerate(names) if name not in known]
    watch(len(found) - len(left))
    tasks = [_Task(experiments[place], ", ".join(found[place].labels), pooled, pilot_seeds) for place in left]
    with closing(_answers(tasks, jobs)) as answers:
        for place, answer in answers:
            if isinstance(answer, parallel.Lost):
                raise SimulationError(f"tuning {tasks[place].name} ended: {answer.cause}")
            if isinstance(answer, str):
                raise InputError(answer)
            known[names[left[place]]] = answer
            if folder is not None:
                _write(folder, known)
            watch(sum(name in known for name in names))
    return [_with(cell, one, known[name]) for cell, one, name in zip(found, experiments, names, strict=True)]


def kept_cells(
    experiments: Sequence[Experiment],
    found: Sequence[Cell],
    vary: Mapping[str, Any],
    pooled: bool,
    pilot_seeds: int,
    folder: Path,
) -> list[Cell]:
    """Return the cells with the values that a folder keeps; a cell that was not tuned as yet is as it is."""
    known = _read(folder)
    names = _names(experiments, vary, pooled, pilot_seeds)
    return [
        _with(cell, one, known[name]) if name in known else cell
        for cell, one, name in zip(found, experiments, names, strict=True)
    ]


class _Task(NamedTuple):
    experiment: Experiment
    name: str
    pooled: bool
    pilot_seeds: int


def _answers(tasks: Sequence[_Task], jobs: int) -> Any:
    if jobs > 1 and len(tasks) > 1:
        yield from parallel.answers(_searched, tasks, jobs, lambda shares: None, what="the comparison")
        return
    for place, task in enumerate(tasks):
        yield place, _searched(task, lambda share: None)


def _searched(task: _Task, tell: Callable[[float], None]) -> Tuned | str:
    """Search one cell's values; a refusal is returned, so that it crosses processes as it is."""
    try:
        return tuned(task.experiment, task.pooled, tell, task.pilot_seeds)
    except InputError as error:
        return f"{task.name}: {error}" if task.name else str(error)


def _with(cell: Cell, experiment: Experiment, found: Tuned) -> Cell:
    return replace(cell, config=experiment.with_changes(found.values).to_dict(), tuned=found)


def _names(experiments: Sequence[Experiment], vary: Mapping[str, Any], pooled: bool, pilot_seeds: int) -> list[str]:
    """Return the key of each cell's search: the same wherever its files lie, another with another seed."""
    digests: Digests = {}
    more = "" if pilot_seeds == PILOT_SEEDS else f", pilot_seeds = {pilot_seeds}"
    texts = [
        f"{Described(plain(one.to_dict()), origins(one, digests)).identity(vary)}, pooled = {pooled}{more}"
        for one in experiments
    ]
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def _read(folder: Path) -> dict[str, Tuned]:
    path = folder / TUNING
    if not path.is_file():
        return {}
    try:
        content = parse(path.read_text(encoding="utf-8"))
        return {
            name: Tuned(
                dict(one["values"]),
                tuple(one["keys"]),
                int(one["pilots"]),
                tuple(one["seeds"]),
                dict(one["edges"]),
                _judgement(one["judgement"]),
            )
            for name, one in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is damaged, and with it what each row was tuned to: remove it to search again, or {AFRESH}"
        ) from error


def _judgement(content: Mapping[str, Any] | None) -> Judgement | None:
    if content is None:
        return None
    before, after = (tuple(Figures(**one) for one in content[name]) for name in ("before", "after"))
    return Judgement(before, after, bool(content["pooled"]), int(content["first"]))


def _write(folder: Path, known: Mapping[str, Tuned]) -> None:
    content = {name: asdict(found) for name, found in known.items()}
    write_text(folder / TUNING, json.dumps(content, indent=1) + "\n")
