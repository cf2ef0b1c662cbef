"""Of a batch's points those are screened out that KOMP, done naively on all elements, removes before an old one."""

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.blocked_removal import SCREENED_STRIP, screen
from kernelswarm.agents.parts.kernels import Gaussian


def naive(gram, weights, order, budget):
    """Remove the cheapest element while it is none of the first ``order``; returns who stays, with what weights."""
    stays, spent, weights = np.arange(len(gram)), 0.0, weights.copy()
    while True:
        inverse = np.linalg.inv(gram[np.ix_(stays, stays)])
        scores = np.sum(weights[stays] ** 2, axis=1) / np.diag(inverse)
        best = int(np.argmin(scores))
        if stays[best] < order or spent + scores[best] > budget:
            return stays[stays >= order] - order, weights[order:], spent
        spent += scores[best]
        weights[stays] -= np.outer(inverse[best] / inverse[best, best], weights[stays[best]])
        weights[stays[best]] = 0.0
        stays = np.delete(stays, best)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("order", [6, SCREENED_STRIP + 30])
@pytest.mark.parametrize("share", [1e-3, 0.1, 1.0, 30.0])
def test_it_stops_where_an_old_element_is_cheaper_or_the_budget_ends(outputs, order, share):
    random = np.random.default_rng(order + outputs)
    kernel, size = Gaussian(0.8), 24
    stopped = 0
    for _ in range(12):
        points = random.normal(size=(order + size, 5))
        gram = kernel.cross(points, points)
        old, cross = gram[:order, :order], gram[order:, :order]
        projections = np.ascontiguousarray(np.linalg.solve(old, cross.T).T)
        rest = gram[order:, order:] - projections @ cross.T
        added = 0.1 * random.normal(size=(size, outputs))
        values = share * random.normal(size=(order, outputs))
        budget = float(10.0 ** random.uniform(-4.0, 0.0))
        expected, wanted, cost = naive(gram, np.vstack([values - projections.T @ added, added]), order, budget)
        found = added.copy()
        precision = np.diag(np.linalg.inv(old)).copy()
        whole = np.ascontiguousarray(values.T)
        spent, stays = screen(whole, precision, found, projections, rest, np.ones(size), budget, np.inf)
        np.testing.assert_array_equal(stays, expected)
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-10)
        assert spent == pytest.approx(cost, rel=1e-8)
        stopped += 0 < len(stays) < size
        assert screen(whole, precision, added.copy(), projections, rest, np.ones(size), budget, 1.0)[0] == 0.0
    assert stopped > 0 or share < 0.1


def test_points_nearly_in_the_span_of_others_are_left_to_the_rest():
    random = np.random.default_rng(0)
    points = random.normal(size=(4, 2))
    points[3] = points[2] + 1e-9
    rest = Gaussian(1.0).cross(points, points)
    values, precision, projections = np.ones((1, 2)), np.ones(2), np.zeros((4, 2))
    spent, stays = screen(values, precision, np.full((4, 1), 1e-9), projections, rest, np.ones(4), 1.0, np.inf)
    assert spent == 0.0
    assert len(stays) == 4
