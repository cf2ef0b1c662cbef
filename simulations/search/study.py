"""Where a search keeps its trials, and what proposes the next one: Optuna, with a database in the folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.seeding import Role, generator
from kernelswarm.simulations.search.space import Proposal, Space

DATABASE = "trials.db"
"""The file that holds the trials."""


@dataclass(frozen=True)
class Trial:
    """A trial that has ended.

    Parameters
    ----------
    proposal : dict of str to number
        What was tried.
    figures : dict of str to float
        The last figures that were measured, means over the seeds; of the first seed where it was given up.
    value : float, optional
        The figure that is to be small; None where the trial was given up or failed.
    failure : str
        Why it failed; empty where it did not.
    """

    proposal: Proposal
    figures: Mapping[str, float] = field(default_factory=dict)
    value: float | None = None
    failure: str = ""


class Study(Protocol):
    """What proposes trials and remembers them."""

    def trials(self) -> Sequence[Trial]:
        """Return the trials that have ended, in their order."""
        ...

    def propose(self) -> Proposal:
        """Return what to try next."""
        ...

    def hopeless(self, round: int, value: float) -> bool:
        """Hear of the trial's figure after a round, and tell whether to give it up."""
        ...

    def end(self, trial: Trial) -> None:
        """Remember how the trial ended."""
        ...


class OptunaStudy:
    """Proposes by the tree-structured Parzen estimator (Bergstra et al., NIPS 2011), gives up what is worse than half.

    A search that was interrupted goes on as if it had not been: a proposal depends on the seed, on the trials that have
    ended and on their number.

    Parameters
    ----------
    folder : Path
        Where the database is.
    space : Space
        What is searched.
    seed : int
        Of the proposals.
    asked : dict of str to str
        What the search is of: it may not differ from what the folder's was.
    prune : bool
        Whether trials are given up.

    Raises
    ------
    InputError
        Optuna is not installed, or the folder holds another search.
    """

    def __init__(self, folder: Path, space: Space, seed: int, asked: Mapping[str, str], prune: bool) -> None:
        self._library = library = optuna()
        library.logging.set_verbosity(library.logging.WARNING)
        self._seed = seed
        self._space = space
        self._study: Any = library.create_study(
            storage=f"sqlite:///{(folder / DATABASE).resolve().as_posix()}",
            study_name="search",
            load_if_exists=True,
            pruner=library.pruners.MedianPruner() if prune else library.pruners.NopPruner(),
        )
        then = self._study.user_attrs.get("asked", asked)
        for key in dict.fromkeys([*asked, *then]):
            if asked.get(key) != then.get(key):
                raise InputError(
                    f"{folder.parent} holds another search: {key} is {asked.get(key, 'not there')} and was "
                    f"{then.get(key, 'not there')}: name another folder with --out"
                )
        self._study.set_user_attr("asked", dict(asked))
        state = library.trial.TrialState
        for begun in self._study.get_trials(states=(state.RUNNING,)):  # of a process that was stopped
            self._study.tell(begun.number, state=state.FAIL)
        self._trial: Any = None

    def _ended(self) -> list[Any]:
        state = self._library.trial.TrialState
        found: list[Any] = self._study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED))
        return found

    def trials(self) -> list[Trial]:
        """Return the trials that have ended, in their order."""
        complete = self._library.trial.TrialState.COMPLETE
        return [
            Trial(
                trial.params,
                trial.user_attrs["figures"],
                trial.value if trial.state == complete else None,
                trial.user_attrs["failure"],
            )
            for trial in self._ended()
        ]

    def propose(self) -> Proposal:
        """Return what to try next."""
        kinds = self._library.distributions
        found: dict[str, Any] = {}
        for key, ends in self._space.ranges.items():
            if ends.scale == "integer":
                found[key] = kinds.IntDistribution(int(ends.low), int(ends.high))
            else:
                found[key] = kinds.FloatDistribution(ends.low, ends.high, log=ends.scale == "log")
        for key, values in self._space.lists.items():
            found[key] = kinds.CategoricalDistribution(range(len(values)))
        seed = generator(self._seed, Role.COMPARISON, 1, len(self._ended())).integers(2**31)
        self._study.sampler = self._library.samplers.TPESampler(seed=int(seed))
        self._trial = self._study.ask(found)
        proposal: Proposal = self._trial.params
        return proposal

    def hopeless(self, round: int, value: float) -> bool:
        """Hear of the trial's figure after a round, and tell whether to give it up."""
        self._trial.report(value, round)
        return bool(self._trial.should_prune())

    def end(self, trial: Trial) -> None:
        """Remember how the trial ended; one that failed counts as given up, so that nothing is proposed beside it."""
        self._trial.set_user_attr("figures", dict(trial.figures))
        self._trial.set_user_attr("failure", trial.failure)
        if trial.value is None:
            self._study.tell(self._trial, state=self._library.trial.TrialState.PRUNED)
        else:
            self._study.tell(self._trial, trial.value)


def optuna() -> Any:
    """Import Optuna; InputError where it is not installed."""
    try:
        import optuna as library
    except ImportError as error:
        raise InputError(
            f"a search needs optuna, which cannot be imported ({error}): pip install kernelswarm[search]"
        ) from error
    return library
