"""Sensors at locations that measure correlated but different functions: where consensus is the wrong hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import spsolve_triangular

from kernelswarm.arrays import Array, Integers
from kernelswarm.ranges import NOT_NEGATIVE, POSITIVE, SHARE, Range, check_ranges
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.curves import NoisyCurve, node_intervals, open_curves
from kernelswarm.simulations.data.dealing import Split, check_split

# Gaussian fields with the correlation exp(-distance / length) at given places, few or very many.

EXACT = 2000
"""Places up to which the field is drawn from the whole matrix of correlations, which takes time with their cube."""

NEAREST, FIRST = 30, 15
"""Places that another one is conditioned on beyond that: those near it, and some that are the same for all.

Correlations of places spread over a square are then off by 0.002 in the mean square, and by 0.03 at most.
"""

JITTER = 1e-10
"""Added to the variance of places that are conditioned on: several may be one and the same."""


def draw_field(locations: Array, length: float, random: np.random.Generator, count: int) -> Array:
    """Draw independent fields of mean 0, variance 1 and correlation exp(-||loc_i - loc_j|| / length).

    Parameters
    ----------
    locations
        Places (V, d).
    length
        Positive.
    random
        What to draw with.
    count
        Number of fields.

    Returns
    -------
    Array
        (V, count).
    """
    if len(locations) <= EXACT:
        return np.asarray(correlation_root(locations, length) @ random.standard_normal((len(locations), count)))
    order = random.permutation(len(locations))
    field = np.empty((len(locations), count))
    field[order] = conditioned(locations[order], length, random.standard_normal((len(locations), count)))
    return field


def correlation_root(locations: Array, length: float) -> Array:
    """Symmetric square root (V, V) of the matrix exp(-||loc_i - loc_j|| / length).

    It exists for nodes at one place too, where a Cholesky factor does not, and it is unique, unlike other factors.
    """
    distances = np.linalg.norm(locations[:, None, :] - locations[None, :, :], axis=2)
    values, vectors = np.linalg.eigh(np.exp(-distances / length))
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def conditioned(locations: Array, length: float, normals: Array, nearest: int = NEAREST) -> Array:
    """Turn independent standard normal numbers (V, count) into fields, each place given some of those before it.

        f_i = w_i' f_N(i) + s_i z_i,    K_NN w_i = k_N,    s_i^2 = 1 - k_N' w_i

    N(i) being the ``nearest`` places among the first i - 1 and the first few of all, which carry the correlations over
    long distances. With all i - 1 the fields have the exact correlations; in a random order these come close, in time
    and memory that grow with V. Source: Vecchia, Estimation and model identification for continuous spatial processes,
    J. R. Stat. Soc. B 50, 1988.
    """
    places = len(locations)
    before = np.full((places, nearest + FIRST), -1, dtype=np.int64)
    before[:, :nearest] = _nearest_before(locations, nearest)
    for place in range(min(FIRST, places)):
        before[place + 1 :, nearest + place] = np.where((before[place + 1 :] == place).any(axis=1), -1, place)
    known = before >= 0
    weights = np.empty(before.shape)
    deviations = np.empty(places)
    for start in range(0, places, 4096):  # a stack of matrices at a time
        rows = slice(start, start + 4096)
        around, real = locations[before[rows]], known[rows]
        among = np.exp(-np.linalg.norm(around[:, :, None] - around[:, None], axis=3) / length)
        among = np.where(real[:, :, None] & real[:, None, :], among, 0.0)
        diagonal = np.arange(before.shape[1])
        among[:, diagonal, diagonal] = 1.0 + JITTER
        across = np.where(real, np.exp(-np.linalg.norm(around - locations[rows, None], axis=2) / length), 0.0)
        weights[rows] = np.linalg.solve(among, across[:, :, None])[:, :, 0]
        deviations[rows] = np.sqrt(np.maximum(1.0 - np.sum(across * weights[rows], axis=1), 0.0))
    own = np.arange(places)
    rows_of = np.concatenate([own, np.repeat(own, known.sum(axis=1))])
    factor = csr_array(
        (np.concatenate([np.ones(places), -weights[known]]), (rows_of, np.concatenate([own, before[known]]))),
        shape=(places, places),
    )
    fields: Array = spsolve_triangular(factor, deviations[:, None] * normals, lower=True, unit_diagonal=True)
    return fields


def _nearest_before(locations: Array, nearest: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return for each place the nearest of those before it, (V, nearest), and -1 where there are fewer.

    Places are looked for among ever more of the first ones, doubled each time, so that half of them or more are before.
    Where three times as many as wanted do not hold enough of these, there are fewer.
    """
    from scipy.spatial import cKDTree

    places = len(locations)
    found = np.full((places, nearest), -1, dtype=np.int64)
    start, stop = 0, min(3 * nearest, places)
    while start < places:
        asked = min(3 * nearest + 1, stop)
        _, close = cKDTree(locations[:stop]).query(locations[start:stop], k=asked)
        close = close.reshape(stop - start, asked)
        earlier = close < np.arange(start, stop)[:, None]
        rank = np.cumsum(earlier, axis=1) - 1
        rows, columns = np.nonzero(earlier & (rank < nearest))
        found[start + rows, rank[rows, columns]] = close[rows, columns]
        start, stop = stop, min(2 * stop, places)
    return found


@dataclass(frozen=True, eq=False)
class FourierCurve:
    """sum_m coefficients[m-1] sin(2 pi m x + phases[m-1]), m = 1..terms."""

    coefficients: Array  # (terms,)
    phases: Array  # (terms,)

    @property
    def moves(self) -> bool:
        return False

    def __call__(self, inputs: Array, ages: Integers) -> Array:
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
