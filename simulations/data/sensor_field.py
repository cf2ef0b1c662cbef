"""Sensors that measure correlated but different functions, for which consensus is the wrong assumption."""

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

# Gaussian fields with the correlation exp(-distance / length) at given places.

EXACT = 2000
"""Maximum number of places for the exact method, whose time grows with its cube."""

NEAREST, FIRST = 30, 15
"""Beyond that, each place is conditioned on its nearest places and on the first places, which are common to all.

For places spread over a square, the root mean square error of correlations is 0.002, and the largest is 0.03.
"""

JITTER = 1e-10
"""Added to the variance of the conditioning places, since several may coincide."""


def draw_field(locations: Array, length: float, random: np.random.Generator, count: int) -> Array:
    """Draw independent fields of mean 0, variance 1 and correlation exp(-||loc_i - loc_j|| / length).

    Parameters
    ----------
    locations
        Places (V, d).
    length
        Positive.
    random
        The random generator.
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
    """Return the symmetric square root (V, V) of the matrix exp(-

    loc_i - loc_j

    / length).

    Unlike a Cholesky factor, the symmetric root also exists for nodes at the same place. It is unique, unlike other
    factors.
    """
    distances = np.linalg.norm(locations[:, None, :] - locations[None, :, :], axis=2)
    values, vectors = np.linalg.eigh(np.exp(-distances / length))
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def conditioned(locations: Array, length: float, normals: Array, nearest: int = NEAREST) -> Array:
    """Turn independent standard normal numbers (V, count) into fields, each place conditioned on earlier places.

        f_i = w_i' f_N(i) + s_i z_i,    K_NN w_i = k_N,    s_i^2 = 1 - k_N' w_i

    N(i) contains the ``nearest`` places among the first i - 1, and the first few places of all, which carry long-range
    correlations. With all i - 1 places the correlations are exact. With few places in a random order they are close to
    exact, and time and memory grow linearly with V. Source: Vecchia, Estimation and model identification for continuous
    spatial processes, J. R. Stat. Soc. B 50, 1988.
    """
    places = len(locations)
    before = np.full((places, nearest + FIRST), -1, dtype=np.int64)
    before[:, :nearest] = _nearest_before(locations, nearest)
    for place in range(min(FIRST, places)):
        before[place + 1 :, nearest + place] = np.where((before[place + 1 :] == place).any(axis=1), -1, place)
    known = before >= 0
    weights = np.empty(before.shape)
    deviations = np.empty(places)
    for start in range(0, places, 4096):  # several matrices at a time
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
    """Return the nearest earlier places of each place, (V, nearest), padded with -1.

    The search goes over the first places, whose number doubles each time, so that at least half of the searched places
    are earlier. Of the 3 ``nearest`` nearest places, the earlier ones are kept; there may be fewer than ``nearest``.
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
    """Sensors that measure similar functions at near locations and different functions at far locations.

    Node i measures sum_m a_m(location_i) sin(2 pi m x + phase_m) + noise, x uniform on [0, 1]. Each a_m, m = 1..terms,
    is a Gaussian field over the locations with mean 0, standard deviation ``amplitude`` and correlation exp(-distance /
    length), so that near nodes measure similar functions. The phases are uniform and common to all nodes. The graph
    gives the locations; without them, locations are drawn uniformly from the unit square. For more than 2,000 nodes,
    each node's field is conditioned on 45 others, and the root mean square error of correlations is 0.002.

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

    With d = coefficients[i] - coefficients[j], the mean is d' G d, where G are the means of products of two sines on
    the interval. On [0, 1] this is half the squared distance of the coefficients.
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
    """Return the means over [low, high] of sin(2 pi m x + phase_m) sin(2 pi n x + phase_n), (terms, terms).

    sin a sin b = (cos(a - b) - cos(a + b)) / 2.
    """
    orders = np.arange(1, len(phases) + 1)
    difference = mean_cosine(np.subtract.outer(orders, orders), np.subtract.outer(phases, phases), low, high)
    total = mean_cosine(np.add.outer(orders, orders), np.add.outer(phases, phases), low, high)
    return np.asarray((difference - total) / 2.0)


def mean_cosine(order: Array, phase: Array, low: float, high: float) -> Array:
    """Return the mean of cos(2 pi order x + phase) over [low, high], elementwise.

    The mean is the cosine at the middle times sin(h) / h, h = pi order (high - low), also for order 0.
    """
    middle = np.cos(np.pi * order * (low + high) + phase)
    return np.asarray(middle * np.sinc(order * (high - low)))
