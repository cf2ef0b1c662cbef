"""How pulls, samples and what was taught come into the information on a dictionary that stays as it is."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.informed_expansion import Information
from kernelswarm.agents.learners.second_order import information
from kernelswarm.agents.learners.second_order.taught import absorb_taught
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, force_inline

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

RENEWED = 8
"""Coordinates whose ridge is renewed together."""


class Moved(NamedTuple):
    """How a step has moved the points of the dictionary, and the kernel between those before and its own."""

    work: Array  # its beginning holds the places where the points were
    factor: Array  # (capacity, capacity), as it is now
    before: int  # how many points there were
    order: int  # how many there are
    kept: int  # how many of those before stay
    cross: Array  # (N, before or more)
    gram: Array  # (N, N)


class Terms(NamedTuple):
    """How neighbours pull, what a step's own samples ask for, and what neighbours taught."""

    coupled: bool  # whether they pull at all
    pulls: Array  # (N, C), the weights of the coupling
    unit: float  # of the inner products by which they move f; 0 for the kernel's own
    curvatures: Array  # (n,)
    aims: Array  # (n, C), used up
    taught: ReadOnly  # (N, 2 C + 1), or of no rows


@force_inline
def take_in(known: Information, moved: Moved, terms: Terms, aims: Array, share: float) -> None:
    """Add pulls and samples to the information, of which ``share`` is left where there are samples.

    What remains of the aims (n, C) is left in their place.
    """
    root, moments, _ = known
    work, pulls, order = moved.work, terms.pulls, moved.order
    size, outputs = pulls.shape
    capacity, count = len(root), len(aims)
    product = line(work, capacity, capacity)
    fresh = table(work, 2 * capacity + size, size, capacity)
    gather(moved, fresh)
    first = 2 * capacity + size * (1 + capacity)
    if terms.coupled:
        sums = table(work, first, capacity, outputs)
        change = table(work, first + capacity * outputs, capacity, outputs)
        weigh_sums(fresh, pulls, order, sums)
        if terms.unit > 0.0:
            information.pull(root, moments, order, sums, terms.unit)
        else:
            information.project(moved.factor, order, sums, change)
            information.shift(root, moments, order, change)
    if share < 1.0 and count:
        information.forget(root, moments, order, share)
    for n in range(count):
        scale_row(fresh, n, order, aims, math.sqrt(terms.curvatures[n]))
    information.absorb(root, moments, order, table(fresh, 0, count, capacity), aims, product)


@force_inline
def settle(
    known: Information,
    moved: Moved,
    ridge: float,
    lost: float,
    cursor: float,
    taught: ReadOnly,  # (N, 2 C + 1), or of no rows
) -> float:
    """Renew the ridge where a share was lost, and add what was taught.

    Returns the coordinate whose ridge is renewed next.
    """
    root, moments, _ = known
    work, size, capacity, outputs = moved.work, len(moved.gram), len(root), moments.shape[1]
    if lost > 0.0:
        first = 2 * capacity + size * (1 + capacity) + 2 * capacity * outputs
        room, product = line(work, first, RENEWED * (capacity + outputs)), line(work, capacity, capacity)
        cursor = renew(root, moments, moved.order, moved.factor, ridge, lost, cursor, room, product)
    if len(taught):
        fresh = table(work, 2 * capacity + size, size, capacity)
        gather(moved, fresh)  # those of own samples are used up
        absorb_taught(root, moments, moved.order, fresh, taught)
    return cursor


@cached_njit
def gather(moved: Moved, fresh: Array) -> None:
    """Fill in the kernel between the step's points and the dictionary as it is now, (N, M)."""
    cross, gram, before = moved.cross, moved.gram, moved.before
    for n in range(len(gram)):
        row = fresh[n]
        for place in range(moved.order):
            origin = int(moved.work[place])
            row[place] = cross[n, origin] if origin < before else gram[n, origin - before]


@cached_njit
def weigh_sums(fresh: Array, pulls: Array, order: int, sums: Array) -> None:
    """Fill in the values at the dictionary of ``sum_n pulls[n] kappa(x_n, .)``, (M, C)."""
    outputs = pulls.shape[1]
    for k in range(order):
        for c in range(outputs):
            sums[k, c] = 0.0
    for n in range(len(pulls)):
        row = fresh[n]
        for k in range(order):
            for c in range(outputs):
                sums[k, c] += row[k] * pulls[n, c]


@cached_njit
def scale_row(rows: Array, n: int, order: int, aims: Array, factor: float) -> None:
    """Multiply a sample's features and what it asks for."""
    row = rows[n]
    for k in range(order):
        row[k] *= factor
    for c in range(aims.shape[1]):
        aims[n, c] *= factor


@cached_njit
def renew(
    root: Array,
    moments: Array,
    order: int,
    factor: Array,
    ridge: float,
    lost: float,
    cursor: float,
    scratch: Array,  # (8 (capacity + C),)
    product: Array,
) -> float:
    """Give the ridge back what it lost by forgetting, in some coordinates a step, in turn.

    So many that none loses more than about a quarter of its ridge before its turn comes.
    """
    if order == 0:
        return cursor
    capacity, outputs = len(root), moments.shape[1]
    left = min(order, math.ceil(4.0 * order * lost))
    weight = math.sqrt(ridge * lost * order / left)
    while left > 0:
        size = min(left, RENEWED)
        rows = table(scratch, 0, size, capacity)
        aims = table(scratch, size * capacity, size, outputs)
        for n in range(size):
            place = int(cursor) if 0.0 <= cursor < order else 0
            information.coordinate(factor, order, place, rows[n])
            for c in range(outputs):
                aims[n, c] = 0.0
            scale_row(rows, n, order, aims, weight)
            cursor = place + 1.0
        information.absorb(root, moments, order, rows, aims, product)
        left -= size
    return cursor
