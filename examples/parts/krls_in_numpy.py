"""Kernel recursive least squares on one page, as Engel, Mannor and Meir write it (IEEE Trans. Signal Processing 2004).

The dictionary D holds the samples that are not nearly dependent on those before them. With K its Gram matrix and
k = kappa(D, x) a sample has the coefficients a = inv(K) k in it, and what they leave of it is

    delta = kappa(x, x) - k' a.

Where delta > dependency the sample enters, and f fits it exactly. Else it is one more equation of the least squares

    min_W sum_n ||t_n - a_n' K W||^2        with P = inv(A'A), A the coefficients a_n of all samples:

    q = P a / (1 + a' P a),    P <- P - q a' P,    W <- W + inv(K) q (t - k' W).

    kernelswarm run mine.toml --set learner.name=krls_in_numpy:KrlsInNumpy       beside this file
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.agents.learners.numpy_learner import NumpyLearner
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range


class State(NamedTuple):
    points: Array  # D, (M, p)
    weights: Array  # W, (M, C)
    inverse: Annotated[Array, "MM"]  # inv(K)
    covariance: Annotated[Array, "MM"]  # P


def bordered(matrix, column, corner):
    """Return a matrix with one more row and column."""
    size = len(matrix)
    found = np.empty((size + 1, size + 1))
    found[:size, :size] = matrix
    found[:size, size] = found[size, :size] = column
    found[size, size] = corner
    return found


def move(keys, state, at):
    (dependency,) = keys
    points, weights, inverse, covariance = state
    before, own = len(points), len(at.targets)
    entered = np.zeros(len(at.points), dtype=np.int64)  # which of the points, in the order in which they entered
    for n in range(len(at.points)):
        k = np.concatenate((at.rows[n], np.zeros(len(points) - before)))
        for m in range(before, len(points)):
            k[m] = at.gram[n, entered[m - before]]
        a = inverse @ k
        delta = at.gram[n, n] - k @ a
        if n >= own:  # a neighbour's point: f moves along its pull, as far as D can express it
            weights += np.outer(a, at.pulls[n])
            continue
        miss = at.targets[n] - k @ weights
        if delta > dependency:
            points = np.concatenate((points, at.points[n : n + 1]))
            inverse = bordered(inverse + np.outer(a, a) / delta, -a / delta, 1.0 / delta)
            covariance = bordered(covariance, np.zeros(len(a)), 1.0)
            weights = np.concatenate((weights - np.outer(a, miss) / delta, miss.reshape(1, -1) / delta))
            entered[len(points) - 1 - before] = n
            a = np.append(np.zeros(len(a)), 1.0)
        else:
            known = covariance @ a
            q = known / (1.0 + a @ known)
            covariance -= np.outer(q, known)
            weights += np.outer(inverse @ q, miss)
        if np.any(at.pulls[n] != 0.0):
            weights += np.outer(a, at.pulls[n])
    return State(points, weights, inverse, covariance)


@dataclass(frozen=True)
class KrlsInNumpy(NumpyLearner):
    """Kernel recursive least squares; ``dependency`` is the paper's nu."""

    regularization: float = 0.0
    dependency: float = 1e-3

    ranges: ClassVar = {**NumpyLearner.ranges, "dependency": Range("(0, inf)", "1e-4 to 1e-2 are usual")}
    State: ClassVar = State
    move: ClassVar = staticmethod(move)
