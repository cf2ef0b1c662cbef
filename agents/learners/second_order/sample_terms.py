"""The terms of a step's own samples and of the neighbours' pulls, in compiled code."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    StepArguments,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.second_order import moves
from kernelswarm.agents.learners.second_order.taking_in import Terms
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiling import cached_njit, inline_always
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


class Asked(NamedTuple):
    """A learner's numbers for its loss and for the neighbours' pulls."""

    loss_numbers: Array
    curvature: float  # the loss's largest
    batch_size: float
    reach: float


@inline_always
def asked_in(own: Array) -> Asked:
    """Return such a learner's own numbers by name."""
    return Asked(line(own, FIRST, int(own[LOSS_NUMBERS])), own[CURVATURE], own[BATCH_SIZE], own[REACH])


@inline_always
def terms(given: StepArguments, taught: Array, asked: Asked, work: Array, derivatives: int) -> Terms:
    """Do the same as `certainty.CertainDescent.terms`, in numbers to work with, so many as `room` says.

    Among the addresses that the step calls, ``derivatives`` is the place of the loss's; behind it is its curvatures'.
    The gradients become the weights of a first-order step.
    """
    values, targets, gradients, bends = given.values, given.targets, given.gradients, given.tools[derivatives + 1]
    count, outputs = values.shape
    slopes, aims = table(work, 0, count, outputs), table(work, count * outputs, count, outputs)
    curvatures = line(work, 2 * count * outputs, count)
    pulls = table(work, count * (2 * outputs + 1), len(gradients), outputs)
    loss_derivatives_at(given.tools[derivatives])(asked.loss_numbers, values, targets, slopes)
    if bends == NONE:
        for n in range(count):
            curvatures[n] = asked.curvature
    else:
        loss_values_at(bends)(asked.loss_numbers, values, targets, curvatures)
    part = 1.0 if count >= asked.batch_size else count / asked.batch_size  # as descent.share
    coupled = moves.part_ways(gradients, slopes, values, curvatures, given.rates, part, aims, pulls)
    return Terms(coupled, pulls, asked.reach if given.implicit else 0.0, curvatures, aims, taught)
