"""One-dimensional regression: inputs uniform on an interval, a curve for a target, noise and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernelswarm.simulations.streams.contract import Array, Differences, Source
from kernelswarm.simulations.streams.generated.synthetic import Ages, sources_of
from kernelswarm.simulations.streams.splits import intervals


class Curve(Protocol):
    """A function of one input, which may move with the number of samples."""

    @property
    def moves(self) -> bool:
        """Whether the ages matter."""

    def __call__(self, inputs: Array, ages: Ages) -> Array:
        """Evaluate at inputs (n,) and ages (n,), the samples drawn before: gives (n,)."""


@dataclass(frozen=True)
class NoisyCurve:
    """Law of x uniform on [low, high] and y = curve(x) + offset + noise z, z ~ N(0, 1).

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

    def sample(self, random: np.random.Generator, ages: Ages) -> tuple[Array, Array]:
        count = len(ages)
        inputs = random.uniform(self.low, self.high, count)
        targets = self.curve(inputs, ages) + self.offset + self.noise * random.standard_normal(count)
        if self.outlier_fraction:
            hit = random.random(count) < self.outlier_fraction
            targets += hit * self.outlier_size * random.standard_normal(count)
        return inputs[:, None], targets[:, None]

    def noise_free(self, points: Array, ages: Ages) -> Array:
        return (self.curve(points[:, 0], ages) + self.offset)[:, None]


@dataclass(frozen=True)
class CurveTruth:
    """The nodes' curves as `Source.truth` gives them."""

    laws: tuple[NoisyCurve, ...]

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.laws[position].noise_free(points, np.full(len(points), samples, dtype=np.int64))

    def at(self, position: int, points: Array, ages: Ages) -> Array:
        """Evaluate each point at its own age."""
        return self.laws[position].noise_free(points, ages)


def node_intervals(split: str, low: float, high: float, nodes: int, overlap: float) -> Array:
    """Interval of each node's inputs, (V, 2): its patch, or the whole."""
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
    """Variance of y given x, the squared error that no function can beat on targets as observed."""
    return law.noise**2 + law.outlier_fraction * law.outlier_size**2
