"""Pilots: short runs of an experiment with other values, evaluated on samples that were set aside."""

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

# A stream with every fifth training sample set aside, for the evaluation of pilots.

FOLDS = 5
"""One in this many training samples is set aside; there are as many folds."""


NoiseFree = Callable[[Array, Integers], Array]
"""A node's targets without noise, (n, q), at points (n, p), each drawn after ages (n,) samples."""


class _AsideSource(FiniteSource):
    """The remaining samples of a node, with the samples set aside as held-out samples.

    If the target drifts, the targets of the window drift too, like the targets of other held-out samples. Otherwise
    learners that follow a fast drift would have the largest errors on the old samples of the window.

    Parameters
    ----------
    points, targets
        The training samples, (n, p) and (n, q).
    aside
        The samples of the same sequence that were set aside, in order.
    window
        For endless sequences, which may drift: the number of latest samples set aside that are used. None for finite
        sequences: all are used.
    ages
        The number of earlier samples of the sequence for each sample set aside, (n,).
    noise_free
        The true targets, which move the targets of samples set aside; None if unknown, or for finite sequences.
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
    """The training samples of another stream, of which every fifth is set aside for evaluation.

    The test data of the other stream are not used. For finite data, all rows of an epoch are divided, so that the
    samples set aside represent the whole epoch even if few rows are learned from.

    Parameters
    ----------
    stream : Stream
        The other stream.
    samples : int
        Maximum number of samples that a node will learn from.
    fold : int
        The place, 0 to 4, of the sample set aside among five.
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
"""An opened stream, with the training samples of each node in order."""


def refuse_too_few(source: Source) -> None:
    """Raise an InputError if a node has too few samples to set any aside."""
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
    """Open a stream, cached since all pilots of a process have the same stream, which may take seconds to read."""
    return _opened(cast(Stream, stream), *rest)


def _has_hash(stream: Stream) -> bool:
    try:
        hash(stream)
    except TypeError:  # unhashable, such as a user's stream with a list
        return False
    return True


MEASURED = 4000
"""Approximate default number of samples for evaluation, over all nodes."""

FEWEST = 20
"""Minimum number of samples of each node for evaluation, if it has that many."""


@dataclass(frozen=True)
class Pilot:
    """One short run.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    nodes : int
        The number of nodes.
    rounds : int
        The rounds of the pilot.
    samples : int
        The samples that a node learns from in the longest pilot.
    fold : int
        The fold of samples that is set aside.
    measured : int
        Approximate number of samples for evaluation, over all nodes.
    """

    experiment: Experiment
    nodes: int
    rounds: int
    samples: int
    fold: int = 0
    measured: int = MEASURED

    def prepared(self) -> Experiment:
        """Return the pilot's experiment: in one process, evaluated once, at its end, on the samples set aside."""
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
    """Run a pilot in this process; invalid or diverging pilots and pilots with an ineffective scale count as failed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the later run repeats the warnings
        warnings.simplefilter("error", ScaleWarning)  # an ineffective scale duplicates another candidate
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
        Maximum number of simultaneous processes; 1 runs all pilots in this process.
    watch : callable
        Called repeatedly with the finished share.
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


# Candidates for the values of an experiment, with the results of their pilots.

WORK = 3e7
"""Approximate work of the longest pilot: samples times (inputs + 20). It is a count rather than a time, so that the
choice is the same on every machine.
"""

SHORTEST = 16
"""Minimum number of rounds of the longest pilot, if the experiment has that many."""

APART = 1_000_000
"""Offset between the seeds of runs and the seeds of pilots."""

WORTH_PROCESSES = 5.0
"""Estimated seconds of pilots above which several processes are started; the results do not depend on this."""

ENOUGH = 400
"""Sufficient number of samples for evaluation. If one fold has fewer, further pilots use other folds."""


@dataclass(frozen=True)
class Trial:
    """A candidate with the result of its longest pilots.

    Attributes
    ----------
    values : dict
        The changed keys with their values; empty for the unchanged experiment.
    rounds : int
        The rounds of these pilots.
    figures : Figures
        The figures, as means over the pilots.
    """

    values: Mapping[str, Any]
    rounds: int
    figures: Figures


class Search:
    """The candidates of an experiment, with their results so far.

    Parameters
    ----------
    build : callable
        Returns the experiment of a candidate's changes, or the reason why it is invalid.
    network : Network
        The network of the unchanged experiment.
    values : list of dict
        The first candidates.
    pooled : bool
        Whether risks on the pooled samples of all nodes are compared instead of each node's own.
    rounds : int, optional
        The rounds of the longest pilots; see :func:`kernelswarm.simulations.comparison.suggest.suggest`.
    jobs : int
        Maximum number of simultaneous processes.
    watch : callable, optional
        Called with the rounds of the present pilots, the number of candidates, and the finished share.
    seeds : sequence of int
        The seeds of each candidate's pilots; by default the experiment's seed.
    measured : int
        Approximate number of samples for the evaluation of a pilot, over all nodes, for endless streams.

    Attributes
    ----------
    trials : dict of int to Trial
        The tried candidates, by place in ``values``.
    longest : int
        Rounds of the longest pilots.
    node_rounds, pilots : int
        Rounds times nodes of all pilots, and the number of pilots.
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
        self._pace: float | None = None  # seconds per round of a pilot
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
        )  # samples set aside are not training samples
        natural = int(WORK / (self._nodes * batch * (network.source.inputs + 20)))
        natural = max(SHORTEST, natural) if rounds is None else rounds
        self.longest = max(1, min(natural, network.rounds, -(-most // batch)))
        self._samples = self.longest * batch
        self._folds = 1
        if lengths is not None:
            aside = sum(length // network.source.epochs for length in lengths) // FOLDS
            self._folds = min(FOLDS, -(-ENOUGH // max(aside, 1)))

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add new candidates, and return the places of all given candidates."""
        new = [changes for changes in values if changes not in self.values]
        self.values += new
        self._experiments += [self._build(changes) for changes in new]
        return list(range(len(self.values) - len(new), len(self.values)))

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        """Try candidates for ``rounds`` rounds, and return their risks."""
        tried = {}
        for place in places:
            experiment = self._experiments[place]
            if isinstance(experiment, str):
                self.trials[place] = Trial(self.values[place], rounds, failed(experiment))
            else:
                tried[place] = experiment
        pilots, owners = [], []
        for seed, fold in product(self._seeds, range(self._folds)):  # this order draws each seed's data once
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
        """Run the best candidate and the unchanged experiment for the full length, with new seeds."""
        first = self._seeds[-1] + APART

        def afresh(place: int) -> tuple[Figures, ...]:
            experiment = self._experiments[place]
            assert isinstance(experiment, Experiment)  # invalid candidates have no risk
            pilots = [self._pilot(experiment, self.longest, first + turn, turn % self._folds) for turn in range(SEEDS)]
            self.node_rounds += self.longest * self._nodes * len(pilots)
            self.pilots += len(pilots)
            return tuple(self._run(pilots, lambda share: self._watch(self.longest, 1, share)))

        before = afresh(0)
        return Judgement(before, afresh(best) if best else before, self._pooled, first)

    def _pilot(self, experiment: Experiment, rounds: int, seed: int, fold: int) -> Pilot:
        return Pilot(replace(experiment, seed=seed), self._nodes, rounds, self._samples, fold, self._measured)

    def _run(self, pilots: Sequence[Pilot], watch: Callable[[float], None]) -> list[Figures]:
        """Run pilots, in several processes if this saves more time than their start takes."""
        first: list[Figures] = []
        if self._pace is None and len(pilots) > 1:
            first = run_all(pilots[:1], 1, watch)  # first alone, so that the processes find its compiled code
            started = time.perf_counter()
            first += run_all(pilots[1:2], 1, watch)
            self._pace = (time.perf_counter() - started) / pilots[1].rounds
        rest = pilots[len(first) :]
        seconds = (self._pace or 0.0) * sum(pilot.rounds for pilot in rest)
        return first + run_all(rest, self._jobs if seconds > WORTH_PROCESSES else 1, watch)

    def score(self, place: int) -> float:
        """Return the latest risk of a candidate."""
        figures = self.trials[place].figures
        return figures.pooled_risk if self._pooled else figures.risk


def refuse_untried(experiment: Experiment, network: Network) -> None:
    """Raise an InputError for experiments without pilots."""
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
    """Average the figures of one candidate's pilots; if one failed, the result is a failure."""
    failure = next((entry.failure for entry in figures if entry.failure), "")
    if failure:
        return failed(failure)
    count = len(figures)
    return Figures(
        sum(entry.risk for entry in figures) / count,
        sum(entry.pooled_risk for entry in figures) / count,
        sum(entry.model_order for entry in figures) / count,
    )
