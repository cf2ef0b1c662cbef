"""A function in a reproducing kernel Hilbert space: a kernel expansion with the factor for its compression."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.arithmetic import blocked_komp, inverse_factor, komp
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.arithmetic.late import BLOCKED_FROM_SAMPLES as BLOCKED_FROM_SAMPLES
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.parameters.least_squares import ROWS

DEFECT_LIMIT = 1e-4
"""The estimate of ``max |U K U' - I|`` above which the factor is recomputed."""

BLOCKED_FROM_ORDER = 500
"""The minimum order for matrix-matrix products in a step on several points; its decisions are the same."""


class Expansion(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)``, with the factor for its compression.

    Attributes
    ----------
    fixed : int
        The number of first dictionary points that compression never removes.
    factor_buffer, precision_buffer : Array
        The storage of the factor and of the diagonal of ``inv(K_DD)``; all buffers are written only by :meth:`step`.
    """

    __slots__ = ("factor_buffer", "fixed", "precision_buffer")

    factor_buffer: Array
    precision_buffer: Array
    parts: ClassVar = {**KernelSum.parts, "factor": "MM", "precision": "M"}

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        super().__init__(kernel, inputs, outputs)
        self.fixed = 0

    @classmethod
    def from_arrays(cls, kernel: Kernel, points: Array, weights: Array) -> Expansion:
        """Build the expansion with dictionary ``points`` (M, p) and ``weights`` (M, C), and compute its factor."""
        expansion = cls(kernel, points.shape[1], weights.shape[1]).assign(points, weights)
        expansion.rebuild()
        return expansion

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.fixed

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        super().__setstate__(state[:-1])
        self.fixed = state[-1]

    @property
    def factor(self) -> Array:
        """The inverse Cholesky factor U of the Gram matrix, (M, M) lower triangular, ``U.T @ U = inv(K_DD)``."""
        return self.factor_buffer[: self.order, : self.order]

    @property
    def tables(self) -> Tables:
        """The buffers, as arguments of compiled functions."""
        return Tables(self.points_buffer, self.weights_buffer, self.factor_buffer, self.precision_buffer)

    def step(self, points: Array, weights: Array, rows: Array, shrink: float, epsilon: float) -> tuple[float, int]:
        """Add ``sum_n weights[n] kappa(points[n], .)`` to ``shrink * f`` and compress within ``epsilon``.

        Parameters
        ----------
        points, weights : Array
            The new points (n, p) with their weights (n, C).
        rows : Array
            The kernel between the new points and the current dictionary, (n, M).
        shrink : float
            The factor ``1 - eta * lambda`` of the old weights.
        epsilon : float
            The compression budget, a Hilbert norm.

        Returns
        -------
        tuple of float and int
            The compression error, a Hilbert norm, and the number of changes of the factor.
        """
        self.reserve(len(points))
        gram, limit = kernel_rows(self.kernel, points, points), math.inf
        if self.kernel.supremum is not None:
            limit = komp.DEPENDENT / self.kernel.supremum
        added = Added(np.ascontiguousarray(points), weights, np.ascontiguousarray(rows), np.ascontiguousarray(gram))
        arguments = self.tables, self.order, added, shrink, epsilon, limit
        if len(points) >= BLOCKED_FROM_SAMPLES and self.order >= BLOCKED_FROM_ORDER and not self.fixed:
            self.order, error, changes = blocked_komp.project(*arguments)
        else:
            self.order, error, changes = komp.project(*arguments, self.fixed)
        return error, changes

    def remove(self, place: int) -> float:
        """Remove the element at ``place`` and refit the others to f; returns the Hilbert norm of the error."""
        squared = float(np.sum(self.weights[place] ** 2)) / float(self.precision_buffer[place])
        inverse_factor.remove(self.tables, self.order, place, np.empty(self.order))
        self.order -= 1
        return math.sqrt(squared)

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
        """Recompute the factor from a Cholesky decomposition of the Gram matrix.

        Raises
        ------
        ValueError
            The Gram matrix is singular to working precision, so its points are not linearly independent in the Hilbert
            space.
        """
        factor = _inverse_cholesky(self.rows(self.points))
        if factor is None:
            raise ValueError(
                f"the Gram matrix of {self.order} dictionary points is singular to working precision: "
                "remove duplicate points, narrow the kernel or enlarge the budget"
            )
        self._set_factor(factor)

    def inspect(self) -> bool:
        """Recompute the factor if it is inaccurate and the new one is better; returns whether it was replaced."""
        return not self.defect() <= DEFECT_LIMIT and self.improve()

    def improve(self) -> bool:
        """Recompute the factor if the new one is more accurate; returns whether it was replaced.

        Near the limit of double precision the old factor may be better.
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


@inline_always
def tables(storage: Array, capacity: int, inputs: int, outputs: int) -> Tables:
    """Return points, weights, factor and precision of an expansion in its storage, in the layout of its parts."""
    weights = OWN + capacity * inputs
    factor = weights + capacity * outputs
    precision = factor + capacity * capacity
    return Tables(
        table(storage, OWN, capacity, inputs),
        table(storage, weights, capacity, outputs),
        table(storage, factor, capacity, capacity),
        line(storage, precision, capacity),
    )


@inline_always
def length_of(capacity: int, inputs: int, outputs: int) -> int:
    """Return the size, in numbers, of the storage of an expansion with room for ``capacity`` points."""
    return OWN + capacity * (inputs + outputs + capacity + 1)


@cached_njit
def absorb_points(
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    order: int,
    rows: Array,  # (n, M or more)
    gram: Array,  # (n, n)
    new_weights: Array,  # (n, C)
    shrink: float,
) -> float:
    """Add the projection of ``sum_n w_n kappa(x_n, .)`` on the dictionary's span to ``shrink * f``.

    Returns the norm of the projection error.
    """
    images, projection = np.empty((len(gram), order)), np.empty(order)
    weights[:order] *= shrink
    for n in range(len(gram)):
        inverse_factor.split(factor, order, line(rows, n * rows.shape[1], order), gram[n, n], images[n], projection)
        weights[:order] += np.outer(projection, new_weights[n])
    lost = gram - images @ images.T
    return math.sqrt(max(np.sum(new_weights * (lost @ new_weights)), 0.0))


def _inverse_cholesky(gram: Array) -> Array | None:
    """Return ``inv(L)`` for ``K = L L'``, lower triangular, or None if K is singular to working precision."""
    lower, failed = lapack.dpotrf(gram, lower=1, clean=1)
    if failed:
        return None
    inverse: Array = lapack.dtrtri(lower, lower=1)[0]
    return np.ascontiguousarray(inverse)


# A kernel expansion with the information of its samples, which determines posterior variances.


class Information(NamedTuple):
    """The information of the samples: R and Q of the weights, and the noise."""

    root: Array  # (M, M) or larger, R
    moments: Array  # (M, C) or larger, Q
    noise: Array  # (3, C), see `noise_variance`


class InformedExpansion(Expansion):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)`` whose weights solve ``R W = Q``.

    Only the steps of the learner update R and Q together with the dictionary. Methods of `Expansion` that change the
    dictionary must not be used here.

    Attributes
    ----------
    root_buffer : Array
        The storage of R, upper triangular, of which (M, M) is in use: ``R'R`` is the curvature of the risk so far.
    moments_buffer : Array
        The storage of Q, of which (M, C) is in use.
    noise : Array
        The estimate of the noise variance, (3, C); see `noise_variance`.
    """

    __slots__ = ("moments_buffer", "noise", "root_buffer")

    root_buffer: Array
    moments_buffer: Array
    noise: Array
    parts: ClassVar = {**Expansion.parts, "root": "MM", "moments": "MC", "noise": f"{ROWS}C"}

    @property
    def root(self) -> Array:
        """R, (M, M) upper triangular."""
        return self.root_buffer[: self.order, : self.order]

    @property
    def moments(self) -> Array:
        """Q, (M, C)."""
        return self.moments_buffer[: self.order]


@cached_njit
def information_in(storage: ReadOnly, capacity: int, inputs: int, outputs: int) -> Information:
    """Return R, Q and the noise in the storage of an expansion, in which they follow the arrays of `tables`."""
    root = length_of(capacity, inputs, outputs)
    moments = root + capacity * capacity
    return Information(
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, moments + capacity * outputs, ROWS, outputs),
    )


# A kernel expansion with a second information, of recent samples only.

WINDOW = 4
"""The length of a window; see `adaptive_memory`."""

RECENT = {"recent_root": "MM", "recent_moments": "MC", "recent_noise": f"{ROWS}C", "window": f"{WINDOW}"}
"""The parts of a function for the information of recent samples."""


class WindowedExpansion(InformedExpansion):
    """An informed expansion with a second information, of recent samples, on the same dictionary.

    Attributes
    ----------
    recent_root_buffer, recent_moments_buffer : Array
        The same as `root_buffer` and `moments_buffer`, for recent samples.
    recent_noise : Array
        The same as `noise`, for recent samples, (3, C).
    window : Array
        The numbers of samples in both, and the evidence for the second, (4,).
    """

    __slots__ = ("recent_moments_buffer", "recent_noise", "recent_root_buffer", "window")

    recent_root_buffer: Array
    recent_moments_buffer: Array
    recent_noise: Array
    window: Array
    parts: ClassVar = {**InformedExpansion.parts, **RECENT}

    @property
    def recent_root(self) -> Array:
        """R of recent samples, (M, M) upper triangular."""
        return self.recent_root_buffer[: self.order, : self.order]

    @property
    def recent_moments(self) -> Array:
        """Q of recent samples, (M, C)."""
        return self.recent_moments_buffer[: self.order]


@cached_njit
def recent_and_window(
    storage: ReadOnly, capacity: int, inputs: int, outputs: int, windowed: bool
) -> tuple[Information, Array]:
    """Return the information of recent samples, and the window, in a storage; without rows if it has none."""
    if not windowed:
        nothing = table(storage, 0, 0, 1)
        return Information(nothing, nothing, nothing), line(storage, 0, 0)
    information = capacity * (capacity + outputs) + ROWS * outputs
    root = length_of(capacity, inputs, outputs) + information
    moments = root + capacity * capacity
    noise = moments + capacity * outputs
    recent = Information(
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, noise, ROWS, outputs),
    )
    return recent, line(storage, noise + ROWS * outputs, WINDOW)


# Selection of points that span all given points in a reproducing kernel Hilbert space.


def spanning(kernel: Kernel, points: Array, threshold: float) -> npt.NDArray[np.intp]:
    """Choose points that span the others to working precision: a Cholesky decomposition with complete pivoting.

    The point farthest from the span of the chosen points is chosen next, until the squared distance of every other
    point is at most ``threshold`` times the largest kappa(x, x).

    Parameters
    ----------
    kernel : Kernel
        The kernel of the space.
    points : Array
        (n, p).
    threshold : float
        A multiple of the largest kappa(x, x), in [0, 1).

    Returns
    -------
    Array
        The indices of the chosen points in increasing order, (r,).
    """
    left = kernel_diagonal(kernel, points).copy()
    least = threshold * float(left.max())
    lower = np.empty((0, len(points)))
    chosen: list[int] = []
    while len(chosen) < len(points):
        best = int(np.argmax(left))
        if not left[best] > least:
            break
        chosen.append(best)
        row = kernel_rows(kernel, points[best : best + 1], points)[0] - lower[:, best] @ lower
        row /= np.sqrt(left[best])
        left -= row * row
        left[chosen] = 0.0
        lower = np.concatenate([lower, row[np.newaxis]])
    return np.sort(np.array(chosen, dtype=np.intp))
