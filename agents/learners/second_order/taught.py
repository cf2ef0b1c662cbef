"""Values that surer neighbours taught, taken into the information as observations."""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import StepArguments
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.learners.second_order import information
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.first_class import Compiled

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

NOTHING = np.zeros((0, 1))
"""Taught where variances do not travel."""
NOTHING.flags.writeable = False


def without_taught(taught_step: Compiled) -> Compiled:
    """Return the step of a learner without taught observations, for compiled rounds."""

    @njit_no_refcount
    def step(given: StepArguments) -> float:
        return taught_step(given, table(given.scratch, 0, 0, 1))  # type: ignore[no-any-return]

    return step


@cached_njit
def absorb_taught(root: Array, moments: Array, order: int, features: ReadOnly, taught: ReadOnly) -> None:
    """Rotate taught values into the triangle, one after the other, each as weakly as its variance says.

    At a point with the features z the node's variance is ``v = z' inv(R'R) z``. A value that is to leave the variance w
    there is an observation of the curvature ``1 / w - 1 / v``; where v is not above w nothing happens. So a point that
    many neighbours tell of, or one near others, counts for what it adds at its turn.

    Parameters
    ----------
    root, moments : Array
        R (M, M) and Q (M, C), in rows that may be longer.
    order : int
        M.
    features : Array
        z of each point, (N, M or more).
    taught : Array
        (N, 2 C + 1), or of no rows: the values first, and last w, 0 where nothing was taught.
    """
    outputs = moments.shape[1]
    known, row, aim = np.empty(order), np.empty((1, order)), np.empty((1, outputs))
    for n in range(len(taught)):
        variance = taught[n, 2 * outputs]
        if not variance > 0.0:
            continue
        for i in range(order):
            known[i] = features[n, i]
        information.forward(root, order, known)
        own = dot(known, 0, known, order)
        if not own > variance:
            continue
        scale = math.sqrt(1.0 / variance - 1.0 / own)
        for i in range(order):
            row[0, i] = scale * features[n, i]
        for c in range(outputs):
            aim[0, c] = scale * taught[n, c]
        information.absorb(root, moments, order, row, aim, known)


@cached_njit
def offer_taught(weights: Array, rates: ReadOnly, curvature: float, taught: ReadOnly) -> None:
    """Add to a first-order step, of the weights (N, C), what samples with the taught values as targets would."""
    outputs = weights.shape[1]
    for n in range(len(taught)):
        for c in range(outputs):
            weights[n, c] -= rates[n] * (curvature * taught[n, outputs + c])
