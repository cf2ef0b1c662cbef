"""Nystroem features: gradient descent in the span of a fixed number of landmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import ALWAYS, ORDER, ROOM, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.inverse_factor import Tables, append, split
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Expansion, tables
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    STEP_RANGES,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    Weighing,
    check_step,
    joined,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import kernel_rows
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# The leading eigenvectors of a dictionary's Gram matrix, from the inverse of its Cholesky factor.
#
# Plane rotations of the rows of U leave ``U'U = inv(K)`` as it is. Once they have made the rows orthogonal, these are
# ``v' / sqrt(s)`` with the eigenvectors v and eigenvalues s of K (one-sided Jacobi method). A library's solver would
# serve as well, but calls of it from compiled code take long to compile.

LONG_LOOPS = True

ORTHOGONAL = 1e-14
"""The cosine of the angle between rows that count as orthogonal."""

SWEEPS = 60
"""Far more than are ever needed: each squares what is left."""


@cached_njit
def restrict(weights: Array, factor: Array, order: int, rank: int) -> None:
    """Project f on the ``rank`` leading eigenvectors of K, and have U project on them from now on.

    U then has as many rows, below rows of zeros, with ``U'U = V inv(S) V'``; it is lower triangular as before.
    """
    rows = np.empty((order, order))
    for i in range(order):
        for m in range(order):
            rows[i, m] = factor[i, m] if m <= i else 0.0
    _make_orthogonal(rows)
    lengths = np.empty(order)
    for i in range(order):
        lengths[i] = math.sqrt(dot(rows, i * order, rows[i], order))
    leading = np.empty((rank, order))
    for k in range(rank):  # the shortest rows belong to the largest eigenvalues
        place = 0
        for i in range(order):
            if lengths[i] < lengths[place]:
                place = i
        for m in range(order):
            leading[k, m] = rows[place, m] / lengths[place]
            factor[order - rank + k, m] = rows[place, m]
        lengths[place] = math.inf
    _project(weights, leading)
    for i in range(order - rank):
        for m in range(order):
            factor[i, m] = 0.0
    for m in range(order - 1, order - rank, -1):
        for i in range(order - rank, m):
            _rotate(factor, m, i, factor[m, m], factor[i, m], order)
            factor[i, m] = 0.0


@cached_njit
def _make_orthogonal(rows: Array) -> None:
    order = len(rows)
    for _ in range(SWEEPS):
        largest = 0.0
        for i in range(order):
            for j in range(i):
                a, b = dot(rows, i * order, rows[i], order), dot(rows, j * order, rows[j], order)
                c = dot(rows, i * order, rows[j], order)
                cosine = abs(c) / math.sqrt(a * b)
                if cosine <= ORTHOGONAL:
                    continue
                largest = max(largest, cosine)
                ratio = (b - a) / (2.0 * c)
                tangent = 1.0 / (abs(ratio) + math.sqrt(1.0 + ratio * ratio))
                tangent = tangent if ratio >= 0.0 else -tangent
                _rotate(rows, i, j, 1.0, -tangent, order)
        if largest == 0.0:
            return


@cached_njit
def _rotate(rows: Array, i: int, j: int, x: float, y: float, order: int) -> None:
    """Turn rows i and j in their plane, as that turns (x, y) to (r, 0)."""
    radius = math.sqrt(x * x + y * y)
    if radius == 0.0:
        return
    cosine, sine = x / radius, y / radius
    for m in range(order):
        upper, lower = rows[i, m], rows[j, m]
        rows[i, m] = cosine * upper + sine * lower
        rows[j, m] = cosine * lower - sine * upper


@cached_njit
def _project(weights: Array, leading: Array) -> None:
    """Project the weights on rows that are orthonormal."""
    rank, order = leading.shape
    for c in range(weights.shape[1]):
        inner = np.zeros(rank)
        for k in range(rank):
            for m in range(order):
                inner[k] += leading[k, m] * weights[m, c]
        for m in range(order):
            weights[m, c] = 0.0
            for k in range(rank):
                weights[m, c] += inner[k] * leading[k, m]


# The step of Nystroem features in compiled code: landmarks enter, and what comes is projected on their span.

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
    """Take a step, as :meth:`~kernelswarm.agents.learners.nystroem.Nystroem.step` does."""
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


@dataclass(frozen=True)
class Nystroem(DescentInSpace):
    """Functional stochastic gradient descent in the span of the first points that come in.

    The first ``landmarks`` points that have a gradient and are not, nearly, in the span of those before them make the
    dictionary D, for good. All steps are projected on the span of D,

        f <- (1 - eta lambda) f - (eta / b) sum_k g_k P kappa(x_k, .)        P kappa(x, .) = sum_m a_m kappa(d_m, .)

    with ``a = inv(K_DD) kappa(D, x)`` and g_k the derivative of the loss plus the coupling's. This is gradient descent
    on the weights of the features ``U kappa(D, x)``, U'U = inv(K_DD): the Nystroem method (Williams and Seeger, NIPS
    2000). With a ``rank``, P projects on so many leading eigenvectors of K_DD once D is full, and f with it. Without
    regularization, and where the landmarks are the first B points with a gradient, this is NOGD, Nystroem online
    gradient descent (Lu, Hoi, Wang, Zhao and Liu, JMLR 2016, algorithm 2). Of the implicit step, P K P is the Gram
    matrix.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    landmarks : int
        The points of the dictionary, at least 1.
    rank : int or "all"
        k, the eigenvectors that steps are projected on, at most the landmarks; the paper takes a fifth of them.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    landmarks: int = 50
    rank: int | Literal["all"] = "all"

    ranges: ClassVar = STEP_RANGES | {"landmarks": Range("[1, inf)", "20 to 500 are usual")}

    def __post_init__(self) -> None:
        check_step(self)
        if self.rank != "all" and not 1 <= self.rank <= self.landmarks:
            raise RefusedKey(
                "rank", f'= {self.rank!r} must be "all", or from 1 to landmarks = {self.landmarks}: a fifth is usual'
            )

    def init(self, inputs: int, outputs: int) -> LearnerState[Expansion]:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return LearnerState(Expansion(self.kernel, inputs, outputs))

    def step(
        self,
        state: LearnerState[Expansion],
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] P kappa(points_k[n], .)``.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm of what the projection took from the step.
        """
        eta = self.eta(state) if eta is None else eta
        state.steps += 1
        function = state.function
        points, rows = evaluations[0].points, evaluations[0].rows
        if len(evaluations) > 1:
            points = np.concatenate([evaluation.points for evaluation in evaluations])
            rows = np.concatenate([evaluation.rows for evaluation in evaluations])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        room = max(self.landmarks - function.order, 0)
        function.reserve(min(room, len(points)))
        capacity, size = len(function.points_buffer), len(points)
        wide = np.empty((size, capacity))  # new landmarks have columns of their own
        wide[:, : function.order] = rows
        function.order, error = project(
            function.tables,
            function.order,
            Landmarks(self.landmarks, self.directions),
            np.empty(scratch(capacity, size, function.outputs)),
            points,
            wide,
            kernel_rows(self.kernel, points, points),
            Weighing(weights, rates, stiffness, curvatures is not None),
            1.0 - eta * self.regularization,
        )
        return Info(error, eta)

    @property
    def directions(self) -> int:
        """The rank as a number."""
        return self.landmarks if self.rank == "all" else self.rank

    @property
    def compiled(self) -> CompiledNystroem:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledNystroem(self)
