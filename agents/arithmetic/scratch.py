"""Steps of states that have room for their own points alone: each is taken in scratch memory, with room for more.

A symmetric step takes in a point for each neighbour, and most of them leave in the same step. A factor has room for the
square of its points: with sixteen neighbours, ten points that stay take a sixth of what twenty-six do.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, repack_at
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.protocols.compiling import force_inline, inline_always

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SPARE = 4
"""Points that a state has room for beside its own, at least, when it is given a new place. States whose steps are on no
more, or on few against their own, are given room for these too, so that they are taken where they lie."""


class States(NamedTuple):
    """The nodes' states, as their learners lay them out."""

    storage: Array  # (V, length), or (1, length of all together)
    counts: Integers  # (V, the most that any has)
    begins: Integers  # (V,) where each begins in the storage
    lengths: Integers  # (V,) its numbers
    turn: Integers  # (2,) the rounds completed in a call, and the node that is at its turn: for what Python code raises


class Scratch(NamedTuple):
    """Scratch memory, and where states that grow out of their places go."""

    storage: Array  # (n,) as long as a state needs for what :func:`roomy` makes of the capacity
    capacity: int  # the points of a state and of its step, at most
    free: Integers  # (1,) where in the storage of all states no state lies yet


@inline_always
def roomy(order: int) -> int:
    """Return the points for which a state of so many is given room."""
    return order + max(SPARE, order // 4)


@inline_always
def fits(scratch_state: Scratch, counts: Integers, taken: int, length: int) -> bool:
    """Tell whether a step on this many points fits there, and what becomes of the state into the storage, of a
    length."""
    return bool(
        counts[ORDER] + taken <= scratch_state.capacity and scratch_state.free[0] + len(scratch_state.storage) <= length
    )


@force_inline
def put_back(
    i: int,
    repack: int,
    states: States,
    counts: Integers,
    scratch_state: Scratch,
    capacity: int,
    taken: int,
    inputs: int,
    outputs: int,
) -> None:
    """Copy state i, after a step on ``taken`` points, from there to its place, with room for ``capacity`` points;
    where it has grown out of that, to a new one."""
    order, free, storage, begins, lengths = (
        counts[ORDER],
        scratch_state.free,
        states.storage,
        states.begins,
        states.lengths,
    )
    if order + (taken if taken <= SPARE else min(taken, order // 8)) > capacity:
        begins[i] = free[0]
        rest = line(storage, free[0], storage.shape[1] - free[0])
        lengths[i] = repack_at(repack)(scratch_state.storage, counts, rest, inputs, outputs, roomy(order))
        free[0] += lengths[i]
    else:
        place = line(storage, begins[i], lengths[i])
        repack_at(repack)(scratch_state.storage, counts, place, inputs, outputs, capacity)


@inline_always
def capacity_of(counts: Integers) -> int:
    """Return the points for which a state has room."""
    capacity: int = counts[ORDER] + counts[ROOM]
    return capacity
