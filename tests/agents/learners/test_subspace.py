"""Online kernel feature extraction against its definition, in feature spaces that can be written out."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners import batch as batch_subspace
from kernelswarm.agents.learners.subspace import Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian, Linear, Polynomial
from kernelswarm.agents.parts.subspace_rules import MovingAverage, Normalized, Power, Threshold

UPDATES = pytest.mark.parametrize("update", ["nonparametric", "parametric"])
LAMBDA = 0.03


def plane(samples, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, 2))


def monomials(points):
    """The feature map of (x.y + 1)^2 in the plane, (n, 6)."""
    x, y = points.T
    return np.stack([x * x, y * y, np.sqrt(2) * x * y, np.sqrt(2) * x, np.sqrt(2) * y, np.ones(len(x))], axis=1)


EXPLICIT = pytest.mark.parametrize(
    ("kernel", "phi"),
    [(Polynomial(degree=2), monomials), (Linear(), lambda points: points)],
    ids=["polynomial", "linear"],
)


def followed(points, kernel=None, **keys):
    subspace = Subspace(kernel or Gaussian(0.7), Tracking(**{"rank": 4, "regularization": LAMBDA, **keys}), 2)
    visits = [subspace.visit(point[None]) for point in points]
    return subspace, visits


@EXPLICIT
@UPDATES
def test_projections_and_fits_are_least_squares_in_feature_space(kernel, phi, update):
    subspace, _ = followed(plane(40), kernel, rank=2, update=update, step=Power(0.01, 10.0, 1.0))
    fresh = plane(15, 1)
    basis = phi(subspace.points).T @ subspace.factor  # L, its columns written out
    for point, q, fit in zip(fresh, subspace.projections(fresh), subspace.fits(fresh), strict=True):
        # || phi - L q ||^2 + lambda ||q||^2 as one least-squares problem
        stacked = np.concatenate([basis, np.sqrt(LAMBDA) * np.eye(2)])
        wanted = np.linalg.lstsq(stacked, np.concatenate([phi(point[None])[0], np.zeros(2)]), rcond=None)[0]
        np.testing.assert_allclose(q, wanted, rtol=1e-7, atol=1e-10)
        assert fit == pytest.approx(np.sum((phi(point[None])[0] - basis @ wanted) ** 2), rel=1e-7, abs=1e-9)


@EXPLICIT
def test_inner_products_of_features_are_those_of_the_projections(kernel, phi):
    subspace, _ = followed(plane(40), kernel, rank=2, step=Power(0.01, 10.0, 1.0))
    fresh = plane(15, 1)
    z, images = subspace.features(fresh), subspace.projections(fresh) @ subspace.factor.T @ phi(subspace.points)
    np.testing.assert_allclose(z @ z.T, images @ images.T, rtol=1e-8, atol=1e-10)
    # and those of the published features K^(1/2) A q
    values, vectors = np.linalg.eigh(subspace.gram)
    published = subspace.projections(fresh) @ subspace.factor.T @ vectors * np.sqrt(np.maximum(values, 0.0))
    np.testing.assert_allclose(z @ z.T, published @ published.T, rtol=1e-6, atol=1e-9)


def test_nonparametric_step_is_the_gradient_of_the_samples_objective():
    mu = 0.2
    before, _ = followed(plane(9), step=Power(mu, 1.0, 0.0))
    after, _ = followed(plane(9), step=Power(mu, 1.0, 0.0))
    point = plane(1, 5)
    q = before.projections(point)[0]
    after.visit(point)
    everything = np.concatenate([before.points, point])
    gram = before.kernel.cross(everything, everything)
    start = np.concatenate([before.factor, np.zeros((1, 4))])

    def objective(factor):
        fit = gram[-1, -1] - 2.0 * gram[-1] @ factor @ q + q @ factor.T @ gram @ factor @ q
        return 0.5 * fit + LAMBDA / (2.0 * 10) * np.trace(factor.T @ gram @ factor)

    gradient = np.zeros_like(start)
    for i, c in np.ndindex(*start.shape):
        bump = np.zeros_like(start)
        bump[i, c] = 1e-5
        gradient[i, c] = (objective(start + bump) - objective(start - bump)) / 2e-5
    np.testing.assert_allclose((start - after.factor) / mu, gradient, atol=1e-8)


@EXPLICIT
def test_parametric_step_is_the_gradient_in_the_basis_itself(kernel, phi):
    mu = 0.01
    points, point = plane(9), plane(1, 5)
    subspace, _ = followed(points, kernel, rank=2, update="parametric", step=Power(mu, 1.0, 0.0))
    basis, q = phi(subspace.points).T @ subspace.factor, subspace.projections(point)[0]
    gradient = -np.outer(phi(point)[0] - basis @ q, q) + LAMBDA / 10 * basis
    subspace.visit(point)
    np.testing.assert_allclose(phi(subspace.points).T @ subspace.factor, basis - mu * gradient, atol=1e-10)


@UPDATES
@pytest.mark.parametrize("recency", [1.0, 0.7, 1e-12])
def test_what_is_carried_along_is_what_it_stands_for(update, recency):
    for budget_size in (None, 7):
        subspace, _ = followed(plane(300), update=update, budget_size=budget_size, recency=recency)
        gram = subspace.kernel.cross(subspace.points, subspace.points)
        assert subspace.order == (7 if budget_size else 300)
        np.testing.assert_allclose(subspace.gram, gram, atol=1e-14)
        np.testing.assert_allclose(subspace.inner, subspace.factor.T @ gram @ subspace.factor, rtol=1e-8, atol=1e-8)


@UPDATES
@pytest.mark.parametrize(
    ("recency", "kernel"),
    [(1.0, Gaussian(0.7)), (1.0, Polynomial(2, 0.5, 0.2)), (0.8, Polynomial(2, 0.5, 0.2)), (1e-12, Gaussian(0.7))],
    ids=repr,
)
def test_the_point_that_goes_distorts_the_subspace_least_by_its_age(update, recency, kernel):
    ages, budget_size = [0] * 6, 6
    points = plane(60)
    for n in range(budget_size, len(points)):
        short, _ = followed(points[:n], kernel, update=update, budget_size=budget_size, recency=recency)
        kept = [tuple(point) for point in short.points]
        rows = naive_update(short, points[n], update)
        ages = [age + 1 for age in [*ages, 0]]  # OKFEB algorithm 5: all of them, the new one too
        everything = np.concatenate([short.points, points[n : n + 1]])
        gram, distortions = kernel.cross(everything, everything), []
        for i in range(len(rows)):  # eq. 24
            left = np.delete(np.arange(len(rows)), i)
            both = np.sum(rows[left] * (gram[left] @ rows))
            alone = np.sum(rows[left] * (gram[np.ix_(left, left)] @ rows[left]))
            distortions.append(np.sum(rows * (gram @ rows)) - 2.0 * both + alone)
        chosen = int(np.argmin(recency ** np.array(ages, dtype=float) * np.sqrt(np.maximum(distortions, 0.0))))
        short.visit(points[n : n + 1])
        kept.append(tuple(points[n]))
        del kept[chosen], ages[chosen]
        assert [tuple(point) for point in short.points] == kept


def naive_update(subspace, point, update):
    """The rows of A after the update of a sample, before any removal."""
    everything = np.concatenate([subspace.points, point[None]])
    gram = subspace.kernel.cross(everything, everything)
    q = subspace.projections(point[None])[0]
    mu, decay = 1.0 / np.linalg.norm(q), LAMBDA / (subspace.samples + 1)
    if update == "parametric":
        kept = subspace.factor - mu * subspace.factor @ (np.outer(q, q) + decay * np.eye(4))
        return np.concatenate([kept, mu * q[None]])
    start = np.concatenate([subspace.factor, np.zeros((1, 4))])
    return start - mu * (gram @ start @ np.outer(q, q) - np.outer(gram[-1], q) + decay * gram @ start)


@pytest.mark.parametrize("censoring", [Threshold(0.3), MovingAverage(5), MovingAverage(8, 1.5)], ids=str)
def test_samples_that_fit_well_are_left_out(censoring):
    points, fits = plane(80), []
    subspace = Subspace(Gaussian(0.7), Tracking(4, LAMBDA, censoring=censoring), 2)
    for n, point in enumerate(points):
        fit = float(subspace.fits(point[None])[0])
        before = subspace.order
        visit = subspace.visit(point[None])
        assert visit.fit == pytest.approx(fit, rel=1e-9)
        if n < 4:  # the first points are the basis, whatever their fit
            assert visit.stored
            continue
        if isinstance(censoring, Threshold):
            bound = censoring.threshold
        else:
            last = fits[-censoring.window :]
            bound = censoring.factor * sum(last) / len(last) if last else 0.0
        assert visit.stored == (fit >= bound) == (subspace.order == before + 1)
        fits.append(visit.fit)
    assert 4 < subspace.order < 80
    assert subspace.samples == 80


@pytest.mark.parametrize(("start", "orders"), [("rank", [4, 4, 4]), ("budget", [4, 9, 9])])
def test_samples_are_left_out_from_a_basis_or_from_a_full_budget_on(start, orders):
    points = plane(30)
    keys = {"budget_size": 9, "censoring": Threshold(2.0), "censoring_from": start}  # no sample fits as badly
    assert [followed(points[:count], **keys)[0].order for count in (4, 9, 30)] == orders


def test_the_published_start_has_rank_one_but_for_rounding_and_ours_has_not():
    points = plane(5)
    factor = np.ones((1, 3))  # OKFEB algorithms 2 and 3: the first point alone, A = 1
    for n in range(1, 5):
        gram = Gaussian(0.7).cross(points[: n + 1], points[: n + 1])
        inner = factor.T @ gram[:n, :n] @ factor
        q = np.linalg.solve(inner + LAMBDA * np.eye(3), factor.T @ gram[:n, n])
        start = np.concatenate([factor, np.zeros((1, 3))])
        step = gram @ start @ np.outer(q, q) - np.outer(gram[n], q) + LAMBDA / (n + 1) * gram @ start
        factor = start - step / np.linalg.norm(q)
    assert np.linalg.matrix_rank(factor, tol=1e-8) == 1
    assert np.linalg.matrix_rank(followed(points, rank=3)[0].factor, tol=0.1) == 3


def test_equal_points_do_not_make_the_first_basis():
    points = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    subspace, visits = followed(points, rank=3)
    np.testing.assert_array_equal(subspace.points, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert [visit.stored for visit in visits] == [True, False, True, False, False, True]


def test_a_far_point_does_not_upset_the_subspace():
    subspace, _ = followed(plane(50), budget_size=12)
    before = subspace.fits(plane(40, 1)).mean()
    subspace.visit(np.array([[6.0, 6.0]]))  # kappa is 1e-16 there: 1 / ||q|| has no bound
    subspace.visit(np.array([[60.0, 60.0]]))  # and here it is 1 / 0
    assert np.isfinite(subspace.factor).all() and subspace.fits(plane(40, 1)).mean() < 1.5 * before


def test_batch_objective_never_rises_and_ends_at_its_least_value():
    points = plane(80)
    for bandwidth, rank in ((1.0, 5), (4.0, 3)):
        gram = Gaussian(bandwidth).cross(points, points)
        found = batch_subspace.extract(gram, rank, 0.05, np.random.default_rng(0), 2000)
        assert np.all(np.diff(found.objectives) <= 1e-15)
        assert found.objectives[-1] == pytest.approx(batch_subspace.minimum(gram, rank, 0.05), rel=1e-4)
        value = batch_subspace.objective(gram, found.factor, found.projections, 0.05)
        assert value == found.objectives[-1]


def test_batch_objective_is_that_of_feature_space():
    points, generator = plane(20), np.random.default_rng(3)
    factor, projections, phi = generator.normal(size=(20, 2)), generator.normal(size=(20, 2)), monomials(plane(20))
    basis = phi.T @ factor
    wanted = np.sum((phi - projections @ basis.T) ** 2) + 0.1 * (np.sum(basis**2) + np.sum(projections**2))
    gram = Polynomial(degree=2).cross(points, points)
    assert batch_subspace.objective(gram, factor, projections, 0.1) == pytest.approx(wanted / 40)


@UPDATES
def test_online_fit_reaches_the_batch_fit(update):
    points, fresh = plane(600), plane(200, 1)
    step = Normalized() if update == "nonparametric" else Power(0.2, 300.0, 1.0)
    subspace, _ = followed(points, Gaussian(2.0), rank=6, regularization=1e-3, update=update, step=step)
    kernel = subspace.kernel
    batch = batch_subspace.extract(kernel.cross(points, points), 6, 1e-3, np.random.default_rng(0), 400).factor
    products = kernel.cross(fresh, points) @ batch
    inner = batch.T @ kernel.cross(points, points) @ batch
    q = np.linalg.solve(inner + 1e-3 * np.eye(6), products.T).T
    fit = np.mean(1.0 - 2.0 * np.sum(products * q, axis=1) + np.sum((q @ inner) * q, axis=1))
    assert fit < subspace.fits(fresh).mean() < 1.3 * fit
    start, _ = followed(points[:6], Gaussian(2.0), rank=6, regularization=1e-3)
    assert subspace.fits(fresh).mean() < 0.5 * start.fits(fresh).mean()


def test_kernel_mismatch_is_that_of_the_matrices():
    points = plane(30)
    subspace, _ = followed(points, budget_size=8)
    gram, z = subspace.kernel.cross(points, points), subspace.features(points)
    wanted = np.sqrt(sum((gram[i, j] - z[i] @ z[j]) ** 2 for i in range(30) for j in range(30))) / 30
    assert batch_subspace.mismatch(gram, z) == pytest.approx(wanted)
