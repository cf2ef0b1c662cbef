"""What is known of the samples, as a triangle: rows come in, points come and go, as the normal equations say."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners import blocked_second_order, information


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


def test_a_point_that_lies_in_the_span_of_the_others_to_rounding_leaves_the_triangle_regular():
    random = np.random.default_rng(0)
    root, moments = np.zeros((9, 9)), np.zeros((9, 1))
    root[:7, :7] = np.triu(random.uniform(1.0, 2.0, size=(7, 7)))
    projections = np.eye(7)[[3]]
    blocked_second_order.append(root, moments, 7, projections, np.array([[-1e-15]]), np.array([4.0]), 0.5)
    features = root[:8, :8].T @ root[:8, :8]
    assert np.allclose(features[:7, 7], features[:7, 3], rtol=1e-12)
    assert root[7, 7] > 0.0
