"""Sensors at locations that measure correlated but different functions: where consensus is the wrong hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.ranges import NOT_NEGATIVE, POSITIVE, SHARE, Range, check_ranges
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.generated.curves import NoisyCurve, node_intervals, open_curves
from kernelswarm.simulations.streams.generated.field import draw_field
from kernelswarm.simulations.streams.generated.synthetic import Ages
from kernelswarm.simulations.streams.splits import Split, check_split


@dataclass(frozen=True, eq=False)
class FourierCurve:
    """sum_m coefficients[m-1] sin(2 pi m x + phases[m-1]), m = 1..terms."""

    coefficients: Array  # (terms,)
    phases: Array  # (terms,)

    @property
    def moves(self) -> bool:
        return False

    def __call__(self, inputs: Array, ages: Ages) -> Array:
        orders = np.arange(1, len(self.phases) + 1)
        return np.sin(2.0 * np.pi * np.outer(inputs, orders) + self.phases) @ self.coefficients


@dataclass(frozen=True)
class SensorField:
    """Sensors at locations measure functions that are alike nearby and different far apart.

    Node i measures sum_m a_m(location_i) sin(2 pi m x + phase_m) + noise, x uniform on [0, 1]. Each a_m, m = 1..terms,
    is a Gaussian field over the locations with mean 0, standard deviation ``amplitude`` and correlation exp(-distance
    / length), so that near nodes measure similar functions and far ones different ones. The phases are uniform and
    common to all nodes. Locations are those of the graph; where it has none they are drawn uniformly from the unit
    square. The fields of more than 2,000 nodes are drawn node by node, each given 45 others: their correlations are off
    by 0.002 in the mean square.

    Parameters
    ----------
    length
        Length > 0 over which the functions stay similar, in the unit of the locations.
    noise
        Standard deviation >= 0 of the Gaussian noise of a measurement.
    terms
        Number of sines >= 1.
    amplitude
        Standard deviation > 0 of each coefficient.
    split
        "iid": every node's inputs cover [0, 1]; "patches": each node's inputs come from its own interval.
    overlap
        With patches, the share in [0, 1] of its interval that a node has in common with the next.
    """

    length: float = 2.0
    noise: float = 1.5
    terms: int = 3
    amplitude: float = 1.0
    split: Split = "iid"
    overlap: float = 0.2

    ranges: ClassVar = {
        "length": POSITIVE,
        "amplitude": POSITIVE,
        "noise": NOT_NEGATIVE,
        "terms": Range("[1, inf)"),
        "overlap": SHARE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_split(self.split, ("iid", "patches"), "sensor_field")

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        if locations is None:
            locations = generator(seed, Role.LOCATIONS).random((nodes, 2))
        random = generator(seed, Role.STREAM)
        phases = random.uniform(0.0, 2.0 * np.pi, self.terms)
        coefficients = self.amplitude * draw_field(locations, self.length, random, self.terms)
        ends = node_intervals(self.split, 0.0, 1.0, nodes, self.overlap)
        laws = [
            NoisyCurve(FourierCurve(coefficients[node], phases), float(low), float(high), self.noise)
            for node, (low, high) in enumerate(ends)
        ]
        return open_curves(laws, seed, held_out, locations, CurveDifferences(coefficients, phases, ends))


@dataclass(frozen=True, eq=False)
class CurveDifferences:
    """Mean over x uniform on node i's interval of (f_i(x) - f_j(x))^2, in closed form.

    With d = coefficients[i] - coefficients[j] it is d' G d, G the means of products of two sines on the interval; on
    [0, 1] that is half the squared distance of the coefficients.
    """

    coefficients: Array  # (V, terms)
    phases: Array  # (terms,)
    ends: Array  # (V, 2), intervals

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        low, high = self.ends[position]
        differences = self.coefficients[position] - self.coefficients[list(others)]
        products = sine_products(self.phases, float(low), float(high))
        squares: Array = np.einsum("jm,mn,jn->j", differences, products, differences)
        return np.maximum(squares, 0.0)


def sine_products(phases: Array, low: float, high: float) -> Array:
    """Means over [low, high] of sin(2 pi m x + phase_m) sin(2 pi n x + phase_n), shape (terms, terms).

    sin a sin b = (cos(a - b) - cos(a + b)) / 2.
    """
    orders = np.arange(1, len(phases) + 1)
    difference = mean_cosine(np.subtract.outer(orders, orders), np.subtract.outer(phases, phases), low, high)
    total = mean_cosine(np.add.outer(orders, orders), np.add.outer(phases, phases), low, high)
    return np.asarray((difference - total) / 2.0)


def mean_cosine(order: Array, phase: Array, low: float, high: float) -> Array:
    """Mean of cos(2 pi order x + phase) over [low, high], entry by entry.

    It is the cosine at the middle times sin(h) / h, h = pi order (high - low), which also holds for order 0.
    """
    middle = np.cos(np.pi * order * (low + high) + phase)
    return np.asarray(middle * np.sinc(order * (high - low)))
