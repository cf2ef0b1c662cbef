"""Short runs of an experiment with other values, measured on samples that were set aside, and their ranking."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, cast

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError, number_of
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source, Stream, freeze, opened
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.data.pooled import members
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.experiment.judging import SEEDS, Figures, Judgement, failed
from kernelswarm.simulations.running.network import Network
from kernelswarm.simulations.running.resolving import ScaleWarning
from kernelswarm.simulations.running.simulation import simulate

# A stream with every fifth training sample set aside, to measure short runs on.

FOLDS = 5
"""One training sample in so many is set aside; there are as many choices."""


NoiseFree = Callable[[Array, Integers], Array]
"""A node's targets without noise at points (n, p), each drawn after so many samples: (n, q)."""


class _AsideSource(FiniteSource):
    """A node's samples that are left, measured on those set aside.

    A target that moves is measured where it is: those of the window move along, as those of other held-out samples do.
    Else a window longer than the target stands still would be least well met by whoever follows it.

    Parameters
    ----------
    points, targets
        What is learned from, (n, p) and (n, q).
    aside
        What was set aside of the same sequence, in its order.
    window
        Where the sequence is endless and may drift, how many of those set aside are measured on: the latest. None where
        it is finite: all.
    ages
        After how many samples of the sequence each of those set aside was drawn, (n,).
    noise_free
        Moves their targets where it is known, and where the sequence is endless.
    """

    def __init__(
        self,
        points: Array,
        targets: Array,
        aside: HeldOut,
        epochs: int,
        window: int | None,
        ages: Integers,
        noise_free: NoiseFree | None,
    ) -> None:
        super().__init__(points, targets, aside, epochs)
        self._aside = aside
        self._window = window
        self._ages = ages
        self._noise_free = noise_free

    def held_out(self, samples: int) -> HeldOut:
        if self._window is None:
            return self._aside
        stop = min(max(-(-samples // (FOLDS - 1)), self._window), len(self._aside.points))
        latest = slice(max(0, stop - self._window), stop)
        points, targets, ages = self._aside.points[latest], self._aside.targets[latest], self._ages[latest]
        if self._noise_free is not None:
            now = np.full(len(ages), samples + samples // (FOLDS - 1))
            targets = freeze(targets + (self._noise_free(points, now) - self._noise_free(points, ages)))
        return HeldOut(points, targets)


@dataclass(frozen=True)
class SetAside:
    """The samples that another stream's nodes learn from, less every fifth, on which the nodes are measured.

    The other stream's test data are not looked at. Of finite data all rows of an epoch are dealt with, so that those
    set aside come from all of it, also where few are learned from.

    Parameters
    ----------
    stream : Stream
        The other stream.
    samples : int
        How many samples a node will learn from, at most.
    fold : int
        Which of five samples is set aside, 0 to 4.
    """

    stream: Stream
    samples: int
    fold: int = 0

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        places = None if locations is None else (locations.tobytes(), locations.shape)
        rest = (self.samples, nodes, seed, held_out, places)
        known = _has_hash(self.stream)
        source, drawn = _opened_before(cast(Hashable, self.stream), *rest) if known else _opened(self.stream, *rest)
        sources: list[NodeSource] = [self._without(node, *own, source, held_out) for node, own in enumerate(drawn)]
        lengths = [min(len(points) - len(points[self.fold :: FOLDS]), self.samples) for points, _ in drawn]
        lengths = [length * source.epochs for length in lengths]
        return replace(source, nodes=sources, lengths=lengths, truth=None, noise_free=None, calendars=None)

    def _without(self, node: int, points: Array, targets: Array, source: Source, held_out: int) -> _AsideSource:
        places = np.arange(len(points))
        aside = places[self.fold :: FOLDS]
        left = places[places % FOLDS != self.fold][: self.samples]
        window = held_out if source.lengths is None else None
        if window is None:
            aside = aside[members(len(aside), held_out)]
        measured = HeldOut(freeze(points[aside]), freeze(targets[aside]))
        moves = None if window is None or source.noise_free is None else partial(source.noise_free, node)
        return _AsideSource(points[left], targets[left], measured, source.epochs, window, aside, moves)


Drawn = tuple[Source, list[tuple[Array, Array]]]
"""An opened stream, with the training samples of each of its nodes in order."""


def refuse_too_few(source: Source) -> None:
    """Refuse data with a node that has too few samples to set any aside; raises InputError."""
    fewest = FOLDS if source.fewest is None else source.fewest
    if fewest < FOLDS:
        raise InputError(
            f"stream: a node has {number_of(fewest, 'sample')} to learn from, and one of {FOLDS} is set aside to "
            "compare values on: use fewer nodes or more data"
        )


def _opened(
    stream: Stream, samples: int, nodes: int, seed: int, held_out: int, places: tuple[bytes, tuple[int, ...]] | None
) -> Drawn:
    locations = None if places is None else np.frombuffer(places[0]).reshape(places[1])
    source = opened(stream, nodes, seed, held_out, locations)
    if source.lengths is None:
        counts = [FOLDS * max(-(-samples // (FOLDS - 1)), held_out)] * nodes
    else:
        counts = [length // source.epochs for length in source.lengths]
    refuse_too_few(source)
    return source, [node.draw(count) for node, count in zip(source.nodes, counts, strict=True)]


@lru_cache(maxsize=1)
def _opened_before(stream: Hashable, *rest: Any) -> Drawn:
    """Open a stream: of the pilots that one process runs all have the same, which may take seconds to read."""
    return _opened(cast(Stream, stream), *rest)


def _has_hash(stream: Stream) -> bool:
    try:
        hash(stream)
    except TypeError:  # of a user's stream that holds a list, say
        return False
    return True


MEASURED = 4000
"""About the default number of samples of all nodes together to measure on."""

FEWEST = 20
"""The least number of samples of each node to measure on, if it has as many."""


@dataclass(frozen=True)
class Pilot:
    """One short run.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    nodes : int
        The number of its nodes.
    rounds : int
        The rounds of the pilot.
    samples : int
        The samples that a node learns from in the longest pilot.
    fold : int
        Which fifth of the samples is set aside.
    measured : int
        About the number of samples of all nodes together to measure on.
    """

    experiment: Experiment
    nodes: int
    rounds: int
    samples: int
    fold: int = 0
    measured: int = MEASURED

    def prepared(self) -> Experiment:
        """Return the pilot's experiment: in one process, measured once, at its end, on the samples set aside."""
        return replace(
            self.experiment,
            stream=SetAside(self.experiment.stream, self.samples, self.fold),
            backend=Serial(),
            rounds=self.rounds,
            evaluate_every=self.rounds,
            checkpoint_every=0,
            evaluation=Evaluation(max(FEWEST, self.measured // self.nodes), self.measured, rkhs_distance=False),
        )


def run(pilot: Pilot, tell: Callable[[float], None] = lambda share: None) -> Figures:
    """Run a pilot in this process; a refused or diverging one has failed, and one whose scale is held back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run that follows repeats the warnings of a pilot
        warnings.simplefilter("error", ScaleWarning)  # a scale that acts as another one is no candidate of its own
        try:
            final = simulate(pilot.prepared(), lambda progress: None).final
        except Interrupted:
            raise
        except (InputError, SimulationError, ScaleWarning) as error:
            return failed(str(error))
    risk, pooled = final.get("risk"), final.get("global_risk")
    if risk is None or pooled is None:
        return failed("its risk is not a number")
    return Figures(risk, pooled, final.get("model_order") or 0.0)


def run_all(pilots: Sequence[Pilot], jobs: int, watch: Callable[[float], None]) -> list[Figures]:
    """Run pilots in some processes, and return their figures in the order of the pilots.

    Parameters
    ----------
    pilots : sequence of Pilot
        The pilots.
    jobs : int
        Processes at a time; 1 runs all in this one.
    watch : callable
        Called now and then with the share of them that is done.
    """
    found: dict[int, Figures] = {}
    if jobs == 1 or len(pilots) == 1:
        for place, pilot in enumerate(pilots):
            with one_thread():
                found[place] = run(pilot)
            watch(len(found) / len(pilots))
        return [found[place] for place in range(len(pilots))]

    def on_progress(shares: Sequence[float]) -> None:
        watch(len(found) / len(pilots))

    with closing(parallel.answers(run, pilots, jobs, on_progress, what="suggest's pilots")) as answers:
        for place, answer in answers:
            found[place] = failed(answer.cause) if isinstance(answer, parallel.Lost) else answer
    return [found[place] for place in range(len(pilots))]


# Candidates for the numbers of an experiment, and what short runs of it make of each.

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
