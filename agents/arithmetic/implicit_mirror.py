"""The implicit step of a dual function z whose values are f = exp(z)."""

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MOST_ITERATIONS = 1000
"""Newton steps; a few suffice unless the solution lies hundreds away, since none moves z by more than 1."""

PRECISION = 1e-12
"""The move of z at which the iteration ends."""


def implicit_mirror_weights(
    eta: float, gradients: Sequence[Array], curvatures: Sequence[float], gram: Array, duals: Array
) -> Array:
    """Return the weights ``-eta/b g`` that an implicit step gives all its points, (N, C).

    The terms of curvature r are taken at the new function: each column of g solves

        g = g_explicit + r (exp(z~) - exp(z)),    z~ = z - K diag(eta/b) g

    Parameters
    ----------
    eta : float
        The step size.
    gradients : sequence of Array
        The explicit gradients with respect to f at each set of points, (b_k, C).
    curvatures : sequence of float
        r of each set, the second derivative with respect to f, not negative.
    gram : Array
        The inner products K of all points of all sets, (N, N).
    duals : Array
        z at all points before the step, (N, C).
    """
    sizes = [len(part) for part in gradients]
    rates = np.repeat([eta / max(size, 1) for size in sizes], sizes)
    stiffness = np.repeat(np.asarray(curvatures, dtype=np.float64), sizes)
    weights: Array = _solved(gram, np.concatenate(gradients), rates, stiffness, np.ascontiguousarray(duals))
    return weights


@numba.njit(cache=True)
def _solved(gram: Array, gradient: Array, rates: Array, stiffness: Array, duals: Array) -> Array:
    """Solve by Newton's method, in steps so short that the exponential stays near its tangent."""
    size, outputs = gradient.shape
    weights = np.empty((size, outputs))
    moved = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            moved[i, j] = gram[i, j] * rates[j]
    system = np.empty((size, size))
    residual = np.empty(size)
    for c in range(outputs):
        solution = np.zeros(size)
        change = np.zeros(size)  # of z
        for _ in range(MOST_ITERATIONS):
            for i in range(size):
                before = np.exp(duals[i, c])
                after = np.exp(duals[i, c] + change[i])
                residual[i] = gradient[i, c] + stiffness[i] * (after - before) - solution[i]
                for j in range(size):
                    system[i, j] = stiffness[i] * after * moved[i, j]
                system[i, i] += 1.0
            direction = np.linalg.solve(system, residual)
            shift = np.zeros(size)
            longest = 0.0
            for i in range(size):
                for j in range(size):
                    shift[i] -= moved[i, j] * direction[j]
                longest = max(longest, abs(shift[i]))
            share = 1.0 if longest <= 1.0 else 1.0 / longest
            for i in range(size):
                solution[i] += share * direction[i]
                change[i] += share * shift[i]
            if not longest > PRECISION:
                break
        for i in range(size):
            weights[i, c] = -rates[i] * solution[i]
    return weights
