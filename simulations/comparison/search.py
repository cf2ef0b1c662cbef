"""Search for the values of keys that minimise a measured figure, with a stored record of trials."""

from __future__ import annotations

import csv
import math
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelswarm.simulations.comparison.comparison_folder import identified, origins, write_experiment
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError, leaves, nearest, plain, shown
from kernelswarm.simulations.core.files import held, whole_file
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.engine.ray_backend import keep_ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import (
    NOT_APPLICABLE,
    Cell,
    RandomValues,
    cells,
    is_drawn,
    parse_draws,
)
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.running.simulation import Simulation

# The space of a search: a range or a list of values for each key.

Proposal = Mapping[str, float | int]
"""For each key, a number in its range or the place of a value in its list."""


@dataclass(frozen=True)
class Space:
    """The keys of a search.

    Parameters
    ----------
    ranges : dict of str to RandomValues
        Keys with ranges of numbers.
    lists : dict of str to list
        Keys with lists of values.
    """

    ranges: Mapping[str, RandomValues]
    lists: Mapping[str, Sequence[Any]]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.ranges, *self.lists)

    def cell(self, experiment: Experiment, proposal: Proposal) -> Cell:
        """Return the experiment with the proposed values; keys that a part lacks are left out."""
        tried: dict[str, Any] = {key: [ends.rounded(proposal[key])] for key, ends in self.ranges.items()}
        tried |= {key: [values[int(proposal[key])]] for key, values in self.lists.items()}
        (cell,) = cells(experiment.to_dict(), tried, lacking=True)
        return cell


def space(experiment: Experiment, vary: Mapping[str, Any]) -> Space:
    """Return the space of a search, validated with the experiment before any run.

    Parameters
    ----------
    experiment : Experiment
        The common experiment of all trials.
    vary : mapping of str to str or list
        For each key a range, ``"log:0.01:1"``, ``"uniform:0:1"`` or ``"integer:1:9"``, or a list of values.

    Raises
    ------
    InputError
        There is no key, a range is invalid, or a key belongs to no part.
    """
    if not vary:
        raise InputError("there is nothing to search: give a key and its range, --vary learner.step_size=log:0.01:1")
    ranges = {key: parse_draws(key, text, counted=False) for key, text in vary.items() if is_drawn(text)}
    lists = {key: values for key, values in vary.items() if key not in ranges}
    for key, values in lists.items():
        for value in values:
            if is_drawn(value):
                raise InputError(f"vary {key}: {shown(value)} must stand alone, not in a list")
    lowest = {key: [ends.rounded(ends.low)] for key, ends in ranges.items()}
    refusals = []
    found = cells(experiment.to_dict(), {**lowest, **lists})
    for cell in found:
        try:
            experiment.other(cell.config)
        except InputError as error:
            refusals.append(error)
    if len(refusals) == len(found):
        raise refusals[0]
    return Space(ranges, lists)


# Record and proposals of trials by Optuna, with a database in the folder.

DATABASE = "trials.db"
"""The database of the trials."""


@dataclass(frozen=True)
class Trial:
    """A finished trial.

    Parameters
    ----------
    proposal : dict of str to number
        The tried values.
    figures : dict of str to float
        The last figures, as means over the seeds; for pruned trials, of the first seed.
    value : float, optional
        The figure to be minimised; None for a pruned or failed trial.
    failure : str
        The reason of its failure; empty for successful trials.
    learning_curve : dict of int to float
        The minimised figure of the first seed at all evaluations before the last, by round.
    """

    proposal: Proposal
    figures: Mapping[str, float] = field(default_factory=dict)
    value: float | None = None
    failure: str = ""
    learning_curve: Mapping[int, float] = field(default_factory=dict)


class Judge(Protocol):
    """The pruner of trials, which can be sent to another process."""

    def hopeless(self, learning_curve: Mapping[int, float]) -> bool:
        """Tell from a trial's figures so far whether to prune it."""
        ...


class Study(Protocol):
    """The proposals and the record of trials, each with its place in the search, from 0."""

    def trials(self) -> Mapping[int, Trial]:
        """Return the finished trials by place."""
        ...

    def propose(self, first: int, count: int) -> Sequence[Proposal]:
        """Return the proposals for ``count`` places from ``first`` on, based on earlier trials only."""
        ...

    def judge(self, first: int) -> Judge:
        """Return the pruner of trials from place ``first`` on, based on earlier trials."""
        ...

    def end(self, place: int, trial: Trial) -> None:
        """Record the end of a trial."""
        ...


class OptunaStudy:
    """Proposals by the tree-structured Parzen estimator (Bergstra et al., NIPS 2011), with pruning by the median.

    An interrupted search continues with the same trials, since a proposal depends only on the seed, on its place, and
    on the trials before its batch. The unfinished trials of the same batch count as failed ("constant liar"), so that
    proposals differ.

    Parameters
    ----------
    folder : Path
        The folder of the database.
    space : Space
        The space of the search.
    seed : int
        The seed of the proposals.
    asked : dict of str to str
        The identity of the search, which must equal the folder's.
    prune : bool
        Whether trials are pruned.

    Raises
    ------
    InputError
        Optuna is not installed, or the folder has another search.
    """

    def __init__(self, folder: Path, space: Space, seed: int, asked: Mapping[str, str], prune: bool) -> None:
        self._library = library = optuna()
        self._seed = seed
        self._space = space
        self._study: Any = library.create_study(
            storage=_storage(library, (folder / DATABASE).resolve()), study_name="search", load_if_exists=True
        )
        self._prune = prune
        then = self._study.user_attrs.get("asked", asked)
        for key in dict.fromkeys([*asked, *then]):
            if asked.get(key) != then.get(key):
                raise InputError(
                    f"{folder.parent} holds another search: {key} is {asked.get(key, 'not there')} and was "
                    f"{then.get(key, 'not there')}: name another folder with --out"
                )
        self._study.set_user_attr("asked", dict(asked))

    def _ended(self) -> dict[int, Any]:
        state = self._library.trial.TrialState
        found = self._study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED))
        return dict(sorted((trial.user_attrs.get("place", number), trial) for number, trial in enumerate(found)))

    def _before(self, first: int) -> list[Any]:
        return [trial for place, trial in self._ended().items() if place < first]

    def trials(self) -> dict[int, Trial]:
        """Return the finished trials by place."""
        complete = self._library.trial.TrialState.COMPLETE
        return {
            place: Trial(
                trial.params,
                trial.user_attrs["figures"],
                trial.value if trial.state == complete else None,
                trial.user_attrs["failure"],
                trial.intermediate_values,
            )
            for place, trial in self._ended().items()
        }

    def _distributions(self) -> dict[str, Any]:
        kinds = self._library.distributions
        found: dict[str, Any] = {}
        for key, ends in self._space.ranges.items():
            if ends.scale == "integer":
                found[key] = kinds.IntDistribution(int(ends.low), int(ends.high))
            else:
                found[key] = kinds.FloatDistribution(ends.low, ends.high, log=ends.scale == "log")
        for key, values in self._space.lists.items():
            found[key] = kinds.CategoricalDistribution(range(len(values)))
        return found

    def propose(self, first: int, count: int) -> list[Proposal]:
        """Return the proposals for ``count`` places from ``first`` on, based on earlier trials only."""
        study = self._library.create_study()  # in memory, since proposals are not stored
        study.add_trials(self._before(first))
        found: list[Proposal] = []
        for place in range(first, first + count):
            seed = generator(self._seed, Role.COMPARISON, 1, place).integers(2**31)
            study.sampler = self._library.samplers.TPESampler(seed=int(seed), constant_liar=True)
            found.append(study.ask(self._distributions()).params)
        return found

    def judge(self, first: int) -> MedianJudge:
        """Return the pruner of trials from place ``first`` on, based on earlier trials."""
        return MedianJudge(self._before(first) if self._prune else None)

    def end(self, place: int, trial: Trial) -> None:
        """Record the end of a trial; failed trials count as pruned, so that their neighbourhood is avoided."""
        state = self._library.trial.TrialState
        self._study.add_trial(
            self._library.trial.create_trial(
                state=state.PRUNED if trial.value is None else state.COMPLETE,
                value=trial.value,
                params=dict(trial.proposal),
                distributions=self._distributions(),
                user_attrs={"place": place, "figures": dict(trial.figures), "failure": trial.failure},
                intermediate_values=dict(trial.learning_curve),
            )
        )


class MedianJudge:
    """Prunes a trial that is worse than the median of earlier trials at the same round.

    Parameters
    ----------
    before : list of optuna.trial.FrozenTrial, optional
        The earlier trials; None means no pruning.
    """

    def __init__(self, before: list[Any] | None) -> None:
        self._before = before

    def hopeless(self, learning_curve: Mapping[int, float]) -> bool:
        """Tell from a trial's figures so far whether to prune it."""
        if self._before is None:
            return False
        library = optuna()
        study = library.create_study()
        study.add_trials(self._before)
        trial = library.trial.create_trial(
            state=library.trial.TrialState.RUNNING, intermediate_values=dict(learning_curve)
        )
        return bool(library.pruners.MedianPruner().prune(study, trial))


def _storage(library: Any, database: Path) -> Any:
    """Return the database at a path, without a URL, in which %20, #, ? and {} would have a meaning."""
    from sqlalchemy.pool import NullPool

    opening = {"creator": lambda: sqlite3.connect(database), "poolclass": NullPool}
    return library.storages.RDBStorage("sqlite://", engine_kwargs=opening)


def optuna() -> Any:
    """Import Optuna with logging of warnings only; raises InputError if it is not installed."""
    try:
        import optuna as library
    except ImportError as error:
        raise InputError(
            f"a search needs optuna, which cannot be imported ({error}): pip install kernelswarm[search]"
        ) from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library


BEST, TABLE = "best.toml", "trials.csv"
"""The files of a complete search in its folder: the experiment with the best values, and all trials."""

TRIALS = "trials"
"""The folder of the trials' runs."""

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
        The labels of each trial's values, for tables.
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
        """The places of the trials, best first; pruned and failed trials are last."""
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
    """Search for the best values of an experiment's keys, with ``jobs`` trials at a time.

    A folder with this search is continued, also with more trials than before.

    Parameters
    ----------
    experiment : Experiment
        The common experiment of all trials.
    vary : mapping of str to str or list
        For each key a range, such as ``"log:0.01:1"``, or a list of values.
    trials : int
        The number of trials, including the trials in the folder.
    folder : Path
        The folder of the search.
    by : str
        The column of the network's table; the mean of its last value over the seeds is minimised.
    seeds : int
        Number of runs of each trial, with consecutive seeds from the experiment's seed on.
    prune : bool
        Whether trials that are worse than the median of earlier trials at an evaluation end early.
    jobs : int
        The number of trials that are proposed together and run in parallel, each in its own process. Equal numbers give
        equal trials, on any machine and after any interruption.
    observe : callable, optional
        Called after each trial with the number of finished trials, the trial, and the lowest value so far.
    opened : callable
        Opens the study, which proposes and records trials.

    Raises
    ------
    InputError
        A key or a number is out of range, Optuna is not installed, the folder has another search, or another process
        runs it.
    SimulationError
        All trials failed, or the folder is not writable.
    Interrupted
        A signal arrived; the finished trials are in the folder.
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
    """Raise an InputError for invalid counts, and for several processes with a parallel backend."""
    for name, count in (("trials", trials), ("seeds", seeds), ("jobs", jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name} = {shown(count)} must be a whole number of at least 1")
    if jobs > 1 and not isinstance(experiment.backend, Serial):
        raise InputError(f"jobs = {jobs} needs one process for each trial: take the backend serial, or jobs = 1")


def _refuse_all_failed(found: Search) -> None:
    """Raise a SimulationError if no trial has a value."""
    if found.trials[found.order[0]].value is None:
        why = next((trial.failure for trial in found.trials if trial.failure), "none reached its last round")
        raise SimulationError(f"all {len(found.trials)} trials failed or were given up: {why}")


def _identity(
    experiment: Experiment, vary: Mapping[str, Any], by: str, seeds: int, prune: bool, jobs: int
) -> dict[str, Any]:
    """Return the identity of a search: folders with the same identity are continued."""
    what = identified(experiment.to_dict(), origins(experiment, {}))
    what.pop("backend")  # the backend does not change results
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
    """Run the remaining trials of a batch, and record and yield each at its end, with its number."""
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
    """A trial to run, in this process or another."""

    config: Mapping[str, Any]
    experiment: Experiment
    proposal: Proposal
    judge: Judge
    by: str
    seeds: int


def _answers(attempts: Sequence[Attempt], jobs: int) -> Generator[tuple[int, Trial], None, None]:
    """Yield the place and the trial of each attempt at its end."""
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
    except (InputError, SimulationError) as error:  # an invalid or diverging combination
        return Trial(proposal, failure=str(error), learning_curve=learning_curve)
    figures = {name: sum(row[name] for row in rows) / seeds for name in rows[0]}
    if not math.isfinite(figures[by]):
        return Trial(proposal, _finite(figures), failure=f"its {by} is {figures[by]}", learning_curve=learning_curve)
    return Trial(proposal, _finite(figures), figures[by], learning_curve=learning_curve)


class _Unknown(InputError):
    """Raised for an error that concerns all trials."""


def _finite(row: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if math.isfinite(value)}


def _write(found: Search, experiment: Experiment) -> None:
    """Write all trials as a table, and the best one as an experiment."""
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
