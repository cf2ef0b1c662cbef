"""Targets of which few decide the variance: said of outliers and skewed data, not of the usual distributions."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.arrays import Array
from kernelswarm.simulations.data.suspicious import far_targets

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.normal(size=4000),
        RANDOM.uniform(size=4000),
        RANDOM.exponential(size=4000),
        RANDOM.laplace(size=4000),
        np.exp(RANDOM.normal(size=4000)),
        RANDOM.poisson(0.3, size=4000).astype(float),
        RANDOM.standard_t(5, size=4000),
        np.ones(4000),
        np.repeat([0.0, 1.0], [3990, 10]),
    ],
)
def test_the_usual_distributions_are_left_in_peace(values: Array) -> None:
    assert far_targets(["y"], values[:, np.newaxis]) == ""


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_outliers_are_counted_in_every_unit_and_their_column_is_named(unit: float) -> None:
    values = np.random.default_rng(1).normal(size=(1000, 2))
    values[:20, 1] = 100.0
    text = far_targets(["a", "b"], unit * (values + 7.0))
    assert text.startswith('2.0% of the values of "b" are far from all others and make up 9')


def test_cauchy_noise_and_long_tails_are_said() -> None:
    for values in (RANDOM.standard_cauchy(4000), np.exp(3.0 * RANDOM.normal(size=4000))):
        assert "of its variance" in far_targets(["y"], values[:, np.newaxis])
