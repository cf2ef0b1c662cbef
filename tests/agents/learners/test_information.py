"""What is known of the samples, as a triangle: rows come in, points come and go, as the normal equations say."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.learners import blocked_second_order, information
from kernelswarm.agents.learners.observations import Moved, exchange
from kernelswarm.agents.parts.kernels import Gaussian


@pytest.mark.parametrize("size", [1, 2, 7])
def test_rows_are_rotated_in_and_columns_out_as_the_normal_equations_say(size):
    random = np.random.default_rng(size)
    order, outputs, capacity = 33, 3, 40
    rows, aims = random.normal(size=(90, order)), random.normal(size=(90, outputs))
    rows[:, 3] *= 1e-160  # points so far away that squares of kernel values underflow
    for blocked in (False, True):
        root, moments, product = np.zeros((capacity, capacity)), np.zeros((capacity, outputs)), np.empty(capacity)
        root[:order, :order] = 0.1 * np.eye(order)
        for start in range(0, 90, size):
            part, wanted = rows[start : start + size].copy(), aims[start : start + size].copy()
            if blocked:
                blocked_second_order.absorb(root, moments, part, wanted)
            else:
                information.absorb(root, moments, order, part, wanted, product)
        kept = np.array([0.0, 1, 2, 5, 6, 9, *range(12, 30), 32])
        if blocked:
            left = np.empty((order - len(kept), len(kept))), np.empty((order - len(kept), outputs))
            blocked_second_order.take_out(root, moments, kept.astype(np.int64), order, *left)
            blocked_second_order.absorb(root, moments, *left)
        else:
            information.keep(root, moments, order, kept, len(kept), product)
        chosen = rows[:, kept.astype(int)]
        system = chosen.T @ chosen + 0.01 * np.eye(len(kept))
        triangle = root[: len(kept), : len(kept)]
        assert np.allclose(triangle.T @ triangle, system, rtol=1e-12, atol=1e-12)
        assert np.array_equal(triangle, np.triu(triangle))
        assert (np.diag(triangle) > 0.0).all()
        assert not root[len(kept) :].any()
        assert not root[:, len(kept) :].any()
        found = np.empty((capacity, outputs))
        (blocked_second_order if blocked else information).solve(root, moments, len(kept), found)
        assert np.allclose(found[: len(kept)], np.linalg.solve(system, chosen.T @ aims), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("order", "outputs"), [(8, 1), (24, 10), (61, 1), (300, 2)])
@pytest.mark.parametrize("size", [1, 9, 70])
def test_many_rows_at_once_give_what_the_normal_equations_say(order, outputs, size):
    random = np.random.default_rng(order + size)
    root, moments = np.zeros((order + 5, order + 5)), np.zeros((order + 5, outputs))
    root[:order, :order] = np.triu(random.normal(size=(order, order)) + 9.0 * np.eye(order))
    moments[:order] = random.normal(size=(order, outputs))
    rows, aims = random.normal(size=(size, order)), random.normal(size=(size, outputs))
    rows[:, 3] = 0.0  # nothing to reflect
    rows[:, 5] *= 1e-160  # nor here, where squares underflow
    rows[0] *= 1e-140
    triangle, sums = root[:order, :order].copy(), moments[:order].copy()
    system, right = triangle.T @ triangle + rows.T @ rows, triangle.T @ sums + rows.T @ aims
    blocked_second_order.absorb(root, moments, rows.copy(), aims.copy())
    found = root[:order, :order]
    assert np.array_equal(found, np.triu(found))
    assert (np.diag(found)[np.diag(triangle) > 0.0] > 0.0).all()
    assert np.allclose(found.T @ found, system, rtol=1e-11, atol=1e-10)
    assert np.allclose(found.T @ moments[:order], right, rtol=1e-11, atol=1e-10)
    assert not root[order:].any()
    assert not moments[order:].any()


@pytest.mark.parametrize("gone", [1, 2, 4])
@pytest.mark.parametrize("coming", [1, 3])
def test_points_that_come_inherit_what_is_known_of_those_that_go(gone, coming):
    random = np.random.default_rng(10 * gone + coming)
    kernel, capacity, ridge = Gaussian(0.7), 16, 0.3
    old, new = random.uniform(-1.0, 1.0, size=(8, 2)), random.uniform(-1.0, 1.0, size=(coming, 2))
    # Functions in the span of the old points, as sections of samples: their values at points are features.
    sections, aims = random.normal(size=(20, 8)), random.normal(size=(20, 2))
    features = sections @ kernel.cross(old, old)
    root, moments = np.zeros((capacity, capacity)), np.zeros((capacity, 2))
    root[:8, :8] = np.linalg.cholesky(features.T @ features + ridge * kernel.cross(old, old)).T
    moments[:8] = np.linalg.solve(root[:8, :8].T, features.T @ aims)
    leaving = np.sort(random.permutation(8)[:gone])
    kept = np.setdiff1d(np.arange(8), leaving)
    points = np.vstack([old[kept], new])
    order, gram = len(points), kernel.cross(points, points)
    factor = np.zeros((capacity, capacity))
    factor[:order, :order] = np.linalg.inv(np.linalg.cholesky(gram))
    memory, product = np.empty((gone + coming) * (capacity + gone + coming + 1)), np.empty(capacity)
    origins = np.array([*kept, *range(8, 8 + coming)], dtype=float)
    removed, cross, own = kernel.cross(old[leaving], old), kernel.cross(new, old), kernel.cross(new, new)
    features = sections @ kernel.cross(old, points)
    rows, wanted = random.normal(size=(5, order)), random.normal(size=(5, 2))
    for blocked in (True, False):
        triangle, sums = root.copy(), moments.copy()
        system, right = features.T @ features + ridge * gram, features.T @ aims
        if blocked:  # with samples in the same reflections
            projections = np.linalg.solve(kernel.cross(old, old), cross.T).T
            rest = own - projections @ cross.T
            places = np.array([*kept, *range(8, 8 + coming)])
            known = np.arange(coming), projections, rest, own, cross, ridge
            fresh, asked, left = blocked_second_order.follow(triangle, sums, places, 8, *known)
            assert left == gone
            assert np.array_equal(fresh[gone:], kernel.cross(new, points))
            blocked_second_order.absorb(triangle, sums, fresh[:gone].copy(), asked[:gone].copy())
            blocked_second_order.absorb(triangle, sums, rows.copy(), wanted.copy())
            system, right = system + rows.T @ rows, right + rows.T @ wanted
        else:
            work = np.concatenate([origins, np.empty(capacity - len(origins)), product])
            moved = Moved(work, factor, 8, order, len(kept), cross, own)
            exchange(Information(triangle, sums, np.zeros((3, 2))), moved, removed, ridge, memory)
        assert not np.tril(triangle, -1).any()
        assert not triangle[:, order:].any()
        assert not sums[order:].any()
        triangle = triangle[:order, :order]
        assert np.allclose(triangle.T @ triangle, system, rtol=1e-10, atol=1e-10)
        assert np.allclose(triangle.T @ sums[:order], right, rtol=1e-10, atol=1e-10)


def test_a_point_that_lies_in_the_span_of_the_others_to_rounding_leaves_the_triangle_regular():
    random = np.random.default_rng(0)
    root, moments = np.zeros((9, 9)), np.zeros((9, 1))
    root[:7, :7] = np.triu(random.uniform(1.0, 2.0, size=(7, 7)))
    projections = np.eye(7)[[3]]
    blocked_second_order.append(root, moments, 7, projections, np.array([[-1e-15]]), np.array([4.0]), 0.5)
    features = root[:8, :8].T @ root[:8, :8]
    assert np.allclose(features[:7, 7], features[:7, 3], rtol=1e-12)
    assert root[7, 7] > 0.0
