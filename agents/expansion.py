"""A function in a reproducing kernel Hilbert space, held as a kernel expansion over a dictionary."""

import math

import numpy as np
import numpy.typing as npt
from scipy import linalg

from kernelswarm.agents import blocked_komp, komp
from kernelswarm.agents.kernels import Kernel

Array = npt.NDArray[np.float64]

BLOCKED_FROM_ORDER = 500
BLOCKED_FROM_SAMPLES = 8
"""A step of so many points on so large a dictionary is faster with matrix-matrix products, and decides the same."""


class Expansion:
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)``, with the factor that compresses it.

    Parameters
    ----------
    kernel : Kernel
        The kernel kappa.
    inputs : int
        p, the dimension of a point.
    outputs : int
        C, the number of functions that share the dictionary.

    Attributes
    ----------
    order : int
        M, the number of dictionary points.
    points_buffer, weights_buffer, factor_buffer, precision_buffer : Array
        The storage of which the first ``order`` rows (and columns) are in use; written only by :meth:`step`.
    """

    __slots__ = (
        "factor_buffer",
        "inputs",
        "kernel",
        "order",
        "outputs",
        "points_buffer",
        "precision_buffer",
        "weights_buffer",
    )

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs
        self.order = 0
        self.points_buffer: Array = np.zeros((0, inputs))
        self.weights_buffer: Array = np.zeros((0, outputs))
        self.factor_buffer: Array = np.zeros((0, 0))
        self.precision_buffer: Array = np.zeros(0)

    @classmethod
    def from_arrays(cls, kernel: Kernel, points: Array, weights: Array) -> "Expansion":
        """Build the expansion with dictionary ``points`` (M, p) and ``weights`` (M, C), and compute its factor."""
        expansion = cls(kernel, points.shape[1], weights.shape[1]).assign(points, weights)
        expansion.rebuild()
        return expansion

    def assign(self, points: Array, weights: Array) -> "Expansion":
        """Take ``points`` (M, p) and ``weights`` (M, C) for evaluation; :meth:`rebuild` must precede a step."""
        if len(points) > len(self.points_buffer):
            self._grow(len(points))
        self.order = len(points)
        self.points_buffer[: self.order] = points
        self.weights_buffer[: self.order] = weights
        return self

    @property
    def points(self) -> Array:
        """The dictionary D, (M, p), oldest point first."""
        return self.points_buffer[: self.order]

    @property
    def weights(self) -> Array:
        """The weights W, (M, C)."""
        return self.weights_buffer[: self.order]

    @property
    def factor(self) -> Array:
        """The square root U of the inverse Gram matrix, (M, M), with ``U.T @ U = inv(K_DD)``."""
        return self.factor_buffer[: self.order, : self.order]

    def rows(self, points: Array) -> Array:
        """Compute the kernel between ``points`` (n, p) and the dictionary, (n, M)."""
        return self.kernel.cross(points, self.points_buffer[: self.order])

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return self.rows_and_values(points)[1]

    def rows_and_values(self, points: Array) -> tuple[Array, Array]:
        """Compute the kernel rows (n, M) of ``points`` (n, p) and from them the values of f, (n, C)."""
        rows = self.kernel.cross(points, self.points_buffer[: self.order])
        return rows, komp.combine(rows, self.weights_buffer, self.order)

    def inner(self, other: "Expansion") -> float:
        """Compute the Hilbert inner product ``<f, g>``, summed over the outputs; both must have the same kernel."""
        if self.kernel != other.kernel:
            raise ValueError(f"the functions live in different spaces: {self.kernel} and {other.kernel}")
        return float(np.sum((self.weights.T @ self.rows(other.points).T) * other.weights.T))

    def distance(self, other: "Expansion") -> float:
        """Compute the Hilbert distance ``||f - g||``; both must have the same kernel."""
        squared = self.inner(self) - 2.0 * self.inner(other) + other.inner(other)
        return math.sqrt(max(squared, 0.0))

    def step(self, points: Array, weights: Array, rows: Array, shrink: float, epsilon: float) -> tuple[float, int]:
        """Add ``sum_n weights[n] kappa(points[n], .)`` to ``shrink * f`` and compress within ``epsilon``.

        Parameters
        ----------
        points, weights : Array
            The new points (n, p) with their weights (n, C).
        rows : Array
            The kernel between them and the dictionary as it stands, (n, M).
        shrink : float
            The factor ``1 - eta * lambda`` on the old weights.
        epsilon : float
            The compression budget, a Hilbert norm.

        Returns
        -------
        tuple of float and int
            The compression error, a Hilbert norm, and the number of changes the factor went through.
        """
        needed = self.order + len(points)
        if needed > len(self.points_buffer):
            self._grow(needed)
        blocked = len(points) >= BLOCKED_FROM_SAMPLES and self.order >= BLOCKED_FROM_ORDER
        project = blocked_komp.project if blocked else komp.project
        self.order, error, changes = project(
            self.points_buffer,
            self.weights_buffer,
            self.factor_buffer,
            self.precision_buffer,
            self.order,
            points,
            weights,
            rows,
            self.kernel.cross(points, points),
            shrink,
            epsilon,
        )
        return error, changes

    def defect(self) -> float:
        """Estimate ``max |U K_DD U' - I|`` from two fixed probe vectors, in O(M^2) beyond the Gram matrix."""
        if self.order == 0:
            return 0.0
        gram = self.rows(self.points)
        probes = np.ones((self.order, 2))
        probes[1::2, 1] = -1.0
        factor = self.factor
        residual = factor @ (gram @ (factor.T @ probes)) - probes
        return float(np.max(np.abs(residual)))

    def rebuild(self) -> None:
        """Compute the factor afresh from a Cholesky decomposition of the Gram matrix.

        Raises
        ------
        ValueError
            When the Gram matrix is singular to working precision, so that its points are not linearly independent in
            the Hilbert space.
        """
        gram = self.rows(self.points)
        if self.order == 0:
            return
        try:
            lower = linalg.cholesky(gram, lower=True)
        except linalg.LinAlgError as failure:
            raise ValueError(
                f"the Gram matrix of {self.order} dictionary points is singular to working precision: "
                "remove duplicate points, narrow the kernel or enlarge the budget"
            ) from failure
        factor = linalg.solve_triangular(lower, np.eye(self.order), lower=True)
        self.factor_buffer[: self.order, : self.order] = factor
        self.precision_buffer[: self.order] = np.sum(factor * factor, axis=0)

    def _grow(self, needed: int) -> None:
        capacity = max(needed, 16, len(self.points_buffer) * 3 // 2)
        points = np.zeros((capacity, self.inputs))
        weights = np.zeros((capacity, self.outputs))
        factor = np.zeros((capacity, capacity))
        precision = np.zeros(capacity)
        m = self.order
        points[:m] = self.points
        weights[:m] = self.weights
        factor[:m, :m] = self.factor
        precision[:m] = self.precision_buffer[:m]
        self.points_buffer, self.weights_buffer = points, weights
        self.factor_buffer, self.precision_buffer = factor, precision
