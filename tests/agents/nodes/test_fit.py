"""The fit in features is the Gaussian process on all cells, written out with dense covariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kernelswarm.agents.nodes.cells_fit import (
    DEVIATION,
    DIFFERENCES,
    EXPECTED,
    PSEUDO_COUNT,
    RATIOS,
    UNSPANNED,
    Observed,
    differences_of,
    fit,
    logits,
    noise_and_ratio,
    span,
)

PRIOR = 2.5


def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-((x[:, None, 0] - y[None, :, 0]) ** 2) / (2 * 0.2**2))


def network(seed: int, apart: float, nodes: int = 4) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Points, targets and variances of the cells of some nodes, the last of which is far from all others."""
    rng = np.random.default_rng(seed)
    xs, ys, vs = [], [], []
    for j in range(nodes):
        x = rng.uniform(size=(rng.integers(4, 8), 1))
        n = rng.integers(1, 30, size=len(x))
        y = np.sin(7 * x) + apart * np.cos(5 * x + j) + (50.0 if j == nodes - 1 else 0.0)
        xs.append(x)
        vs.append(0.3 / n)
        ys.append(y + rng.normal(size=x.shape) * np.sqrt(vs[-1])[:, None])
    return xs, ys, vs


def dense_likelihoods(x: np.ndarray, y: np.ndarray, v: np.ndarray, own: tuple[np.ndarray, ...]) -> list[float]:
    """The log likelihoods of a node's cells given the own ones, for each variance of the difference on the grid."""
    at, aims, noise = own
    gain = PRIOR * kernel(x, at) @ np.linalg.inv(PRIOR * kernel(at, at) + np.diag(noise))
    mean, rest = gain @ aims[:, 0], PRIOR * kernel(x, x) - gain @ (PRIOR * kernel(at, x)) + np.diag(v)
    spread = kernel(x, x) + UNSPANNED * np.eye(len(x))
    laws = [multivariate_normal(mean, rest + PRIOR * d * spread, allow_singular=True) for d in DIFFERENCES]
    return [law.logpdf(y[:, 0]) for law in laws]


def test_differences_are_most_probable_under_the_distribution_of_all() -> None:
    steps = len(DIFFERENCES)
    clear, open_, other = np.full(steps, -50.0), np.zeros(steps), np.full(steps, -50.0)
    clear[0], open_[20], other[40] = 0.0, 0.5, 0.0
    # What one node's cells hardly decide the others decide; a difference that is clear stays.
    found = differences_of(np.array([clear, clear, open_, other]))
    assert found.tolist() == [0.0, 0.0, 0.0, DIFFERENCES[40]]
    assert differences_of(open_[np.newaxis]).tolist() == [DIFFERENCES[20]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [0.0, 0.6])
def test_fit_is_the_gaussian_process_with_a_difference_for_each_node(seed: int, apart: float) -> None:
    xs, ys, vs = network(seed, apart)
    own, others = (xs[0], ys[0], vs[0]), zip(xs[1:], ys[1:], vs[1:], strict=True)
    differences = (PRIOR * differences_of(np.array([dense_likelihoods(*cells, own) for cells in others]))).tolist()
    share = float(np.median(differences)) / 2.0
    x, y = np.concatenate(xs), np.concatenate(ys)[:, 0]
    covariance = PRIOR * kernel(x, x) + np.diag(np.concatenate(vs))
    at = 0
    for j, points in enumerate(xs):
        own = slice(at, at := at + len(points))
        more = share if j == 0 else max(differences[j - 1] - share, 0.0)
        covariance[own, own] += more * (kernel(points, points) + (UNSPANNED * np.eye(len(points)) if j else 0.0))
    query = np.linspace(0.0, 1.0, 9)[:, None]
    cross = PRIOR * kernel(query, x)
    cross[:, : len(xs[0])] += share * kernel(query, xs[0])
    expected = cross @ np.linalg.solve(covariance, y)
    variances = PRIOR + share - np.einsum("ij,ij->i", cross, np.linalg.solve(covariance, cross.T).T)

    basis = np.linalg.cholesky(kernel(x, x) + 1e-12 * np.eye(len(x)))
    cuts = np.cumsum([len(points) for points in xs])[:-1]
    groups = [Observed(z, aims, v) for z, aims, v in zip(np.split(basis, cuts), ys, vs, strict=True)]
    found = fit(groups, 0, PRIOR, True)
    features = np.linalg.solve(basis, kernel(x, query)).T
    np.testing.assert_allclose((features @ found.mean)[:, 0], expected, rtol=0, atol=2e-4)
    covered = np.einsum("ij,ij->i", features, np.linalg.solve(found.precision, features.T).T)
    rest = (PRIOR + share) * (1.0 - (features**2).sum(axis=1))
    np.testing.assert_allclose(covered + rest, variances, rtol=0, atol=2e-4)
    assert found.prior == PRIOR + share
    assert differences[-1] > 100 * max(differences[:-1], default=0.0)  # the one that says something else


def test_without_relation_all_cells_are_of_one_function() -> None:
    xs, ys, vs = network(0, 0.0)
    x, y, v = np.concatenate(xs), np.concatenate(ys), np.concatenate(vs)
    basis = np.linalg.cholesky(kernel(x, x) + 1e-12 * np.eye(len(x)))
    found = fit([Observed(basis, y, v)], -1, PRIOR, True)
    split = fit([Observed(basis[:5], y[:5], v[:5]), Observed(basis[5:], y[5:], v[5:])], 0, PRIOR, False)
    expected = PRIOR * kernel(x, x) @ np.linalg.solve(PRIOR * kernel(x, x) + np.diag(v), y)
    for each in (found, split):
        np.testing.assert_allclose(basis @ each.mean, expected, atol=1e-6)


def test_noise_and_scale_have_the_largest_posterior() -> None:
    rng = np.random.default_rng(0)
    x, n = rng.uniform(size=(12, 1)), rng.integers(2, 20, size=12).astype(float)
    covariance = 4.0 * kernel(x, x) + np.diag(0.5 / n)
    y = rng.multivariate_normal(np.zeros(12), covariance)[:, None]
    within = np.array([0.5 * rng.chisquare(n.sum() - 12)])
    basis = np.linalg.cholesky(kernel(x, x) + 1e-12 * np.eye(12))
    noise, ratio = noise_and_ratio(Observed(basis, y, 1.0 / n), n, within)

    def score(v: float, r: float) -> float:
        likelihood = multivariate_normal(np.zeros(12), v * (kernel(x, x) / r + np.diag(1.0 / n))).logpdf(y[:, 0])
        freedom = n.sum() - 12
        return float(
            likelihood - freedom / 2 * np.log(v) - within[0] / (2 * v) - ((np.log(r) - EXPECTED) / DEVIATION) ** 2 / 2
        )

    best = score(float(noise[0]), ratio)
    place = int(np.argmin(abs(RATIOS - ratio)))
    others = [score(v, r) for v in noise[0] * np.array([0.9, 1.0, 1.1]) for r in RATIOS[place - 2 : place + 3]]
    assert best >= max(others) - 1e-9
    assert 0.3 < noise[0] < 0.8


def test_the_dictionary_spans_all_points() -> None:
    x = np.random.default_rng(0).uniform(size=(60, 1))
    rows = kernel(x, x)
    chosen, columns = span(lambda m: rows[m], np.diag(rows), 60, 1e-6)
    np.testing.assert_array_equal(columns, rows[:, chosen])
    inside = rows[:, chosen] @ np.linalg.solve(rows[np.ix_(chosen, chosen)], rows[chosen])
    assert np.diag(rows - inside).max() <= 1.01e-6
    assert (
        len(chosen) < 30
        and len(span(lambda m: rows[m], np.diag(rows), 5, 0.0)[0]) == 5
        and list(chosen) == sorted(chosen)
    )


def test_logits_approximate_the_logarithm_of_gamma_variables() -> None:
    shares, weights = np.array([[0.5, 0.25, 0.25]]), np.array([400.0])
    mean, variance = logits(shares, weights)
    drawn = np.log(np.random.default_rng(0).gamma(shares[0] * 400 + PSEUDO_COUNT, size=(200_000, 3)))
    np.testing.assert_allclose(mean[0], drawn.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(variance[0], drawn.var(axis=0), rtol=0.03)
