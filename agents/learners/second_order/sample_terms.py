"""What a step's own samples ask for, and how neighbours pull, in compiled code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.second_order import moves
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import NONE, address

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

RIDGE, FORGETTING, BATCH_SIZE, CURVATURE, REACH, OWN, LOSS_NUMBERS, FIRST = range(8)
"""The numbers of such a learner: lambda, what a sample leaves of those before it, b, the loss's largest curvature, the
reach of a pull, a number of the learner's own, how many numbers the loss has, and from the last on these."""


def numbers_of(learner: Any, own: float, forgetting: float = 1.0) -> Array:
    """Return the learner's numbers; ``own`` is its own one, and ``forgetting`` 0 where that is found from samples."""
    loss = loss_form(learner.loss)
    head = [learner.penalty, forgetting, learner.batch_size, learner.loss.curvature, learner.reach, own]
    return np.concatenate([np.array([*head, len(loss.numbers)], dtype=np.float64), loss.numbers])


def tools_of(learner: Any) -> tuple[int, int]:
    """Return the addresses of the loss's derivatives and of its curvatures."""
    loss = loss_form(learner.loss)
    bends: Callable[..., Any] | None = loss.curvatures
    return address(loss.derivatives, LOSS_DERIVATIVES), NONE if bends is None else address(bends, LOSS_VALUES)


@cached_njit
def room(points: int, outputs: int) -> int:
    """Return the numbers that `terms` works with."""
    return points * (3 * outputs + 1)


@cached_njit
def terms(
    derivatives: int,
    bends: int,
    own: Array,
    work: Array,  # as `room` says
    gradients: Array,  # (N, C)
    rates: Array,  # (N,)
    values: Array,  # (n, C)
    targets: Array,  # (n, q)
) -> tuple[bool, Array, Array, Array]:
    """Do the same as `certainty.CertainDescent.terms`: returns whether neighbours pull, pulls, curvatures and aims."""
    count, outputs = values.shape
    slopes, aims = table(work, 0, count, outputs), table(work, count * outputs, count, outputs)
    curvatures = line(work, 2 * count * outputs, count)
    pulls = table(work, count * (2 * outputs + 1), len(gradients), outputs)
    loss_numbers = line(own, FIRST, int(own[LOSS_NUMBERS]))
    loss_derivatives_at(derivatives)(loss_numbers, values, targets, slopes)
    if bends == NONE:
        for n in range(count):
            curvatures[n] = own[CURVATURE]
    else:
        loss_values_at(bends)(loss_numbers, values, targets, curvatures)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]  # as descent.share
    coupled = moves.part_ways(gradients, slopes, values, curvatures, rates, part, aims, pulls)
    return coupled, pulls, curvatures, aims
