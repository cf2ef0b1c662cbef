"""Nystroem features: gradient descent in the span of a fixed number of landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.inverse_factor import split
from kernelswarm.agents.functions.kernel_sum import is_zero
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner
from kernelswarm.agents.learners.page_sums import bordered
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

INDEPENDENT = 1e-6
"""The least fraction of kappa(x, x) that a new landmark must have outside the span of the earlier landmarks. With less,
the landmarks' Gram matrix becomes so ill-conditioned that projections lose their digits. The neglected remainder is at
most a thousandth of the norm of kappa(x, .)."""


class State(NamedTuple):
    points: Array
    weights: Array
    factor: Annotated[Array, "MM"]  # U, lower triangular, U'U = inv(K), or its projection on eigenvectors


def restrict(weights: Array, factor: Array, rank: int) -> tuple[Array, Array]:
    """Project f on the ``rank`` leading eigenvectors of K, and change U so that it projects on them from now on.

    The right singular vectors of U are the eigenvectors of U'U = inv(K); the leading eigenvectors of K belong to the
    smallest singular values. ``Q U`` with an orthogonal Q gives the same projection as U; the lower triangular one is
    returned.
    """
    _, values, vectors = np.linalg.svd(factor)
    first, found = len(factor) - rank, np.zeros(factor.shape)
    leading = np.ascontiguousarray(vectors[first:])
    _, triangle = np.linalg.qr((values[first:].reshape(-1, 1) * leading)[:, ::-1].copy())
    found[first:] = np.tril(triangle[::-1, ::-1], first)
    return leading.T @ (leading @ weights), found


def move(keys: tuple[float, ...], state: State, at: At) -> State:
    """Add ``P sum_n w_n kappa(x_n, .)``, P the projection on the span of the landmarks.

    While there are fewer than ``most`` landmarks, points with a nonzero gradient outside the span become landmarks
    first. Once all landmarks are chosen, f and later steps are projected on ``rank`` eigenvectors, if ``rank`` is
    smaller. The weights w are ``-rates g``. In the implicit step they are
    ``-rates inv(I + diag(stiffness) P K P diag(rates)) g``, with the Gram matrix P K P.
    """
    most, rank = keys
    points, weights, factor = state
    w, rates, stiffness, implicit = at.weighing
    rows, place, nothing = at.rows, np.full(len(w), -1), np.zeros((1, w.shape[1]))
    for n in range(len(w)):
        if len(points) == most or is_zero(w, n):
            continue
        shares = np.empty(len(points))
        left = split(factor, len(points), rows[n], at.gram[n, n], shares.copy(), shares)
        if left > INDEPENDENT * at.gram[n, n]:
            place[n] = len(points)
            factor = bordered(factor, shares, left)
            points, weights = np.concatenate((points, at.points[n : n + 1])), np.concatenate((weights, nothing))
            rows = np.concatenate((rows, at.gram[:, n : n + 1]), axis=1)
    images, projections = np.empty_like(rows), np.empty_like(rows)
    for n in range(len(w)):
        split(factor, len(points), rows[n], at.gram[n, n], images[n], projections[n])
    weigh(images @ images.T if implicit else at.gram, w, rates, stiffness, implicit)
    for n in range(len(w)):
        if place[n] >= 0:  # a landmark is its own projection
            weights[place[n]] += w[n]
            w[n] = 0.0
    weights += projections.T @ w
    # The error is at right angles to the projection.
    at.lost[0] = math.sqrt(max(np.sum(w * (at.gram @ w)) - np.sum((images.T @ w) ** 2), 0.0))
    if rank < most <= len(points) and factor[0, 0] != 0.0:
        weights, factor = restrict(weights, factor, int(rank))
    return State(points, weights, factor)


@dataclass(frozen=True)
class Nystroem(NumpyLearner):
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

    landmarks: int = 50
    rank: int | Literal["all"] = "all"

    ranges: ClassVar = {"landmarks": Range("[1, inf)", "20 to 500 are usual")}
    State: ClassVar = State
    move: ClassVar = staticmethod(move)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank != "all" and not 1 <= self.rank <= self.landmarks:
            raise RefusedKey(
                "rank", f'= {self.rank!r} must be "all", or from 1 to landmarks = {self.landmarks}: a fifth is usual'
            )

    @property
    def keys(self) -> tuple[float, ...]:
        """The number of landmarks, and the rank as a number."""
        return float(self.landmarks), float(self.landmarks if self.rank == "all" else self.rank)
