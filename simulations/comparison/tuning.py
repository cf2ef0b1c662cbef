"""Tuning of each row of a comparison by the same search, and the file with the results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.comparison.candidates import bracket, candidates, edges, halve, own_ranges
from kernelswarm.simulations.comparison.comparison_folder import AFRESH, Described, Digests, origins
from kernelswarm.simulations.comparison.pilots import APART, Search, refuse_untried
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError, plain
from kernelswarm.simulations.core.files import write_text
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import Figures, Judgement, Tuned
from kernelswarm.simulations.experiment.variation import PILOT_SEEDS, Cell, Plan
from kernelswarm.simulations.running.network import open_network

# Search for the best values of an experiment, on seeds that the comparison does not use.

CANDIDATES = 12
"""Number of candidates spread over the ranges, for any number of keys, in addition to the unchanged experiment."""

MEASURED = 20_000
"""Number of samples for the evaluation of a pilot: with strong noise, fewer samples cannot distinguish penalties."""

POLLED = 24
"""Maximum number of candidates tried around the best one."""


def tuned(
    experiment: Experiment,
    pooled: bool = False,
    watch: Callable[[float], None] | None = None,
    pilot_seeds: int = PILOT_SEEDS,
) -> Tuned:
    """Tune the keys of :func:`~kernelswarm.simulations.comparison.candidates.own_ranges` in this process.

    The search is successive halving, with the same number of candidates for each experiment, and then a pattern search
    around the best one, see :func:`~kernelswarm.simulations.comparison.candidates.bracket`. Pilots are as in
    :func:`~kernelswarm.simulations.comparison.suggest.suggest`, with separate seeds. The candidate with the lowest risk
    and the unchanged experiment are run with four further seeds. The candidate is taken if its risk is lower by more
    than one standard error of the paired differences.

    Parameters
    ----------
    experiment : Experiment
        The unchanged experiment, which is one of the candidates.
    pooled : bool
        Whether the risk on the samples of all nodes together is compared, and not that on each node's own.
    watch : callable, optional
        Called with the approximate finished share.
    pilot_seeds : int
        Number of seeds of each candidate, whose risks are averaged.

    Raises
    ------
    InputError
        The experiment is invalid, has too little data, or has data of a Markov chain, whose true values are unknown to
        pilots.
    """
    report = watch or (lambda share: None)
    seeds = tuple(range(experiment.seed + APART, experiment.seed + APART + pilot_seeds))
    first = replace(experiment, seed=seeds[0])
    found = own_ranges(first)
    if not found:
        return Tuned()
    network = open_network(first)
    refuse_untried(first, network)

    def build(changes: Mapping[str, Any]) -> Experiment | str:
        try:
            return first.with_changes(changes)
        except InputError as error:
            return str(error)

    def tell(rounds: int, count: int, share: float) -> None:
        report(min(1.0, len(search.trials) / (CANDIDATES + 1 + POLLED)))

    search = Search(build, network, candidates(found, CANDIDATES), pooled, None, 1, tell, seeds, MEASURED)
    finals = bracket(halve(len(search.values), search.longest, search.scores), found, search, POLLED)
    best = min(finals, key=lambda place: finals[place])
    keys = tuple(entry.key for entry in found)
    judgement = search.judged(best)
    taken = best if judgement.holds else 0
    sides = edges(taken, finals, found, search)
    return Tuned(search.trials[taken].values, keys, search.pilots, seeds, sides, judgement)


TUNING = "tuning.json"
"""The file with the result of each row's search in a comparison's folder."""


def refuse(tune: bool, pooled: bool, seeds: int, pilot_seeds: int) -> None:
    """Raise an InputError for incompatible options."""
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
    plan: Plan,
    jobs: int,
    folder: Path | None,
    watch: Callable[[int], None],
) -> list[Cell]:
    """Return the cells with their best values, see `tuned`; existing results in the folder are reused.

    Parameters
    ----------
    experiments : sequence of Experiment
        The experiment of each cell, with the comparison's seed.
    found : sequence of Cell
        The cells.
    plan : Plan
        The varied keys, the compared risk, and the number of seeds of each candidate.
    jobs : int
        Maximum number of simultaneous processes. One process searches a whole cell, so the values do not depend on the
        number.
    folder : Path, optional
        The comparison's folder.
    watch : callable
        Called with the number of finished cells.

    Raises
    ------
    InputError
        A cell cannot be tuned, for example because it has too little data, or the folder's file is damaged.
    SimulationError
        A process ended before its search was complete.
    """
    names = _names(experiments, plan)
    known = {} if folder is None else _read(folder)
    left = [place for place, name in enumerate(names) if name not in known]
    watch(len(found) - len(left))
    tasks = [_Task(experiments[place], ", ".join(found[place].labels), plan.pooled, plan.pilot_seeds) for place in left]
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


def kept_cells(experiments: Sequence[Experiment], found: Sequence[Cell], plan: Plan, folder: Path) -> list[Cell]:
    """Return the cells with the tuned values in a folder; cells without a result are unchanged."""
    known = _read(folder)
    names = _names(experiments, plan)
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
    """Tune one cell; an error is returned as text, so that it can be sent between processes."""
    try:
        return tuned(task.experiment, task.pooled, tell, task.pilot_seeds)
    except InputError as error:
        return f"{task.name}: {error}" if task.name else str(error)


def _with(cell: Cell, experiment: Experiment, found: Tuned) -> Cell:
    return replace(cell, config=experiment.with_changes(found.values).to_dict(), tuned=found)


def _names(experiments: Sequence[Experiment], plan: Plan) -> list[str]:
    """Return the key of each cell's search, which depends on the seed and on contents, but not on paths of files."""
    digests: Digests = {}
    more = "" if plan.pilot_seeds == PILOT_SEEDS else f", pilot_seeds = {plan.pilot_seeds}"
    texts = [
        f"{Described(plain(one.to_dict()), origins(one, digests)).identity(plan.vary)}, pooled = {plan.pooled}{more}"
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
