"""The batch solution: the regularised empirical risk in the span of some landmarks, its regularization validated."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.plain.kernels import kernel_diagonal, kernel_rows
from kernelswarm.agents.plain.losses import loss_derivatives, loss_values

Array = npt.NDArray[np.float64]

GRID = 10.0 ** np.arange(2.0, -10.5, -0.5)
"""The candidates of lambda, in units of the mean of kappa(x, x), the largest first."""

FOLDS = 5
VALIDATED = 2_000
"""Of the five folds as many are left out in turn as hold so many samples together: more would tell nothing new."""

PATIENCE = 2
"""After so many values of lambda in a row that validate worse than the best one, smaller ones are not tried."""

STEPS = 300
TRIAL_STEPS = 100
"""Iterations of L-BFGS at most, at the end and in trials.

Smooth losses take 5 to 40. Those with kinks take them all and end within .5% of LIBLINEAR's objective, the multiclass
hinge at a small lambda within 3%: there LIBLINEAR takes 140 s for 2,000 samples in place of 3 s, and did not end in ten
minutes for 20,000.
"""

AT_ONCE = 4096
"""Rows whose kernel is evaluated together."""


class Fit(NamedTuple):
    """A function that minimises the regularised risk.

    Attributes
    ----------
    points, weights : Array
        The landmarks (m, p) and their weights (m, C).
    regularization : float
        The chosen lambda, in the unit of the learners' ``regularization``.
    chosen_by : str
        How it was chosen.
    """

    points: Array
    weights: Array
    regularization: float
    chosen_by: str


class Samples(NamedTuple):
    """Samples as vectors z_n whose inner products are those of kappa(x_n, .) projected on the landmarks' span.

    Attributes
    ----------
    rows : Array
        Z, (n, r), in a basis in which its columns are orthogonal, or nearly so.
    squares : Array
        The squared lengths of the columns, (r,).
    targets : Array
        (n, q).
    """

    rows: Array
    squares: Array
    targets: Array


def fit(
    kernel: Kernel,
    loss: Loss,
    outputs: int,
    points: Array,
    targets: Array,
    landmarks: int,
    random: np.random.Generator,
) -> Fit:
    """Minimise ``mean_n l(f(x_n), y_n) + lambda / 2 ||f||^2`` over ``f = sum_m w_m kappa(d_m, .)``.

    The landmarks d_m are all points, or so many of them. For a quadratic loss with the second derivative h the minimum
    is, where they are all points, ``w = inv(K + n lambda / h I) y``, and lambda is chosen by the loss of the
    leave-one-out predictions. Else the minimum is found by L-BFGS, and lambda chosen on folds.

    Parameters
    ----------
    kernel, loss : part
        The kernel and the loss.
    outputs : int
        C.
    points, targets : Array
        The samples, (n, p) and (n, q), n at least 1.
    landmarks : int
        The most points of the expansion.
    random : Generator
        Orders the samples, for landmarks and folds.
    """
    order = random.permutation(len(points))
    points, targets = np.ascontiguousarray(points[order]), np.ascontiguousarray(targets[order])
    chosen = points[:landmarks]
    rows, squares, projection = features(kernel, points, chosen)
    samples = Samples(rows, squares, targets)
    grid = GRID * float(np.mean(kernel_diagonal(kernel, points)))
    if not len(squares):  # all points are 0 in the Hilbert space
        return Fit(chosen, np.zeros((len(chosen), outputs)), 0.0, "nothing")
    if loss.quadratic:
        coefficients, regularization = _ridge(loss, outputs, samples, grid)
        chosen_by = "leave-one-out"
    else:
        folds = _folds(len(points))
        regularization, start = _validated(loss, outputs, samples, grid[::2], folds)
        coefficients = minimum(loss, samples, regularization, start, STEPS)
        chosen_by = f"{len(folds)} of {min(FOLDS, len(points))} folds"
    return Fit(chosen, projection @ coefficients, regularization, chosen_by)


def features(kernel: Kernel, points: Array, landmarks: Array) -> tuple[Array, Array, Array]:
    """Compute the Nystroem features ``Z = kappa(X, D) A`` in the basis of their principal axes.

    ``Z Z' = K_XD pinv(K_DD) K_DX``, which is the Gram matrix of the points where they are the landmarks.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    points, landmarks : Array
        X (n, p) and D (m, p).

    Returns
    -------
    tuple of Array
        Z (n, r), the squared lengths of its orthogonal columns (r,), and A (m, r); r is the rank of K_DD.
    """
    from scipy.linalg import eigh

    values, vectors = eigh(kernel_rows(kernel, landmarks, landmarks))
    kept = values > max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
    projection = vectors[:, kept] / np.sqrt(values[kept])
    rows = np.empty((len(points), projection.shape[1]))
    for start in range(0, len(points), AT_ONCE):
        rows[start : start + AT_ONCE] = kernel_rows(kernel, points[start : start + AT_ONCE], landmarks) @ projection
    if not rows.shape[1]:
        return rows, np.zeros(0), projection
    squares, rotation = eigh(rows.T @ rows)
    for start in range(0, len(points), AT_ONCE):
        rows[start : start + AT_ONCE] = rows[start : start + AT_ONCE] @ rotation
    return rows, np.maximum(squares, 0.0), projection @ rotation


def minimum(loss: Loss, samples: Samples, regularization: float, start: Array, steps: int) -> Array:
    """Minimise ``mean_n l(c' z_n, y_n) + lambda / 2 ||c||^2`` by L-BFGS; returns c, (r, C).

    The variables are scaled by the root of the second derivative, as far as it is diagonal, so that the number of
    iterations hardly depends on lambda.

    Parameters
    ----------
    loss : Loss
        The loss; at a kink its derivative is any subgradient.
    samples : Samples
        z_n and y_n.
    regularization : float
        lambda > 0.
    start : Array
        Where to start, (r, C).
    steps : int
        Iterations at most.
    """
    from scipy.optimize import fmin_l_bfgs_b

    rows, targets = samples.rows, samples.targets
    scale = 1.0 / np.sqrt(_stiffness(loss, samples, regularization))

    def objective(scaled: Array) -> tuple[float, Array]:
        coefficients = scale * scaled.reshape(start.shape)
        predictions = np.ascontiguousarray(rows @ coefficients)
        slopes = rows.T @ loss_derivatives(loss, predictions, targets) / len(rows) + regularization * coefficients
        penalty = 0.5 * regularization * float(np.sum(coefficients**2))
        return float(np.mean(loss_values(loss, predictions, targets))) + penalty, (scale * slopes).ravel()

    found, _, _ = fmin_l_bfgs_b(objective, (start / scale).ravel(), m=20, factr=1e6, pgtol=1e-6, maxiter=steps)
    coefficients: Array = scale * np.asarray(found).reshape(start.shape)
    return coefficients


def _stiffness(loss: Loss, samples: Samples, regularization: float) -> Array:
    """Bound the diagonal of the objective's second derivative, (r, 1)."""
    stiffness: Array = (loss.curvature or 1.0) * samples.squares / len(samples.rows) + regularization
    return stiffness[:, np.newaxis]


def _ridge(loss: Loss, outputs: int, samples: Samples, grid: Array) -> tuple[Array, float]:
    """Return the coefficients (r, C) and the lambda, of those in ``grid``, that loses least on samples left out.

    With ``h_n = z_n' inv(Z'Z + n lambda / h I) z_n`` the prediction at a sample that is left out is
    ``y_n - (y_n - f(x_n)) / (1 - h_n)`` (Allen's PRESS). One decomposition serves all samples and all lambda;
    scikit-learn's RidgeCV takes 28 s in place of 2 s for 20,000 samples and 1,000 features.
    """
    rows, squares, targets = samples
    count = len(rows)
    slopes = loss_derivatives(loss, np.zeros((count, outputs)), targets)
    wanted = -slopes / loss.curvature  # (n, C), where the loss is least
    shrinking = 1.0 / (squares[:, np.newaxis] + count * grid / loss.curvature)  # (r, L)
    solutions = (rows.T @ wanted)[:, np.newaxis, :] * shrinking[:, :, np.newaxis]  # (r, L, C)
    risks = np.zeros(len(grid))
    for start in range(0, count, AT_ONCE):
        block, goal = rows[start : start + AT_ONCE], wanted[start : start + AT_ONCE]
        leverage = (block * block) @ shrinking  # (n, L)
        fitted = (block @ solutions.reshape(len(squares), -1)).reshape(len(block), len(grid), outputs)
        for place in range(len(grid)):
            left_out = goal - (goal - fitted[:, place]) / (1.0 - leverage[:, place, np.newaxis])
            risks[place] += np.sum(loss_values(loss, np.ascontiguousarray(left_out), targets[start : start + AT_ONCE]))
    best = int(np.argmin(np.where(np.isfinite(risks), risks, np.inf)))
    return solutions[:, best], float(grid[best])


def _folds(count: int) -> list[slice]:
    """Return the samples to leave out in turn; a single sample is validated on itself."""
    bounds = np.linspace(0, count, min(FOLDS, count) + 1).round().astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(bounds) if low < VALIDATED]


def _validated(loss: Loss, outputs: int, samples: Samples, grid: Array, folds: list[slice]) -> tuple[float, Array]:
    """Return the lambda, of those in ``grid``, that loses least on the folds, and coefficients (r, C) to start from."""
    parts = []
    for fold in folds:
        kept = np.delete(np.arange(len(samples.rows)), fold) if len(samples.rows) > 1 else np.zeros(1, dtype=np.intp)
        share = samples.squares * (len(kept) / len(samples.rows))
        parts.append((Samples(samples.rows[kept], share, samples.targets[kept]), fold))
    found = [_first(loss, outputs, part, float(grid[0])) for part, _ in parts]
    best, start, least, worse = float(grid[0]), np.mean(found, axis=0), np.inf, 0
    for regularization in grid.tolist():
        risk = 0.0
        for place, (part, fold) in enumerate(parts):
            found[place] = minimum(loss, part, regularization, found[place], TRIAL_STEPS)
            predictions = np.ascontiguousarray(samples.rows[fold] @ found[place])
            risk += float(np.sum(loss_values(loss, predictions, samples.targets[fold])))
        if risk < least:
            best, start, least, worse = regularization, np.mean(found, axis=0), risk, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    return best, start


def _first(loss: Loss, outputs: int, samples: Samples, regularization: float) -> Array:
    """Return where a Newton step from 0 ends, (r, C): at 0 all classes tie, which is a kink of some losses."""
    slopes = loss_derivatives(loss, np.zeros((len(samples.rows), outputs)), samples.targets)
    first: Array = -(samples.rows.T @ slopes) / len(samples.rows) / _stiffness(loss, samples, regularization)
    return first
