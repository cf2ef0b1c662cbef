"""The Lorenz series is the toolbox's, and the published recursion of KRLS on it is the one that is compared with."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.reproductions.krls_lorenz import decibels, embedded, published_recursion, series


def test_the_series_begins_and_ends_as_the_published_file() -> None:
    found = series()
    assert len(found) == 10_001
    np.testing.assert_array_equal(found[:5], [35.0, 34.766667, 34.443866, 34.040837, 33.568386])
    np.testing.assert_array_equal(found[-4:], [12.312261, 13.304219, 14.489282, 15.888197])


def test_each_value_is_predicted_from_those_before_it() -> None:
    points, targets = embedded(np.arange(1.0, 6.0), 3)
    np.testing.assert_array_equal(points, [[1, 0, 0], [2, 1, 0], [3, 2, 1], [4, 3, 2]])
    np.testing.assert_array_equal(targets[:, 0], [2, 3, 4, 5])


def test_only_errors_after_the_first_thousand_count() -> None:
    assert decibels(np.append(np.full(1000, 5.0), np.full(10, 0.01))) == -20.0


def test_the_published_recursion_predicts_as_least_squares_on_its_projections_does() -> None:
    points, targets = embedded(series(60))
    kernel = Gaussian(32.0)
    squared, order = published_recursion(kernel, points, targets, 0.05)
    assert 3 <= order < 20
    dictionary, shares = points[:0], np.zeros((0, 0))
    for n, point in enumerate(points):
        if n:
            weights = np.linalg.lstsq(shares @ kernel.cross(dictionary, dictionary), targets[:n], rcond=None)[0]
            found = kernel.cross(point[None], dictionary) @ weights
            assert np.isclose(squared[n], (found - targets[n]).item() ** 2, rtol=1e-4, atol=1e-9)
        row = kernel.cross(dictionary, point[None])
        inside = np.linalg.solve(kernel.cross(dictionary, dictionary), row) if n else row
        enters = 1.0 - (row.T @ inside).item() > 0.05
        dictionary = np.vstack([dictionary, point]) if enters else dictionary
        shares = np.pad(shares, ((0, 1), (0, int(enters))))
        shares[-1] = np.append(np.zeros(len(dictionary) - 1), 1.0) if enters else inside[:, 0]
    assert len(dictionary) == order
