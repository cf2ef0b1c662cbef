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
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.kernel_sum import is_zero
from kernelswarm.agents.learners.descent import PLANNED, packed, part_of
from kernelswarm.agents.learners.polk import CompiledPolk
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.plain_parts import dispersion_form, loss_form
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Schedule, step_sizes
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import NONE, Compiled, address
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import Range, resolved_value
from kernelswarm.refused_key import RefusedKey

# Stochastic gradients of a mean loss plus a dispersion of it, in compiled code: the common part of such learners.
#
# Such a learner takes the step of a base learner along other coefficients. The numbers of its composition follow the
# base's numbers, and the addresses that it calls follow the base's addresses.


STEP, LOSS_VALUES, LOSS_DERIVATIVES, SLOPES, DESCEND = range(5)
"""Indices among the addresses behind the base's: its step, and the functions of the loss and the dispersion."""

BASE, LOSS, DISPERSION, OWN = range(4)
"""The parts of the numbers: those of the base, of the loss and of the dispersion, and the composition's own."""

WEIGHT, CURVATURE, BATCH_SIZE, CENTERED, DIFFERENCE, STRIDE, PLACE = range(7)
"""Indices among the composition's own numbers. `STRIDE` is the number of rows from a pair to the next, and `PLACE` that
of the base's addresses: nodes with other learners may have more, which follow."""

RATE, THRESHOLD_STEP = PLANNED + 1, PLANNED + 2
"""Indices among the sizes of a step, after eta: beta, and the step size of a threshold."""


class Joined(NamedTuple):
    """All points of a step together, those of the pairs first."""

    points: Array  # (N, p)
    rows: Array  # (N, R)
    gradients: Array  # (N, C)
    rates: Array  # (N,) eta/b of each point
    stiffness: Array  # (N,) curvature of each point


@inline_always
def tool(tools: Integers, numbers: Array, which: int) -> int:
    """Return one of the addresses."""
    return int(tools[int(part_of(numbers, OWN)[PLACE]) + which])


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
def looks_back(numbers: Array) -> bool:
    """Return whether the gradient needs the values of the function before the last step."""
    own = part_of(numbers, OWN)
    return bool(own[WEIGHT] > 0.0 and own[CENTERED] > 0.0 and own[DIFFERENCE] > 0.0)


@inline_always
def stride_of(numbers: Array) -> int:
    """Return the number of rows from a pair to the next."""
    return int(part_of(numbers, OWN)[STRIDE])


@inline_always
def share_of(numbers: Array, count: int) -> float:
    """Return ``count`` own samples as a fraction of a full batch, at most 1."""
    size: float = part_of(numbers, OWN)[BATCH_SIZE]
    return 1.0 if count >= size else count / size


@inline_always
def curvature_of(numbers: Array) -> float:
    """Return the curvature of the loss."""
    curvature: float = part_of(numbers, OWN)[CURVATURE]
    return curvature


@inline_always
def leading(place: int, size: int, stride: int) -> float:
    """Return the weight of row ``place`` of a batch of pairs in the mean loss: 0 if it only follows another row.

    Disjoint pairs lead with every other row, of the weight 2, also where the last one has no partner. Sliding pairs
    lead with every row but the last, which leads the first pair of the next batch.
    """
    return float(stride) if place % stride == 0 and (stride == 2 or place + 1 < size) else 0.0


@cached_njit
def next_center(
    given: GradientArguments,
    center: float,
    before: Array,  # (m, C) at the m second rows; used if `looks_back` and there is a center
    losses: Array,  # (n,)
    targets: Array,  # (n, q)
) -> float:
    """Return g for the next step, from the losses of all rows."""
    own = part_of(given.numbers, OWN)
    second_losses = losses[1 :: int(own[STRIDE])].copy()
    now = float(np.mean(second_losses))
    if math.isnan(center):
        return now
    if own[CENTERED] == 0.0:
        descend = descend_at(tool(given.tools, given.numbers, DESCEND))
        return float(descend(part_of(given.numbers, DISPERSION), second_losses, center, given.sizes[THRESHOLD_STEP]))
    rate: float = given.sizes[RATE]
    if own[DIFFERENCE] == 0.0:  # SURVEY eq. 11
        return (1.0 - rate) * center + rate * now
    past, wanted = np.empty(len(second_losses)), targets[1 :: int(own[STRIDE])].copy()
    loss_values_at(tool(given.tools, given.numbers, LOSS_VALUES))(part_of(given.numbers, LOSS), before, wanted, past)
    return (1.0 - rate) * (center - float(np.mean(past))) + now  # COLK eq. 20


@cached_njit
def learn_from_pairs(
    given: GradientArguments, center: float, before: Array, values: Array, targets: Array
) -> tuple[float, Array]:
    """Return g for the next step, and the coefficients (n, C) at the rows of a batch.

    Parameters
    ----------
    given : GradientArguments
        The arguments of the gradient.
    center : float
        g; NaN before the first pair.
    before : Array
        The function before the last step at the m second rows, (m, C); used if `looks_back`.
    values, targets : Array
        f and the targets at all rows, (n, C) and (n, q).
    """
    own, loss = part_of(given.numbers, OWN), part_of(given.numbers, LOSS)
    size, stride, weight = len(values), int(own[STRIDE]), own[WEIGHT]
    losses, found, factors = np.empty(size), np.empty(values.shape), np.zeros(size)
    if not size:
        return center, found
    loss_values_at(tool(given.tools, given.numbers, LOSS_VALUES))(loss, values, targets, losses)
    loss_derivatives_at(tool(given.tools, given.numbers, LOSS_DERIVATIVES))(loss, values, targets, found)
    if weight > 0.0 and size > 1:
        center = next_center(given, center, before, losses, targets)
        slopes_at(tool(given.tools, given.numbers, SLOPES))(part_of(given.numbers, DISPERSION), losses, center, factors)
    for n in range(size):
        share = leading(n, size, stride)
        if share > 0.0 and n + 1 < size:
            share *= 1.0 + weight * factors[n]
        if own[CENTERED] > 0.0 and n > 0 and (n - 1) % stride == 0:
            share -= stride * weight * factors[n - 1]
        if share != 0.0:
            found[n] *= share
        else:
            found[n] = 0.0
    return center, found


@cached_njit
def step_on_pairs(given: StepArguments, joined: Joined, size: int) -> float:
    """Take the step of the base on these points, of which the first ``size`` are the rows of a batch of pairs.

    An implicit step takes the mean loss, whose curvature is part of the stiffness of all rows, at the new function in
    the leading rows only; the dispersion stays explicit. Rows that do not lead are left out if they have no coefficient
    and no coupling. With nu = 0 and no coupling the step is then that of a single-sample learner on the leading rows.
    """
    stays, stride = np.ones(len(joined.points), np.bool_), stride_of(given.numbers)
    curvature = share_of(given.numbers, len(given.values)) * curvature_of(given.numbers)
    for n in range(size):
        lead = leading(n, size, stride)
        joined.stiffness[n] += curvature * (lead - 1.0)
        coupled = given.implicit and joined.stiffness[n] != 0.0
        stays[n] = lead > 0.0 or coupled or not is_zero(joined.gradients, n) or len(stays) == 1
    error: float = step_at(tool(given.tools, given.numbers, STEP))(
        StepArguments(
            given.tools,
            part_of(given.numbers, BASE),
            given.storage,
            given.counts,
            given.scratch,
            joined.points[stays],
            joined.rows[stays],
            joined.gradients[stays],
            joined.rates[stays],
            joined.stiffness[stays],
            given.implicit,
            given.sizes,
            given.values,
            given.targets,
            given.taught,
        )
    )
    return error


class CompiledComposition:
    """The addresses and numbers of a composition, behind those of the base learner.

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
        loss, dispersion = loss_form(composition.loss), dispersion_form(composition.dispersion)
        own = {
            WEIGHT: composition.strength,
            CURVATURE: composition.loss.curvature,
            BATCH_SIZE: learner.batch_size,
            CENTERED: composition.dispersion.centered,
            DIFFERENCE: composition.tracking == "difference",
            STRIDE: composition.stride,
            PLACE: len(tools),
        }
        self._learner = learner
        self._sizes = dispersion.step_sizes
        self._parts = loss.numbers, dispersion.numbers, [float(own[place]) for place in range(len(own))]
        self.tools = (
            *tools,
            address(step, abi.STEP),
            address(loss.values, abi.LOSS_VALUES),
            address(loss.derivatives, abi.LOSS_DERIVATIVES),
            address(dispersion.slopes, abi.SLOPES),
            NONE if dispersion.descend is None else address(dispersion.descend, abi.DESCEND),
        )

    def numbers(self, base: Array) -> Array:
        """Return the numbers of the base with those of the composition."""
        return packed(base, *self._parts)

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return eta twice, as an expansion's steps, beta, and the threshold's step (0 without one): (steps, 4)."""
        found = np.zeros((steps, 4))
        found[:, 0] = found[:, PLANNED] = step_sizes(self._learner.step_size, first, steps)
        found[:, RATE] = step_sizes(self._learner.composition.rate, first, steps)
        if self._sizes is not None:
            found[:, THRESHOLD_STEP] = self._sizes(first, steps)
        return found


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
        largest = float(np.abs(self.dispersion.slopes(met, float(losses.mean()))).max())
        return float(f"{MOST_CHANGE / largest:.3g}") if 0.0 < largest < math.inf else 0.0

    @property
    def strength(self) -> float:
        """The weight as a number; raises ValueError if it is still "auto"."""
        return resolved_value("dispersion_weight", self.weight)

    @property
    def stride(self) -> int:
        """The number of rows from a pair to the next."""
        return 2 if self.pairing == "disjoint" else 1


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
