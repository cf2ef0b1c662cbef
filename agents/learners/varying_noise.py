"""How the noise of targets varies with the input, as errors on rows that were left out show it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelswarm.agents.parts.trends import ridge_regression
from kernelswarm.arrays import Array

FEWEST = 60
"""Rows from which on the noise may vary."""

CLEARLY = 1.0
"""Standard errors by which the likelihood of rows left out has to rise. Of 120 sets with constant noise 9 then had a
varying one, and of 5 splits of housing prices all (docs/bands.md)."""

SHIFTS = (-5.0, 5.0)
"""The corrections of the noise's logarithm that are tried."""

LEAST = 1e-12
"""The least square of an error, in units of the noise's variance: an error of 0 has no logarithm."""


class Known(Protocol):
    """What a fit of the noise reads of a posterior in the span of a dictionary."""

    @property
    def root(self) -> Array:
        """A root of the information, (M, M)."""
        ...

    @property
    def factor(self) -> Array | None:
        """The factor of the kernel matrix, or None of features."""
        ...

    @property
    def levels(self) -> Array | None:
        """The levels of the noise, (3 + M, C), or None where it is constant."""
        ...

    @property
    def noise(self) -> Array:
        """The variance of the targets' noise, (C,)."""
        ...

    def variance(self, points: Array) -> Array:
        """Return the variance of the values at ``points`` (n, p), in units of the noise's: (n,)."""
        ...

    def images(self, points: Array) -> Array:
        """Return the images of ``points`` (n, p) in the span, (n, M)."""
        ...

    def noise_ratio(self, points: Array) -> Array:
        """Return the noise's variance at ``points`` (n, p) in units of its mean, (n, C)."""
        ...


def varying_noise(known: Known, points: Array, errors: Array, weights: Array) -> Array | None:
    """Learn the logarithm of the noise's variance as a function in the span of the dictionary.

    With errors e_i of rows left out of the fit, ``e_i^2 / (s^2 (v(x_i) + 1 / w_i))`` is 1 on average. Its logarithm is
    fitted by ridge regression on the images of the points in the span of the dictionary, with the ridge of least
    leave-one-out error. Where the fit that leaves row i out makes e_i likelier than a constant does, by more than
    `CLEARLY` standard errors on average, the noise varies; else it is constant.

    Parameters
    ----------
    known : Known
        The posterior, with constant noise.
    points : Array
        (n, p).
    errors : Array
        ``y_i - f(x_i)`` with row i left out, (n, C).
    weights : Array
        Of the rows, (n,); 1 is typical.

    Returns
    -------
    Array or None
        The ``levels`` of a `Posterior`, (3 + M, C), or None if the noise of all outputs is constant.
    """
    count, outputs = errors.shape
    spread = known.noise * (known.variance(points) + 1.0 / weights)[:, np.newaxis]
    if count < FEWEST or not np.all(spread > 0.0):
        return None
    squares = errors**2 / spread
    logarithms = np.log(np.maximum(squares, LEAST))
    images, found = known.images(points), np.zeros((3 + len(known.root), outputs))
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
    """Return the levels with the shift at which errors before steps have the variance as their mean square.

    ``e_i^2 / (s^2 (v(x_i) + exp(s + g(x_i))))`` is 1 on average, by bisection within `SHIFTS`. Where the noise is small
    v counts beside it, and the bands of nodes with few samples would else be too wide there.
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
