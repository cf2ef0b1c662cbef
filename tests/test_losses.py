"""Losses: derivatives against finite differences, convexity, curvature bounds, ties, kinks and extremes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
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
    ProbabilisticLoss,
    Squared,
    grid_of,
)
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.simulations.round.measure import mean_error
from kernelswarm.simulations.streams.contract import HeldOut

Array = npt.NDArray[np.float64]

LOSSES: list[Loss] = [
    Squared(),
    Absolute(),
    Huber(),
    Huber(threshold=0.3),
    Logistic(),
    Hinge(),
    MulticlassLogistic(),
    MulticlassHinge(),
]
SMOOTH = [loss for loss in LOSSES if loss.curvature > 0.0]
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


def away_from_kinks(loss: Loss, predictions: Array, targets: Array, distance: float) -> npt.NDArray[np.bool_]:
    """Select the rows whose derivative stays the same formula within ``distance``."""
    match loss:
        case Absolute():
            return np.asarray(np.all(np.abs(predictions - targets) > distance, axis=1))
        case Huber(threshold=threshold):
            return np.asarray(np.all(np.abs(np.abs(predictions - targets) - threshold) > distance, axis=1))
        case Hinge():
            return np.asarray(np.abs((2.0 * targets - 1.0) * predictions - 1.0)[:, 0] > distance)
        case MulticlassHinge():
            labels = targets[:, 0].astype(int)
            own = predictions[np.arange(len(labels)), labels]
            wrong = predictions.copy()
            wrong[np.arange(len(labels)), labels] = -np.inf
            wrong.sort(axis=1)
            margin, lead = own - wrong[:, -1], wrong[:, -1] - wrong[:, -2]
            return np.asarray((np.abs(margin - 1.0) > 2 * distance) & (lead > 2 * distance))
    return np.ones(len(predictions), dtype=bool)


@every_loss
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_derivatives_are_the_slopes_of_the_values(loss: Loss, seed: int) -> None:
    predictions, targets = problem(loss, seed)
    step = 1e-6
    rows = away_from_kinks(loss, predictions, targets, 2 * step)
    predictions, targets = predictions[rows], targets[rows]
    derivatives = loss.derivatives(predictions, targets)
    assert derivatives.shape == predictions.shape
    for c in range(predictions.shape[1]):
        shift = np.zeros(predictions.shape)
        shift[:, c] = step
        rise = loss.values(predictions + shift, targets) - loss.values(predictions - shift, targets)
        np.testing.assert_allclose(derivatives[:, c], rise / (2 * step), rtol=1e-6, atol=1e-7)


@every_loss
@given(seed=st.integers(0, 10_000), share=st.floats(0.0, 1.0))
@settings(max_examples=20, deadline=None)
def test_losses_are_nonnegative_and_convex_along_segments(loss: Loss, seed: int, share: float) -> None:
    start, targets = problem(loss, seed)
    end, _ = problem(loss, seed + 1, spread=5.0)
    between = loss.values((1.0 - share) * start + share * end, targets)
    chord = (1.0 - share) * loss.values(start, targets) + share * loss.values(end, targets)
    assert np.all(between >= 0.0)
    assert np.all(between <= chord + 1e-12 * (1.0 + chord))


@every_loss
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_derivatives_are_subgradients(loss: Loss, seed: int) -> None:
    start, targets = problem(loss, seed)
    start = np.round(start)  # whole numbers meet the kinks
    targets = np.round(targets)
    end, _ = problem(loss, seed + 1)
    support = loss.values(start, targets) + np.sum(loss.derivatives(start, targets) * (end - start), axis=1)
    assert np.all(loss.values(end, targets) >= support - 1e-12 * (1.0 + np.abs(support)))


@every_loss
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_curvature_bounds_the_second_derivative_in_every_direction(loss: Loss, seed: int) -> None:
    predictions, targets = problem(loss, seed)
    direction = np.random.default_rng(seed + 7).normal(size=predictions.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    step = 1e-5
    rows = away_from_kinks(loss, predictions, targets, 2 * step)
    ahead = loss.derivatives(predictions + step * direction, targets)
    behind = loss.derivatives(predictions - step * direction, targets)
    second = np.sum((ahead - behind) * direction, axis=1)[rows] / (2 * step)
    assert np.all(second <= loss.curvature + 1e-6)
    assert np.all(second >= -1e-6)
    if loss.quadratic:
        np.testing.assert_allclose(second, loss.curvature, rtol=1e-6)


def test_only_the_squared_loss_is_quadratic() -> None:
    assert [loss for loss in LOSSES if loss.quadratic] == [Squared()]


@pytest.mark.parametrize(
    ("loss", "predictions", "direction"),
    [
        (Squared(), [[0.7]], [[1.0]]),
        (Huber(), [[0.2]], [[1.0]]),
        (Logistic(), [[0.0]], [[1.0]]),
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
    ],
    ids=repr,
)
def test_values_and_derivatives_by_hand(
    loss: Loss, predictions: list[float], target: list[float], value: float, derivative: list[float]
) -> None:
    np.testing.assert_allclose(loss.values(np.array([predictions]), np.array([target])), [value], rtol=1e-15)
    np.testing.assert_array_equal(loss.derivatives(np.array([predictions]), np.array([target])), [derivative])


def test_multiclass_hinge_ties_go_to_the_lowest_wrong_class() -> None:
    predictions = np.zeros((3, 3))
    targets = np.array([[0.0], [1.0], [2.0]])
    expected = [[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 0.0, -1.0]]
    np.testing.assert_array_equal(MulticlassHinge().derivatives(predictions, targets), expected)


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
    probabilities = loss.probabilities(predictions)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    chosen = probabilities[np.arange(len(targets)), targets[:, 0].astype(int)]
    np.testing.assert_allclose(loss.values(predictions, targets), -np.log(chosen), rtol=1e-12)
    np.testing.assert_array_equal(loss.decide(predictions)[:, 0], probabilities.argmax(axis=1))


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


def test_outputs_are_target_columns_one_or_the_classes() -> None:
    assert Squared().outputs(3, None) == 3
    assert Logistic().outputs(1, 2) == 1
    assert MulticlassHinge().outputs(1, 5) == 5
    assert MulticlassLogistic().outputs(1, 2) == 2


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
@pytest.mark.parametrize("loss", [MulticlassLogistic(), MulticlassHinge()], ids=repr)
def test_class_indices_outside_the_outputs_are_refused(loss: Loss, label: float) -> None:
    for evaluate in (loss.values, loss.derivatives):
        with pytest.raises(ValueError, match="class index outside"):
            evaluate(np.zeros((1, 3)), np.array([[label]]))


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("nan"), float("inf"), True])
def test_huber_refuses_a_threshold_that_is_not_positive(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"^threshold = .* must be a positive number"):
        Huber(threshold=threshold)


@every_loss
def test_no_samples_give_empty_arrays(loss: Loss) -> None:
    predictions, targets = problem(loss, 6)
    assert loss.values(predictions[:0], targets[:0]).shape == (0,)
    assert loss.derivatives(predictions[:0], targets[:0]).shape == (0, predictions.shape[1])


def test_the_source_runs_uncompiled() -> None:
    program = (
        "import numpy as np\n"
        "from kernelswarm.agents import losses as l\n"
        "f, y = np.array([[0.5, -1.0, 2.0]]), np.array([[1.0, 0.0, 0.5]])\n"
        "for loss in (l.Squared(), l.Absolute(), l.Huber(), l.MulticlassLogistic(), l.MulticlassHinge()):\n"
        "    print([*loss.values(f, y).tolist(), *loss.derivatives(f, y)[0].tolist()])\n"
        "for loss in (l.Logistic(), l.Hinge()):\n"
        "    print([*loss.values(f[:, :1], y[:, :1]).tolist(), *loss.derivatives(f[:, :1], y[:, :1])[0].tolist()])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    predictions, targets = np.array([[0.5, -1.0, 2.0]]), np.array([[1.0, 0.0, 0.5]])
    losses: list[Loss] = [Squared(), Absolute(), Huber(), MulticlassLogistic(), MulticlassHinge(), Logistic(), Hinge()]
    for loss, line in zip(losses, run.stdout.splitlines(), strict=True):
        columns = 1 if loss.task == "binary" else 3
        f, y = np.ascontiguousarray(predictions[:, :columns]), np.ascontiguousarray(targets[:, :columns])
        compiled = [*loss.values(f, y).tolist(), *loss.derivatives(f, y)[0].tolist()]
        np.testing.assert_allclose(compiled, json.loads(line), rtol=1e-14)


@dataclass(frozen=True)
class Unintegrated(Squared):
    """A user's own loss that may have an integral, and here has none."""

    grid: None = None


def test_a_loss_without_a_grid_is_a_sum_over_samples() -> None:
    loss = Unintegrated()
    assert grid_of(loss) is None and grid_of(Squared()) is None
    values, targets = np.array([[1.0], [3.0]]), np.array([[0.0], [1.0]])
    assert mean_error(loss, values, HeldOut(np.zeros((2, 1)), targets)) == (1.0 + 4.0) / 2.0
    box = PoissonProcess((0.0,), (2.0,), (4,))
    assert grid_of(box) is box.grid
