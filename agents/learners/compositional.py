"""Stochastic gradients of a mean loss plus a dispersion of it, from pairs of samples and a tracked mean.

The objective ``E[l] + nu E[d(l, g)]``, g = E[l], has an expectation inside another, so that one sample gives no
unbiased gradient of it. The gradient is therefore computed from pairs of independent samples (x, y), (x', y'). The
second sample tracks g and estimates its derivative. The gradient is (COLK eq. 24 and 47; SURVEY eq. 12)

    l'(f(x), y) kappa(x, .) + nu d'(l(f(x), y) - g) [ l'(f(x), y) kappa(x, .) - l'(f(x'), y') kappa(x', .) ]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

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
from kernelswarm.agents.learners.descent import PLANNED
from kernelswarm.agents.learners.polk import CompiledPolk
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.plain_parts import dispersion_form, loss_form
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Schedule, step_sizes
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import NONE, Compiled, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.ranges import Range, resolved_value
from kernelswarm.refused_key import RefusedKey

# Stochastic gradients of a mean loss plus a dispersion of it, in compiled code: the common part of such learners.
#
# Such a learner takes the step of a base learner along other coefficients. The numbers of its composition follow the
# base's numbers, and the addresses that it calls follow the base's addresses.


STEP, LOSS_VALUES, LOSS_DERIVATIVES, SLOPES, DESCEND = range(5)
"""Offsets from `PLACE` among the addresses: the step of the base, and the functions of the loss and the dispersion."""

LOSS, DISPERSION, PLACE, WEIGHT, CURVATURE, BATCH_SIZE, CENTERED, DIFFERENCE, STRIDE, COUNT = range(10)
"""Indices among the last `COUNT` numbers. `LOSS` and `DISPERSION` are the lengths of the numbers that precede them."""

RATE, THRESHOLD_STEP = PLANNED + 1, PLANNED + 2
"""Indices among the sizes of a step, after eta: beta, and the step size of a threshold."""


class Joined(NamedTuple):
    """All points of a step together."""

    points: Array  # (N, p)
    rows: Array  # (N, R)
    gradients: Array  # (N, C)
    rates: Array  # (N,) eta/b of each point
    stiffness: Array  # (N,) curvature of each point


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
    """Take the step of the base on the points and weights of `pair_up`, stored in the scratch from ``behind`` on."""
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
    """Return whether the gradient needs the values of the function before the last step."""
    own = composition(numbers)
    return bool(own[WEIGHT] > 0.0 and own[CENTERED] > 0.0 and own[DIFFERENCE] > 0.0)


@cached_njit
def next_center(
    tools: Integers,
    numbers: Array,
    sizes: Array,
    center: float,
    before: Array,  # (m, C) at the m second rows; used if `looks_back` and there is a center
    values: ReadOnly,  # (n, C)
    targets: ReadOnly,  # (n, q)
    losses: Array,  # (n,), filled in
) -> float:
    """Return g for the next step."""
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
    """Return g updated by an exponential average of the second samples' losses, (m,) (SURVEY eq. 11)."""
    return (1.0 - rate) * center + rate * mean(second_losses)


@inline_always
def corrected(center: float, second_losses: Array, past: Array, rate: float) -> float:
    """Return g updated by the second samples' losses now, (m,), and before the last step, (m,) (COLK eq. 20)."""
    return (1.0 - rate) * (center - mean(past)) + mean(second_losses)


@inline_always
def seconds_of(size: int, stride: int) -> int:
    """Return the number of second rows among ``size`` rows: rows 1, 1 + stride, 1 + 2 stride, and so on."""
    return (size - 2 + stride) // stride


@inline_always
def seconds_in(rows: Array, stride: int, seconds: Array) -> None:
    """Copy the second rows of (n, q)."""
    for k in range(len(seconds)):
        for c in range(rows.shape[1]):
            seconds[k, c] = rows[1 + stride * k, c]


@inline_always
def spread(slopes: Array, factors: Array, weight: float, centered: bool) -> None:
    """Turn the derivatives l', (n, C), into coefficients in place; ``factors`` holds d' at each row.

    Both rows of a pair use the factor of the first row.
    """
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
    """Do the same as `spread` for sliding pairs: rows k and k + 1 form a pair, which uses the factor of row k."""
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
    """Weigh the first ``own`` points of a step as first and second samples of pairs; returns the number of points kept.

    If all second samples have the coefficient 0, they are left out. With nu = 0 and no coupling the step is then equal,
    to the bit, to the step of a single-sample learner on the first samples. An implicit step takes the mean loss, whose
    ``curvature`` is part of the stiffness, at the new function in the first samples only; the dispersion stays
    explicit. The kept rows and gradients move up within their own arrays. Without own samples nothing changes.
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
    """Return whether any second sample has a nonzero coefficient."""
    for n in range(1, own, 2):
        for c in range(gradients.shape[1]):
            if gradients[n, c] != 0.0:
                return True
    return False


class CompiledComposition:
    """The numbers and addresses that a composition adds to the compiled form of the base learner.

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
        dispersion = dispersion_form(composition.dispersion)
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
        """Return eta twice, as an expansion's steps, beta, and the threshold's step (0 without one): (steps, 4)."""
        found = np.zeros((steps, 4))
        found[:, 0] = found[:, PLANNED] = step_sizes(self._learner.step_size, first, steps)
        found[:, RATE] = step_sizes(self._learner.composition.rate, first, steps)
        if self._sizes is not None:
            found[:, THRESHOLD_STEP] = self._sizes(first, steps)
        return found


@inline_always
def share_of(numbers: Array, count: int) -> float:
    """Return ``count`` own samples as a fraction of a full batch, at most 1."""
    size: float = composition(numbers)[BATCH_SIZE]
    return 1.0 if count >= size else count / size


@inline_always
def own_part(numbers: Array, count: int) -> float:
    """Return `share_of` times the loss's curvature."""
    curvature: float = composition(numbers)[CURVATURE]
    return curvature * share_of(numbers, count)


TrackedMean = Literal["difference", "average"]

Pairing = Literal["disjoint", "sliding"]

Weight = float | Literal["auto"]
"""nu; "auto" is resolved from data."""

MOST_CHANGE, MARGIN = 0.5, 4.0
"""The largest deviation from 1 of the dispersion's factor on a derivative with the weight "auto"; below 1, so that
every sample is still descended on. The bound holds for losses up to `MARGIN` times the largest loss in the sample,
since larger losses may come."""


@dataclass(frozen=True)
class Composition:
    """A mean loss plus ``weight`` times a dispersion of it, with the rule by which the mean is tracked.

    Rows 2k and 2k + 1 of a batch form a pair (x, y), (x', y'). A single row at the end has no partner, and contributes
    only its loss. With sliding pairs, rows k and k + 1 form a pair: every row is the second of one pair and the first
    of the next.

    Parameters
    ----------
    loss : Loss
        l, the loss of a sample.
    dispersion : Dispersion
        d, the dispersion.
    weight : float
        nu, nonnegative.
    tracking : str
        "difference" (COLK eq. 20), g <- (1 - beta) (g - l(f_before(x'), y')) + l(f(x'), y'), with the function before
        the last step; "average" (SURVEY eq. 11), g <- (1 - beta) g + beta l(f(x'), y'). Both start with the first
        l(f(x'), y'), and take means over a batch.
    rate : Schedule
        beta, in (0, 1].
    pairing : str
        "disjoint" or "sliding".
    """

    loss: Loss
    dispersion: Dispersion
    weight: Weight
    tracking: TrackedMean
    rate: Schedule
    pairing: Pairing = "disjoint"

    def fitted_weight(self, sample: Sample) -> float:
        """Return the weight; "auto" is MOST_CHANGE divided by the largest |d'| on a sample of the data.

        d' is evaluated at the losses of f = 0, the initial function, at the loss 0, and at MARGIN times the largest
        loss of f = 0. g is the mean loss of f = 0.
        """
        if self.weight != "auto":
            return self.weight
        predictions = np.zeros((len(sample.points), sample.outputs))
        losses = sample.loss.values(predictions, np.ascontiguousarray(sample.targets))
        met = np.concatenate([losses, [0.0, MARGIN * losses.max()]])
        largest = float(np.abs(self.dispersion.slopes(met, float(mean(losses)))).max())
        return float(f"{MOST_CHANGE / largest:.3g}") if 0.0 < largest < math.inf else 0.0

    @property
    def strength(self) -> float:
        """The weight as a number; raises ValueError if it is still "auto"."""
        return resolved_value("dispersion_weight", self.weight)

    @property
    def seconds(self) -> slice:
        """The slice of the second rows."""
        return slice(1, None, 2 if self.pairing == "disjoint" else 1)


def weight_strengths(weight: Weight) -> dict[str, float]:
    """Return the key that scales the gradient of the dispersion, with its value."""
    return {"dispersion_weight": weight} if weight != "auto" and weight else {}


WEIGHTS_ALLOWED = Range("[0, inf)", "0 minimises the mean loss alone", "auto")
"""The range of ``dispersion_weight``."""


def check_tracking(rate: Schedule) -> None:
    """Refuse a rate of tracking means that can be above 1, with a RefusedKey."""
    if rate.largest > 1.0:
        raise RefusedKey("tracking_rate", f"= {rate.largest!r} must be in (0, 1]: 0.01 averages a hundred rounds")


def check_pairs(batch_size: int) -> None:
    """Refuse a batch that is not made of pairs, with a RefusedKey."""
    if batch_size % 2:
        raise RefusedKey("batch_size", f"= {batch_size!r} must be even: its samples are learned from in pairs")


class CompiledPair(CompiledPolk):
    """The layout of states with two kernel expansions, ``state.sums``, one after the other in ``state.vector``."""

    def length(self, state: Any, capacity: int) -> int:
        return sum(each.length(capacity) for each in state.sums)

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of the larger function."""
        return max(int(each.order) for each in state.sums)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points in both functions, and return the capacity."""
        sums, vector = state.sums, state.vector
        capacity = len(sums[0].points_buffer)
        needed = max(int(each.order) for each in sums) + points
        fits = needed <= capacity and all(len(each.points_buffer) == capacity for each in sums)
        if fits and vector is not None and all(np.may_share_memory(vector, each.storage) for each in sums):
            return capacity
        capacity = max(needed, 16, capacity * 3 // 2 if needed > capacity else capacity)
        self.move(state, np.zeros(self.length(state, capacity)), capacity)
        return capacity

    def storage(self, state: Any) -> Array:
        vector: Array = state.vector
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        first = 0
        for each in state.sums:
            size = each.length(capacity)
            each.move(storage[first : first + size], capacity)
            first += size
        state.vector = storage
