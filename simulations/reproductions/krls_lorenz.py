"""One-step prediction of the Lorenz series by kernel adaptive filters, beside the toolbox's published errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, Samples
from kernelswarm.simulations.reproductions.sheets import Row, Sheet, rows, tables
from kernelswarm.simulations.reproductions.walks import predicted

SHEET = Sheet("krls-lorenz", globals())


# The Lorenz series of the Kernel Adaptive Filtering Toolbox, and the published recursion of KRLS on it.


STEP = 0.01
START = (10.0, 7.0, 35.0)
LENGTH = 10_001
EMBEDDING = 6
IGNORED = 1000
"""The samples before errors count, as in the toolbox's demo."""


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


def embedded(values: Array, length: int = EMBEDDING) -> Samples:
    """Return the L values before each, newest first, padded with 0, (n, L); and the values, (n, 1)."""
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


KERNEL = Gaussian(32.0)
DEPENDENCIES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
WINDOW = 200
"""Samples over which the learning curves are means."""


class Prediction(NamedTuple):
    """What a filter came to: the squared error of each prediction, and the points of its dictionary at the end."""

    squared: Array
    order: int

    @property
    def words(self) -> str:
        """Its error and size."""
        return f"{decibels(self.squared):.2f} dB, M = {self.order}"


def reproduce(request: Request) -> Reproduction:
    """Kernel filters on the Lorenz series, as in the Kernel Adaptive Filtering Toolbox: errors of KRLS and others."""
    points, targets = embedded(series())
    dependencies = DEPENDENCIES[:4] if request.quick else DEPENDENCIES
    settings = rows("krls-lorenz")[:2] if request.quick else rows("krls-lorenz")
    share = len(settings) / (len(settings) + len(dependencies))
    found = {
        setting.label: Prediction(*predicted(setting.learner, points, targets, setting.most or len(points)))
        for setting in request.part(0.0, share).each(settings, lambda setting: setting.label)
    }
    ours, printed = [], []
    for dependency in request.part(share, 1.0).each(dependencies, lambda dependency: f"KRLS, nu = {dependency:g}"):
        ours.append(Prediction(*predicted(_krls(dependency), points, targets)))
        with np.errstate(all="ignore"):  # it diverges
            printed.append(Prediction(*published_recursion(KERNEL, points, targets, dependency)))
    claims = [judged(row, found[row.label]) for row in settings]
    claims += [
        SHEET.claim("recursion", nu=dependency, words=mine.words, printed=theirs.words)
        for dependency, mine, theirs in zip(dependencies, ours, printed, strict=True)
    ]
    arrays = {f"squared_{label}": prediction.squared for label, prediction in found.items()}
    arrays["dependency"] = np.array(dependencies)
    for name, predictions in (("krls", ours), ("table_1", printed)):
        arrays[f"{name}_decibels"] = np.array([decibels(each.squared) for each in predictions])
        arrays[f"{name}_order"] = np.array([float(each.order) for each in predictions])
    said = SHEET.given(
        arrays,
        {f"mean_{label}": windowed(each.squared) for label, each in found.items()},
        {f"{name}_shown": np.clip(arrays[f"{name}_decibels"], None, 20.0) for name in ("krls", "table_1")},
        ends=WINDOW * np.arange(1, len(points) // WINDOW + 1),
        strokes={label: tables(SHEET.name)["strokes"][label] for label in found},
        limits=(float(arrays["krls_decibels"].min()) - 5.0, 22.0),
    )
    return said.found(claims, arrays)


def judged(row: Row, found: Prediction) -> Claim:
    """Set a filter's error beside the demo's."""
    holds = None if row.error is None else abs(decibels(found.squared) - row.error) <= row.near
    return SHEET.claim("rest" if holds is None else "demo", holds, row=vars(row), words=found.words)


def windowed(squared: Array) -> Array:
    """Return the means over windows, in dB."""
    means: Array = 10.0 * np.log10(squared.reshape(-1, WINDOW).mean(axis=1))
    return means


def _krls(dependency: float) -> Krls:
    return Krls(kernel=KERNEL, step_size=Constant(0.5), ridge=0.0, dependency=dependency)
