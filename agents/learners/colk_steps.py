"""COLK's step in compiled code: POLK's step along other coefficients, with a tracked center."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, GradientArguments, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import length_of, tables
from kernelswarm.agents.functions.kernel_sum import OWN, combine_into
from kernelswarm.agents.learners import polk as polk_steps
from kernelswarm.agents.learners.compositional import (
    CompiledComposition,
    CompiledPair,
    Joined,
    base_step,
    coefficients,
    looks_back,
    next_center,
    of_samples,
    own_part,
    seconds_in,
    share_of,
    step_on_pairs,
)
from kernelswarm.agents.learners.descent import CAPACITY, CROSS, evaluate, kernel_numbers
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit, inline_always, njit_no_refcount

PREVIOUS = 5
"""Index, among a state's integers, of the order of the function before the last step; after POLK's integers."""


@cached_njit
def _center(given: GradientArguments, losses: Array) -> float:
    """Return g for the next step, and fill in the losses (n,)."""
    numbers, storage, scratch, values = given.numbers, given.storage, given.scratch, given.values
    capacity, inputs, (own, outputs) = given.counts[CAPACITY], given.points.shape[1], values.shape
    first, order, seconds = length_of(capacity, inputs, outputs), given.counts[PREVIOUS], own // 2
    center = storage[first]
    before = table(scratch, 0, seconds, outputs)
    if looks_back(numbers) and not math.isnan(center):
        second_points = table(scratch, seconds * outputs, seconds, inputs)
        rows = table(scratch, seconds * (outputs + inputs), seconds, order)
        dictionary = table(storage, first + OWN, order, inputs)
        weights = table(storage, first + OWN + capacity * inputs, order, outputs)
        seconds_in(given.points, 2, second_points)
        kernel_at(given.tools[CROSS])(kernel_numbers(numbers), second_points, dictionary, rows)
        combine_into(rows, weights, order, before)
    return next_center(given.tools, numbers, given.sizes, center, before, values, given.targets, losses)


@cached_njit
def _next_center(given: GradientArguments) -> float:
    """Return g for the next step; a separate function, because the step is compiled without reference counting and
    must not allocate arrays."""
    return _center(given, np.empty(len(given.values)))


@inline_always
def look_back(storage: Array, counts: Integers, inputs: int, outputs: int) -> None:
    """Copy the current function to the function before the last step."""
    capacity, order = counts[CAPACITY], counts[ORDER]
    first = length_of(capacity, inputs, outputs)
    dictionary, weights, _, _ = tables(storage, capacity, inputs, outputs)
    before = table(storage, first + OWN, capacity, inputs)
    copy_matrix(table(dictionary, 0, order, inputs), before)
    before = table(storage, first + OWN + capacity * inputs, capacity, outputs)
    copy_matrix(table(weights, 0, order, outputs), before)
    counts[PREVIOUS] = order


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    losses = np.empty(len(given.values))
    center = _center(given, losses)
    coefficients(given.tools, given.numbers, center, given.values, given.targets, losses, found)


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.colk.Colk.step` does."""
    numbers, storage, counts = given.numbers, given.storage, given.counts
    (taken, inputs), (own, outputs) = given.points.shape, given.values.shape
    capacity = counts[CAPACITY]
    storage[length_of(capacity, inputs, outputs)] = _next_center(of_samples(given))
    if own and looks_back(numbers):
        look_back(storage, counts, inputs, outputs)
    return step_on_pairs(given, 5 * capacity + taken * taken)  # behind what POLK works with


class CompiledColk(CompiledPair):
    """Functions and numbers of COLK for compiled rounds; the previous function and g follow the current function."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._composition = CompiledComposition(learner, self.tools, polk_steps.step)
        self.tools = self._composition.tools
        self._numbers = np.concatenate([self._numbers, self._composition.numbers])

    @property
    def gradient(self) -> Any:
        return gradient

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of POLK's working memory, the kept points, and the earlier values."""
        kept = points * (state.function.inputs + 2)
        earlier = points * (state.function.inputs + state.function.outputs + capacity)
        polk = super().scratch(state, capacity, points)
        return int(polk + max(kept, earlier))

    def step_sizes(self, first: int, steps: int) -> Array:
        return self._composition.step_sizes(first, steps)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        return np.append(super().counts(state, capacity, points), state.previous.order)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts, steps)
        state.previous.order = int(counts[PREVIOUS])


# COLK's step in compiled code where pairs slide: the last sample of the batch before is the first of a pair.
#
# That sample is stored after both functions, and is evaluated within the gradient and the step; the caller of the step
# does not know of it. It may enter the dictionary in addition to the points of the step, so that a state reports room
# for one point less than there is.

KEPT = 6
"""Index of the kept sample's target length, 0 without a sample, among a state's integers; it follows COLK's."""


@cached_njit
def slid(joined: Joined, implicit: bool, own: int, before: int, curvature: float) -> int:
    """Weigh the points of a step on sliding pairs, ``before`` kept points, then ``own`` samples; returns the new count.

    An implicit step takes the mean loss, whose ``curvature`` is part of the stiffness of own samples, at the new
    function in the first samples of pairs only: including the kept sample, and without the last sample. The last sample
    is left out if its coefficient and its coupling are 0. The remaining points move up within their own arrays.
    """
    points, rows, gradients, rates, stiffness = joined
    coupled = stiffness[before] - curvature if implicit else 0.0
    last = before + own - 1
    place = 0
    for n in range(len(points)):
        if n < before:
            stiffness[n] = curvature if implicit else 0.0
        elif n == last:
            stiffness[n] = coupled
            moves = coupled != 0.0 or len(points) == 1
            for c in range(gradients.shape[1]):
                moves = moves or gradients[n, c] != 0.0
            if not moves:
                continue
        if place < n:
            rates[place], stiffness[place] = rates[n], stiffness[n]
            for k in range(points.shape[1]):
                points[place, k] = points[n, k]
            for m in range(rows.shape[1]):
                rows[place, m] = rows[n, m]
            for c in range(gradients.shape[1]):
                gradients[place, c] = gradients[n, c]
        place += 1
    return place


@inline_always
def _place_of_kept(capacity: int, inputs: int, outputs: int) -> int:
    """Return the index of the kept sample in the storage."""
    return length_of(capacity, inputs, outputs) + OWN + capacity * (inputs + outputs)


@cached_njit
def _paired(
    given: GradientArguments,
    work: Array,
    row: Array,  # (1, R) of the kept sample, filled in
    paired: Array,  # (m, C) the values at the samples of the pairs, filled in
    aims: Array,  # (m, q) their targets, filled in
    losses: Array,  # (m,) filled in
) -> float:
    """Put the kept sample before the others; returns g for the next step."""
    numbers, storage, counts = given.numbers, given.storage, given.counts
    points, values, targets = given.points, given.values, given.targets
    capacity, inputs, outputs, size = counts[CAPACITY], points.shape[1], values.shape[1], len(paired)
    before = size - len(values)
    kept = _place_of_kept(capacity, inputs, outputs)
    if before:
        point = table(storage, kept, 1, inputs)
        evaluate(given.tools, numbers, storage, counts, point, row, table(paired, 0, 1, outputs))
        for c in range(targets.shape[1]):
            aims[0, c] = storage[kept + inputs + c]
    copy_matrix(values, table(paired, before * outputs, len(values), outputs))
    copy_matrix(targets, table(aims, before * targets.shape[1], len(values), targets.shape[1]))
    first, order, seconds = length_of(capacity, inputs, outputs), counts[PREVIOUS], max(size - 1, 0)
    center, past = storage[first], table(work, 0, seconds, outputs)
    if looks_back(numbers) and not math.isnan(center) and seconds:
        second_points = table(points, (1 - before) * inputs, seconds, inputs)
        rows = table(work, seconds * outputs, seconds, order)
        weights = table(storage, first + OWN + capacity * inputs, order, outputs)
        kernel_at(given.tools[CROSS])(
            kernel_numbers(numbers), second_points, table(storage, first + OWN, order, inputs), rows
        )
        combine_into(rows, weights, order, past)
    return next_center(given.tools, numbers, given.sizes, center, past, paired, aims, losses)


@cached_njit
def sliding_gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    columns, outputs, before = given.rows.shape[1], given.values.shape[1], min(given.counts[KEPT], 1)
    size = before + len(given.values)
    paired, aims, losses = np.empty((size, outputs)), np.empty((size, given.targets.shape[1])), np.empty(size)
    all_found = np.empty((size, outputs))
    row, work = table(given.scratch, 0, 1, columns), line(given.scratch, columns, len(given.scratch) - columns)
    center = _paired(given, work, row, paired, aims, losses)
    coefficients(given.tools, given.numbers, center, paired, aims, losses, all_found)
    copy_matrix(table(all_found, before * outputs, len(given.values), outputs), found)


@cached_njit
def sliding_step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.colk.Colk.step` does."""
    numbers, counts, own = given.numbers, given.counts, len(given.values)
    taken, before = len(given.points), min(counts[KEPT], 1) if own else 0
    most = before + taken
    behind = 5 * counts[CAPACITY] + most * most  # what POLK works with
    joined = _room_for(given, behind, most)
    if own:
        behind += most * (given.points.shape[1] + given.rows.shape[1] + given.gradients.shape[1] + 2)
        _slide_on(given, joined, before, line(given.scratch, behind, len(given.scratch) - behind))
    copy_matrix(given.points, _behind(joined.points, before))
    copy_matrix(given.rows, _behind(joined.rows, before))
    copy_matrix(given.gradients, _behind(joined.gradients, before))
    for n in range(taken):
        joined.rates[before + n], joined.stiffness[before + n] = given.rates[n], given.stiffness[n]
    count = slid(joined, given.implicit, own, before, own_part(numbers, own))
    error = base_step(given, joined, count)
    counts[ROOM] -= 1
    return error


@inline_always
def _behind(rows: Array, before: int) -> Array:
    """Return the rows after the first ``before`` rows."""
    return table(rows, before * rows.shape[1], len(rows) - before, rows.shape[1])


@inline_always
def _room_for(given: StepArguments, behind: int, most: int) -> Joined:
    """Return arrays for up to ``most`` points of a step, in its scratch."""
    scratch, inputs, columns, outputs = given.scratch, given.points.shape[1], given.rows.shape[1], given.values.shape[1]
    rows = behind + most * inputs
    gradients = rows + most * columns
    rates = gradients + most * outputs
    return Joined(
        table(scratch, behind, most, inputs),
        table(scratch, rows, most, columns),
        table(scratch, gradients, most, outputs),
        line(scratch, rates, most),
        line(scratch, rates + most, most),
    )


@inline_always
def _slide_on(given: StepArguments, joined: Joined, before: int, work: Array) -> None:
    """Put the kept sample, with its gradient, before the others, update g, and keep the last own sample."""
    numbers, storage, counts, targets = given.numbers, given.storage, given.counts, given.targets
    (own, outputs), inputs, width = given.values.shape, given.points.shape[1], targets.shape[1]
    first, kept = length_of(counts[CAPACITY], inputs, outputs), _place_of_kept(counts[CAPACITY], inputs, outputs)
    size = before + own
    paired, aims, losses = np.empty((size, outputs)), np.empty((size, width)), np.empty(size)
    found = np.empty((size, outputs))
    row = table(joined.rows, 0, before, given.rows.shape[1])
    center = _paired(of_samples(given), work, row, paired, aims, losses)
    storage[first] = center
    coefficients(given.tools, numbers, center, paired, aims, losses, found)
    if before:
        joined.rates[0] = given.rates[0]
        for k in range(inputs):
            joined.points[0, k] = storage[kept + k]
        for c in range(outputs):
            joined.gradients[0, c] = found[0, c] * share_of(numbers, own)
    if looks_back(numbers):
        look_back(storage, counts, inputs, outputs)
    for k in range(inputs):
        storage[kept + k] = given.points[own - 1, k]
    for c in range(width):
        storage[kept + inputs + c] = targets[own - 1, c]
    counts[KEPT] = width


class CompiledSlidingColk(CompiledColk):
    """Functions and numbers of COLK on sliding pairs for compiled rounds; the kept sample is stored last."""

    step = staticmethod(sliding_step)

    @property
    def gradient(self) -> Any:
        return sliding_gradient

    def length(self, state: Any, capacity: int) -> int:
        return super().length(state, capacity) + len(state.kept.numbers)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of POLK's working memory, the points of a step, and the earlier values."""
        function, most = state.function, points + 1
        polk = 5 * capacity + most * most
        return int(polk + most * (function.inputs + 2 * function.outputs + 2 * capacity + 2) + capacity)

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of the larger function, plus one for the kept sample."""
        return super().order(state) + 1

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points and the kept sample; returns the capacity."""
        capacity = super().reserve(state, points + 1)
        if not np.may_share_memory(state.vector, state.kept.numbers):
            self.move(state, np.zeros(self.length(state, capacity)), capacity)
        return capacity

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        super().move(state, storage, capacity)
        state.kept.move(storage[super().length(state, capacity) :][: len(state.kept.numbers)])

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        counts = np.append(super().counts(state, capacity, points + 1), state.kept.width)
        counts[ROOM] -= 1
        return counts

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts, steps)
        state.kept.width = int(counts[KEPT])


# The sample that is kept for the next step, in which it forms a pair with the first new sample.


class KeptSample:
    """The last sample of the previous batch, in one vector as compiled steps require: its point, then its target.

    Parameters
    ----------
    inputs, outputs : int
        p, the dimension of a point, and C, the largest length of a target.

    Attributes
    ----------
    numbers : Array
        The vector, (p + C,).
    width : int
        q, the length of the target; 0 before there is a sample.
    """

    __slots__ = ("inputs", "numbers", "width")

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.numbers = np.zeros(inputs + outputs)
        self.width = 0

    @property
    def points(self) -> Array:
        """The point, (1, p); (0, p) before the first sample."""
        return self.numbers[: self.inputs].reshape(1, -1)[: min(self.width, 1)].copy()

    @property
    def targets(self) -> Array:
        """The target, (1, q)."""
        return self.numbers[self.inputs : self.inputs + self.width].reshape(-1, max(self.width, 1)).copy()

    def keep(self, points: Array, targets: Array) -> None:
        """Store the last of the samples (n, p) and (n, q), if there are any."""
        if len(points):
            self.width = targets.shape[1]
            self.numbers[: self.inputs] = points[-1]
            self.numbers[self.inputs : self.inputs + self.width] = targets[-1]

    def move(self, numbers: Array) -> None:
        numbers[:] = self.numbers
        self.numbers = numbers
