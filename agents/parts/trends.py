"""The variance of an affine trend in addition to the kernel, by the likelihood of a sample of the data."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from kernelswarm.agents.parts.bandwidths import FEWER, Bandwidth
from kernelswarm.agents.parts.sample import RIDGES, Sample, spaced, surprises_by_ridge
from kernelswarm.arrays import Array

SHARES = (0.3, 3.0, 30.0, 300.0)
"""Candidate variances of the affine function, as multiples of the remainder's variance."""

PROMISING = 0.98
"""A trend is tried if the affine function's leave-one-out error is below this fraction of the variance."""

FEWEST = 20
"""The smallest number of samples for which a trend is tried."""


class Found(NamedTuple):
    """The parameters of a kernel with a trend: its lengths, the trend, and each input's mean and deviation."""

    bandwidth: Bandwidth
    trend: float
    center: tuple[float, ...]
    unit: tuple[float, ...]


class WithLengths(Protocol):
    """A kernel of given lengths."""

    @property
    def bandwidth(self) -> Bandwidth: ...

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""


def found(sample: Sample, fitted: Callable[[Sample], WithLengths], asked: bool = False) -> Found:
    """Choose the trend and the kernel's lengths by the marginal likelihood of a Gaussian process.

    The covariance is ``K + s (1 + Z Z') / (1 + p) + r I`` with the standardised inputs Z. K has the lengths fitted to
    the targets, or those fitted to the residuals of linear ridge regression. s is 0 or one of `SHARES`, searched from 3
    in the direction of increasing likelihood. It is 0 if the leave-one-out residuals of ridge regression have almost
    the whole variance, or if no s > 0 is more likely.

    Parameters
    ----------
    sample : Sample
        Points and targets of the training data.
    fitted : callable
        Returns the kernel with lengths fitted to a sample.
    asked : bool
        Whether a positive trend is required.
    """
    points, values = sample.points, sample.values
    usual = fitted(sample)
    center, unit = points.mean(axis=0), points.std(axis=0)
    unit = np.where(unit > 1e-12 * np.abs(center), unit, 0.0)
    ends = tuple(center.tolist()), tuple(np.where(unit > 0.0, unit, 1.0).tolist())
    scaled = np.divide(points - center, unit, out=np.zeros_like(points), where=unit > 0.0)
    basis = np.column_stack([np.ones(len(points)), scaled]) / np.sqrt(1.0 + points.shape[1])
    slopes, left_out = ridge_regression(basis, values)
    promising = np.mean(left_out**2) < PROMISING * np.mean(values**2) and len(points) >= FEWEST and sample.tells
    if not (promising or asked):
        return Found(usual.bandwidth, 0.0, *ends)
    chosen = spaced(len(points), FEWER)
    some, wanted = np.ascontiguousarray(points[chosen]), values[chosen]
    linear = basis[chosen] @ basis[chosen].T
    targets = sample.targets - basis @ slopes if not sample.classes else sample.targets
    kernels = [usual, fitted(replace(sample, targets=np.ascontiguousarray(targets)))] if promising else [usual]
    best = np.inf, Found(usual.bandwidth, 0.0, *ends)
    for kernel in kernels:
        gram = kernel.cross(some, some)
        known: dict[float, float] = {}

        def surprise(trend: float, gram: Array = gram, known: dict[float, float] = known) -> float:
            if trend not in known:
                known[trend] = least_surprise(gram + trend * linear, wanted)
            return known[trend]

        place = 1
        for step in (1, -1):
            while 0 <= place + step < len(SHARES) and surprise(SHARES[place + step]) < surprise(SHARES[place]):
                place += step
        if not asked:
            surprise(0.0)
        trend = min(known, key=lambda trend: known[trend])
        if known[trend] < best[0]:
            best = known[trend], Found(kernel.bandwidth, trend, *ends)
    return best[1]


def least_surprise(gram: Array, values: Array) -> float:
    """Compute twice the negative log likelihood of values, minimised over the noise."""
    return float(surprises_by_ridge(gram / np.mean(np.diag(gram)), values)[0].min())


def ridge_regression(basis: Array, values: Array) -> tuple[Array, Array]:
    """Fit values (n, C) linearly in a basis (n, q), with the ridge of least leave-one-out error among `RIDGES`.

    With the eigenvectors V of ``B'B``, their eigenvalues s_k, and ``P = B V``, the leverage of row i is
    ``h_i = sum_k P_ik^2 / (s_k + r)``, and its leave-one-out residual is ``(y_i - f_i) / (1 - h_i)``.

    Returns
    -------
    Array
        The weights b of the fit ``basis @ b``, (q, C).
    Array
        The leave-one-out residuals, (n, C).
    """
    if basis.shape[1] > len(basis):  # the other eigenvalues are 0
        left, lengths, right = np.linalg.svd(basis, full_matrices=False)
        squares, vectors, projected = lengths**2, right.T, left * lengths
    else:
        squares, vectors = np.linalg.eigh(basis.T @ basis)
        projected = basis @ vectors
    turned, leverages = projected.T @ values, projected**2
    least, best = np.inf, (np.zeros((basis.shape[1], values.shape[1])), values)
    for ridge in RIDGES * float(np.mean(np.sum(basis**2, axis=1))):
        inverse = 1.0 / (squares + ridge)
        slopes = inverse[:, np.newaxis] * turned
        residuals = (values - projected @ slopes) / (1.0 - leverages @ inverse)[:, np.newaxis]
        error = float(np.mean(residuals**2))
        if error < least:
            least, best = error, (vectors @ slopes, residuals)
    return best
