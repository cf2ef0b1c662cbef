"""A function in a reproducing kernel Hilbert space, held as a kernel expansion over a dictionary."""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

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
        """The inverse Cholesky factor U of the Gram matrix, (M, M) lower triangular, ``U.T @ U = inv(K_DD)``."""
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
        values = np.empty((len(points), self.outputs))
        komp.combine(rows, self.weights_buffer, self.order, values)
        return rows, values

    def inner(self, other: "Expansion") -> float:
        """Compute the Hilbert inner product ``<f, g>``, summed over the outputs; both must have the same kernel."""
        if self.kernel != other.kernel:
            raise ValueError(f"the functions live in different spaces: {self.kernel} and {other.kernel}")
        return float(np.sum((self.weights.T @ self.rows(other.points).T) * other.weights.T))

    def arrays(self) -> dict[str, Array]:
        """Return the dictionary ``points`` (M, p) and the ``weights`` (M, C), copied."""
        return {"points": self.points.copy(), "weights": self.weights.copy()}

    def distance(self, other: object) -> float:
        """Compute the Hilbert distance ``||f - g||``; NaN unless the other function has the same kernel."""
        if not isinstance(other, Expansion) or self.kernel != other.kernel:
            return math.nan
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
        self.reserve(len(points))
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
        if self.kernel.supremum is None:
            return error, changes
        self.order, squared, dropped = komp.drop_dependent(
            self.points_buffer,
            self.weights_buffer,
            self.factor_buffer,
            self.precision_buffer,
            self.order,
            komp.DEPENDENT / self.kernel.supremum,
        )
        return math.sqrt(error * error + squared) if dropped else error, changes + dropped

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
        factor = _inverse_cholesky(self.rows(self.points))
        if factor is None:
            raise ValueError(
                f"the Gram matrix of {self.order} dictionary points is singular to working precision: "
                "remove duplicate points, narrow the kernel or enlarge the budget"
            )
        self._set_factor(factor)

    def improve(self) -> bool:
        """Compute the factor afresh where that makes it more accurate; tell whether it did.

        Near the limit of double precision the carried factor may be the better one.
        """
        factor = _inverse_cholesky(self.rows(self.points))
        if factor is None:
            return False
        carried, defect = self.factor.copy(), self.defect()
        self._set_factor(factor)
        if self.defect() < defect:
            return True
        self._set_factor(carried)
        return False

    def _set_factor(self, factor: Array) -> None:
        self.factor_buffer[: self.order, : self.order] = factor
        self.precision_buffer[: self.order] = np.sum(factor * factor, axis=0)

    def reserve(self, points: int) -> None:
        """Make room for so many more points."""
        needed = self.order + points
        if needed > len(self.points_buffer):
            self._grow(needed)

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


def _inverse_cholesky(gram: Array) -> Array | None:
    """Return ``inv(L)`` for ``K = L L'``, lower triangular, or None where K is singular to working precision."""
    lower, failed = lapack.dpotrf(gram, lower=1, clean=1)
    if failed:
        return None
    inverse: Array = lapack.dtrtri(lower, lower=1)[0]
    return np.ascontiguousarray(inverse)
