"""Events of a Poisson process whose normalised intensity is a mixture of Gaussians on a box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from kernelswarm.agents.parts.grids import Grid
from kernelswarm.arrays import Array, Integers
from kernelswarm.ranges import POSITIVE, SHARE, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.data.contract import HeldOut, Source, freeze
from kernelswarm.simulations.data.splits import ShiftDifferences
from kernelswarm.simulations.data.synthetic import SyntheticSource, sources_of


@dataclass(frozen=True)
class Density:
    """The law of events: a uniform part and Gaussians of equal weights, each cut off at the box and normalised."""

    centers: Array  # (k, p)
    deviation: float
    background: float
    low: Array  # (p,)
    high: Array  # (p,)

    @property
    def inputs(self) -> int:
        return int(self.centers.shape[1])

    @property
    def drifts(self) -> bool:
        return False

    @property
    def volume(self) -> float:
        return float(np.prod(self.high - self.low))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The standard normal distribution function at the box's ends, seen from each center, (k, p) each."""
        return ndtr((self.low - self.centers) / self.deviation), ndtr((self.high - self.centers) / self.deviation)

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        count = len(ages)
        component = random.integers(0, len(self.centers), count)
        uniform = random.random((count, self.inputs))
        below, above = (end[component] for end in self.ends)
        points = self.centers[component] + self.deviation * ndtri(below + uniform * (above - below))
        spread = random.random(count) < self.background
        points[spread] = (self.low + uniform * (self.high - self.low))[spread]
        return np.clip(points, self.low, self.high), np.ones((count, 1))

    def noise_free(self, points: Array, ages: Integers) -> Array:
        """Return the density, (n, 1)."""
        below, above = self.ends
        scaled = (points[:, None, :] - self.centers) / self.deviation
        shapes = np.exp(-0.5 * scaled**2) / (np.sqrt(2.0 * np.pi) * self.deviation * (above - below))
        peaks = shapes.prod(axis=2).mean(axis=1)
        inside = ((points >= self.low) & (points <= self.high)).all(axis=1)
        density: Array = inside * ((1.0 - self.background) * peaks + self.background / self.volume)
        return density[:, None]


@dataclass(frozen=True)
class DensityTruth:
    """The nodes' common density as `Source.truth` gives it."""

    density: Density

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.density.noise_free(points, np.zeros(len(points), dtype=np.int64))


class EventSource(SyntheticSource):
    """One node's endless events, each with the target 1; it is tested on a grid over the box, without chance.

    The target of a test point is the number of events that it stands for, were one drawn for each test point: the
    density times the volume of the box. So the mean loss is the expected one, and the mean squared error, the truth
    being the density, is the integrated squared error over the volume of the box.
    """

    law: Density

    def _test_samples(self, samples: int) -> HeldOut:
        law = self.law
        # The whole power, and no rounding error below it.
        side = max(1, int(self._held_out_count ** (1.0 / law.inputs) + 1e-9))
        grid = Grid(tuple(law.low.tolist()), tuple(law.high.tolist()), (side,) * law.inputs)
        truth = law.noise_free(grid.points, np.zeros(len(grid.points), dtype=np.int64))
        return HeldOut(grid.points, freeze(truth * law.volume), freeze(truth))


@dataclass(frozen=True)
class GaussianDensity:
    """Events of a Poisson process on a box, drawn from its normalised intensity: Gaussians and a uniform background.

    The defaults are the one-dimensional example of SPPPOT section V, N(0.5, 0.1^2) on (0, 1). All nodes see the same
    density; it is learned with the loss `poisson_process`.

    Parameters
    ----------
    centers
        The Gaussians' means, one list of p coordinates each: [[0.3, 0.3], [0.7, 0.6]] are two in the plane.
    deviation
        Their standard deviation > 0 in every direction. What lies outside the box is cut off.
    background
        The share in [0, 1] of events that are uniform on the box.
    low, high
        The corners of the box, p coordinates each.
    """

    centers: tuple[tuple[float, ...], ...] = ((0.5,),)
    deviation: float = 0.1
    background: float = 0.0
    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)

    ranges: ClassVar = {"deviation": POSITIVE, "background": SHARE}

    def __post_init__(self) -> None:
        check_ranges(self)
        Grid(self.low, self.high, (1,) * len(self.low))
        if not self.centers:
            raise RefusedKey("centers", "= [] must name at least one: use background = 1.0 for uniform events")
        for center in self.centers:
            inside = len(center) == len(self.low) and all(
                a <= c <= b for a, c, b in zip(self.low, center, self.high, strict=True)
            )
            if not inside:
                raise RefusedKey(
                    "centers",
                    f"= {shown(list(map(list, self.centers)))} has {shown(list(center))}, which is no point of "
                    f"the box from {list(self.low)} to {list(self.high)}: give {len(self.low)} coordinates inside it",
                )

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        density = Density(
            np.array(self.centers, dtype=np.float64),
            self.deviation,
            self.background,
            np.array(self.low, dtype=np.float64),
            np.array(self.high, dtype=np.float64),
        )
        return Source(
            inputs=density.inputs,
            targets=1,
            classes=None,
            nodes=sources_of([density] * nodes, seed, held_out, EventSource),
            truth=DensityTruth(density),
            locations=locations,
            differences=ShiftDifferences(np.zeros(nodes)),
        )
