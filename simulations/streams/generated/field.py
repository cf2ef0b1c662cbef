"""Gaussian fields with the correlation exp(-distance / length) at given places, few or very many."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import spsolve_triangular
from scipy.spatial import cKDTree

from kernelswarm.simulations.streams.contract import Array

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
