"""The posterior variance of the values of a second-order learner's function."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.second_order import information
from kernelswarm.agents.plain.kernels import kernel_diagonal
from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

ROWS = 1024
"""Points whose kernel rows are made at a time."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The variance of a function's values, and of the targets' noise.

    The function is the posterior mean of a Gaussian process whose prior has the covariance kappa / ridge, in units of
    the noise's variance. With the kernel rows k of the dictionary, H the curvature of the risk so far, and z the image
    of kappa(x, .) in the span of the dictionary,

        v(x) = scale (k' inv(H) k + (kappa(x, x) - z'z) / lambda)

    Far from all that was seen that is the prior's. Of a function of features phi, ``v(x) = scale phi' inv(H) phi``.
    The values have the variance ``v(x) noise``, targets ``(1 + v(x)) noise`` (Rasmussen and Williams 2006, eq. 2.26 and
    8.14).

    Parameters
    ----------
    function : Any
        The function: a sum of kernels, or one that is linear in ``features``.
    root : Array
        R, (M, M) upper triangular, with ``R'R = H``.
    factor : Array or None
        U, (M, M) lower triangular, with ``U'U = inv(K_DD)``; None for a function of features.
    ridge : float
        lambda, above 0.
    scale : float
        What turns the inverse curvature into units of the noise's variance: the second derivative of the loss.
    noise : Array
        The noise's variance of each output, (C,), in the learner's units; NaN of a node that drew no samples of its
        own, whatever neighbours taught it: v is then all that is known.
    """

    function: Any
    root: Array
    factor: Array | None
    ridge: float
    scale: float
    noise: Array

    def variance(self, points: Array) -> Array:
        """Return v at ``points`` (n, p), in units of the noise's variance: (n,), not negative."""
        found = np.empty(len(points))
        for start in range(0, len(points), ROWS):
            some = np.ascontiguousarray(points[start : start + ROWS])
            part = found[start : start + len(some)]
            rows = np.require(self._rows(some), requirements=["C", "W"])
            if self.factor is None:
                of_features(self.root, rows, part)
            else:
                of_kernels(self.root, self.factor, rows, kernel_diagonal(self.function.kernel, some), self.ridge, part)
            part *= self.scale
        return found

    @property
    def knows_noise(self) -> bool:
        """Whether the noise is known, so that v turns into variances of values and targets."""
        return bool(np.isfinite(self.noise).all())

    def thinned(self, times: float) -> "Posterior":
        """Return the variance where each sample was counted so many times, at least 1, and should count once.

        With S the curvature of the samples that differ, ``inv(S + lambda K / times)`` stands for ``inv(S + lambda K)``
        in the dictionary's span: it is no smaller, and hardly larger where samples are.
        """
        return self if times == 1.0 else replace(self, root=self.root / math.sqrt(times))

    def ignorance(self, points: Array) -> Array:
        """Return the posterior over the prior deviation at ``points`` (n, p): (n,), 1 far from all samples."""
        if self.factor is None:
            features = self._rows(points)
            prior = np.sum(features * features, axis=1) / self.ridge
        else:
            prior = kernel_diagonal(self.function.kernel, points) / self.ridge
        found: Array = np.sqrt(np.clip(self.variance(points) / np.maximum(self.scale * prior, 1e-300), 0.0, 1.0))
        return found

    def _rows(self, points: Array) -> Array:
        """Return what R is the triangle of, (n, M): features, which may be kernel rows, or kernel rows."""
        function = self.function
        found: Array = function.features(points) if hasattr(function, "features") else function.rows(points)
        return found

    def arrays(self) -> dict[str, Array]:
        """Return its arrays beside the function, by their names in models.

        ``posterior_root`` and ``posterior_factor`` are the triangles, row by row, (M (M + 1) / 2,), the second without
        entries for a function of features; ``posterior_units`` ridge and scale, ``posterior_noise`` the noise (C,).
        """
        upper = np.triu_indices(len(self.root))
        factor = np.zeros(0) if self.factor is None else self.factor.T[upper]
        units = np.array([self.ridge, self.scale])
        own = {"root": self.root[upper], "factor": factor, "units": units, "noise": self.noise.copy()}
        return {f"{PREFIX}{name}": array for name, array in own.items()}

    @classmethod
    def from_arrays(cls, function: Any, arrays: Mapping[str, Array]) -> "Posterior":
        """Rebuild what :meth:`arrays` was taken of, beside its function.

        Raises
        ------
        ValueError
            An array is missing, or does not have the function's size.
        """
        missing = [name for name in NAMES if name not in arrays]
        if missing:
            raise ValueError(f"{', '.join(missing)} is missing beside the other arrays of the variance")
        packed, below, units, noise = (np.asarray(arrays[name], dtype=np.float64) for name in NAMES)
        in_points = hasattr(function, "rows")
        order = function.order if in_points else len(function.coefficients)  # an intercept is a feature too
        of_kernel = in_points and (below.size > 0 or not order)  # else the points are fixed, and their kernel features
        entries = order * (order + 1) // 2
        wanted = ((entries,), (entries,) if of_kernel else (0,), (2,), (function.outputs,))
        for name, array, shape in zip(NAMES, (packed, below, units, noise), wanted, strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, must be {shape} beside {order} points or features")
        ridge, scale = units.tolist()
        if not (0.0 < ridge < math.inf and 0.0 < scale < math.inf):
            raise ValueError(f"{NAMES[2]} = {[ridge, scale]} must be above 0")
        if not (np.isnan(noise).all() or (np.isfinite(noise) & (noise >= 0.0)).all()):
            raise ValueError(f"{NOISE} = {noise.tolist()} must be finite and not negative, or all NaN: not known")
        factor = _triangle(below, order).T.copy() if of_kernel else None
        return cls(function, _triangle(packed, order), factor, ridge, scale, noise)


PREFIX = "posterior_"
"""Before the names of the arrays of a posterior."""

NAMES = tuple(f"{PREFIX}{name}" for name in ("root", "factor", "units", "noise"))
NOISE = NAMES[-1]


def _triangle(packed: Array, order: int) -> Array:
    found = np.zeros((order, order))
    found[np.triu_indices(order)] = packed
    return found


@cached_njit
def of_kernels(root: Array, factor: Array, rows: Array, diagonal: ReadOnly, ridge: float, variances: Array) -> None:
    """Fill in the uncertainty of each point by itself, (n,); ``rows`` (n, M) are its kernel rows."""
    order, own = len(root), np.empty((1, 1))
    for n in range(len(variances)):
        own[0, 0] = diagonal[n]
        information.uncertainty(root, factor, order, table(rows, n * order, 1, order), ridge, own)
        variances[n] = own[0, 0]


@cached_njit
def of_features(root: Array, rows: Array, variances: Array) -> None:
    """Fill in ``phi' inv(R'R) phi``, (n,), for features (n, M), which are used up."""
    order = len(root)
    for n in range(len(variances)):
        row = line(rows, n * order, order)
        information.forward(root, order, row)
        variances[n] = dot(rows, n * order, row, order)
