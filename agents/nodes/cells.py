"""Summaries of a node's samples as a few cells: weighted means of inputs and targets.

A sample joins the nearest cell if the cell is near, or if no cell is free and joining it costs less than joining the
two cells that are cheapest to join (Ward 1963). Otherwise it opens a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit

CLEARLY = 1.0 - 1e-5
"""The share of the least cost so far below which another cost counts as less: equal costs are decided by order, and not
by rounding of data far from 0."""


class Cells(NamedTuple):
    """The cells of one node, at most K; the first ``used[0]`` are in use."""

    points: Array  # (K, p) mean inputs
    targets: Array  # (K, C) mean targets, or shares of the classes
    weights: Array  # (K,) numbers of samples n
    spread: Array  # (K, C) sums of the squared deviations of targets from their mean
    published: Array  # (K,) weight at the last publication, 0 before the first
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
    """Return the same cells with room for ``room`` cells."""
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
    """Merge a mean of ``weight`` samples into a cell."""
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
    """Return the index of the nearest cell of a point, -1 without cells, and the squared distance."""
    found, least = -1, np.inf
    for j in range(cells.used[0]):
        far = distance(cells.points[j], point, lengths)
        if far < CLEARLY * least:
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
            if cost < CLEARLY * least:
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
    """Add the samples of a round to the cells.

    Parameters
    ----------
    cells : Cells
        Changed in place.
    points, targets : Array
        The samples, (n, p) and (n, C).
    lengths : Array
        The kernel's lengths, (p,).
    near : float
        The squared distance, in these lengths, up to which a sample always joins a cell.
    forgetting : float
        The factor of earlier samples' weights per round.
    makes_room : bool
        Whether two cells are joined if that costs less; otherwise, without a free cell, samples join the nearest cell.
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
        if place >= 0 and (CLEARLY * far <= near or (cells.used[0] == most and not makes_room)):
            join(cells, place, points[n], targets[n], 1.0, nothing)
            continue
        if cells.used[0] < most:
            opened = cells.used[0]
            cells.used[0] += 1
        else:
            kept, opened, cost = cheapest_pair(cells, lengths)
            if CLEARLY * far * cells.weights[place] / (cells.weights[place] + 1.0) <= cost:
                join(cells, place, points[n], targets[n], 1.0, nothing)
                continue
            join(cells, kept, cells.points[opened], cells.targets[opened], cells.weights[opened], cells.spread[opened])
            cells.published[kept] = cells.published[opened] = 0.0
        cells.points[opened], cells.targets[opened] = points[n], targets[n]
        cells.weights[opened], cells.spread[opened] = 1.0, nothing


# A node's known cells, its own and others', and the choice of the next cell to send to a neighbour.

ORIGIN, PLACE, HOPS, VERSION = range(4)
"""The columns of a cell's head: the node of its samples, its index among that node's cells, the edges that the copy has
crossed, and the round of its publication, -1 without a copy."""

PLACES = 2**16
"""Upper bound on the cells of a node and the edges on a path."""


class Known(NamedTuple):
    """The newest known copies of cells, the node's own K cells first; the first ``used[0]`` are in use."""

    heads: Integers  # (M, 4)
    points: Array  # (M, p)
    targets: Array  # (M, C)
    weights: Array  # (M,)
    there: Integers  # (deg, M) the version known to each neighbour, as far as the node knows; -1 for none
    weights_there: Array  # (deg, M) the weight of that version, 0 for none
    used: Integers  # (1,)


def room_for(room: int, inputs: int, outputs: int, degree: int) -> Known:
    """Return empty arrays with room for ``room`` cells."""
    return Known(
        np.tile(np.array([-1, 0, 0, -1]), (room, 1)),
        np.zeros((room, inputs)),
        np.zeros((room, outputs)),
        np.zeros(room),
        np.full((degree, room), -1, dtype=np.int64),
        np.zeros((degree, room)),
        np.zeros(1, dtype=np.int64),
    )


def own_known(node: int, most: int, inputs: int, outputs: int, degree: int, room: int = 0) -> Known:
    """Return a node's knowledge before its first sample: the indices of its own cells."""
    known = room_for(room or 2 * most, inputs, outputs, degree)
    known.heads[:most, ORIGIN], known.heads[:most, PLACE] = node, np.arange(most)
    known.used[0] = most
    return known


def in_use(known: Known) -> Known:
    """Return copies of the cells in use, without free room."""
    end = int(known.used[0])
    copies = [part[:end].copy() for part in known[:4]] + [part[:, :end].copy() for part in known[4:6]]
    return Known._make([*copies, known.used.copy()])


def laid(each: Sequence[Known], room: int) -> Known:
    """Return the known cells of several nodes in common arrays, stacked, with room for ``room`` cells each."""
    inputs, outputs = each[0].points.shape[1], each[0].targets.shape[1]
    found = [room_for(room, inputs, outputs, len(known.there)) for known in each]
    for old, new in zip(each, found, strict=True):
        end = int(old.used[0])
        for k, part in enumerate(in_use(old)[:6]):
            new[k][(slice(end),) if k < 4 else (slice(None), slice(end))] = part
        new.used[0] = end
    stacks = [np.stack([known[k] for known in found]) for k in range(4)]
    rows = [np.concatenate([known[k] for known in found]) for k in (4, 5)]
    return Known._make([*stacks, *rows, np.stack([known.used for known in found])])


@cached_njit
def publish(cells: Cells, known: Known, round: int, growth: float, least: float) -> None:
    """Publish a node's cells whose weight has grown by the factor 1 + growth since their last publication."""
    for k in range(cells.used[0]):
        if cells.weights[k] >= least and cells.weights[k] >= (1.0 + growth) * cells.published[k]:
            cells.published[k] = known.weights[k] = cells.weights[k]
            known.heads[k, VERSION] = round
            known.points[k], known.targets[k] = cells.points[k], cells.targets[k]


@cached_njit
def choose(known: Known, edge: int, neighbor: int, reach: int) -> int:
    """Return the index of the cell to send to a neighbour, the cell with the largest change of weight; -1 for none.

    Ties are decided for the newer cell, and then for the first.
    """
    found, most, newest = -1, -1.0, -1
    for m in range(known.used[0]):
        version = known.heads[m, VERSION]
        if version <= known.there[edge, m] or known.heads[m, ORIGIN] == neighbor:
            continue
        if 0 < reach <= known.heads[m, HOPS]:
            continue
        gain = abs(known.weights[m] - known.weights_there[edge, m])
        if gain > most or (gain == most and version > newest):
            found, most, newest = m, gain, version
    return found


@cached_njit
def mark(known: Known, edge: int, m: int, version: int, weight: float) -> None:
    """Record that a neighbour has a copy of a cell with this version and weight."""
    if version > known.there[edge, m]:
        known.there[edge, m], known.weights_there[edge, m] = version, weight


@cached_njit
def write(known: Known, m: int, message: Array) -> None:
    """Write a cell as a message (p + C + 3,): origin, place and hops as one number, version, weight, and means."""
    inputs = known.points.shape[1]
    message[0] = (known.heads[m, ORIGIN] * PLACES + known.heads[m, PLACE]) * PLACES + known.heads[m, HOPS] + 1
    message[1], message[2] = known.heads[m, VERSION], known.weights[m]
    end = 3 + inputs + known.targets.shape[1]
    message[3 : 3 + inputs], message[3 + inputs : end] = known.points[m], known.targets[m]


@cached_njit
def take_in(known: Known, edge: int, message: ReadOnly, own: int, budget: int) -> bool:
    """Store the cell of a message from a neighbour; returns False if there is no room for it.

    Copies older than the known one are dropped. If the budget is full, the cell with most hops is dropped; ties are
    decided by label and place.
    """
    identity, version, inputs = int(message[0]), int(message[1]), known.points.shape[1]
    hops, place, origin = identity % PLACES, (identity // PLACES) % PLACES, identity // (PLACES * PLACES)
    m = 0
    while m < known.used[0] and not (known.heads[m, ORIGIN] == origin and known.heads[m, PLACE] == place):
        m += 1
    if m == known.used[0]:
        if budget and m >= own + budget:
            m = farthest(known, own)
            if not farther(known.heads[m, HOPS], known.heads[m, ORIGIN], known.heads[m, PLACE], hops, origin, place):
                return True
            known.there[:, m], known.weights_there[:, m] = -1, 0.0
        elif m == len(known.heads):
            return False
        else:
            known.used[0] += 1
        known.heads[m, ORIGIN], known.heads[m, PLACE] = origin, place
        known.heads[m, HOPS], known.heads[m, VERSION] = hops, -1
    known.heads[m, HOPS] = min(known.heads[m, HOPS], hops)
    if version > known.heads[m, VERSION]:
        known.heads[m, VERSION], known.weights[m] = version, message[2]
        end = 3 + inputs + known.targets.shape[1]
        known.points[m], known.targets[m] = message[3 : 3 + inputs], message[3 + inputs : end]
    mark(known, edge, m, version, message[2])
    return True


@cached_njit
def farther(hops: int, origin: int, place: int, than_hops: int, than_origin: int, than_place: int) -> bool:
    """Compare two cells by hops, then by label and place; True if the first counts as farther."""
    if hops != than_hops:
        return hops > than_hops
    return origin > than_origin if origin != than_origin else place > than_place


@cached_njit
def farthest(known: Known, own: int) -> int:
    """Return the index of the farthest cell of other nodes."""
    found = own
    for m in range(own + 1, known.used[0]):
        heads, best = known.heads[m], known.heads[found]
        if farther(heads[HOPS], heads[ORIGIN], heads[PLACE], best[HOPS], best[ORIGIN], best[PLACE]):
            found = m
    return found
