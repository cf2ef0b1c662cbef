"""Losses by hand: values and slopes at kinks and ties, bounds that are reached, extremes, refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MulticlassHinge,
    MulticlassLogistic,
    MulticlassSquaredHinge,
    ProbabilisticLoss,
    Squared,
    SquaredHinge,
    curvatures_of,
    grid_of,
)
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.scores import scores_of
from tests.contracts.specimens import LOSSES

PROBABILISTIC: list[ProbabilisticLoss] = [Logistic(), MulticlassLogistic()]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def problem(loss: Loss, seed: int, samples: int = 30, spread: float = 2.0) -> tuple[Array, Array]:
    """Draw predictions (n, C) with targets (n, q) that fit the loss."""
    generator = np.random.default_rng(seed)
    if loss.task == "regression":
        return spread * generator.normal(size=(samples, 3)), spread * generator.normal(size=(samples, 3))
    if loss.task == "binary":
        labels = generator.integers(2, size=(samples, 1))
        return spread * generator.normal(size=(samples, 1)), labels.astype(np.float64)
    labels = generator.integers(4, size=(samples, 1))
    return spread * generator.normal(size=(samples, 4)), labels.astype(np.float64)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.curvature == 0.0], ids=repr)
def test_losses_without_curvature_are_straight_between_kinks(loss: Loss) -> None:
    predictions, targets = problem(loss, 7, samples=2000)
    near = predictions + 1e-5 * np.random.default_rng(8).normal(size=predictions.shape)
    straight = np.all(loss.derivatives(near, targets) == loss.derivatives(predictions, targets), axis=1)
    assert straight.mean() > 0.99  # the others have a kink in between


def test_only_the_squared_loss_is_quadratic() -> None:
    assert [loss for loss in LOSSES if loss.quadratic] == [Squared()]


@pytest.mark.parametrize(
    ("loss", "predictions", "direction"),
    [
        (Squared(), [[0.7]], [[1.0]]),
        (Huber(), [[0.2]], [[1.0]]),
        (Logistic(), [[0.0]], [[1.0]]),
        (SquaredHinge(), [[0.7]], [[1.0]]),
        (MulticlassSquaredHinge(), [[0.2, -0.7, -3.0]], [[0.6, 0.8, 0.0]]),
        (MulticlassLogistic(), [[0.0, 0.0, -60.0]], [[2.0**-0.5, -(2.0**-0.5), 0.0]]),
    ],
    ids=repr,
)
def test_curvature_bound_is_reached(loss: Loss, predictions: list[list[float]], direction: list[list[float]]) -> None:
    point, along, targets = np.array(predictions), np.array(direction), np.zeros((1, 1))
    ahead, behind = (loss.derivatives(point + sign * 1e-4 * along, targets) for sign in (1.0, -1.0))
    np.testing.assert_allclose(np.sum((ahead - behind) * along) / 2e-4, loss.curvature, rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "predictions", "target", "value", "derivative"),
    [
        (Squared(), [3.0, 1.0], [1.0, 1.0], 4.0, [4.0, 0.0]),
        (Absolute(), [3.0, 1.0], [1.0, 2.0], 3.0, [1.0, -1.0]),
        (Absolute(), [1.0], [1.0], 0.0, [0.0]),
        (Huber(threshold=0.5), [1.0, 4.0], [1.25, 1.0], 0.03125 + 0.5 * 2.75, [-0.25, 0.5]),
        (Logistic(), [0.0], [1.0], np.log(2.0), [-0.5]),
        (Logistic(), [0.0], [0.0], np.log(2.0), [0.5]),
        (Hinge(), [0.25], [1.0], 0.75, [-1.0]),
        (Hinge(), [0.25], [0.0], 1.25, [1.0]),
        (Hinge(), [1.0], [1.0], 0.0, [0.0]),
        (Hinge(), [-1.0], [0.0], 0.0, [0.0]),
        (MulticlassLogistic(), [0.0, 0.0], [1.0], np.log(2.0), [0.5, -0.5]),
        (MulticlassHinge(), [0.5, 1.0, 0.0], [0.0], 1.5, [-1.0, 1.0, 0.0]),
        (MulticlassHinge(), [2.0, 1.0, 0.0], [0.0], 0.0, [0.0, 0.0, 0.0]),
        (MulticlassHinge(), [0.0, 0.0, 0.0], [0.0], 1.0, [-1.0, 1.0, 0.0]),  # ties go to the lowest wrong class
        (MulticlassHinge(), [0.0, 0.0, 0.0], [2.0], 1.0, [1.0, 0.0, -1.0]),
        (SquaredHinge(), [0.25], [1.0], 0.5625, [-1.5]),
        (SquaredHinge(), [0.25], [0.0], 1.5625, [2.5]),
        (SquaredHinge(), [-1.5], [0.0], 0.0, [0.0]),
        (MulticlassSquaredHinge(), [0.5, -0.5, -1.5], [0.0], 0.25 + 0.25, [-1.0, 1.0, 0.0]),
        (MulticlassSquaredHinge(), [2.0, -1.0, -3.0], [0.0], 0.0, [0.0, 0.0, 0.0]),
    ],
    ids=repr,
)
def test_values_and_derivatives_by_hand(
    loss: Loss, predictions: list[float], target: list[float], value: float, derivative: list[float]
) -> None:
    np.testing.assert_allclose(loss.values(np.array([predictions]), np.array([target])), [value], rtol=1e-15)
    np.testing.assert_array_equal(loss.derivatives(np.array([predictions]), np.array([target])), [derivative])


def test_squared_hinges_have_a_curvature_within_the_margin_only() -> None:
    predictions, targets = np.array([[0.9], [1.1], [-1.1], [-1.1]]), np.array([[1.0], [1.0], [0.0], [1.0]])
    np.testing.assert_array_equal(SquaredHinge().curvatures(predictions, targets) == 2.0, [True, False, False, True])
    pair = np.hstack([-predictions, predictions])
    two = MulticlassSquaredHinge()
    np.testing.assert_array_equal(two.curvatures(pair, targets), SquaredHinge().curvatures(predictions, targets))
    np.testing.assert_allclose(two.values(pair, targets), 2.0 * SquaredHinge().values(predictions, targets))


def test_squared_hinges_offer_the_points_that_the_hinge_loss_moves() -> None:
    generator = np.random.default_rng(4)
    targets = generator.integers(4, size=(200, 1)).astype(np.float64)
    predictions = 2.0 * generator.normal(size=(200, 4))
    moved = MulticlassHinge().derivatives(predictions, targets).any(axis=1)
    np.testing.assert_array_equal(MulticlassSquaredHinge().offers(predictions, targets), moved)
    assert 50 < moved.sum() < 190
    one, binary = predictions[:, :1], targets % 2
    pair = MulticlassSquaredHinge().offers(np.hstack([-one, one]), binary)
    np.testing.assert_array_equal(SquaredHinge().offers(one, binary), pair)


@given(margin=st.floats(0.999, 1.001), offset=st.floats(-1e6, 1e6))
@settings(max_examples=50, deadline=None)
def test_multiclass_hinge_is_positive_exactly_where_it_has_a_slope(margin: float, offset: float) -> None:
    predictions, targets = np.array([[offset + margin, offset]]), np.zeros((1, 1))
    positive = MulticlassHinge().values(predictions, targets)[0] > 0.0
    assert positive == np.any(MulticlassHinge().derivatives(predictions, targets) != 0.0)


@every_loss
@pytest.mark.parametrize("size", [1e3, 1e8, 1e150])
def test_huge_predictions_give_finite_slopes(loss: Loss, size: float) -> None:
    predictions, targets = problem(loss, 3, spread=size)
    if loss.task == "regression":
        targets = targets / size
    with np.errstate(over="ignore"):
        values, derivatives = loss.values(predictions, targets), loss.derivatives(predictions, targets)
    assert np.all(np.isfinite(derivatives))
    assert np.all(np.isfinite(values))


@pytest.mark.parametrize("loss", PROBABILISTIC, ids=repr)
def test_a_confident_right_answer_keeps_a_small_positive_loss_and_slope(loss: ProbabilisticLoss) -> None:
    predictions = np.array([[50.0]]) if loss.task == "binary" else np.array([[0.0, 50.0]])
    targets = np.ones((1, 1))
    np.testing.assert_allclose(loss.values(predictions, targets), np.exp(-50.0), rtol=1e-12)
    np.testing.assert_allclose(loss.derivatives(predictions, targets)[0, -1], -np.exp(-50.0), rtol=1e-12)


@pytest.mark.parametrize("loss", PROBABILISTIC, ids=repr)
def test_logistic_values_are_minus_log_probabilities(loss: ProbabilisticLoss) -> None:
    predictions, targets = problem(loss, 4)
    chosen = loss.probabilities(predictions)[np.arange(len(targets)), targets[:, 0].astype(int)]
    np.testing.assert_allclose(loss.values(predictions, targets), -np.log(chosen), rtol=1e-12)


def test_only_logistic_losses_have_probabilities() -> None:
    assert [loss for loss in LOSSES if hasattr(loss, "probabilities")] == PROBABILISTIC


def test_two_class_multiclass_logistic_is_the_logistic_loss_of_the_difference() -> None:
    predictions, targets = problem(Logistic(), 5)
    pair = np.hstack([np.zeros(predictions.shape), predictions])
    np.testing.assert_allclose(
        MulticlassLogistic().values(pair, targets), Logistic().values(predictions, targets), rtol=1e-13
    )


def test_decisions_have_the_unit_of_the_targets() -> None:
    np.testing.assert_array_equal(Squared().decide(np.array([[0.3, -2.0]])), [[0.3, -2.0]])
    np.testing.assert_array_equal(Hinge().decide(np.array([[0.3], [-0.3], [0.0]])), [[1.0], [0.0], [0.0]])
    np.testing.assert_array_equal(
        MulticlassHinge().decide(np.array([[0.0, 2.0, 2.0], [0.0, 0.0, 0.0]])), [[1.0], [0.0]]
    )


@pytest.mark.parametrize(
    ("loss", "targets", "classes", "message"),
    [
        (Squared(), 1, 5, "loss squared predicts numbers, but the targets are 5 classes: use multiclass_logistic or"),
        (Huber(), 1, 2, "loss huber predicts numbers, but the targets are 2 classes: use logistic or hinge"),
        (Hinge(), 1, 3, "loss hinge separates 2 classes, but the targets have 3: use multiclass_hinge"),
        (Logistic(), 1, None, "loss logistic predicts classes, but the targets are numbers: use squared or huber"),
        (MulticlassHinge(), 1, None, "loss multiclass_hinge predicts classes, but the targets are numbers"),
        (MulticlassLogistic(), 1, 1, "loss multiclass_logistic needs at least 2 classes, but the targets have 1"),
        (MulticlassLogistic(), 2, 3, "loss multiclass_logistic needs one column of class indices, but there are 2"),
    ],
    ids=repr,
)
def test_losses_refuse_targets_that_do_not_fit(loss: Loss, targets: int, classes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        loss.outputs(targets, classes)


@pytest.mark.parametrize("label", [-1.0, 3.0])
@pytest.mark.parametrize("loss", [MulticlassLogistic(), MulticlassHinge(), MulticlassSquaredHinge()], ids=repr)
def test_class_indices_outside_the_outputs_are_refused(loss: Loss, label: float) -> None:
    for evaluate in (loss.values, loss.derivatives):
        with pytest.raises(ValueError, match="class index outside"):
            evaluate(np.zeros((1, 3)), np.array([[label]]))


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan"), float("inf"), True])
def test_huber_refuses_a_threshold_that_is_not_positive(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"^threshold = .* must be a positive number"):
        Huber(threshold=threshold)


@dataclass(frozen=True)
class Unintegrated(Squared):
    """A user's own loss that may have an integral, and here has none."""

    grid: None = None


def test_a_loss_without_a_grid_is_a_sum_over_samples() -> None:
    loss = Unintegrated()
    assert grid_of(loss) is None and grid_of(Squared()) is None
    values, targets = np.array([[1.0], [3.0]]), np.array([[0.0], [1.0]])
    found = scores_of(loss, [values], [HeldOut(np.zeros((2, 1)), targets)])
    assert (found.risks.tolist(), found.errors.tolist()) == ([2.5], [2.5])  # (1 + 4) / 2
    box = PoissonProcess((0.0,), (2.0,), (4,))
    assert grid_of(box) is box.grid


@pytest.mark.parametrize("loss", [Huber(0.7), Logistic()], ids=repr)
def test_a_quadratic_of_the_stated_curvature_lies_above_the_loss_everywhere(loss: Loss) -> None:
    for start in (-9.0, -0.3, -1e-6, 0.0, 1e-5, 0.4, 2.0, 11.0):
        for target in (0.0, 1.0):
            at, wanted = np.array([[start]]), np.array([[target]])
            mirrored = 2.0 * target - start if loss.task == "regression" else -start
            points = np.append(np.linspace(-30.0, 30.0, 241), mirrored)[:, np.newaxis]
            distance = (points - start)[:, 0]
            bend = curvatures_of(loss, at, wanted)[0]
            above = loss.values(at, wanted) + loss.derivatives(at, wanted)[0, 0] * distance + 0.5 * bend * distance**2
            values = loss.values(points, np.full(points.shape, target))
            assert (above >= values - 1e-9 * (1.0 + values)).all()
            assert np.isclose(above[-1], values[-1], rtol=1e-9, atol=1e-9)  # no smaller curvature would do


def test_the_curvature_of_several_classes_is_twice_that_of_two() -> None:
    values = np.array([[-3.0], [-1e-5], [0.0], [0.2], [40.0]])
    for label in (0.0, 1.0):
        targets = np.full(values.shape, label)
        pairs = np.hstack([-0.5 * values, 0.5 * values])
        several = curvatures_of(MulticlassLogistic(), pairs, targets)
        assert np.allclose(several, 2.0 * curvatures_of(Logistic(), values, targets), rtol=1e-12)


@every_loss
def test_targets_and_predictions_may_be_whole_numbers_and_one_column_is_refused(loss: Loss) -> None:
    predictions, targets = problem(loss, seed=5)
    predictions, targets = np.round(predictions), np.round(targets)
    whole, wanted = predictions.astype(np.int64), targets.astype(np.int32)
    np.testing.assert_array_equal(loss.values(whole, wanted), loss.values(predictions, targets))
    np.testing.assert_array_equal(loss.derivatives(whole, wanted.tolist()), loss.derivatives(predictions, targets))
    with pytest.raises(ValueError, match=r"two matrices are asked for.* y as y\[:, None\]"):
        loss.values(predictions, targets[:, 0])
