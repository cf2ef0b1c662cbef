"""The step of learners on a subspace that follows the samples, in compiled code."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import subspace_updates
from kernelswarm.agents.arithmetic.abi import (
    ALWAYS,
    CENSOR,
    KERNEL,
    NOTHING,
    ORDER,
    ROOM,
    SUBSPACE_STEP,
    StepArguments,
    censor_at,
    kernel_at,
    subspace_step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix, copy_vector
from kernelswarm.agents.arithmetic.subspace_updates import Basis, Squares, Update
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.learners.features.feature_steps import CompiledLinear, descend_by, gram_of
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.compiling import cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]

CAPACITY, SAMPLES, COMPARED = range(3, 6)
"""A state's integers after those that all have."""

CROSS, AT, BOUND = range(3)
"""The addresses: of the kernel, the step of the subspace, and the threshold on fits."""

RANK, WINDOW, STEP, THRESHOLD, SHRINKAGE, RIDGE, PARAMETRIC, BUDGET_SIZE, RECENCY, FOLLOW, FULL, FIRST = range(12)
"""The first numbers: the rank and the window; how many numbers the step and the threshold have, which follow after
`FIRST`, then those of the kernel; the regularization of the weights and of the subspace; how it is updated; and from
how many points on samples are left out."""


@inline_always
def _kernel_numbers(numbers: Array) -> Array:
    first = FIRST + int(numbers[STEP]) + int(numbers[THRESHOLD])
    return line(numbers, first, len(numbers) - first)


@inline_always
def _squares(numbers: Array, storage: Array, outputs: int) -> Squares:
    """Return what features are made with, as `Subspace` lays it out behind the weights."""
    rank = int(numbers[RANK])
    first, size = rank * outputs, rank * rank
    return Squares(
        inner=table(storage, first, rank, rank),
        triangle=table(storage, first + size, rank, rank),
        mixing=table(storage, first + 2 * size, rank, rank),
    )


@inline_always
def _points(numbers: Array, outputs: int) -> int:
    """Return where the points begin, behind the fits."""
    rank = int(numbers[RANK])
    return rank * (outputs + 3 * rank) + int(numbers[WINDOW])


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points, and from them the values."""
    order, rank = counts[ORDER], int(numbers[RANK])
    size, inputs, outputs = len(points), points.shape[1], values.shape[1]
    first = _points(numbers, outputs)
    dictionary = table(storage, first, order, inputs)
    factor = table(storage, first + counts[CAPACITY] * inputs, order, rank)
    mixing = _squares(numbers, storage, outputs).mixing
    known, products = np.empty((size, order)), np.empty((size, rank))
    kernel_at(tools[CROSS])(_kernel_numbers(numbers), points, dictionary, known)
    subspace_updates.coordinates(known, factor, order, products)
    copy_matrix(subspace_updates.mix(products, mixing), rows)
    combine(rows, table(storage, 0, rank, outputs), rank, values)


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
    """Fill ``gram`` (N, N) with the inner products of the points' features."""
    gram_of(rows, int(numbers[RANK]), gram)


@cached_njit
def _visit(tools: Integers, numbers: Array, storage: Array, counts: Integers, point: Array, outputs: int) -> float:
    """Follow one sample (p,), as :meth:`Subspace.visit` does; returns how far the function moved."""
    rank, window, inputs = int(numbers[RANK]), int(numbers[WINDOW]), len(point)
    order, capacity = counts[ORDER], counts[CAPACITY]
    squares = _squares(numbers, storage, outputs)
    first = _points(numbers, outputs)
    fits = line(storage, first - window, window)
    points = table(storage, first, capacity, inputs)
    first += capacity * inputs
    size = capacity * rank
    basis = Basis(
        points=points,
        factor=table(storage, first, capacity, rank),
        image=table(storage, first + size, capacity, rank),
        recency=line(storage, first + 2 * size, capacity),
        gram=table(storage, first + 2 * size + capacity, capacity, capacity),
    )
    counts[SAMPLES] += 1
    copy_vector(point, points[order])
    row = np.empty((1, order + 1))
    everything = table(points, 0, order + 1, inputs)
    kernel_at(tools[CROSS])(_kernel_numbers(numbers), table(points, order * inputs, 1, inputs), everything, row)
    ridge = numbers[RIDGE]
    product, projection, fit, length = subspace_updates.project(
        row, order, basis.factor, squares.triangle, row[0, order], ridge
    )
    if order < rank:
        censored = subspace_updates.holds(points, order, order)
    else:
        known = line(fits, 0, min(window, counts[COMPARED]))
        threshold = line(numbers, FIRST + int(numbers[STEP]), int(numbers[THRESHOLD]))
        censored = order >= numbers[FULL] and fit < censor_at(tools[BOUND])(threshold, known)
        if window:
            fits[counts[COMPARED] % window] = fit
            counts[COMPARED] += 1
    if censored:
        return 0.0
    most = int(numbers[BUDGET_SIZE])
    update = Update(
        regularization=ridge,
        parametric=numbers[PARAMETRIC] > 0.0,
        most=most if most > 0 else capacity,
        recency=numbers[RECENCY],
    )
    counts[ORDER], _, moved, _ = subspace_updates.advance(  # of plain tuples, as from Python: compiled once
        basis[:],
        order,
        squares[:],
        line(row, 0, order + 1),
        product,
        projection,
        update[:],
        subspace_step_at(tools[AT])(line(numbers, FIRST, int(numbers[STEP])), counts[SAMPLES], length),
        counts[SAMPLES],
        table(storage, 0, rank, outputs),
        numbers[FOLLOW] > 0.0,
    )
    return moved


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step on the weights, then let the subspace follow the node's own samples."""
    numbers, counts, points, outputs = given.numbers, given.counts, given.points, given.gradients.shape[1]
    rank, inputs = int(numbers[RANK]), points.shape[1]
    coefficients = table(given.storage, 0, rank, outputs)
    descend_by(given, coefficients, 1.0 - given.sizes[0] * numbers[SHRINKAGE], rank)
    moved = 0.0
    for n in range(len(given.targets)):
        moved += _visit(given.tools, numbers, given.storage, counts, line(points, n * inputs, inputs), outputs)
    if numbers[BUDGET_SIZE] == 0.0:
        counts[ROOM] = counts[CAPACITY] - counts[ORDER]
    return moved


class CompiledSubspace(CompiledLinear):
    """The functions and numbers of learners on a subspace for compiled rounds.

    Parameters
    ----------
    learner : SubspaceDescent
        The learner.

    Raises
    ------
    NotCompiledError
        When one of the subspace's rules hands nothing over.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    gradient = None
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        if learner.coordinates == "points":
            raise NotCompiledError('the learner with coordinates = "points"')
        tracking = learner.tracking()
        kernel, censoring = kernel_form(learner.kernel), handed_over(tracking.censoring, "censoring")
        following = handed_over(tracking.step, "subspace step")
        self.tools = (
            address(kernel.cross, KERNEL),
            address(following.at, SUBSPACE_STEP),
            address(censoring.bound, CENSOR),
        )
        self._bounded = tracking.budget_size is not None
        own = {
            RANK: tracking.rank,
            WINDOW: tracking.censoring.window,
            STEP: len(following.numbers),
            THRESHOLD: len(censoring.numbers),
            SHRINKAGE: learner.regularization,
            RIDGE: tracking.regularization,
            PARAMETRIC: tracking.update == "parametric",
            BUDGET_SIZE: tracking.budget_size or 0,
            RECENCY: tracking.recency,
            FOLLOW: learner.follow,
            FULL: tracking.censored_from,
        }
        first = [float(own[place]) for place in range(FIRST)]
        self._numbers: Array = np.concatenate([first, following.numbers, censoring.numbers, kernel.numbers])

    def numbers(self, state: Any) -> Array:
        return self._numbers

    def _room(self, state: Any, capacity: int) -> int:
        """Return the capacity of a subspace among others: what a budget wants, whatever the others have."""
        return int(state.subspace.capacity) if self._bounded else capacity

    def length(self, state: Any, capacity: int) -> int:
        return int(state.subspace.length(self._room(state, capacity)))

    def order(self, state: Any) -> int:
        """Return the number of points that may grow; 0 where a budget has room for all."""
        return 0 if self._bounded else int(state.subspace.order)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        if not self._bounded:
            state.subspace.reserve(points)
            state.refer()
        return int(state.subspace.capacity)

    def storage(self, state: Any) -> Array:
        vector: Array = state.subspace.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        state.subspace.move(storage, self._room(state, capacity))
        state.refer()

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        subspace, room = state.subspace, self._room(state, capacity)
        free = ALWAYS if self._bounded else room - subspace.order
        return np.array([free, NOTHING, subspace.order, room, subspace.samples, subspace.compared], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        subspace = state.subspace
        subspace.order, subspace.samples, subspace.compared = (int(counts[k]) for k in (ORDER, SAMPLES, COMPARED))
        state.steps += steps
        state.refer()
