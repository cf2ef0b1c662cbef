"""A node's own samples as a few cells: weighted means of inputs and targets.

A sample joins the nearest cell where that is near, or where no cell is free and joining it costs less than joining the
two cells that are cheapest to join (Ward 1963). Else it opens a cell.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Cells(NamedTuple):
    """The cells of one node, at most K; the first ``used[0]`` are in use."""

    points: Array  # (K, p) mean inputs
    targets: Array  # (K, C) mean targets, or shares of the classes
    weights: Array  # (K,) numbers of samples n
    spread: Array  # (K, C) sums of the squared deviations of targets from their mean
    published: Array  # (K,) its weight when it was last published, 0 before the first time
    used: Integers  # (1,)


def empty_cells(most: int, inputs: int, outputs: int) -> Cells:
    """Return room for ``most`` cells."""
    return Cells(
        np.zeros((most, inputs)),
        np.zeros((most, outputs)),
        np.zeros(most),
        np.zeros((most, outputs)),
        np.zeros(most),
        np.zeros(1, dtype=np.int64),
    )


def roomier(cells: Cells, room: int) -> Cells:
    """Return the same cells with room for so many."""
    found = empty_cells(room, cells.points.shape[1], cells.targets.shape[1])
    end = min(room, len(cells.weights))
    for new, old in zip(found[:-1], cells[:-1], strict=True):
        new[:end] = old[:end]
    found.used[:] = cells.used
    return found


@cached_njit
def distance(first: ReadOnly, second: ReadOnly, lengths: ReadOnly) -> float:
    """Return the squared distance of two points (p,) in units of the kernel's lengths (p,)."""
    total = 0.0
    for d in range(len(lengths)):
        total += ((first[d] - second[d]) / lengths[d]) ** 2
    return total


@cached_njit
def join(cells: Cells, into: int, point: ReadOnly, target: ReadOnly, weight: float, spread: ReadOnly) -> None:
    """Join a mean of ``weight`` samples to a cell."""
    total = cells.weights[into] + weight
    for c in range(cells.targets.shape[1]):
        gap = target[c] - cells.targets[into, c]
        cells.spread[into, c] += spread[c] + cells.weights[into] * weight / total * gap * gap
        cells.targets[into, c] += weight / total * gap
    for d in range(cells.points.shape[1]):
        cells.points[into, d] += weight / total * (point[d] - cells.points[into, d])
    cells.weights[into] = total


@cached_njit
def nearest_cell(cells: Cells, point: ReadOnly, lengths: ReadOnly) -> tuple[int, float]:
    """Return the place of the cell nearest to a point, -1 without cells, and the squared distance."""
    found, least = -1, np.inf
    for j in range(cells.used[0]):
        far = distance(cells.points[j], point, lengths)
        if far < least:
            found, least = j, far
    return found, least


@cached_njit
def cheapest_pair(cells: Cells, lengths: ReadOnly) -> tuple[int, int, float]:
    """Return the two cells that are cheapest to join, and Ward's cost of joining them."""
    first, second, least = 0, 0, np.inf
    for u in range(cells.used[0]):
        for v in range(u + 1, cells.used[0]):
            share = cells.weights[u] * cells.weights[v] / (cells.weights[u] + cells.weights[v])
            cost = share * distance(cells.points[u], cells.points[v], lengths)
            if cost < least:
                first, second, least = u, v, cost
    return first, second, least


@cached_njit
def learn(
    cells: Cells,
    points: ReadOnly,
    targets: ReadOnly,
    lengths: ReadOnly,
    near: float,
    forgetting: float,
    makes_room: bool,
) -> None:
    """Take in the samples of a round.

    Parameters
    ----------
    cells : Cells
        Changed in place.
    points, targets : Array
        The samples, (n, p) and (n, C).
    lengths : Array
        The kernel's lengths, (p,).
    near : float
        The squared distance in these up to which a sample joins a cell whatever that costs.
    forgetting : float
        What earlier samples count when a round has passed.
    makes_room : bool
        Whether two cells are joined where that costs less; else, without a free cell, samples join the nearest.
    """
    if forgetting < 1.0:
        for j in range(cells.used[0]):
            cells.weights[j] *= forgetting
            cells.published[j] *= forgetting
            for c in range(cells.targets.shape[1]):
                cells.spread[j, c] *= forgetting
    nothing = np.zeros(cells.targets.shape[1])
    most = len(cells.weights)
    for n in range(len(points)):
        place, far = nearest_cell(cells, points[n], lengths)
        if place >= 0 and (far <= near or (cells.used[0] == most and not makes_room)):
            join(cells, place, points[n], targets[n], 1.0, nothing)
            continue
        if cells.used[0] < most:
            opened = cells.used[0]
            cells.used[0] += 1
        else:
            kept, opened, cost = cheapest_pair(cells, lengths)
            if far * cells.weights[place] / (cells.weights[place] + 1.0) <= cost:
                join(cells, place, points[n], targets[n], 1.0, nothing)
                continue
            join(cells, kept, cells.points[opened], cells.targets[opened], cells.weights[opened], cells.spread[opened])
            cells.published[kept] = cells.published[opened] = 0.0
        cells.points[opened], cells.targets[opened] = points[n], targets[n]
        cells.weights[opened], cells.spread[opened] = 1.0, nothing
