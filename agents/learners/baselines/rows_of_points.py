"""The kernel rows of a step's points, one after the other, while the dictionary changes under them."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.baselines.kernel_descent_steps import DONE, HEADER, MOVED, PHASE, POINT
from kernelswarm.protocols.compiling import inline_always

Array = npt.NDArray[np.float64]

NEXT, WAITS, KNOWN, MEASURED = range(1, 5)
"""Phases of a rule that takes the points one by one: before the next, waiting for its row, with it, with norms too."""


@inline_always
def row_wanted(work: Array, capacity: int, rows: Array, order: int, n: int) -> int:
    """Have the kernel between point n and the dictionary in the second row of the work; returns DONE once it is there.

    The rows that a step begins with serve until the dictionary has changed, which work[MOVED] says.
    """
    if work[PHASE] == NEXT:
        if work[MOVED] > 0.0:
            work[POINT], work[PHASE] = n, WAITS
            return order + n
        for m in range(order):
            work[HEADER + capacity + m] = rows[n, m]
        work[PHASE] = KNOWN
    elif work[PHASE] == WAITS:
        for m in range(order):
            work[HEADER + capacity + m] = work[HEADER + m]
        work[PHASE] = KNOWN
    return DONE
