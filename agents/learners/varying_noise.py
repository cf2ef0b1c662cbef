"""Noise variance as a function of the input, fitted to leave-one-out errors."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelswarm.agents.parts.trends import ridge_regression
from kernelswarm.arrays import Array

FEWEST = 60
"""The smallest number of rows for which varying noise is fitted."""

CLEARLY = 1.0
"""The number of standard errors by which the leave-one-out log likelihood must increase. With this value varying noise
was found in 9 of 120 sets with constant noise, and in all of 5 splits of housing prices (docs/bands.md)."""

SHIFTS = (-5.0, 5.0)
"""The range of corrections of the logarithm of the noise variance."""

LEAST = 1e-12
"""The lower bound of squared errors, in units of the noise variance, before their logarithm is taken."""


class Known(Protocol):
    """The attributes of a posterior that a fit of the noise needs."""

    @property
    def root(self) -> Array:
        """A root of the information, (M, M)."""
        ...

    @property
    def factor(self) -> Array | None:
        """The factor of the kernel matrix, or None for features."""
        ...

    @property
    def levels(self) -> Array | None:
        """The levels of the noise, (3 + M, C), or None if the noise is constant."""
        ...

    @property
    def noise(self) -> Array:
        """The variance of the targets' noise, (C,)."""
        ...

    def variance(self, points: Array) -> Array:
        """Return the variance of the values at ``points`` (n, p), in units of the noise's: (n,)."""
        ...

    def noise_ratio(self, points: Array) -> Array:
        """Return the noise's variance at ``points`` (n, p) in units of its mean, (n, C)."""
        ...


def varying_noise(known: Known, images: Array, variance: Array, errors: Array, weights: Array) -> Array | None:
    """Learn the logarithm of the noise's variance as a function in the span of the dictionary.

    With leave-one-out errors e_i, ``e_i^2 / (s^2 (v(x_i) + 1 / w_i))`` is 1 on average. Its logarithm is fitted by
    ridge regression on the images of the points in the dictionary's span. The ridge minimises the leave-one-out error.
    If the leave-one-out log likelihood of the errors exceeds that of constant noise by more than `CLEARLY` standard
    errors, the noise varies; otherwise it is constant.

    Parameters
    ----------
    known : Known
        The posterior, with constant noise.
    images : Array
        The images of the points in the span, (n, M).
    variance : Array
        v at the points, (n,).
    errors : Array
        ``y_i - f(x_i)``, with f fitted without row i, (n, C).
    weights : Array
        The weights of the rows, (n,); 1 is typical.

    Returns
    -------
    Array or None
        The ``levels`` of a `Posterior`, (3 + M, C), or None if the noise of all outputs is constant.
    """
    count, outputs = errors.shape
    spread = known.noise * (variance + 1.0 / weights)[:, np.newaxis]
    if count < FEWEST or not np.all(spread > 0.0):
        return None
    squares = errors**2 / spread
    logarithms = np.log(np.maximum(squares, LEAST))
    found = np.zeros((3 + len(known.root), outputs))
    for c in range(outputs):
        centered = logarithms[:, c : c + 1] - logarithms[:, c].mean()
        levels, left_out = ridge_regression(images, centered)
        fit = images @ levels
        before = np.clip(centered - left_out, fit.min(), fit.max())[:, 0]
        shift = np.log(np.mean(squares[:, c] * np.exp(-before)))
        gain = _surprise(squares[:, c], np.log(squares[:, c].mean())) - _surprise(squares[:, c], before + shift)
        if gain.mean() > CLEARLY * gain.std() / np.sqrt(count):
            found[:3, c] = shift, fit.min(), fit.max()
            found[3:, c] = levels[:, 0] if known.factor is None else np.tril(known.factor).T @ levels[:, 0]
    return found if found.any() else None


def calibrated(known: Known, points: Array, errors: Array) -> Array:
    """Return the levels with a shift that calibrates the variance to the errors before steps.

    With the shift d and the fitted logarithm g, bisection within `SHIFTS` makes the mean of
    ``e_i^2 / (noise (v(x_i) + exp(d + g(x_i))))`` equal to 1. Without it, bands of nodes with few samples would be too
    wide where the noise is small compared to v.
    """
    assert known.levels is not None
    levels, uncertain = known.levels.copy(), known.variance(points)
    ratios = known.noise_ratio(points)
    for c in np.flatnonzero(levels.any(axis=0)).tolist():
        squares, (least, most) = errors[:, c] ** 2 / known.noise[c], SHIFTS
        while most - least > 1e-9:
            middle = 0.5 * (least + most)
            above = np.mean(squares / (uncertain + ratios[:, c] * np.exp(middle))) > 1.0
            least, most = (middle, most) if above else (least, middle)
        levels[0, c] += least
    return levels


def _surprise(squares: Array, logarithm: Array | float) -> Array:
    """Compute the negative logarithm of the Gaussian density of errors, up to a constant, (n,)."""
    found: Array = 0.5 * (logarithm + squares * np.exp(-logarithm))
    return found
