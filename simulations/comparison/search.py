"""Search of an experiment's keys for the least measured figure, one trial after another."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelswarm.simulations.comparison.comparison_folder import identified, origins, write_experiment
from kernelswarm.simulations.comparison.study import Judge, OptunaStudy, Proposal, Space, Study, Trial, space
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError
from kernelswarm.simulations.core.files import held, whole_file
from kernelswarm.simulations.core.messages import leaves, nearest, plain, shown
from kernelswarm.simulations.engine.ray_backend import keep_ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.running.simulation import Simulation

BEST, TABLE = "best.toml", "trials.csv"
"""The files of a complete search in its folder: the experiment with the best values, and all trials."""

TRIALS = "trials"
"""The folder of the trials in it."""

Opened = Callable[[Path, Space, int, Mapping[str, str], bool], Study]


@dataclass(frozen=True)
class Search:
    """The result of a search.

    Parameters
    ----------
    space : Space
        The space of the search.
    by : str
        The figure to be minimised.
    trials : tuple of Trial
        All trials in their order.
    labels : tuple of tuples of str
        The labels of each trial's values in tables.
    folder : Path
        The folder of the search.
    """

    space: Space
    by: str
    trials: tuple[Trial, ...]
    labels: tuple[tuple[str, ...], ...]
    folder: Path

    @property
    def order(self) -> list[int]:
        """The places of the trials, the best first; pruned and failed ones come last."""
        values = [math.inf if trial.value is None else trial.value for trial in self.trials]
        return sorted(range(len(values)), key=lambda place: (values[place], bool(self.trials[place].failure), place))


def search(
    experiment: Experiment,
    vary: Mapping[str, Any],
    trials: int,
    folder: Path | str,
    *,
    by: str = "risk",
    seeds: int = 1,
    prune: bool = True,
    jobs: int = 1,
    observe: Callable[[int, Trial, float], None] | None = None,
    opened: Opened = OptunaStudy,
) -> Search:
    """Search the values of an experiment's keys; trials, ``jobs`` at a time, are proposed from those before them.

    A folder that holds this search already is continued, also with more trials than before.

    Parameters
    ----------
    experiment : Experiment
        The common experiment of all trials.
    vary : mapping of str to str or list
        For each key its range, such as ``"log:0.01:1"``, or a list of values.
    trials : int
        The number of trials, with those in the folder.
    folder : Path
        The folder of the search.
    by : str
        The column of the network's table whose last value, a mean over the seeds, is minimised.
    seeds : int
        Runs of each trial, with the experiment's seed, the next one, and so on.
    prune : bool
        Whether a trial ends early that is worse than the median of the earlier ones at an evaluation.
    jobs : int
        The number of trials that are proposed together and run side by side, each in a process of its own. The same
        number gives the same trials, on any machine and after any interruption.
    observe : callable, optional
        Called after each trial with the number of trials ended, the trial, and the least value of all.
    opened : callable
        Opens the study, which proposes and records trials.

    Raises
    ------
    InputError
        A key or a number is out of range, Optuna is not installed, the folder holds another search, or another process
        runs it.
    SimulationError
        All trials failed, or the folder may not be written.
    Interrupted
        A signal came; the trials that have ended are in the folder.
    """
    _check(experiment, trials, seeds, jobs)
    asked = space(experiment, vary)
    folder = Path(folder)
    check_place(folder)
    place = folder / TRIALS
    place.mkdir(parents=True, exist_ok=True)
    with held(place), keep_ray():
        identity = dict(leaves(_identity(experiment, vary, by, seeds, prune, jobs)))
        study = opened(place, asked, experiment.seed, identity, prune)
        known = dict(study.trials())
        for first in range(0, trials, jobs):
            left = [place for place in range(first, min(first + jobs, trials)) if place not in known]
            with closing(_batch(experiment, asked, study, first, left, jobs, by, seeds)) as tried:
                for number, trial in tried:
                    known[number] = trial
                    if observe is not None:
                        observe(len(known), trial, _least(known.values()))
        ended = [known[place] for place in sorted(known)]
        labels = tuple(asked.cell(experiment, trial.proposal).labels for trial in ended)
        found = Search(asked, by, tuple(ended), labels, folder)
        _refuse_all_failed(found)
        _write(found, experiment)
    return found


def _check(experiment: Experiment, trials: int, seeds: int, jobs: int) -> None:
    """Refuse invalid counts, and processes beside the backend's own; raises InputError."""
    for name, count in (("trials", trials), ("seeds", seeds), ("jobs", jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name} = {shown(count)} must be a whole number of at least 1")
    if jobs > 1 and not isinstance(experiment.backend, Serial):
        raise InputError(f"jobs = {jobs} needs one process for each trial: take the backend serial, or jobs = 1")


def _refuse_all_failed(found: Search) -> None:
    """Raise SimulationError for a search without a trial that has a value."""
    if found.trials[found.order[0]].value is None:
        why = next((trial.failure for trial in found.trials if trial.failure), "none reached its last round")
        raise SimulationError(f"all {len(found.trials)} trials failed or were given up: {why}")


def _identity(
    experiment: Experiment, vary: Mapping[str, Any], by: str, seeds: int, prune: bool, jobs: int
) -> dict[str, Any]:
    """Return the key of a folder's search: trials with the same key are continued."""
    what = identified(experiment.to_dict(), origins(experiment, {}))
    what.pop("backend")  # it changes no bit
    found = {**what, **{f"--vary {key}": plain(tried) for key, tried in vary.items()}}
    found |= {"--by": by, "--seeds": seeds, "--prune": prune}
    return found | ({"--jobs": jobs} if jobs > 1 else {})


def _batch(
    experiment: Experiment,
    asked: Space,
    study: Study,
    first: int,
    left: Sequence[int],
    jobs: int,
    by: str,
    seeds: int,
) -> Generator[tuple[int, Trial], None, None]:
    """Run the trials that are left of a batch, record each at its end, and yield it with its number."""
    if not left:
        return
    proposals, judge = study.propose(first, jobs), study.judge(first)
    attempts = [
        Attempt(asked.cell(experiment, proposal).config, experiment, proposal, judge, by, seeds)
        for proposal in (proposals[place - first] for place in left)
    ]
    with closing(_answers(attempts, jobs)) as answers:
        for number, trial in answers:
            study.end(left[number], trial)
            yield left[number], trial


def _least(ended: Iterable[Trial]) -> float:
    return min((trial.value for trial in ended if trial.value is not None), default=math.nan)


@dataclass(frozen=True)
class Attempt:
    """A trial to be run, in this process or another."""

    config: Mapping[str, Any]
    experiment: Experiment
    proposal: Proposal
    judge: Judge
    by: str
    seeds: int


def _answers(attempts: Sequence[Attempt], jobs: int) -> Generator[tuple[int, Trial], None, None]:
    """Yield the place and the trial of each attempt as it ends."""
    if jobs == 1:
        for number, attempt in enumerate(attempts):
            yield number, _asked_for(_tried(attempt))
        return
    with closing(parallel.answers(_tried, attempts, jobs, lambda shares: None, what="the search")) as answers:
        for number, answer in answers:
            if isinstance(answer, parallel.Lost):
                yield number, Trial(attempts[number].proposal, failure=answer.cause)
            else:
                yield number, _asked_for(answer)


def _asked_for(answer: Trial | _Unknown) -> Trial:
    if isinstance(answer, _Unknown):
        raise answer
    return answer


def _tried(attempt: Attempt, tell: Callable[[float], None] = lambda share: None) -> Trial | _Unknown:
    by, seeds, proposal = attempt.by, attempt.seeds, attempt.proposal
    rows: list[Mapping[str, float]] = []
    learning_curve: dict[int, float] = {}
    try:
        for seed in range(attempt.experiment.seed, attempt.experiment.seed + seeds):
            row: Mapping[str, float] = {}
            built = attempt.experiment.other({**attempt.config, "seed": seed})
            with Simulation(built) as simulation:
                for state in simulation:
                    row = state.row
                    if by not in row:
                        return _Unknown(
                            f"by = {shown(by)} is not measured{nearest(by, row)} (measured: {', '.join(row)})"
                        )
                    if not rows and state.round < built.rounds and math.isfinite(row[by]):
                        learning_curve[state.round] = row[by]
                        if attempt.judge.hopeless(learning_curve):
                            return Trial(proposal, _finite(row), learning_curve=learning_curve)
            rows.append(row)
    except Interrupted:
        raise
    except (InputError, SimulationError) as error:  # a refused combination, or one that diverges
        return Trial(proposal, failure=str(error), learning_curve=learning_curve)
    figures = {name: sum(row[name] for row in rows) / seeds for name in rows[0]}
    if not math.isfinite(figures[by]):
        return Trial(proposal, _finite(figures), failure=f"its {by} is {figures[by]}", learning_curve=learning_curve)
    return Trial(proposal, _finite(figures), figures[by], learning_curve=learning_curve)


class _Unknown(InputError):
    """A refusal of all trials, not of one of them."""


def _finite(row: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if math.isfinite(value)}


def _write(found: Search, experiment: Experiment) -> None:
    """Write all trials as a table, and the best as an experiment."""
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.figures if name != "round"))
    with whole_file(found.folder / TABLE) as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["trial", *found.space.keys, "rounds", *names, "failure"])
        for number, (trial, labels) in enumerate(zip(found.trials, found.labels, strict=True), 1):
            figures = [trial.figures.get(name, "") for name in ("round", *names)]
            shown_labels = ["" if label == NOT_APPLICABLE else label for label in labels]
            table.writerow([number, *shown_labels, *figures, trial.failure])
    best = found.space.cell(experiment, found.trials[found.order[0]].proposal)
    write_experiment(found.folder / BEST, experiment, plain(best.config))
