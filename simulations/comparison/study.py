"""The store of a search's trials and the proposal of the next one: Optuna, with a database in the folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import Cell, RandomValues, cells, is_drawn, parse_draws

# The space of a search: a range or a list of values for each of its keys.

Proposal = Mapping[str, float | int]
"""For each key a number in its range, or the place of a value in its list."""


@dataclass(frozen=True)
class Space:
    """The keys of a search.

    Parameters
    ----------
    ranges : dict of str to RandomValues
        Keys whose values are numbers in a range.
    lists : dict of str to list
        Keys whose values are listed.
    """

    ranges: Mapping[str, RandomValues]
    lists: Mapping[str, Sequence[Any]]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.ranges, *self.lists)

    def cell(self, experiment: Experiment, proposal: Proposal) -> Cell:
        """Return the experiment with the proposed values; a key that a part does not have is left out."""
        tried: dict[str, Any] = {key: [ends.rounded(proposal[key])] for key, ends in self.ranges.items()}
        tried |= {key: [values[int(proposal[key])]] for key, values in self.lists.items()}
        (cell,) = cells(experiment.to_dict(), tried, lacking=True)
        return cell


def space(experiment: Experiment, vary: Mapping[str, Any]) -> Space:
    """Return the space of a search, checked on the experiment before anything is run.

    Parameters
    ----------
    experiment : Experiment
        The common experiment of all trials.
    vary : mapping of str to str or list
        For each key a range, ``"log:0.01:1"``, ``"uniform:0:1"`` or ``"integer:1:9"``, or a list of values.

    Raises
    ------
    InputError
        There is no key, a range is wrong, or no part has a key.
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


DATABASE = "trials.db"
"""The file that holds the trials."""


@dataclass(frozen=True)
class Trial:
    """A trial that has ended.

    Parameters
    ----------
    proposal : dict of str to number
        The tried values.
    figures : dict of str to float
        The last figures, means over the seeds; of the first seed for a pruned trial.
    value : float, optional
        The figure to be minimised; None for a pruned or failed trial.
    failure : str
        The reason of its failure; empty for successful trials.
    learning_curve : dict of int to float
        The figure to be minimised after the rounds before the last, of the first seed.
    """

    proposal: Proposal
    figures: Mapping[str, float] = field(default_factory=dict)
    value: float | None = None
    failure: str = ""
    learning_curve: Mapping[int, float] = field(default_factory=dict)


class Judge(Protocol):
    """The pruner of trials, which can be sent to another process."""

    def hopeless(self, learning_curve: Mapping[int, float]) -> bool:
        """Tell from a trial's figures after some rounds whether to prune it."""
        ...


class Study(Protocol):
    """The proposals and the record of trials, each with its place in the search, from 0."""

    def trials(self) -> Mapping[int, Trial]:
        """Return the trials that have ended, by their places."""
        ...

    def propose(self, first: int, count: int) -> Sequence[Proposal]:
        """Return the proposals for ``count`` places from ``first`` on, by the trials before it alone."""
        ...

    def judge(self, first: int) -> Judge:
        """Return the pruner of trials from this place on, by those before it."""
        ...

    def end(self, place: int, trial: Trial) -> None:
        """Record the end of a trial."""
        ...


class OptunaStudy:
    """Proposals by the tree-structured Parzen estimator (Bergstra et al., NIPS 2011), with pruning by the median.

    An interrupted search continues with the same trials: a proposal depends on the seed, on its place, and on the
    trials before its batch. The other trials of its batch, which have not ended, count as failed ("constant liar"), so
    that proposals differ.

    Parameters
    ----------
    folder : Path
        The folder of the database.
    space : Space
        The space of the search.
    seed : int
        The seed of the proposals.
    asked : dict of str to str
        The key of the search, which must be that of the folder.
    prune : bool
        Whether trials are pruned.

    Raises
    ------
    InputError
        Optuna is not installed, or the folder holds another search.
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
        """Return the trials that have ended, by their places."""
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
        """Return the proposals for ``count`` places from ``first`` on, by the trials before it alone."""
        study = self._library.create_study()  # in memory: a mere proposal is not stored
        study.add_trials(self._before(first))
        found: list[Proposal] = []
        for place in range(first, first + count):
            seed = generator(self._seed, Role.COMPARISON, 1, place).integers(2**31)
            study.sampler = self._library.samplers.TPESampler(seed=int(seed), constant_liar=True)
            found.append(study.ask(self._distributions()).params)
        return found

    def judge(self, first: int) -> MedianJudge:
        """Return the pruner of trials from this place on, by those before it."""
        return MedianJudge(self._before(first) if self._prune else None)

    def end(self, place: int, trial: Trial) -> None:
        """Record the end of a trial; a failed one counts as pruned, so that nothing is proposed beside it."""
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
    """Prunes a trial that is worse than the median of the trials before it after the same round.

    Parameters
    ----------
    before : list of optuna.trial.FrozenTrial, optional
        Those trials; None prunes nothing.
    """

    def __init__(self, before: list[Any] | None) -> None:
        self._before = before

    def hopeless(self, learning_curve: Mapping[int, float]) -> bool:
        """Tell from a trial's figures after some rounds whether to prune it."""
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
    """Return the database at a path, which a URL would hold otherwise: %20, #, ? and {} mean something there."""
    from sqlalchemy.pool import NullPool

    opening = {"creator": lambda: sqlite3.connect(database), "poolclass": NullPool}
    return library.storages.RDBStorage("sqlite://", engine_kwargs=opening)


def optuna() -> Any:
    """Import Optuna with a log of warnings alone; raises InputError if it is not installed."""
    try:
        import optuna as library
    except ImportError as error:
        raise InputError(
            f"a search needs optuna, which cannot be imported ({error}): pip install kernelswarm[search]"
        ) from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library
