"""Tolerances of the proximity constraints follow their definitions."""

import numpy as np
import pytest

from kernelswarm.agents.parts.losses import Absolute, Hinge, MulticlassHinge
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import Adaptive, Constant, Edges, Location, TrueDifference


def neighborhood(node=0, neighbors=(1, 4), distances=None, differences=None, curvature=2.0):
    count = len(neighbors)
    return Neighborhood(
        node, neighbors, distances, differences, curvature, 1, (1,) * count, ({},) * count, (1,) * count
    )


def test_constant_is_the_same_for_every_edge():
    np.testing.assert_array_equal(Constant(0.3).init(neighborhood()).values, [0.3, 0.3])


def test_named_edges_fall_back_to_the_other_direction_and_then_to_the_default():
    tolerance = Edges({"0-1": 0.1, "4-0": 0.7, "1-0": 0.9}, default=0.2)
    np.testing.assert_array_equal(tolerance.init(neighborhood()).values, [0.1, 0.7])
    np.testing.assert_array_equal(tolerance.init(neighborhood(1, (0, 2))).values, [0.9, 0.2])


def test_location_tightens_with_nearness():
    distances = np.array([0.0, 0.5])
    values = Location(scale=2.0, length=0.5).init(neighborhood(distances=distances)).values
    np.testing.assert_allclose(values, [0.0, 2.0 * (1.0 - np.exp(-1.0))])


def test_true_difference_is_scaled():
    found = TrueDifference(0.5).init(neighborhood(differences=np.array([1.0, 3.0])))
    np.testing.assert_array_equal(found.values, [0.5, 1.5])


@pytest.mark.parametrize(
    ("tolerance", "hood", "message"),
    [
        (Location(), neighborhood(), "locations"),
        (TrueDifference(), neighborhood(), "stream that knows"),
    ],
)
def test_what_a_tolerance_needs_and_does_not_get_is_named(tolerance, hood, message):
    with pytest.raises(ValueError, match=message):
        tolerance.init(hood)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(-1.0), "value = -1.0"),
        (lambda: Edges({"0->1": 1.0}), "0->1"),
        (lambda: Edges({"0-1": -2.0}), "values.0-1 = -2.0"),
        (lambda: Location(length=0.0), "length = 0.0"),
        (lambda: Adaptive(rate=0.0), "rate = 0.0"),
        (lambda: Adaptive(scale=float("nan")), "scale = nan"),
        (lambda: Proximity(delta=-0.1), "delta = -0.1"),
        (lambda: Proximity(dual_max=0.0), "dual_max = 0.0"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_adaptive_average_counts_early_rounds_by_their_number_and_exponential_later():
    generator = np.random.default_rng(0)
    adaptive = Adaptive(scale=1.5, rate=0.05)
    state = adaptive.init(neighborhood(curvature=2.0))
    expected = np.zeros(2)
    for round in range(1, 200):
        excess_loss = generator.normal(0.3, 1.0, 2)
        beta = min(1.0, max(0.05, 2.0 / (round + 1)))
        expected = (1.0 - beta) * expected + beta * excess_loss
        state = adaptive.next(state, excess_loss, 2.0, round)
        np.testing.assert_allclose(state.values, 1.5 * np.maximum(expected, 0.0))


def test_the_dual_step_of_a_round_knows_what_its_fresh_samples_say_of_the_tolerance():
    rule = Proximity(gamma=Adaptive(scale=1.0), delta=0.0, dual_step=1.0)
    links = rule.init(neighborhood(neighbors=(1,)))
    links = rule.advance(links, np.array([0.5]), np.array([0.2]), 0.1, 1)  # beta is 1, so gamma is the excess
    assert rule.duals(links)[0] == pytest.approx(0.1 * (0.5 - 0.2))


def test_adaptive_tolerance_is_in_the_unit_of_the_constraint_for_other_losses():
    # With l'' = 1/4 a squared distance d^2 costs d^2/8.
    rule = Proximity(gamma=Adaptive(scale=1.0))
    links = rule.init(neighborhood(neighbors=(1,), curvature=0.25))
    links = rule.advance(links, np.zeros(1), np.array([0.5]), 0.1, 1)
    assert links.tolerances.values[0] == pytest.approx(4.0)


@pytest.mark.parametrize("loss", [Absolute(), Hinge(), MulticlassHinge()])
def test_without_a_curvature_the_tolerance_bounds_the_constraint_from_below(loss):
    # Losses that change by at most sqrt(2) times their argument: E h >= (E excess)^2 / 2, whatever the functions.
    generator = np.random.default_rng(2)
    outputs = 1 if loss.task != "multiclass" else 3
    own, theirs = generator.normal(size=(2, 500, outputs))
    theirs = own + generator.exponential() * theirs
    targets = generator.integers(0, 2 if outputs == 1 else 3, size=(500, 1)).astype(float)
    excess_loss = float(np.mean(loss.values(theirs, targets) - loss.values(own, targets)))
    gap = float(np.mean(np.sum((theirs - own) ** 2, axis=1)))
    rule = Proximity(gamma=Adaptive(scale=1.0))
    links = rule.init(neighborhood(neighbors=(1,), curvature=0.0))
    links = rule.advance(links, np.array([gap]), np.array([excess_loss]), 0.1, 1)
    assert 0.0 < links.tolerances.values[0] == pytest.approx(excess_loss**2)
    assert links.tolerances.values[0] <= (2.0 if outputs > 1 else 1.0) * gap
