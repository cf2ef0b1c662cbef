"""Kernel classifiers of many classes from all samples: minimised by L-BFGS, and the import vector machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.functions.expansion import Expansion, spanning
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss, MulticlassLogistic
from kernelswarm.arrays import Array

CANDIDATES = 300
"""Samples, chosen at random, of which each import vector is the best."""


def lbfgs(
    losses: Sequence[Loss],
    kernel: Kernel,
    points: Array,
    labels: Array,
    classes: int,
    regularization: float,
    steps: int = 500,
) -> KernelSum:
    """Minimise ``mean loss + lambda/2 ||f||^2`` over all f by L-BFGS (POLK section 5, its dense batch solver).

    f is written in samples that span all of them to working precision, so that nothing is lost against an expansion in
    all. At kinks the loss's own subgradient is taken.

    Parameters
    ----------
    losses : sequence of Loss
        Minimised one after the other, each from where the one before ended. From f = 0, where all classes tie, the
        descent on a loss with kinks can end at once; a smooth loss before it leads away.
    kernel : Kernel
        Of the classifier.
    points, labels : Array
        The samples, (n, p) and (n, 1).
    classes : int
        C.
    regularization : float
        lambda, positive.
    steps : int
        The most iterations for each loss.
    """
    span = points[spanning(kernel, points, komp.SPAN_THRESHOLD)]
    return _fitted(losses, kernel, span, points, labels, classes, regularization, steps)


def import_vectors(
    kernel: Kernel,
    points: Array,
    labels: Array,
    classes: int,
    regularization: float,
    count: int,
    generator: np.random.Generator,
) -> KernelSum:
    """Fit kernel logistic regression in ``count`` samples that are chosen one after the other (Zhu and Hastie 2005).

    The next import vector is the candidate whose part at right angles to those before lowers the objective most by one
    Newton step on its own coefficients; then all coefficients are fitted anew, by L-BFGS.
    """
    loss = MulticlassLogistic()
    candidates = points[generator.permutation(len(points))[:CANDIDATES]]
    span = points[spanning(kernel, points, komp.SPAN_THRESHOLD)]
    whole = Expansion.from_arrays(kernel, span, np.zeros((len(span), 1)))
    rows, own = (whole.rows(part) @ whole.factor.T for part in (points, candidates))  # coordinates, (n, r)
    function = KernelSum(kernel, points.shape[1], classes)
    chosen: list[int] = []
    for _ in range(count):
        basis = np.linalg.qr(own[chosen].T)[0] if chosen else np.zeros((rows.shape[1], 0))
        left = own - (own @ basis) @ basis.T  # of each candidate, what is at right angles to the chosen
        norms = np.sum(left**2, axis=1)
        values = function.values(points)
        slopes = loss.derivatives(values, labels)
        shares = softmax(values, axis=1)
        sides = rows @ left.T  # (n, candidates)
        gains = (sides.T @ slopes / len(points)) ** 2
        curvatures = (sides**2).T @ (shares * (1.0 - shares)) / len(points) + regularization * norms[:, np.newaxis]
        free = norms > komp.SPAN_THRESHOLD
        scores = np.where(free, np.sum(gains / np.where(curvatures > 0.0, curvatures, np.inf), axis=1), -np.inf)
        chosen.append(int(np.argmax(scores)))
        function = _fitted([loss], kernel, candidates[chosen], points, labels, classes, regularization, 100)
    return function


def objective(loss: Loss, function: KernelSum, points: Array, labels: Array, regularization: float) -> float:
    """Compute ``mean loss + lambda/2 ||f||^2``."""
    mean = float(loss.values(function.values(points), labels).mean())
    return mean + 0.5 * regularization * function.inner(function)


def _fitted(
    losses: Sequence[Loss],
    kernel: Kernel,
    span: Array,
    points: Array,
    labels: Array,
    classes: int,
    regularization: float,
    steps: int,
) -> KernelSum:
    whole = Expansion.from_arrays(kernel, span, np.zeros((len(span), classes)))
    basis = whole.rows(points) @ whole.factor.T  # f = basis @ theta at the points, ||f|| = ||theta||

    def descent(flat: Array, loss: Loss) -> tuple[float, Array]:
        theta = flat.reshape(-1, classes)
        values = basis @ theta
        slopes = basis.T @ loss.derivatives(values, labels) / len(points) + regularization * theta
        value = float(loss.values(values, labels).mean()) + 0.5 * regularization * float(flat @ flat)
        return value, slopes.ravel()

    theta = np.zeros(whole.order * classes)
    for loss in losses:
        theta = minimize(
            descent,
            theta,
            args=(loss,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxfun": 2 * steps},
        ).x
    return KernelSum(kernel, points.shape[1], classes).assign(span, whole.factor.T @ theta.reshape(-1, classes))
