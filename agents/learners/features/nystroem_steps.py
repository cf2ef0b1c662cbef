"""The step of Nystroem features in compiled code: landmarks enter, and what comes is projected on their span."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ALWAYS, ORDER, ROOM, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.inverse_factor import Tables, append, split
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import tables
from kernelswarm.agents.learners.descent import Weighing, weigh
from kernelswarm.agents.learners.features.leading import restrict
from kernelswarm.agents.learners.kernel_steps import (
    CAPACITY,
    CROSS,
    CompiledExpansion,
    kernel_numbers,
    own_numbers,
)
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]

INDEPENDENT = 1e-6
"""The share of kappa(x, x) that a landmark must have outside the span of those before it. With less, the landmarks'
Gram matrix becomes so ill-conditioned that projections lose their digits; what is left out is a thousandth of the norm
of kappa(x, .)."""

REGULARIZATION, LANDMARKS, RANK = range(3)
"""The learner's own numbers."""


@cached_njit
def scratch(capacity: int, points: int, outputs: int) -> int:
    """Return the numbers that a step on so many points works with."""
    return 2 * points * capacity + capacity * outputs + points


class Landmarks(NamedTuple):
    """How many landmarks there may be, and on how many eigenvectors all is projected once they are there."""

    most: int
    rank: int


@njit_no_refcount
def project(
    known: Tables,
    order: int,
    landmarks: Landmarks,
    memory: Array,  # of the length `scratch`
    points: ReadOnly,  # (N, p)
    rows: Array,  # (N, capacity), the kernel to the landmarks; columns of new ones are filled in
    gram: Array,  # (N, N)
    weighing: Weighing,
    shrink: float,
) -> tuple[int, float]:
    """Scale the weights and add ``P sum_n w_n kappa(x_n, .)``, P the projection on the span of the landmarks.

    Once there are as many landmarks as may be, f and all later steps are projected on ``rank`` eigenvectors, if that is
    fewer.

    As long as there are fewer, points that have a gradient and lie outside the span become such first. The weights of
    the step are ``-rates g``, or in the implicit one, with P K P the Gram matrix,
    ``-rates inv(I + diag(stiffness) P K P diag(rates)) g``.

    Returns
    -------
    tuple of int and float
        The landmarks, and the norm of what P takes from the step.
    """
    weights, factor, gradients = known.weights, known.factor, weighing.gradients
    size, outputs = gradients.shape
    capacity, columns = len(factor), rows.shape[1]
    images = table(memory, 0, size, capacity)
    projections = table(memory, size * capacity, size, capacity)
    sums = table(memory, 2 * size * capacity, capacity, outputs)
    place = line(memory, 2 * size * capacity + capacity * outputs, size)  # of points that entered
    for m in range(order):
        for c in range(outputs):
            weights[m, c] *= shrink
    for n in range(size):
        place[n] = -1.0
        if order < landmarks.most and _enters(known, order, n, points, rows, gram, gradients, images, projections):
            place[n] = order
            order += 1
    for n in range(size):
        if place[n] < 0.0 or weighing.implicit:
            row = line(rows, n * columns, order)
            image, projection = line(images, n * capacity, capacity), line(projections, n * capacity, capacity)
            split(factor, order, row, gram[n, n], image, projection)
    whole = _weigh(gram, images, order, place, weighing)
    for m in range(order):
        for c in range(outputs):
            sums[m, c] = 0.0
    for n in range(size):
        if place[n] >= 0.0:  # a landmark is its own projection
            for c in range(outputs):
                weights[int(place[n]), c] += gradients[n, c]
            continue
        for m in range(order):
            for c in range(outputs):
                weights[m, c] += projections[n, m] * gradients[n, c]
                sums[m, c] += images[n, m] * gradients[n, c]
    kept = dot(sums, 0, line(sums, 0, order * outputs), order * outputs)
    if landmarks.rank < landmarks.most <= order and factor[0, 0] != 0.0:
        restrict(weights, factor, order, landmarks.rank)
    return order, math.sqrt(max(whole - kept, 0.0))  # what is lost is at right angles to what is kept


@inline_always
def _enters(
    known: Tables,
    order: int,
    n: int,
    points: Array,
    rows: Array,
    gram: Array,
    gradients: Array,
    images: Array,
    projections: Array,
) -> bool:
    """Make the n-th point a landmark if it has a gradient and lies outside the span; tell whether it has become one."""
    size, outputs = gradients.shape
    capacity, columns = images.shape[1], rows.shape[1]
    moves = False
    for c in range(outputs):
        moves = moves or gradients[n, c] != 0.0
    if not moves:
        return False
    row, projection = line(rows, n * columns, order), line(projections, n * capacity, capacity)
    schur = split(known.factor, order, row, gram[n, n], line(images, n * capacity, capacity), projection)
    if not schur > INDEPENDENT * gram[n, n]:
        return False
    point, nothing = line(points, n * points.shape[1], points.shape[1]), line(known.weights, order * outputs, outputs)
    for c in range(outputs):
        nothing[c] = 0.0
    append(known, order, point, nothing, projection, schur)
    for k in range(size):
        rows[k, order] = gram[k, n]
    return True


@cached_njit
def _weigh(gram: Array, images: Array, order: int, place: Array, weighing: Weighing) -> float:
    """Turn gradients into weights; returns the squared norm of the step without the points that entered."""
    gradients, rates, stiffness, implicit = weighing
    size, outputs = gradients.shape
    capacity = images.shape[1]
    if implicit:
        projected = np.empty((size, size))
        for i in range(size):
            for j in range(i + 1):
                inner = dot(images, i * capacity, line(images, j * capacity, order), order)
                projected[i, j] = projected[j, i] = inner
        weigh(projected, gradients, rates, stiffness, True)
    else:
        weigh(gram, gradients, rates, stiffness, False)
    whole = 0.0
    for i in range(size):
        for j in range(size):
            if place[i] < 0.0 and place[j] < 0.0:
                for c in range(outputs):
                    whole += gradients[i, c] * gram[i, j] * gradients[j, c]
    return whole


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.features.nystroem.Nystroem.step` does."""
    counts, memory, points, own = given.counts, given.scratch, given.points, own_numbers(given.numbers)
    (size, outputs), capacity, landmarks = given.gradients.shape, counts[CAPACITY], int(own[LANDMARKS])
    gram = table(memory, scratch(capacity, size, outputs), size, size)
    kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), points, points, gram)
    order, error = project(
        tables(given.storage, capacity, points.shape[1], outputs),
        counts[ORDER],
        Landmarks(landmarks, int(own[RANK])),
        memory,
        points,
        given.rows,
        gram,
        Weighing(given.gradients, given.rates, given.stiffness, given.implicit),
        1.0 - given.sizes[0] * own[REGULARIZATION],
    )
    counts[ORDER] = order
    counts[ROOM] = ALWAYS if landmarks <= capacity else capacity - order
    return error


class CompiledNystroem(CompiledExpansion):
    """The functions and numbers of Nystroem features for compiled rounds."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, [learner.regularization, float(learner.landmarks), float(learner.directions)])

    def reserve(self, state: Any, points: int) -> int:
        """Make room for landmarks that may still enter; returns the capacity."""
        return super().reserve(state, min(points, self._left(state)))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that the projection works with, and those of the Gram matrix of a step's points."""
        return int(scratch(capacity, points, state.function.outputs)) + points * points

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers: there is always room once all landmarks fit in."""
        counts = super().counts(state, capacity, points)
        if self._left(state) <= counts[ROOM]:
            counts[ROOM] = ALWAYS
        return counts

    def _left(self, state: Any) -> int:
        return max(int(self._learner.landmarks) - int(state.function.order), 0)
