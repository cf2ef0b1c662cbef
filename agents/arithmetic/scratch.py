"""Steps of states that have room for their own points alone: each is taken in scratch memory, with room for more.

A symmetric step takes in a point for each neighbour, and most of them leave in the same step. A factor has room for the
square of its points: with sixteen neighbours, ten points that stay take a sixth of what twenty-six do.
"""

from typing import NamedTuple

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, repack_at
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import force_inline, inline_always

SPARE = 4
"""The least number of free points of a state in a new place. Steps on no more points, or on few against the state's
own, then need no scratch memory."""


class States(NamedTuple):
    """The nodes' states in one array, each laid out by its learner."""

    storage: Array  # (V, length), or (1, length of all together)
    counts: Integers  # (V, the largest number of any state)
    begins: Integers  # (V,) the begin of each in the storage
    lengths: Integers  # (V,) the length of each
    turn: Integers  # (2,) the rounds completed in a call, and the node at its turn: for errors of Python code


class Scratch(NamedTuple):
    """Scratch memory for steps, and the free place for states that outgrow theirs."""

    storage: Array  # (n,) the length of a state with room for ``roomy(capacity)`` points
    capacity: int  # the largest number of points of a state and its step
    free: Integers  # (1,) the begin of the free end in the storage of all states


@inline_always
def roomy(order: int) -> int:
    """Return the capacity that a state of this order is given."""
    return order + max(SPARE, order // 4)


@inline_always
def fits(scratch_state: Scratch, counts: Integers, taken: int, length: int) -> bool:
    """Return whether a step on this many points fits into the scratch memory, and the state after it into a storage.

    The storage has the given length.
    """
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
    """Copy state i, after a step on ``taken`` points, from the scratch memory back to its place, with room for
    ``capacity`` points; if it has outgrown that, to a new place."""
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
