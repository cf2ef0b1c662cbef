"""The weights of an implicit step solve its system, whatever way they are computed."""

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.implicit_systems import SMALL, augmented_of, eliminate
from kernelswarm.agents.learners.descent import implicit_weights


def system(size, seed, stiffest=50.0):
    """Inner products of points, some nearly the same, with rates and curvatures of which some are 0."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(size, 2))
    points[size // 2 :] = points[: size - size // 2] + 1e-4 * generator.normal(size=(size - size // 2, 2))
    gram = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))
    rates = generator.uniform(0.01, 2.0, size)
    stiffness = np.where(generator.random(size) < 0.3, 0.0, generator.uniform(0.0, stiffest, size))
    return gram, rates, stiffness, generator.normal(size=(size, 3))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 15, SMALL])
def test_elimination_without_pivoting_solves_as_accurately_as_lapack(size):
    for seed in range(20):
        gram, rates, stiffness, right = system(size, seed)
        matrix = np.eye(size) + stiffness[:, None] * gram * rates
        augmented = augmented_of(size, 3)
        augmented[:, :size], augmented[:, size : size + 3] = matrix, right
        eliminate(augmented, 3)
        found = augmented[:, size : size + 3]
        wanted = np.linalg.solve(matrix, right)
        errors = [np.abs(matrix @ solution - right).max() for solution in (found, wanted)]
        assert errors[0] <= 8.0 * errors[1] + 1e-13 * np.abs(matrix).max()
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1), (4, 3), (SMALL, 1), (30, 30)], ids=str)
def test_weights_solve_the_implicit_system(sizes):
    total = sum(sizes)
    gram, _, _, gradients = system(total, 5)
    eta, curvatures = 0.7, [2.0 + k for k in range(len(sizes))]
    ends = np.cumsum(sizes)
    parts = np.split(gradients, ends[:-1])
    weights = implicit_weights(eta, parts, curvatures, gram)
    rates = np.concatenate([np.full(size, eta / size) for size in sizes])
    stiffness = np.repeat(curvatures, sizes)
    # -rates g with (I + diag(r) K diag(rates)) g = g_explicit
    g = -weights / rates[:, None]
    np.testing.assert_allclose(g + stiffness[:, None] * (gram @ (rates[:, None] * g)), gradients, rtol=1e-9, atol=1e-11)
