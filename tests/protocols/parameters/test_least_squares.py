"""Sums of samples, and what is solved from them, against matrices of all samples."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.protocols.parameters.least_squares import add, decompose, empty, factor, solve

UPPER = np.triu_indices(6)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("forgetting", [1.0, 0.7])
def test_sums_of_batches_are_those_of_all_samples(outputs: int, forgetting: float) -> None:
    generator = np.random.default_rng(0)
    batches = [(generator.normal(size=(n, 6)), generator.normal(size=(n, outputs))) for n in (4, 0, 1, 7)]
    sums = empty(6, outputs)
    for features, targets in batches:
        add(sums, features, targets, forgetting)
    ages = [2, None, 1, 0]  # a round without samples forgets nothing
    weights = np.concatenate(
        [np.full(len(z), 0.0 if age is None else forgetting**age) for (z, _), age in zip(batches, ages, strict=True)]
    )
    z, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    gram, products = (z.T * weights) @ z, (z.T * weights) @ y
    wanted = np.concatenate([gram[UPPER], products.reshape(-1), [weights.sum()]])
    np.testing.assert_allclose(sums, wanted, rtol=1e-12, atol=1e-13)
    found, ridge = products.copy(), np.linspace(0.1, 0.6, 6)
    solve(sums, 0.5, ridge, found.reshape(-1))
    np.testing.assert_allclose(found, np.linalg.solve(0.5 * gram + np.diag(ridge), products), rtol=1e-9, atol=1e-11)


def test_sums_received_with_noise_are_solved_as_the_nearest_of_samples() -> None:
    generator = np.random.default_rng(0)
    directions, _ = np.linalg.qr(generator.normal(size=(6, 6)))
    values, right = np.array([-2.0, -0.1, 0.0, 0.5, 1.0, 3.0]), generator.normal(size=(6, 2))
    triangle = (directions @ np.diag(values) @ directions.T)[UPPER]
    found = right.copy()
    solve(2.0 * triangle, 0.5, np.full(6, 0.3), found.reshape(-1))
    nearest = directions @ np.diag(np.maximum(values, 0.0)) @ directions.T
    np.testing.assert_allclose(found, np.linalg.solve(nearest + 0.3 * np.eye(6), right), rtol=1e-7, atol=1e-10)


def test_weights_that_nothing_is_known_of_are_0() -> None:
    right = np.ones(6)
    solve(np.zeros(21), 1.0, np.zeros(6), right)
    np.testing.assert_array_equal(right, 0.0)


def test_decompositions_read_the_upper_triangle() -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(6, 9))
    matrix = rows @ rows.T
    above = np.triu(matrix) + np.tril(np.full((6, 6), np.nan), -1)
    factored = above.copy()
    assert factor(factored)
    upper = np.triu(factored)
    np.testing.assert_allclose(upper.T @ upper, matrix, rtol=1e-10)
    assert np.isnan(factored[np.tril_indices(6, -1)]).all()
    vectors, values = above.copy(), np.empty(6)
    decompose(vectors, values)
    np.testing.assert_allclose((vectors.T * values) @ vectors, matrix, rtol=1e-10)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), rtol=1e-10)
    assert not factor(matrix - 2.0 * values[0] * np.eye(6))
