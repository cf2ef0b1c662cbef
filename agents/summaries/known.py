"""What a node knows of cells, its own and others', and which cell it passes on to a neighbour next."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.summaries.cells import Cells
from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ORIGIN, PLACE, HOPS, VERSION = range(4)
"""The columns of a cell's head: the node whose samples are in it, its place among that node's cells, the edges that the
copy has crossed, and the round in which it was published, -1 without a copy."""

PLACES = 2**16
"""Cells of a node, and edges on the way, are fewer."""


class Known(NamedTuple):
    """The newest copies of cells that a node has, its own K cells first; the first ``used[0]`` are in use."""

    heads: Integers  # (M, 4)
    points: Array  # (M, p)
    targets: Array  # (M, C)
    weights: Array  # (M,)
    there: Integers  # (deg, M) the version that each neighbour has, as far as known; -1 for none
    weights_there: Array  # (deg, M) its weight, 0 for none
    used: Integers  # (1,)


def room_for(room: int, inputs: int, outputs: int, degree: int) -> Known:
    """Return room for so many cells, and none of them."""
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
    """Return what a node knows before its first sample: the places of its own cells."""
    known = room_for(room or 2 * most, inputs, outputs, degree)
    known.heads[:most, ORIGIN], known.heads[:most, PLACE] = node, np.arange(most)
    known.used[0] = most
    return known


def in_use(known: Known) -> Known:
    """Return copies without the room that is free."""
    end = int(known.used[0])
    copies = [part[:end].copy() for part in known[:4]] + [part[:, :end].copy() for part in known[4:6]]
    return Known._make([*copies, known.used.copy()])


def laid(each: Sequence[Known], room: int) -> Known:
    """Return what several nodes know in common arrays, one node behind the other, with room for so many cells each."""
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
    """Publish those of a node's cells whose weight has grown by the factor 1 + growth since the last time."""
    for k in range(cells.used[0]):
        if cells.weights[k] >= least and cells.weights[k] >= (1.0 + growth) * cells.published[k]:
            cells.published[k] = known.weights[k] = cells.weights[k]
            known.heads[k, VERSION] = round
            known.points[k], known.targets[k] = cells.points[k], cells.targets[k]


@cached_njit
def choose(known: Known, edge: int, neighbor: int, reach: int) -> int:
    """Return the place of the cell to pass on to a neighbour: that whose weight has changed most; -1 for none.

    Of equal ones the newer counts, and then the first.
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
    """Take it that a neighbour has a copy of a cell of this version and weight."""
    if version > known.there[edge, m]:
        known.there[edge, m], known.weights_there[edge, m] = version, weight


@cached_njit
def write(known: Known, m: int, message: Array) -> None:
    """Write a cell as a message: origin, place and hops as one number, version, weight, means (p + C + 3,)."""
    inputs = known.points.shape[1]
    message[0] = (known.heads[m, ORIGIN] * PLACES + known.heads[m, PLACE]) * PLACES + known.heads[m, HOPS] + 1
    message[1], message[2] = known.heads[m, VERSION], known.weights[m]
    end = 3 + inputs + known.targets.shape[1]
    message[3 : 3 + inputs], message[3 + inputs : end] = known.points[m], known.targets[m]


@cached_njit
def take_in(known: Known, edge: int, message: ReadOnly, own: int, budget: int) -> bool:
    """Take in the cell of a message from a neighbour; returns False where there is no room for it.

    An older copy than the one known is dropped. A full budget drops the cell that has come from farthest, by hops, and
    then by label and place.
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
    """Tell whether a cell counts as farther than another one: by hops, and then by label and place."""
    if hops != than_hops:
        return hops > than_hops
    return origin > than_origin if origin != than_origin else place > than_place


@cached_njit
def farthest(known: Known, own: int) -> int:
    """Return the place of the farthest cell that is not the node's own."""
    found = own
    for m in range(own + 1, known.used[0]):
        heads, best = known.heads[m], known.heads[found]
        if farther(heads[HOPS], heads[ORIGIN], heads[PLACE], best[HOPS], best[ORIGIN], best[PLACE]):
            found = m
    return found
