"""Learners without steps, whose functions are fitted by a batch solver."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.plain_parts import kernel_rows
from kernelswarm.arrays import Array

# A learner that takes no steps: its kernel expansion is fitted by a batch solver.


@dataclass(frozen=True)
class BatchExpansion:
    """A kernel expansion whose points and weights are assigned by a solver; steps do not change it.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    batch_size : int
        b, the number of samples that a node draws per round.
    """

    loss: Loss
    kernel: Kernel
    batch_size: int

    gain: ClassVar[float | None] = None
    linear: ClassVar[bool] = True

    def init(self, inputs: int, outputs: int) -> KernelSum:
        """Return f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return KernelSum(self.kernel, inputs, outputs)

    def eta(self, state: KernelSum) -> float:
        return 0.0

    def evaluate(self, state: KernelSum, points: Array) -> Evaluated:
        """Evaluate the function at ``points`` (n, p)."""
        return Evaluated(points, *state.rows_and_values(points))

    def inner(self, state: KernelSum, at: Evaluated) -> Array:
        """Return the kernel between all points, (n, n)."""
        return kernel_rows(self.kernel, at.points, at.points)

    def gradient(self, state: KernelSum, own: Evaluated, targets: Array) -> Array:
        """Return the loss's derivatives at the samples, (n, C)."""
        return self.loss.derivatives(own.values, targets)

    def step(
        self,
        state: KernelSum,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        return Info(0.0, 0.0)

    def function(self, state: KernelSum) -> KernelSum:
        return state

    def function_from(self, arrays: Mapping[str, Array]) -> KernelSum:
        points, weights = arrays["points"], arrays["weights"]
        return self.init(points.shape[1], weights.shape[1]).assign(points, weights)

    def snapshot(self, state: KernelSum) -> dict[str, Array]:
        """Return the dictionary ``points`` (M, p) and the ``weights`` (M, C), copied."""
        return state.snapshot()

    def restore(self, state: KernelSum, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.restore(arrays)


# Batch kernel feature extraction: the subspace of all samples at once, by alternating least squares.

FEWEST_DIGITS = 1e-12
"""The relative decrease of the objective at which the alternation stops."""


class BatchSubspace(NamedTuple):
    """The result of the alternation."""

    factor: Array  # A, (N, r)
    projections: Array  # Q', the rows q_n of the samples, (N, r)
    objectives: Array  # after every iteration


def objective(gram: Array, factor: Array, projections: Array, regularization: float) -> float:
    """Compute the objective (OKFEB eq. 5) for A (N, r), the rows q_n (N, r) and the Gram matrix (N, N).

    1/(2N) sum_n ||phi(x_n) - L q_n||^2 + lambda/(2N) (||L||^2 + sum_n ||q_n||^2)         L = Phi A
    """
    return _objective(gram, factor, gram @ factor, projections, regularization)


def _objective(gram: Array, factor: Array, image: Array, projections: Array, regularization: float) -> float:
    """Compute the objective from K A, ``image``, as well."""
    inner = factor.T @ image
    fits = np.trace(gram) - 2.0 * np.sum(image * projections) + np.sum((projections @ inner) * projections)
    return float((fits + regularization * (np.trace(inner) + np.sum(projections**2))) / (2.0 * len(gram)))


def extract(
    gram: Array, rank: int, regularization: float, generator: np.random.Generator, iterations: int = 50
) -> BatchSubspace:
    """Alternate between the best projections and the best factor (OKFEB algorithm 1), from a random factor.

        Q = inv(A'KA + lambda I) A'K          A = Q' inv(QQ' + lambda I)

    Each of the two updates minimises the objective over its own block, so that the objective never increases. One
    iteration takes O(N^2 r).

    Parameters
    ----------
    gram : Array
        K, (N, N).
    rank : int
        r, at least 1.
    regularization : float
        lambda, positive.
    generator : Generator
        The random generator for the first factor.
    iterations : int
        The largest number of iterations.
    """
    factor: Array = generator.normal(size=(len(gram), rank)) / math.sqrt(len(gram))
    identity = regularization * np.eye(rank)
    objectives: list[float] = []
    projections, image = np.zeros((len(gram), rank)), gram @ factor
    for _ in range(iterations):
        projections = np.asarray(np.linalg.solve(factor.T @ image + identity, image.T).T, np.float64)
        factor = np.asarray(np.linalg.solve(projections.T @ projections + identity, projections.T).T, np.float64)
        image = gram @ factor  # for the objective, and for the projections of the next iteration
        objectives.append(_objective(gram, factor, image, projections, regularization))
        if len(objectives) > 1 and objectives[-2] - objectives[-1] <= FEWEST_DIGITS * objectives[-1]:
            break
    return BatchSubspace(factor, projections, np.array(objectives))


def minimum(gram: Array, rank: int, regularization: float) -> float:
    """Compute the minimum of the objective in closed form.

    Let s_i be the singular values of Phi, the square roots of the eigenvalues of K in descending order. The best L Q
    has the singular values ``(s_i - lambda)_+`` for the first r of them, because the minimum of half the sum of the two
    squared norms over all factors of L Q is the nuclear norm of L Q (Mazumder, Hastie and Tibshirani, JMLR 2010, lemmas
    1 and 6).
    """
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
    kept = np.maximum(values[:rank] - regularization, 0.0)
    squares = np.sum((values[:rank] - kept) ** 2) + np.sum(values[rank:] ** 2)
    return float((squares + 2.0 * regularization * np.sum(kept)) / (2.0 * len(gram)))


def mismatch(gram: Array, features: Array) -> float:
    """Compute ``||K - Z Z'||_F / N`` of features Z (N, r), the error of the kernel matrix per sample."""
    return float(np.linalg.norm(gram - features @ features.T) / len(gram))
