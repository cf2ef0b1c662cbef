"""Steps of states with room for their own points only: each is taken in scratch memory with more room.

A symmetric step adds a point for each neighbour, most of which are removed in the same step. The size of a factor is
the square of its number of points: with sixteen neighbours, ten remaining points take a sixth of the memory of
twenty-six.
"""

from typing import NamedTuple

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, repack_at
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import force_inline, inline_always

SPARE = 4
"""The minimum number of free points of a state in a new place. Steps on no more points, or on few compared to the
state's own, then need no scratch memory."""


class States(NamedTuple):
    """The nodes' states in one array, each laid out by its learner."""

    storage: Array  # (V, length), or (1, total length)
    counts: Integers  # (V, the largest number of any state)
    begins: Integers  # (V,) the start of each state in the storage
    lengths: Integers  # (V,) the length of each state
    turn: Integers  # (2,) the rounds completed in a call, and the present node, for errors of Python code


class Scratch(NamedTuple):
    """Scratch memory for steps, and the free memory for states that outgrow their place."""

    storage: Array  # (n,) the length of a state with room for ``roomy(capacity)`` points
    capacity: int  # the largest number of points of a state and its step
    free: Integers  # (1,) the start of the free end in the storage of all states


@inline_always
def roomy(order: int) -> int:
    """Return the capacity given to a state of this order."""
    return order + max(SPARE, order // 4)


@inline_always
def fits(scratch_state: Scratch, counts: Integers, taken: int, length: int) -> bool:
    """Return whether a step on ``taken`` points fits into the scratch memory, and the state after it into the storage.

    The storage has the length ``length``.
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
    ``capacity`` points, or to a new place if it no longer fits."""
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
    """Return the number of points for which a state has room."""
    capacity: int = counts[ORDER] + counts[ROOM]
    return capacity
