"""Data with one input: curves with noise and outliers, drifting curves, and a Markov chain with rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.ranges import FINITE, NOT_NEGATIVE, POSITIVE, SHARE, Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.data.contract import Differences, HeldOut, Source
from kernelswarm.simulations.data.dealing import ShiftDifferences, Split, check_split, intervals, offsets
from kernelswarm.simulations.data.synthetic import SyntheticSource, sources_of


class Curve(Protocol):
    """A function of one input, which may drift with the number of samples."""

    @property
    def moves(self) -> bool:
        """Whether the ages matter."""

    def __call__(self, inputs: Array, ages: Integers) -> Array:
        """Evaluate at inputs (n,), after ages (n,) samples; returns (n,)."""


@dataclass(frozen=True)
class NoisyCurve:
    """Distribution with x uniform on [low, high] and y = curve(x) + offset + noise z, z ~ N(0, 1).

    With probability ``outlier_fraction`` the sample is an outlier, and N(0, outlier_size^2) is added to y.
    """

    curve: Curve
    low: float
    high: float
    noise: float
    offset: float = 0.0
    outlier_fraction: float = 0.0
    outlier_size: float = 0.0

    @property
    def inputs(self) -> int:
        return 1

    @property
    def drifts(self) -> bool:
        return self.curve.moves

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        count = len(ages)
        inputs = random.uniform(self.low, self.high, count)
        targets = self.curve(inputs, ages) + self.offset + self.noise * random.standard_normal(count)
        if self.outlier_fraction:
            hit = random.random(count) < self.outlier_fraction
            targets += hit * self.outlier_size * random.standard_normal(count)
        return inputs[:, None], targets[:, None]

    def noise_free(self, points: Array, ages: Integers) -> Array:
        return (self.curve(points[:, 0], ages) + self.offset)[:, None]


@dataclass(frozen=True)
class CurveTruth:
    """The nodes' curves, for `Source.truth`."""

    laws: tuple[NoisyCurve, ...]

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.laws[position].noise_free(points, np.full(len(points), samples, dtype=np.int64))

    def at(self, position: int, points: Array, ages: Integers) -> Array:
        """Evaluate each point at its own age."""
        return self.laws[position].noise_free(points, ages)


def node_intervals(split: str, low: float, high: float, nodes: int, overlap: float) -> Array:
    """Return the interval of each node's inputs, (V, 2): its patch, or [low, high]."""
    if split == "patches":
        return intervals(low, high, nodes, overlap)
    return np.tile([low, high], (nodes, 1))


def open_curves(
    laws: Sequence[NoisyCurve], seed: int, held_out: int, locations: Array | None, differences: Differences
) -> Source:
    """Open one endless source for each law."""
    truth = CurveTruth(tuple(laws))
    return Source(
        inputs=1,
        targets=1,
        classes=None,
        nodes=sources_of(laws, seed, held_out),
        facts={"noise_variance": noise_variance(laws[0])},
        truth=truth,
        noise_free=truth.at,
        locations=locations,
        differences=differences,
    )


def noise_variance(law: NoisyCurve) -> float:
    """Variance of y given x: the lowest possible squared error on noisy targets."""
    return law.noise**2 + law.outlier_fraction * law.outlier_size**2


# The one-dimensional regression y = 2x + 3 sin 6x of COLK section V, with noise and outliers.


def check_interval(low: float, high: float) -> None:
    """Raise an error for an empty interval of inputs."""
    if not low < high:
        raise RefusedKey("low", f"= {low!r} must be below high = {high!r}: they are the ends of the interval of inputs")


@dataclass(frozen=True)
class SineRegression:
    """A line and a sine with noise and outliers: slope x + amplitude sin(frequency x + phase) (COLK section V).

    Inputs are uniform on [low, high].

    Parameters
    ----------
    noise
        Standard deviation >= 0 of the Gaussian noise.
    outlier_fraction, outlier_size
        A sample is an outlier with this probability; then N(0, outlier_size^2) is added to its target.
    slope, amplitude, frequency, phase
        Coefficients of the target; the frequency and the phase are in radians.
    low, high
        Ends of the interval of inputs.
    split
        "iid"; "patches": each node's inputs come from its own interval; "target_shift": each node's target has its own
        offset.
    overlap
        With patches, the share in [0, 1] of its interval that a node has in common with the next: 0 cuts [low, high]
        into V parts, 1 gives each node all of it.
    shift
        With target_shift, the standard deviation >= 0 of the nodes' offsets.
    """

    noise: float = 0.1
    outlier_fraction: float = 0.0
    outlier_size: float = 5.0
    slope: float = 2.0
    amplitude: float = 3.0
    frequency: float = 6.0
    phase: float = 0.0
    low: float = 0.0
    high: float = 1.0
    split: Split = "iid"
    overlap: float = 0.2
    shift: float = 1.0

    ranges: ClassVar = {
        "noise": NOT_NEGATIVE,
        "outlier_size": NOT_NEGATIVE,
        "shift": NOT_NEGATIVE,
        "outlier_fraction": SHARE,
        "overlap": SHARE,
        "slope": FINITE,
        "amplitude": FINITE,
        "frequency": FINITE,
        "phase": FINITE,
        "low": FINITE,
        "high": FINITE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_interval(self.low, self.high)
        check_split(self.split, ("iid", "patches", "target_shift"), "sine_regression")

    @property
    def moves(self) -> bool:
        return False

    def __call__(self, inputs: Array, ages: Integers) -> Array:
        """Return the target without noise at inputs (n,), (n,)."""
        return self.slope * inputs + self.amplitude * np.sin(self.frequency * inputs + self.phase)

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        ends = node_intervals(self.split, self.low, self.high, nodes, self.overlap)
        shifts = offsets(self.shift, nodes, seed) if self.split == "target_shift" else np.zeros(nodes)

        @cache
        def law(low: float, high: float, offset: float) -> NoisyCurve:
            return NoisyCurve(self, low, high, self.noise, offset, self.outlier_fraction, self.outlier_size)

        laws = [law(*interval, shift) for interval, shift in zip(ends.tolist(), shifts.tolist(), strict=True)]
        return open_curves(laws, seed, held_out, locations, ShiftDifferences(shifts))


# A regression with a drifting target.


@dataclass(frozen=True)
class Drifting:
    """A target that moves while it is learned: a travelling wave.

    Sample number n of a node has the target amplitude sin(2 pi (frequency x - n / period)) + noise. The wave moves to
    the right by 1 / (frequency period) with each sample, and returns after ``period`` samples; the error of slow
    learners rises. The targets of test samples move with the wave, to its position at the latest sample.

    Parameters
    ----------
    period
        Number > 0 of a node's samples after which the target returns.
    noise
        Standard deviation >= 0 of the Gaussian noise.
    amplitude, frequency
        Height of the wave and number of waves per unit of x.
    low, high
        Ends of the interval of inputs, which are uniform on it.
    split
        "iid"; "patches": each node's inputs come from its own interval; "target_shift": each node's target has its own
        offset.
    overlap
        With patches, the share in [0, 1] of its interval that a node has in common with the next.
    shift
        With target_shift, the standard deviation >= 0 of the nodes' offsets.
    """

    period: float = 10_000.0
    noise: float = 0.1
    amplitude: float = 1.0
    frequency: float = 1.0
    low: float = 0.0
    high: float = 1.0
    split: Split = "iid"
    overlap: float = 0.2
    shift: float = 1.0

    ranges: ClassVar = {
        "period": POSITIVE,
        "noise": NOT_NEGATIVE,
        "shift": NOT_NEGATIVE,
        "amplitude": FINITE,
        "frequency": FINITE,
        "low": FINITE,
        "high": FINITE,
        "overlap": SHARE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_interval(self.low, self.high)
        check_split(self.split, ("iid", "patches", "target_shift"), "drifting")

    @property
    def moves(self) -> bool:
        return True

    def __call__(self, inputs: Array, ages: Integers) -> Array:
        """Return the target without noise at inputs (n,) after ages (n,) samples, (n,)."""
        return np.asarray(self.amplitude * np.sin(2.0 * np.pi * (self.frequency * inputs - ages / self.period)))

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        ends = node_intervals(self.split, self.low, self.high, nodes, self.overlap)
        shifts = offsets(self.shift, nodes, seed) if self.split == "target_shift" else np.zeros(nodes)
        laws = [
            NoisyCurve(self, float(low), float(high), self.noise, float(offset))
            for (low, high), offset in zip(ends, shifts, strict=True)
        ]
        return open_curves(laws, seed, held_out, locations, ShiftDifferences(shifts))


# A Markov chain with rewards and a known value function: transitions for policy evaluation.

NEGLIGIBLE = 1e-17
"""Terms of the value function with a discount below this are left out."""


@dataclass(frozen=True)
class MarkovReward(Ranged):
    """Transitions of a Gaussian autoregressive chain, whose reward is a sine of the state.

    From x the chain goes to y = correlation x + sqrt(1 - correlation^2) spread z, z ~ N(0, 1), and the reward is r =
    amplitude sin(frequency x + phase) + noise z'. Samples 2k and 2k + 1 are the states x and y of a transition, both
    with the target r. The states x are independent, with the stationary distribution N(0, spread^2). Held-out samples
    are states of this distribution with their true values, which are known since the mean of a sine of a Gaussian
    number is known:

        V(x) = amplitude sum_t discount^t exp(-frequency^2 spread^2 (1 - correlation^(2t)) / 2)
                                         sin(frequency correlation^t x + phase)

    Parameters
    ----------
    correlation
        Correlation of a state with the next, in [0, 1).
    spread
        Standard deviation > 0 of the stationary law.
    amplitude, frequency, phase
        Coefficients of the reward; the frequency and the phase are in radians.
    noise
        Standard deviation >= 0 of the reward's noise.
    discount
        Discount between 0 and 1. The learner must have the same, since the true values depend on it.
    """

    correlation: float = 0.8
    spread: float = 1.0
    amplitude: float = 1.0
    frequency: float = 2.0
    phase: float = 0.5
    noise: float = 0.1
    discount: float = 0.9

    ranges: ClassVar = {
        "correlation": Range("[0, 1)", "at 1 the chain stands still"),
        "discount": Range("(0, 1)", "use the learner's"),
        "spread": POSITIVE,
        "amplitude": FINITE,
        "frequency": FINITE,
        "phase": FINITE,
        "noise": NOT_NEGATIVE,
    }

    @property
    def inputs(self) -> int:
        return 1

    @property
    def drifts(self) -> bool:
        return False

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        count = len(ages)
        first, second, noise = random.standard_normal((3, -(-count // 2)))
        states = np.empty((len(first), 2))
        states[:, 0] = self.spread * first
        states[:, 1] = self.correlation * states[:, 0] + math.sqrt(1.0 - self.correlation**2) * self.spread * second
        rewards = self.amplitude * np.sin(self.frequency * states[:, 0] + self.phase) + self.noise * noise
        return states.reshape(-1, 1)[:count].copy(), np.repeat(rewards, 2)[:count, None].copy()

    def noise_free(self, points: Array, ages: Integers) -> Array:
        """Return the true values (n, 1) of states (n, 1)."""
        values = np.zeros(points.shape)
        discounted, remembered = self.amplitude, 1.0
        for _ in range(math.ceil(math.log(NEGLIGIBLE) / math.log(self.discount))):
            variance = self.spread**2 * (1.0 - remembered**2)
            share = discounted * math.exp(-0.5 * self.frequency**2 * variance)
            values += share * np.sin(self.frequency * remembered * points + self.phase)
            discounted *= self.discount
            remembered *= self.correlation
        return values

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        return Source(
            inputs=1,
            targets=1,
            classes=None,
            nodes=sources_of([self] * nodes, seed, held_out, TransitionSource),
            facts={"discount": self.discount},
            discount=self.discount,
            truth=self._truth,
            locations=locations,
            differences=ShiftDifferences(np.zeros(nodes)),
        )

    def _truth(self, position: int, points: Array, samples: int) -> Array:
        return self.noise_free(points, np.full(len(points), samples, dtype=np.int64))


class TransitionSource(SyntheticSource):
    """One node's endless transitions; the targets of held-out states are their true values."""

    def _test_samples(self, samples: int) -> HeldOut:
        found = super()._test_samples(samples)
        assert found.truth is not None
        return HeldOut(found.points, found.truth, found.truth)
