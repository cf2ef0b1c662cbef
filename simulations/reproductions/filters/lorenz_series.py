"""The Lorenz series of the Kernel Adaptive Filtering Toolbox, and the published recursion of KRLS on it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Kernel

Array = npt.NDArray[np.float64]

STEP = 0.01
START = (10.0, 7.0, 35.0)
LENGTH = 10_001
EMBEDDING = 6
IGNORED = 1000
"""The samples before those whose errors count, as in the toolbox's demo."""


def series(length: int = LENGTH) -> Array:
    """Compute z of the Lorenz equations by Euler's method, with six decimals: the numbers of ``data/lorenz.dat``.

    The series is chaotic: only this order of the operations gives the toolbox's numbers to the end. No solver of a
    library takes them in that order.
    """
    x, y, z = START
    found = [z]
    for _ in range(length - 1):
        x, y, z = (
            x + STEP * (10.0 * y - 10.0 * x),
            y + STEP * (28.0 * x - x * z - y),
            z + STEP * (x * y - 8.0 / 3.0 * z),
        )
        found.append(z)
    return np.round(found, 6)


def embedded(values: Array, length: int = EMBEDDING) -> tuple[Array, Array]:
    """Return the last values before each, newest first, with 0 where there are none, (n, L); and the values, (n, 1)."""
    points = np.zeros((len(values) - 1, length))
    for delay in range(length):
        points[delay:, delay] = values[: len(points) - delay]
    return points, values[1:, None]


def decibels(squared: Array) -> float:
    """Return the mean of the squared errors that count, in dB."""
    return float(10.0 * np.log10(np.mean(squared[IGNORED:])))


def published_recursion(kernel: Kernel, points: Array, targets: Array, dependency: float) -> tuple[Array, int]:
    """Run Engel, Mannor and Meir 2004, table 1, as it is printed; returns the squared errors of prediction, and M."""
    dictionary, inverse = points[:1], 1.0 / kernel.cross(points[:1], points[:1])
    certainty, weights = np.ones((1, 1)), inverse @ targets[:1]
    squared = np.empty(len(points))
    squared[0] = targets[0, 0] ** 2
    for n in range(1, len(points)):
        row = kernel.cross(dictionary, points[n : n + 1])[:, 0]
        share = inverse @ row
        itself = float(kernel.cross(points[n : n + 1], points[n : n + 1])[0, 0])
        delta = itself - float(row @ share)
        error = targets[n] - row @ weights
        squared[n] = error[0] ** 2
        if delta > dependency:
            size, corner = len(dictionary) + 1, np.append(share, -1.0)
            grown = np.zeros((2, size, size))
            grown[0, :-1, :-1], grown[1, :-1, :-1] = inverse, certainty
            grown[1, -1, -1] = 1.0
            inverse, certainty = grown[0] + np.outer(corner, corner) / delta, grown[1]
            weights = np.vstack([weights - np.outer(share, error) / delta, error / delta])
            dictionary = np.vstack([dictionary, points[n]])
        else:
            gain = certainty @ share / (1.0 + share @ certainty @ share)
            certainty = certainty - np.outer(gain, share @ certainty)
            weights = weights + np.outer(inverse @ gain, error)
    return squared, len(dictionary)
