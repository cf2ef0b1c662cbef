"""A Markov chain on the line with rewards, whose value function is known: transitions for policy evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.ranges import FINITE, NOT_NEGATIVE, POSITIVE, Range, check_ranges
from kernelswarm.simulations.data.contract import HeldOut, Source
from kernelswarm.simulations.data.splits import ShiftDifferences
from kernelswarm.simulations.data.synthetic import SyntheticSource, sources_of

NEGLIGIBLE = 1e-17
"""Rewards discounted by less than this are left out of the value function."""


@dataclass(frozen=True)
class MarkovReward:
    """Transitions of a Gaussian autoregressive chain, with a sine of the state for a reward.

    From x the chain goes to y = correlation x + sqrt(1 - correlation^2) spread z, z ~ N(0, 1), and the reward is
    r = amplitude sin(frequency x + phase) + noise z'. Samples 2k and 2k + 1 are the states x and y of a transition, and
    both have the target r; every transition starts anew from the stationary law N(0, spread^2). The held-out samples
    are states of that law with their true values (given the mean of a Gaussian, the mean of a sine of it is known)

        V(x) = amplitude sum_t discount^t exp(-frequency^2 spread^2 (1 - correlation^(2t)) / 2)
                                         sin(frequency correlation^t x + phase)

    Parameters
    ----------
    correlation
        Of a state with the next, in [0, 1).
    spread
        Standard deviation > 0 of the stationary law.
    amplitude, frequency, phase
        Of the reward; the frequency and the phase are in radians.
    noise
        Standard deviation >= 0 of the reward's noise.
    discount
        Between 0 and 1; must be the learner's, since the truth is that of this discount.
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

    def __post_init__(self) -> None:
        check_ranges(self)

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
        """True values (n, 1) of states (n, 1)."""
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
    """One node's endless transitions; its held-out states have their true values for targets."""

    def _test_samples(self, samples: int) -> HeldOut:
        found = super()._test_samples(samples)
        assert found.truth is not None
        return HeldOut(found.points, found.truth, found.truth)
