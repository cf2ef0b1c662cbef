"""SPPPOT's step in compiled code: POLK's on the dual function, along derivatives with respect to its image."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    MIRROR,
    ORDER,
    StepArguments,
    loss_derivatives_at,
    mirror_at,
)
from kernelswarm.agents.arithmetic.implicit_systems import solve_mirrored
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.functions.expansion import absorb_points, tables
from kernelswarm.agents.learners import kernel_steps
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.agents.learners.polk_steps import (
    BY_PRODUCTS,
    POLK_TOOLS,
    CompiledPolk,
    compress,
    inner_products,
    maintain,
)
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]

FIXED = 5
"""Among a state's integers, after those of POLK, the points that no compression removes."""

MAP, DERIVATIVES = POLK_TOOLS, POLK_TOOLS + 1
"""Among the addresses that a step calls, after those of POLK."""

INTEGRAL, LOSS, MIRRORED, CURVED, GRID_ONLY, SHRINKAGE, BATCH_SIZE, COUNT = range(8)
"""The last numbers, of which there are `COUNT`. The first three count others, which stand before these in their order:
the integral's weights on the fixed points, and the numbers of the loss and the mirror map."""


@cached_njit
def _own(numbers: Array) -> Array:
    return line(numbers, len(numbers) - COUNT, COUNT)


@cached_njit
def _part(numbers: ReadOnly, which: int) -> Array:
    """Return the numbers of the integral, the loss or the map, or POLK's, which are before them all, for -1."""
    own = _own(numbers)
    end = len(numbers) - COUNT
    for part in range(MIRRORED, which, -1):
        end -= int(own[part])
    size = end if which < 0 else int(own[which])
    return line(numbers, end - size, size)


@inline_always
def weigh_duals(
    gram: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    duals: Array,
    apart: Array,
) -> None:
    """Put the weights of a step's points (N, C) in the place of their gradients with respect to f.

    Parameters
    ----------
    gram : Array
        The points' inner products, (N, N); read in implicit steps.
    gradients, rates, stiffness : Array
        (N, C), (N,), (N,).
    implicit : bool
        Whether terms are taken at the new function.
    duals : Array
        z at the points, (N, C), where f = exp(z); without rows where f is a multiple of z.
    apart : Array
        What of the own samples' gradients stays explicit, (n, C). An implicit step shortens what it is given.
        Shortening the samples' part of a loss and not its integral would move the minimum, so both stay explicit, and
        the coupling is what is solved for.
    """
    own, outputs = apart.shape
    for k in range(own):
        for c in range(outputs):
            gradients[k, c] -= apart[k, c]
    if implicit and len(duals):
        solve_mirrored(gram, gradients, rates, stiffness, duals)
    else:
        weigh(gram, gradients, rates, stiffness, implicit)
    for k in range(own):
        for c in range(outputs):
            gradients[k, c] -= rates[k] * apart[k, c]


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel rows of points, and from them the values of f."""
    kernel_steps.evaluate(tools, numbers, storage, counts, points, rows, values)
    mirror_at(tools[MAP])(_part(numbers, MIRRORED), values, values)


@cached_njit
def scale_by_roots(values: ReadOnly, gram: Array) -> None:
    """Multiply ``gram`` (N, N) by the roots of the largest values of f, (N, C), at both points."""
    roots = np.empty(len(values))
    for m in range(len(values)):
        largest = 0.0
        for value in values[m]:
            largest = max(largest, value)
        roots[m] = math.sqrt(largest)
    for m in range(len(roots)):
        for n in range(len(roots)):
            gram[m, n] *= roots[m] * roots[n]


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) as :meth:`~kernelswarm.agents.learners.spppot.Spppot.inner` does."""
    kernel_steps.inner(tools, numbers, storage, counts, points, rows, values, gram)
    if _own(numbers)[CURVED] > 0.0:
        scale_by_roots(values, gram)


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.spppot.Spppot.step` does."""
    tools, numbers, storage, counts = given.tools, given.numbers, given.storage, given.counts
    gradients, targets, implicit = given.gradients, given.targets, given.implicit
    taken, outputs = gradients.shape
    capacity, order, inputs = counts[CAPACITY], counts[ORDER], given.points.shape[1]
    own, polk = _own(numbers), _part(numbers, -1)
    integral, eta, count = _part(numbers, INTEGRAL), given.sizes[0], len(targets)
    _, weights, factor, _ = tables(storage, capacity, inputs, outputs)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]
    behind = 5 * capacity + taken * taken  # what POLK works with
    apart = table(given.scratch, behind, count if len(integral) and implicit else 0, outputs)
    if len(apart):
        loss_derivatives_at(tools[DERIVATIVES])(_part(numbers, LOSS), given.values, targets, apart)
        for k in range(count):
            for c in range(outputs):
                apart[k, c] *= part
    behind += taken * outputs
    duals = table(given.scratch, behind, taken if implicit and own[CURVED] > 0.0 else 0, outputs)
    if len(duals):
        combine(given.rows, weights, order, duals)
    gram = inner_products(given, polk)
    weigh_duals(gram, gradients, given.rates, given.stiffness, implicit, duals, apart)
    if own[GRID_ONLY] > 0.0:
        memory = table(given.scratch, behind + taken * outputs, taken + 1, capacity)
        shrink = 1.0 - eta * own[SHRINKAGE]
        error = absorb_points(weights, factor, order, given.rows, gram, gradients, shrink, memory)
    else:
        error = compress(given, polk, gram, counts[FIXED])
    scale = eta * part
    for m in range(len(integral) // outputs):
        for c in range(outputs):
            weights[m, c] -= scale * integral[m * outputs + c]
    return error


class CompiledSpppot(CompiledPolk):
    """The functions and numbers of SPPPOT for compiled rounds: its states are POLK's, for the dual function."""

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, one_by_one=learner.grid is not None)  # whose points stay
        loss, mirror = loss_form(learner.loss), handed_over(learner.mirror_map, "mirror map")
        self.tools = (*self.tools, address(mirror.values, MIRROR), address(loss.derivatives, LOSS_DERIVATIVES))
        self._loss, self._mirror = loss.numbers, mirror.numbers

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner and its parts, and the integral's weights."""
        integral = np.zeros(0) if state.integral is None else state.integral.reshape(-1)
        own = {
            INTEGRAL: len(integral),
            LOSS: len(self._loss),
            MIRRORED: len(self._mirror),
            CURVED: self._learner.mirror_map.slope is None,
            GRID_ONLY: self._learner.grid_only,
            SHRINKAGE: self._learner.regularization,
            BATCH_SIZE: self._learner.batch_size,
        }
        last = [float(own[place]) for place in range(COUNT)]
        return np.concatenate([self._numbers, integral, self._loss, self._mirror, last])

    def length(self, state: Any, capacity: int) -> int:
        return super().length(state.dual, capacity)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that POLK works with, and those of dual values, gradients and projections."""
        own = 2 * points * state.function.outputs + self._learner.grid_only * (points + 1) * capacity
        return int(super().scratch(state.dual, capacity, points) + own)

    def order(self, state: Any) -> int:
        return super().order(state.dual)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        return super().reserve(state.dual, points)

    def storage(self, state: Any) -> Array:
        return super().storage(state.dual)

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        super().move(state.dual, storage, capacity)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        return np.append(super().counts(state.dual, capacity, points), state.dual.function.fixed)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state.dual, counts, steps)

    def maintain(self, state: Any) -> None:
        """Look at the accuracy of the factor where that is due, and prepare what steps on many points need."""
        maintain(state.dual, self._learner.descent, BY_PRODUCTS, self._own)
