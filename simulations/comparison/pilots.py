"""Short runs of an experiment with other values, on all cores, measured on samples that were set aside."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.data.checked import opened
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source, Stream, freeze
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.data.pooled import members
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.experiment.judging import Figures, failed
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
