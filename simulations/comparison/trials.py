"""Candidates for the numbers of an experiment, and what short runs of it make of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from kernelswarm.simulations.comparison.pilots import FOLDS, MEASURED, Pilot, refuse_too_few, run_all
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import SEEDS, Figures, Judgement, failed
from kernelswarm.simulations.running.network import Network

WORK = 3e7
"""Numbers that the nodes read in the longest pilot, about: samples times (inputs + 20). It is a count and no time, so
that the choice is the same on every machine."""

SHORTEST = 16
"""Rounds of the longest pilot, at least, where the experiment has as many."""

APART = 1_000_000
"""Added to a seed for pilots of other draws: so many seeds may be measured before the two meet."""

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


class Search:
    """The candidates of an experiment, with their results so far.

    Parameters
    ----------
    build : callable
        From a candidate's changes to its experiment, or to the reason of its refusal.
    network : Network
        Of the experiment as it is.
    values : list of dict
        The first candidates.
    pooled : bool
        Whether the risk on the samples of all nodes together is compared, and not that on each node's own.
    rounds : int, optional
        Of the longest pilots; see :func:`kernelswarm.simulations.comparison.suggest.suggest`.
    jobs : int
        Processes at a time.
    watch : callable, optional
        Called with the rounds of the present pilots, the number of candidates, and the share done.
    seeds : sequence of int
        With which each candidate is tried; the experiment's when left out.
    measured : int
        Samples that a pilot is measured on, about, of all nodes together, where the stream has no end.

    Attributes
    ----------
    trials : dict of int to Trial
        What was tried, by its place among ``values``.
    longest : int
        Rounds of the longest pilots.
    node_rounds, pilots : int
        Rounds of all pilots, times nodes, and how many they were.
    """

    def __init__(
        self,
        build: Callable[[Mapping[str, Any]], Experiment | str],
        network: Network,
        values: list[dict[str, Any]],
        pooled: bool,
        rounds: int | None,
        jobs: int,
        watch: Callable[[int, int, float], None] | None,
        seeds: Sequence[int] = (),
        measured: int = MEASURED,
    ) -> None:
        self.values: list[dict[str, Any]] = []
        self.trials: dict[int, Trial] = {}
        self.node_rounds = 0
        self.pilots = 0
        self._pace: float | None = None  # seconds a round of a pilot
        self._nodes = network.adjacency.number_of_nodes()
        self._pooled = pooled
        self._jobs = jobs
        self._watch = watch or (lambda rounds, count, share: None)
        self._build = build
        self._measured = measured
        self._experiments: list[Experiment | str] = []
        self.add(values)
        experiment = network.experiment
        self._seeds = tuple(seeds) or (experiment.seed,)
        batch = max(one.batch_size for one in experiment.learners_for(network.adjacency.labels.tolist()).values())
        lengths = network.source.lengths
        asked = network.rounds * batch
        most = (
            asked if lengths is None else max(lengths) * (FOLDS - 1) // FOLDS
        )  # samples set aside are not learned from
        natural = int(WORK / (self._nodes * batch * (network.source.inputs + 20)))
        natural = max(SHORTEST, natural) if rounds is None else rounds
        self.longest = max(1, min(natural, network.rounds, -(-most // batch)))
        self._samples = self.longest * batch
        self._folds = 1
        if lengths is not None:
            aside = sum(length // network.source.epochs for length in lengths) // FOLDS
            self._folds = min(FOLDS, -(-ENOUGH // max(aside, 1)))

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add candidates that are new, and return their indices."""
        new = [changes for changes in values if changes not in self.values]
        self.values += new
        self._experiments += [self._build(changes) for changes in new]
        return list(range(len(self.values) - len(new), len(self.values)))

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        """Try candidates for some rounds and return their risks."""
        tried = {}
        for place in places:
            experiment = self._experiments[place]
            if isinstance(experiment, str):
                self.trials[place] = Trial(self.values[place], rounds, failed(experiment))
            else:
                tried[place] = experiment
        pilots, owners = [], []
        for seed, fold in product(self._seeds, range(self._folds)):  # in this order each seed's data are drawn once
            for place, experiment in tried.items():
                pilots.append(self._pilot(experiment, rounds, seed, fold))
                owners.append(place)
        figures = self._run(pilots, lambda share: self._watch(rounds, len(places), share))
        self.node_rounds += rounds * self._nodes * len(pilots)
        self.pilots += len(pilots)
        for place in dict.fromkeys(owners):
            own = [entry for entry, owner in zip(figures, owners, strict=True) if owner == place]
            self.trials[place] = Trial(self.values[place], rounds, _mean(own))
        return [self.score(place) for place in places]

    def judged(self, best: int) -> Judgement:
        """Run the best candidate and the experiment as it is for the full length, with seeds that chose neither."""
        first = self._seeds[-1] + APART

        def afresh(place: int) -> tuple[Figures, ...]:
            experiment = self._experiments[place]
            assert isinstance(experiment, Experiment)  # refused ones have no risk
            pilots = [self._pilot(experiment, self.longest, first + turn, turn % self._folds) for turn in range(SEEDS)]
            self.node_rounds += self.longest * self._nodes * len(pilots)
            self.pilots += len(pilots)
            return tuple(self._run(pilots, lambda share: self._watch(self.longest, 1, share)))

        before = afresh(0)
        return Judgement(before, afresh(best) if best else before, self._pooled, first)

    def _pilot(self, experiment: Experiment, rounds: int, seed: int, fold: int) -> Pilot:
        return Pilot(replace(experiment, seed=seed), self._nodes, rounds, self._samples, fold, self._measured)

    def _run(self, pilots: Sequence[Pilot], watch: Callable[[float], None]) -> list[Figures]:
        """Run pilots, in other processes where that saves more time than starting them takes."""
        first: list[Figures] = []
        if self._pace is None and len(pilots) > 1:
            first = run_all(pilots[:1], 1, watch)  # alone, so that its compiled code is there for all processes
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


def refuse_untried(experiment: Experiment, network: Network) -> None:
    """Refuse what no pilot can be run of; raises InputError."""
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
