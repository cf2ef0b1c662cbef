"""The definitions, computed without thrift: what the fast code is held against."""

import numpy as np

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array


def refit(kernel: Kernel, points: Array, weights: Array, kept: list[int]) -> tuple[Array, float]:
    """Fit ``sum_{k in kept} w_k kappa(d_k, .)`` to the whole function by least squares in the Hilbert space.

    Returns the weights and the Hilbert norm of what is left.
    """
    gram = kernel.cross(points, points)
    return _refit(gram, weights, gram @ weights, kept)


def _refit(gram: Array, weights: Array, values: Array, kept: list[int]) -> tuple[Array, float]:
    """Do so with the Gram matrix of the points and the function's values there, the same whatever is kept."""
    if not kept:
        return np.zeros((0, weights.shape[1])), float(np.sqrt(max(np.sum(weights * values), 0.0)))
    rows = np.array(kept)
    fitted = np.linalg.lstsq(gram[rows[:, None], rows], values[rows], rcond=1e-13)[0]
    difference = weights.copy()
    difference[kept] -= fitted
    squared = float(np.sum(difference * (gram @ difference)))
    return fitted, float(np.sqrt(max(squared, 0.0)))


def destructive_komp(
    kernel: Kernel, points: Array, weights: Array, epsilon: float, fixed: int = 0
) -> tuple[list[int], Array, float]:
    """Run POLK algorithm 1 as printed: every candidate's error by its own least-squares fit to the original function.

    Returns the kept indices, their weights, and the smallest relative distance of a decision from going the other
    way, so that a test can tell a tie from a mistake. The first ``fixed`` points are no candidates.
    """
    gram, kept = kernel.cross(points, points), list(range(len(points)))
    values = gram @ weights
    margin = np.inf
    while len(kept) > fixed:
        errors = [_refit(gram, weights, values, [k for k in kept if k != j])[1] for j in kept[fixed:]]
        order = np.argsort(errors)
        best = errors[order[0]]
        margin = min(margin, abs(best - epsilon) / max(epsilon, 1e-300))
        if best > epsilon:
            break
        if len(errors) > 1:
            margin = min(margin, (errors[order[1]] - best) / max(best, 1e-300))
        del kept[fixed + order[0]]
    return kept, _refit(gram, weights, values, kept)[0], float(margin)
