"""The lengths that second-order estimators take where none are given: who matters, how many points there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.parts.bandwidths import SHARE, median_distance, relevance
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.simulations.estimators.polk_estimator import takes
from kernelswarm.simulations.estimators.second_order import KernelRegressor, width


def surface(samples: int, idle: int) -> tuple[Array, Array]:
    """Draw inputs of which the first two count, ``idle`` more do not."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(samples, 2 + idle))
    return x, np.sin(2.0 * x[:, 0]) * np.cos(x[:, 1]) + 0.1 * generator.normal(size=samples)


def lengths(x: Array, y: Array, **keys: Any) -> Any:
    # In the rows' own order, so that the sample that lengths are taken from is that of `sample` below.
    kernel = KernelRegressor(batch_size=8, shuffle=False, trend=False, **keys).fit(x, y).learner_.kernel
    return kernel.bandwidth


def test_lengths_are_those_of_the_relevance_as_wide_as_the_points_are_apart() -> None:
    x, y = surface(300, 2)
    sample = Sample(x, (y - y.mean())[:, np.newaxis], Squared(), 1, 8, lambda points: points)

    def unit(factors: Array) -> Array:
        return np.asarray(median_distance(x * factors) / factors)

    np.testing.assert_allclose(lengths(x, y, bandwidth="relevance"), SHARE * unit(relevance(sample)), rtol=1e-9)
    fitted = np.arange(len(x)) % 3 != 2  # a trial fits two thirds of the rows
    trial = relevance(replace(sample, points=x[fitted], targets=sample.targets[fitted]))
    found = unit(relevance(sample, trial))
    for size in (8, 200):
        np.testing.assert_allclose(lengths(x, y, n_components=size), width(found, size) * found, rtol=1e-9)
    assert width(found, 8) > width(found, 200)
    # What some rows show is near to what all show, and far from equal lengths.
    np.testing.assert_allclose(found, unit(relevance(sample)), rtol=0.1)
    assert found.max() > 5.0 * found.min()


def test_relevance_goes_on_from_factors_that_are_given() -> None:
    x, y = surface(300, 2)
    sample = Sample(x, y[:, np.newaxis], Squared(), 1, 8, lambda points: points)
    begun = relevance(sample, np.array([0.5, 0.5, 1.0, 1.0]))
    assert begun[:2].min() > begun[2:].max(), "one fit finds who matters, and the next one errs less by it"
    fewer = np.linspace(0, 299, 100).round().astype(int)
    few = replace(sample, points=x[fewer], targets=sample.targets[fewer])
    np.testing.assert_allclose(relevance(sample, most=100), relevance(few), rtol=0.01)  # centred apart


@pytest.mark.parametrize(("samples", "idle"), [(35, 2), (300, -1)], ids=["few rows", "one column"])
def test_one_length_serves_where_rows_are_few_or_columns_one(samples: int, idle: int) -> None:
    x, y = surface(samples, max(idle, 0))
    x = np.ascontiguousarray(x[:, : 2 + idle])
    found = lengths(x, y)
    assert found == pytest.approx(lengths(x, y, bandwidth="median"), rel=1e-12)
    np.testing.assert_allclose(found, 1.5 * SHARE * median_distance(x), rtol=1e-12)


def test_width_follows_the_distance_of_points_between_its_ends() -> None:
    four, three = np.ones(4), np.ones(3)
    assert width(four, 1000) > width(four, 2000)
    assert width(four, 300) > width(three, 300)
    np.testing.assert_allclose(width(7.0 * four, 1000), 3.2 * 1000 ** (-1 / 4))
    idle = np.array([1.0] * 4 + [1e6] * 3)
    np.testing.assert_allclose(width(idle, 1000), width(four, 1000))
    assert (width(np.ones(1), 1000), width(np.ones(50), 1000)) == (0.4, 0.6)


def test_idle_inputs_cost_little() -> None:
    x, y = surface(800, 8)
    train, test = slice(0, 500), slice(500, None)
    errors = []
    for bandwidth in ("auto", "median"):
        model = KernelRegressor(150, bandwidth=bandwidth, random_state=0).fit(x[train], y[train])
        errors.append(1.0 - model.score(x[test], y[test]))
    assert errors[0] < 0.3 * errors[1]


@pytest.mark.parametrize(
    ("kernel", "taken"), [("gaussian", True), ({}, True), ("matern", True), ("polynomial", False), ("images", False)]
)
def test_relevance_is_asked_of_kernels_that_take_it(kernel: Any, taken: bool) -> None:
    assert takes(kernel, "relevance") is taken


@pytest.mark.parametrize("kernel", [{"name": "images", "shape": [3, 4]}, "polynomial", "laplacian"])
def test_the_default_suits_every_kernel(kernel: Any) -> None:
    random = np.random.default_rng(5)
    points = random.uniform(size=(600, 12))
    targets = points[:, 3] + points[:, 7]
    model = KernelRegressor(100, kernel=kernel).fit(points[:400], targets[:400])
    assert model.score(points[400:], targets[400:]) > 0.5
