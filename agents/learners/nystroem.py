"""Nystroem features: gradient descent in the span of a fixed number of landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import ALWAYS, ORDER, ROOM, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.inverse_factor import Tables, append, split
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.expansion import Expansion, tables
from kernelswarm.agents.learners import calling
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    STEP_RANGES,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    Weighing,
    check_step,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# The step of Nystroem features in compiled code: new landmarks enter, and all points are projected on their span.

INDEPENDENT = 1e-6
"""The least fraction of kappa(x, x) that a new landmark must have outside the span of the earlier landmarks. With less,
the landmarks' Gram matrix becomes so ill-conditioned that projections lose their digits. The neglected remainder is at
most a thousandth of the norm of kappa(x, .)."""

REGULARIZATION, LANDMARKS, RANK = range(3)
"""Indices among the learner's own numbers."""


class Landmarks(NamedTuple):
    """The largest number of landmarks, and the number of eigenvectors to project on once all landmarks are chosen."""

    most: int
    rank: int


@cached_njit
def restrict(weights: Array, factor: Array, order: int, rank: int) -> None:
    """Project f on the ``rank`` leading eigenvectors of K, and change U so that it projects on them from now on.

    The right singular vectors of U are the eigenvectors of U'U = inv(K); the leading eigenvectors of K belong to the
    smallest singular values. ``Q U`` with an orthogonal Q gives the same projection as U; the lower triangular one is
    stored.
    """
    _, values, vectors = np.linalg.svd(np.ascontiguousarray(factor[:order, :order]))
    first, leading = order - rank, np.ascontiguousarray(vectors[order - rank :])
    weights[:order] = leading.T @ (leading @ np.ascontiguousarray(weights[:order]))
    _, triangle = np.linalg.qr((values[first:].reshape(-1, 1) * leading)[:, ::-1].copy())
    factor[:order] = 0.0
    factor[first:order, :order] = np.tril(triangle[::-1, ::-1], first)


@cached_njit
def project(
    known: Tables,
    order: int,
    landmarks: Landmarks,
    points: ReadOnly,  # (N, p)
    rows: Array,  # (N, capacity), the kernel to the landmarks; columns of new landmarks are filled in
    gram: Array,  # (N, N)
    weighing: Weighing,
    shrink: float,
) -> tuple[int, float]:
    """Scale the weights and add ``P sum_n w_n kappa(x_n, .)``, P the projection on the span of the landmarks.

    While there are fewer than ``most`` landmarks, points with a nonzero gradient outside the span become landmarks
    first. Once all landmarks are chosen, f and later steps are projected on ``rank`` eigenvectors, if ``rank`` is
    smaller. The weights w are ``-rates g``. In the implicit step they are
    ``-rates inv(I + diag(stiffness) P K P diag(rates)) g``, with the Gram matrix P K P.

    Returns
    -------
    tuple of int and float
        The number of landmarks, and the norm of the projection error.
    """
    weights, factor, w = known.weights, known.factor, weighing.gradients
    size, outputs = w.shape
    images, projections, place = np.empty((size, len(factor))), np.empty((size, len(factor))), np.full(size, -1)
    weights[:order] *= shrink
    for n in range(size):
        if order == landmarks.most or not np.any(w[n] != 0.0):
            continue
        schur = split(factor, order, rows[n], gram[n, n], images[n], projections[n])
        if schur > INDEPENDENT * gram[n, n]:
            append(known, order, points[n], np.zeros(outputs), projections[n], schur)
            rows[:, order] = gram[:, n]
            place[n] = order
            order += 1
    for n in range(size):
        split(factor, order, rows[n], gram[n, n], images[n], projections[n])
    u, a = images[:, :order].copy(), projections[:, :order].copy()
    weigh(u @ u.T if weighing.implicit else gram, w, weighing.rates, weighing.stiffness, weighing.implicit)
    for n in range(size):
        if place[n] >= 0:  # a landmark is its own projection
            weights[place[n]] += w[n]
            w[n] = 0.0
    weights[:order] += a.T @ w
    lost = np.sum(w * (gram @ w)) - np.sum((u.T @ w) ** 2)  # the error is at right angles to the projection
    if landmarks.rank < landmarks.most <= order and factor[0, 0] != 0.0:
        restrict(weights, factor, order, landmarks.rank)
    return order, math.sqrt(max(lost, 0.0))


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.nystroem.Nystroem.step` does."""
    counts, own = given.counts, own_numbers(given.numbers)
    (size, outputs), inputs, capacity = given.gradients.shape, given.points.shape[1], counts[CAPACITY]
    landmarks, points, gram = int(own[LANDMARKS]), table(given.points, 0, size, inputs), np.empty((size, size))
    kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), points, points, gram)
    counts[ORDER], error = project(
        tables(given.storage, capacity, inputs, outputs),
        counts[ORDER],
        Landmarks(landmarks, int(own[RANK])),
        points,
        table(given.rows, 0, size, given.rows.shape[1]),
        gram,
        Weighing(table(given.gradients, 0, size, outputs), given.rates, given.stiffness, given.implicit),
        1.0 - given.sizes[0] * own[REGULARIZATION],
    )
    counts[ROOM] = ALWAYS if landmarks <= capacity else capacity - counts[ORDER]
    return error


class CompiledNystroem(CompiledExpansion):
    """Functions and numbers of Nystroem features for compiled rounds."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, [learner.regularization, float(learner.landmarks), float(learner.directions)])

    def reserve(self, state: Any, points: int) -> int:
        """Make room for landmarks that may still enter; returns the capacity."""
        return super().reserve(state, min(points, self._left(state)))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return 1: a step allocates its own memory."""
        return 1

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers; the room is unlimited once all landmarks fit."""
        counts = super().counts(state, capacity, points)
        if self._left(state) <= counts[ROOM]:
            counts[ROOM] = ALWAYS
        return counts

    def _left(self, state: Any) -> int:
        return max(int(self._learner.landmarks) - int(state.function.order), 0)


@dataclass(frozen=True)
class Nystroem(DescentInSpace):
    """Functional stochastic gradient descent in the span of the first points that arrive.

    The dictionary D consists permanently of the first ``landmarks`` points that have a nonzero gradient and are not
    nearly in the span of earlier points. All steps are projected on the span of D,

        f <- (1 - eta lambda) f - (eta / b) sum_k g_k P kappa(x_k, .)        P kappa(x, .) = sum_m a_m kappa(d_m, .)

    with ``a = inv(K_DD) kappa(D, x)`` and g_k the derivative of the loss plus that of the coupling. This is gradient
    descent on the weights of the features ``U kappa(D, x)``, U'U = inv(K_DD): the Nystroem method (Williams and Seeger,
    NIPS 2000). With a ``rank``, f and P are projected on the ``rank`` leading eigenvectors of K_DD once D is full.
    Without regularization, and if no point was skipped for dependence, this is NOGD, Nystroem online gradient descent
    (Lu, Hoi, Wang, Zhao and Liu, JMLR 2016, algorithm 2). The Gram matrix of the implicit step is P K P.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    landmarks : int
        The number of dictionary points, at least 1.
    rank : int or "all"
        k, the number of eigenvectors that steps are projected on, from 1 to ``landmarks``; the paper uses a fifth of
        the landmarks.
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

    step = calling.step

    @property
    def directions(self) -> int:
        """The rank as a number."""
        return self.landmarks if self.rank == "all" else self.rank

    @property
    def compiled(self) -> CompiledNystroem:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledNystroem(self)
