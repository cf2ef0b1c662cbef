"""What an experiment's data and network suggest for its numbers, tried in short runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.messages import toml
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.machine.parallel import cores
from kernelswarm.simulations.running.network import Network, open_network
from kernelswarm.simulations.suggestion.candidates import candidates
from kernelswarm.simulations.suggestion.halving import halve
from kernelswarm.simulations.suggestion.pilots import Figures, Pilot, failed, run_all
from kernelswarm.simulations.suggestion.ranges import Range, ranges
from kernelswarm.simulations.suggestion.refining import ALIKE, refine
from kernelswarm.simulations.suggestion.set_aside import FOLDS, refuse_too_few

WORK = 3e7
"""Numbers that the nodes read in the longest pilot, about: samples times (inputs + 20). It is a count and no time, so
that the choice is the same on every machine."""

SHORTEST = 16
"""Rounds of the longest pilot, at least, where the experiment has as many."""

WORTH_PROCESSES = 5.0
"""Seconds of pilots from which on other processes are started for them; the figures are the same either way."""

ENOUGH = 400
"""Samples that are measured on. Where a fifth of all has fewer, further pilots set other fifths aside."""


@dataclass(frozen=True)
class Trial:
    """A candidate, as it stood in the longest pilots that it came to.

    Attributes
    ----------
    values : dict
        The keys that it changes; none of the experiment as it is.
    rounds : int
        Of those pilots.
    figures : Figures
        Means over its pilots.
    """

    values: Mapping[str, Any]
    rounds: int
    figures: Figures


@dataclass(frozen=True, repr=False)
class Suggestion:
    """What was tried, and what is taken.

    Attributes
    ----------
    ranges : tuple of Range
        The keys that were tried.
    trials : tuple of Trial
        The best first, of the longest pilots first; the experiment as it is among them.
    chosen : Trial
        The one that is taken.
    reason : str
        Why, in a sentence.
    pooled : bool
        Whether the pooled risk was compared.
    node_rounds : int
        Rounds of all pilots, times nodes.
    """

    ranges: tuple[Range, ...]
    trials: tuple[Trial, ...]
    chosen: Trial
    reason: str
    pooled: bool
    node_rounds: int

    def __repr__(self) -> str:
        """Say what is taken and why, in a few lines; all trials would fill pages."""
        name = f"Suggestion({len(self.trials)} candidates, {self.node_rounds:,} node-rounds)"
        values = [f"{key} = {toml(value)}" for key, value in self.chosen.values.items()]
        return "\n  ".join([name, self.reason, *values])


def suggest(
    table: Mapping[str, Any],
    folder: Path | None = None,
    *,
    everything: bool = False,
    pooled: bool = False,
    rounds: int | None = None,
    jobs: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Suggestion:
    """Try values for the keys that an experiment leaves open, and choose.

    Candidates are tried by successive halving in pilots: runs of the experiment on its own network for fewer rounds. A
    pilot learns from four fifths of the samples that nodes learn from, and is measured on the others, so that the test
    data of the experiment take no part. The best candidate's neighbours are tried for the full length. The candidate
    with the least risk is chosen; of those within 1% of it the one with the smallest model. The experiment as it is
    stays among the candidates to the end.

    Parameters
    ----------
    table : mapping
        What the experiment file says.
    folder : Path, optional
        Where relative paths in it start.
    everything : bool
        Whether keys that the table gives as numbers are tried too.
    pooled : bool
        Whether to compare the risk on the samples of all nodes together, and not on each node's own.
    rounds : int, optional
        Rounds of the longest pilots; left out, those of the experiment or as many as read about 30 million numbers.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script that uses several calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    watch : callable, optional
        Hears how many rounds the pilots of now have, how many candidates, and which share is done. Where it is left out
        a notebook shows a bar.

    Raises
    ------
    InputError
        The experiment is refused, leaves nothing open, or has too little data.
    SimulationError
        Every pilot failed.
    """
    if isinstance(table, Experiment):
        raise InputError(
            "suggest takes the table that an experiment file holds, not an Experiment, which has a value for every "
            "key and no longer tells which were left open: give the dict that it was made of, or tomllib.load(file)"
        )
    experiment = Experiment.from_dict(table, folder)
    network = open_network(experiment)
    _refuse(experiment, network)
    found = ranges(experiment, table, everything)
    if not found:
        raise InputError(
            "the experiment leaves no number open that suggest could try (bandwidth, step_size, budget, penalty, scale "
            "of gamma): --all tries those too that it gives"
        )
    with watched(watch, "suggestion_bar") as hearing:
        search = _Search(table, folder, network, candidates(found), pooled, rounds, jobs or cores(), hearing)
        finals = refine(halve(len(search.values), search.longest, search.scores), found, search)
    trials, chosen = search.trials, _chosen(finals, search)
    if math.isinf(search.score(chosen)):
        raise SimulationError(f"every pilot failed, the experiment as it is with: {trials[0].figures.failure}")
    order = sorted(trials, key=lambda place: (-trials[place].rounds, search.score(place), place))
    return Suggestion(
        tuple(found),
        tuple(trials[place] for place in order),
        trials[chosen],
        _reason(chosen, finals, search),
        pooled,
        search.node_rounds,
    )


class _Search:
    """The candidates of an experiment, and what is known of them so far."""

    def __init__(
        self,
        table: Mapping[str, Any],
        folder: Path | None,
        network: Network,
        values: list[dict[str, Any]],
        pooled: bool,
        rounds: int | None,
        jobs: int,
        watch: Callable[[int, int, float], None] | None,
    ) -> None:
        self.values: list[dict[str, Any]] = []
        self.trials: dict[int, Trial] = {}
        self.node_rounds = 0
        self._pace: float | None = None  # seconds a round of a pilot
        self._nodes = network.adjacency.number_of_nodes()
        self._pooled = pooled
        self._jobs = jobs
        self._watch = watch or (lambda rounds, count, share: None)
        self._table, self._folder = table, folder
        self._experiments: list[Experiment | str] = []
        self.add(values)
        experiment = network.experiment
        batch = max(one.batch_size for one in experiment.learners_for(network.adjacency.labels.tolist()).values())
        lengths = network.source.lengths
        asked = network.rounds * batch
        most = (
            asked if lengths is None else max(lengths) * (FOLDS - 1) // FOLDS
        )  # what is set aside is not learned from
        natural = int(WORK / (self._nodes * batch * (network.source.inputs + 20)))
        natural = max(SHORTEST, natural) if rounds is None else rounds
        self.longest = max(1, min(natural, network.rounds, -(-most // batch)))
        self._samples = self.longest * batch
        self._folds = 1
        if lengths is not None:
            aside = sum(length // network.source.epochs for length in lengths) // FOLDS
            self._folds = min(FOLDS, -(-ENOUGH // max(aside, 1)))

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add candidates, less those that are known, and return the places of the new ones."""
        new = [changes for changes in values if changes not in self.values]
        self.values += new
        self._experiments += [_experiment(self._table, changes, self._folder) for changes in new]
        return list(range(len(self.values) - len(new), len(self.values)))

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        """Try candidates for some rounds and return their risks."""
        pilots, owners = [], []
        for place in places:
            experiment = self._experiments[place]
            if isinstance(experiment, str):
                self.trials[place] = Trial(self.values[place], rounds, failed(experiment))
                continue
            for fold in range(self._folds):
                pilots.append(Pilot(experiment, self._nodes, rounds, self._samples, fold))
                owners.append(place)
        figures = self._run(pilots, lambda share: self._watch(rounds, len(places), share))
        self.node_rounds += rounds * self._nodes * len(pilots)
        for place in dict.fromkeys(owners):
            own = [entry for entry, owner in zip(figures, owners, strict=True) if owner == place]
            self.trials[place] = Trial(self.values[place], rounds, _mean(own))
        return [self.score(place) for place in places]

    def _run(self, pilots: Sequence[Pilot], watch: Callable[[float], None]) -> list[Figures]:
        """Run pilots, in other processes where that saves more time than starting them takes."""
        first: list[Figures] = []
        if self._pace is None and len(pilots) > 1:
            first = run_all(pilots[:1], 1, watch)  # alone, so that what it compiles is there for all processes
            started = time.perf_counter()
            first += run_all(pilots[1:2], 1, watch)
            self._pace = (time.perf_counter() - started) / pilots[1].rounds
        rest = pilots[len(first) :]
        seconds = (self._pace or 0.0) * sum(pilot.rounds for pilot in rest)
        return first + run_all(rest, self._jobs if seconds > WORTH_PROCESSES else 1, watch)

    def score(self, place: int) -> float:
        """Return the risk of a candidate, the last one that is known."""
        figures = self.trials[place].figures
        return figures.pooled_risk if self._pooled else figures.risk


def _experiment(table: Mapping[str, Any], changes: Mapping[str, Any], folder: Path | None) -> Experiment | str:
    """Return the experiment with some changes, or why it is refused."""
    for key, value in changes.items():
        table = changed(table, key, value, explicit=True)
    try:
        return Experiment.from_dict(table, folder)
    except InputError as error:
        if not changes:
            raise
        return str(error)


def _refuse(experiment: Experiment, network: Network) -> None:
    if experiment.protocol.offline is not None:
        raise InputError(
            'protocol.name = "batch" solves for the samples of all rounds and takes no steps: suggest needs a protocol '
            "with rounds, such as isolated or consensus"
        )
    refuse_too_few(network.source)
    if network.source.discount is not None:
        raise InputError(
            "stream: the values of a Markov chain are not among the samples, so that none can be set aside to compare "
            "pilots on: suggest needs a stream with targets"
        )


def _mean(figures: Sequence[Figures]) -> Figures:
    """Average over pilots of one candidate; one that failed makes all of them fail."""
    failure = next((entry.failure for entry in figures if entry.failure), "")
    if failure:
        return failed(failure)
    count = len(figures)
    return Figures(
        sum(entry.risk for entry in figures) / count,
        sum(entry.pooled_risk for entry in figures) / count,
        sum(entry.model_order for entry in figures) / count,
    )


def _chosen(finals: Mapping[int, float], search: _Search) -> int:
    """Return the smallest model of those that risk least, or hardly more and no more than the experiment as it is."""
    least = min(finals.values())
    limit = min(least + ALIKE * abs(least), finals[0])
    alike = [place for place, risk in finals.items() if risk <= limit]
    return min(alike, key=lambda place: (search.trials[place].figures.model_order, finals[place], place))


def _reason(chosen: int, finals: Mapping[int, float], search: _Search) -> str:
    before, risk = finals[0], finals[chosen]
    least = min(finals, key=lambda place: finals[place])
    if not chosen:
        which = (
            "risks less" if least == 0 else f"has a smaller model, and those that risk less do by {ALIKE:.0%} at most"
        )
        return f"the experiment as it is: no candidate {which}"
    what = "the least risk" if chosen == least else f"the smallest model of those within {ALIKE:.0%} of the least risk"
    against = "which fails" if math.isinf(before) else f"which risks {before:.4g}"
    return f"{what}, {risk:.4g}, against the experiment as it is, {against}"
