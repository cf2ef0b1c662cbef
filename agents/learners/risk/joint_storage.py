"""Several kernel expansions of one state in one vector, for compiled steps."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import KernelSum

Array = npt.NDArray[np.float64]


def together(sums: Sequence[KernelSum], vector: Array | None, points: int) -> Array:
    """Return the vector that the expansions lie in, one behind the other, with room for more points in each.

    Parameters
    ----------
    sums : sequence of KernelSum
        The expansions; where they do not lie so, they move to a new vector.
    vector : Array or None
        That in which they were put last; they may have left it, or be copies.
    points : int
        How many more points.
    """
    capacity = len(sums[0].points_buffer)
    needed = max(each.order for each in sums) + points
    fits = needed <= capacity and all(len(each.points_buffer) == capacity for each in sums)
    if fits and vector is not None and all(np.may_share_memory(vector, each.storage) for each in sums):
        return vector
    capacity = max(needed, 16, capacity * 3 // 2 if needed > capacity else capacity)
    vector = np.zeros(length(sums, capacity))
    put_together(sums, vector, capacity)
    return vector


def put_together(sums: Sequence[KernelSum], vector: Array, capacity: int) -> None:
    """Move the expansions into a vector, one behind the other."""
    first = 0
    for each in sums:
        size = each.length(capacity)
        each.move(vector[first : first + size], capacity)
        first += size


def length(sums: Sequence[KernelSum], capacity: int) -> int:
    """Return the numbers of all expansions with room for so many points in each."""
    return sum(each.length(capacity) for each in sums)
