"""Stochastic gradients of a mean loss plus a dispersion of it, in compiled code: what any learner of them shares.

Such a learner takes the step of another one, its base, along other coefficients. It puts the numbers of its composition
behind the base's numbers, and the addresses that it calls behind the base's.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import abi
from kernelswarm.agents.arithmetic.abi import (
    GradientArguments,
    StepArguments,
    descend_at,
    loss_derivatives_at,
    loss_values_at,
    slopes_at,
    step_at,
)
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.kernel_steps import PLANNED
from kernelswarm.agents.parts.schedules import step_sizes
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.first_class import NONE, Compiled, Integers, address

Array = npt.NDArray[np.float64]

STEP, LOSS_VALUES, LOSS_DERIVATIVES, SLOPES, DESCEND = range(5)
"""Among the addresses, from `PLACE` on: the step of the base, and the functions of the loss and the dispersion."""

LOSS, DISPERSION, PLACE, WEIGHT, CURVATURE, BATCH_SIZE, CENTERED, DIFFERENCE, STRIDE, COUNT = range(10)
"""The last numbers, of which there are `COUNT`: how many the loss and the dispersion have, which stand before these."""

RATE, THRESHOLD_STEP = PLANNED + 1, PLANNED + 2
"""Among the sizes of a step, behind eta: beta, and the step of a threshold."""


class Joined(NamedTuple):
    """All points of a step together."""

    points: Array  # (N, p)
    rows: Array  # (N, R)
    gradients: Array  # (N, C)
    rates: Array  # (N,) eta/b of each
    stiffness: Array  # (N,) its curvature


@inline_always
def composition(numbers: Array) -> Array:
    """Return the composition's own numbers."""
    return line(numbers, len(numbers) - COUNT, COUNT)


@inline_always
def base_numbers(numbers: Array) -> Array:
    """Return the numbers of the learner whose step is taken."""
    own = composition(numbers)
    return line(numbers, 0, len(numbers) - COUNT - int(own[LOSS]) - int(own[DISPERSION]))


@inline_always
def _loss_numbers(numbers: Array) -> Array:
    own = composition(numbers)
    size = int(own[LOSS])
    return line(numbers, len(numbers) - COUNT - int(own[DISPERSION]) - size, size)


@inline_always
def _dispersion_numbers(numbers: Array) -> Array:
    size = int(composition(numbers)[DISPERSION])
    return line(numbers, len(numbers) - COUNT - size, size)


@inline_always
def tool(tools: Integers, numbers: Array, which: int) -> int:
    """Return one of the addresses."""
    return int(tools[int(composition(numbers)[PLACE]) + which])


@inline_always
def base_step(given: StepArguments, joined: Joined, count: int) -> float:
    """Take the step of the base on the first ``count`` of these points."""
    inputs, columns, outputs = joined.points.shape[1], joined.rows.shape[1], joined.gradients.shape[1]
    error: float = step_at(tool(given.tools, given.numbers, STEP))(
        StepArguments(
            given.tools,
            base_numbers(given.numbers),
            given.storage,
            given.counts,
            given.scratch,
            table(joined.points, 0, count, inputs),
            table(joined.rows, 0, count, columns),
            table(joined.gradients, 0, count, outputs),
            line(joined.rates, 0, count),
            line(joined.stiffness, 0, count),
            given.implicit,
            given.sizes,
            given.values,
            given.targets,
        )
    )
    return error


@inline_always
def of_samples(given: StepArguments) -> GradientArguments:
    """Return the arguments of a gradient at a step's own samples."""
    own = len(given.values)
    return GradientArguments(
        given.tools,
        given.numbers,
        given.storage,
        given.counts,
        given.scratch,
        table(given.points, 0, own, given.points.shape[1]),
        table(given.rows, 0, own, given.rows.shape[1]),
        given.values,
        given.targets,
        given.sizes,
    )


@inline_always
def step_on_pairs(given: StepArguments, behind: int) -> float:
    """Take the step of the base on the points and weights of `pair_up`, in the scratch from ``behind`` on."""
    (taken, inputs), own = given.points.shape, len(given.values)
    rates = behind + taken * inputs
    kept = Joined(
        table(given.scratch, behind, taken, inputs),
        given.rows,
        given.gradients,
        line(given.scratch, rates, taken),
        line(given.scratch, rates + taken, taken),
    )
    joined = Joined(given.points, given.rows, given.gradients, given.rates, given.stiffness)
    count = pair_up(joined, kept, given.implicit, given.sizes[0], own, own_part(given.numbers, own))
    return base_step(given, kept, count)


@inline_always
def looks_back(numbers: Array) -> bool:
    """Tell whether the gradient needs the values of the function before the last step."""
    own = composition(numbers)
    return bool(own[WEIGHT] > 0.0 and own[CENTERED] > 0.0 and own[DIFFERENCE] > 0.0)


@cached_njit
def next_center(
    tools: Integers,
    numbers: Array,
    sizes: Array,
    center: float,
    before: Array,  # (m, C) at the m second rows, read where `looks_back` and there is a center
    values: ReadOnly,  # (n, C)
    targets: ReadOnly,  # (n, q)
    losses: Array,  # (n,), filled in
) -> float:
    """Return g in the step to come, as :meth:`Composition.center` does."""
    own = composition(numbers)
    size, stride = len(values), int(own[STRIDE])
    values_of = loss_values_at(tool(tools, numbers, LOSS_VALUES))
    values_of(_loss_numbers(numbers), values, targets, losses)
    if own[WEIGHT] == 0.0 or size < 2:
        return center
    second_losses = np.empty(seconds_of(size, stride))
    for k in range(len(second_losses)):
        second_losses[k] = losses[1 + stride * k]
    if math.isnan(center):
        return mean(second_losses)
    if own[CENTERED] == 0.0:
        descend = descend_at(tool(tools, numbers, DESCEND))
        return float(descend(_dispersion_numbers(numbers), second_losses, center, sizes[THRESHOLD_STEP]))
    if own[DIFFERENCE] == 0.0:
        return averaged(center, second_losses, sizes[RATE])
    past, wanted = np.empty(len(second_losses)), np.empty((len(second_losses), targets.shape[1]))
    seconds_in(targets, stride, wanted)
    values_of(_loss_numbers(numbers), before, wanted, past)
    return corrected(center, second_losses, past, sizes[RATE])


@cached_njit
def coefficients(
    tools: Integers,
    numbers: Array,
    center: float,
    values: ReadOnly,
    targets: ReadOnly,
    losses: Array,
    gradient: Array,
) -> None:
    """Fill in the coefficients (n, C) at the samples, from their losses (n,) and g."""
    own = composition(numbers)
    derivatives_of = loss_derivatives_at(tool(tools, numbers, LOSS_DERIVATIVES))
    derivatives_of(_loss_numbers(numbers), values, targets, gradient)
    factors = np.zeros(len(losses))
    if own[WEIGHT] > 0.0 and len(losses) > 1:
        slopes_at(tool(tools, numbers, SLOPES))(_dispersion_numbers(numbers), losses, center, factors)
    if own[STRIDE] == 1.0:
        slide(gradient, factors, own[WEIGHT], own[CENTERED] > 0.0)
    else:
        spread(gradient, factors, own[WEIGHT], own[CENTERED] > 0.0)


@cached_njit
def mean(losses: Array) -> float:
    """Average losses (n,)."""
    added = 0.0
    for n in range(len(losses)):
        added += losses[n]
    return added / len(losses)


@inline_always
def averaged(center: float, second_losses: Array, rate: float) -> float:
    """Let g follow the mean loss of second samples, (m,), by averages (SURVEY eq. 11)."""
    return (1.0 - rate) * center + rate * mean(second_losses)


@inline_always
def corrected(center: float, second_losses: Array, past: Array, rate: float) -> float:
    """Let g follow by what the second samples' losses, (m,), were before the last step, (m,) (COLK eq. 20)."""
    return (1.0 - rate) * (center - mean(past)) + mean(second_losses)


@inline_always
def seconds_of(size: int, stride: int) -> int:
    """Return how many of so many rows are second ones: every other from the second on, or each, by the stride."""
    return (size - 2 + stride) // stride


@inline_always
def seconds_in(rows: Array, stride: int, seconds: Array) -> None:
    """Copy the second rows of (n, q)."""
    for k in range(len(seconds)):
        for c in range(rows.shape[1]):
            seconds[k, c] = rows[1 + stride * k, c]


@inline_always
def spread(slopes: Array, factors: Array, weight: float, centered: bool) -> None:
    """Make the coefficients of the derivatives l', (n, C), in place; factors are d' at each row, of which pairs use
    their first."""
    size = len(slopes)
    for n in range(size):
        factor = weight * factors[n - n % 2]
        share = 2.0
        if n % 2:
            share *= -factor if centered else 0.0
        elif n + 1 < size:
            share *= 1.0 + factor
        for c in range(slopes.shape[1]):
            slopes[n, c] = share * slopes[n, c] if share != 0.0 else 0.0


@inline_always
def slide(slopes: Array, factors: Array, weight: float, centered: bool) -> None:
    """Do as `spread` does where rows k and k + 1 are a pair, whose factor is that of row k."""
    last = len(slopes) - 1
    for n in range(last + 1):
        share = 0.0
        if n < last:
            share += 1.0 + weight * factors[n]
        if n > 0 and centered:
            share -= weight * factors[n - 1]
        for c in range(slopes.shape[1]):
            slopes[n, c] = share * slopes[n, c] if share != 0.0 else 0.0


@cached_njit
def pair_up(given: Joined, into: Joined, implicit: bool, eta: float, own: int, curvature: float) -> int:
    """Weigh the first ``own`` points of a step as first and second samples of pairs; returns the points that it keeps.

    Second samples that nothing moves along are left out. So a weight of 0 without a coupling leaves, to the bit, the
    step that a learner of single samples takes on the first ones. An implicit step takes the mean loss, whose
    ``curvature`` is part of the stiffness, at the new function in the first samples only; the dispersion stays
    explicit. Rows and gradients that are kept move up in their own arrays. Without own samples all stays as it is.
    """
    points, rows, gradients, rates, stiffness = given
    coupled = stiffness[0] - curvature if implicit else 0.0
    alone = coupled == 0.0 and not _seconds_move(gradients, own)
    seconds = own // 2
    share = (own - seconds) / max(own, 1)
    kept = 0
    for n in range(len(points)):
        factor, rate, stiff = 1.0, rates[n], stiffness[n]
        if n < own and (implicit or alone):
            if n % 2:
                if alone:
                    continue
                factor, rate, stiff = 1.0 - share, eta / seconds, coupled * (1.0 - share)
            else:
                factor, rate, stiff = share, eta / (own - seconds), 2.0 * share * curvature + coupled * share
        into.rates[kept], into.stiffness[kept] = rate, stiff
        for k in range(points.shape[1]):
            into.points[kept, k] = points[n, k]
        if kept < n:
            for m in range(rows.shape[1]):
                rows[kept, m] = rows[n, m]
        for c in range(gradients.shape[1]):
            gradients[kept, c] = factor * gradients[n, c] if factor != 1.0 else gradients[n, c]
        kept += 1
    return kept


@inline_always
def _seconds_move(gradients: Array, own: int) -> bool:
    """Tell whether any second sample has a coefficient."""
    for n in range(1, own, 2):
        for c in range(gradients.shape[1]):
            if gradients[n, c] != 0.0:
                return True
    return False


class CompiledComposition:
    """The part of a composition in the compiled form of the learner whose step is taken.

    Parameters
    ----------
    learner : object
        The learner, with a ``composition``.
    tools : sequence of int
        The addresses that the base calls.
    step : function
        The step of the base.
    """

    def __init__(self, learner: Any, tools: Sequence[int], step: Compiled) -> None:
        composition = learner.composition
        loss = loss_form(composition.loss)
        dispersion = handed_over(composition.dispersion, "dispersion")
        own = {
            LOSS: len(loss.numbers),
            DISPERSION: len(dispersion.numbers),
            PLACE: len(tools),
            WEIGHT: composition.strength,
            CURVATURE: composition.loss.curvature,
            BATCH_SIZE: learner.batch_size,
            CENTERED: composition.dispersion.centered,
            DIFFERENCE: composition.tracking == "difference",
            STRIDE: composition.seconds.step,
        }
        last = [float(own[place]) for place in range(COUNT)]
        self._learner = learner
        self._sizes = dispersion.step_sizes
        self.numbers = np.concatenate([loss.numbers, dispersion.numbers, last])
        self.tools = (
            *tools,
            address(step, abi.STEP),
            address(loss.values, abi.LOSS_VALUES),
            address(loss.derivatives, abi.LOSS_DERIVATIVES),
            address(dispersion.slopes, abi.SLOPES),
            NONE if dispersion.descend is None else address(dispersion.descend, abi.DESCEND),
        )

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return eta twice, as an expansion's steps, beta and the step of a threshold, 0 where there is none:
        (steps, 4)."""
        found = np.zeros((steps, 4))
        found[:, 0] = found[:, PLANNED] = step_sizes(self._learner.step_size, first, steps)
        found[:, RATE] = step_sizes(self._learner.composition.rate, first, steps)
        if self._sizes is not None:
            found[:, THRESHOLD_STEP] = self._sizes(first, steps)
        return found


@inline_always
def share_of(numbers: Array, count: int) -> float:
    """Return the share of a whole batch that ``count`` own samples are."""
    size: float = composition(numbers)[BATCH_SIZE]
    return 1.0 if count >= size else count / size


@inline_always
def own_part(numbers: Array, count: int) -> float:
    """Return that share times the loss's curvature."""
    curvature: float = composition(numbers)[CURVATURE]
    return curvature * share_of(numbers, count)
