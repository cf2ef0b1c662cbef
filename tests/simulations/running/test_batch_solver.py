"""The batch solution is the minimum of the stated objective, and its regularization the one that validates best."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.svm import LinearSVC, LinearSVR

from kernelswarm.agents.parts.kernels import Gaussian, Linear, Matern
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.simulations.running.batch import GRID, Samples, features, fit, minimum

KERNELS = [Gaussian(0.5), Matern(0.7, 2.5), Linear(1.0)]
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


@dataclass(frozen=True)
class HalfSquared:
    """A quadratic loss of a user's own: its second derivative is 1."""

    task: ClassVar[str] = "regression"
    curvature: ClassVar[float] = 1.0
    quadratic: ClassVar[bool] = True

    def outputs(self, targets: int, classes: int | None) -> int:
        return targets

    def values(self, predictions: Any, targets: Any) -> Any:
        return 0.5 * np.sum((predictions - targets) ** 2, axis=1)

    def derivatives(self, predictions: Any, targets: Any) -> Any:
        return predictions - targets

    def decide(self, predictions: Any) -> Any:
        return predictions


def noisy(count: int = 60, outputs: int = 1, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    points = random.normal(size=(count, 2))
    targets = np.sin(2 * points[:, :1] + np.arange(outputs)) * points[:, 1:]
    return points, targets + 0.2 * random.normal(size=(count, outputs))


def labels(count: int, classes: int, seed: int = 0) -> tuple[Any, Any]:
    points, values = noisy(count, seed=seed)
    edges = np.quantile(values, np.arange(1, classes) / classes)
    return points, np.searchsorted(edges, values[:, 0]).astype(float)[:, np.newaxis]


def solved(kernel: Any, loss: Any, points: Any, targets: Any, landmarks: int = 1000, outputs: int = 1) -> Any:
    return fit(kernel, loss, outputs, points, targets, landmarks, np.random.default_rng(1))


@pytest.mark.parametrize("loss", [Squared(), HalfSquared()], ids=["squared", "half squared"])
@EVERY_KERNEL
def test_quadratic_losses_are_solved_in_closed_form(kernel: Any, loss: Any) -> None:
    points, targets = noisy(outputs=2)
    found = solved(kernel, loss, points, targets, outputs=2)
    gram = kernel.cross(points, points)
    ridge = len(points) * found.regularization / loss.curvature * np.eye(len(points))
    expected = gram @ np.linalg.solve(gram + ridge, targets)
    np.testing.assert_allclose(kernel.cross(points, found.points) @ found.weights, expected, atol=1e-7)


@EVERY_KERNEL
def test_squared_loss_takes_the_regularization_with_the_least_leave_one_out_loss(kernel: Any) -> None:
    points, targets = noisy(25)
    gram = kernel.cross(points, points)
    grid = GRID * np.mean(np.diag(gram))
    risks = []
    for regularization in grid:
        constraint_values = []
        for out in range(25):
            kept = np.delete(np.arange(25), out)
            # The sum over the others, with the same weight of the norm: n lambda stays that of all.
            ridge = gram[np.ix_(kept, kept)] + 25 * regularization / 2 * np.eye(24)
            constraint_values.append(gram[out, kept] @ np.linalg.solve(ridge, targets[kept]) - targets[out])
        risks.append(np.mean(np.square(constraint_values)))
    found = solved(kernel, Squared(), points, targets)
    taken = int(np.argmin(np.abs(np.log(grid / found.regularization))))
    assert risks[taken] <= min(risks) * (1 + 1e-6)  # at the small end they differ by rounding
    assert found.chosen_by == "leave-one-out"


def test_fewer_landmarks_give_the_minimum_over_their_span() -> None:
    kernel = Gaussian(0.5)
    points, targets = noisy(300)
    found = solved(kernel, Squared(), points, targets, landmarks=40)
    assert found.points.shape == (40, 2) and found.weights.shape == (40, 1)
    assert {tuple(point) for point in found.points} <= {tuple(point) for point in points}
    cross, gram = kernel.cross(points, found.points), kernel.cross(found.points, found.points)
    normal = cross.T @ cross + 150 * found.regularization * gram
    expected = cross @ np.linalg.lstsq(normal, cross.T @ targets, rcond=None)[0]
    np.testing.assert_allclose(cross @ found.weights, expected, atol=1e-6)


@EVERY_KERNEL
def test_features_have_the_inner_products_of_the_projected_kernel(kernel: Any) -> None:
    points, _ = noisy(50)
    for landmarks in (points, points[:10]):
        rows, squares, projection = features(kernel, points, landmarks)
        cross, gram = kernel.cross(points, landmarks), kernel.cross(landmarks, landmarks)
        np.testing.assert_allclose(rows @ rows.T, cross @ np.linalg.pinv(gram, rcond=1e-12) @ cross.T, atol=1e-6)
        np.testing.assert_allclose(rows, cross @ projection, atol=1e-7)
        np.testing.assert_allclose(rows.T @ rows, np.diag(squares), atol=1e-7 * squares.max())


@pytest.mark.parametrize(
    ("loss", "classes", "regularization"),
    [(Logistic(), 2, 1e-1), (Logistic(), 2, 1e-5), (MulticlassLogistic(), 4, 1e-3), (Huber(0.1), 0, 1e-5)],
)
def test_smooth_losses_are_minimised(loss: Any, classes: int, regularization: float) -> None:
    points, targets = labels(400, classes) if classes else noisy(400)
    rows, squares, _ = features(Gaussian(0.5), points, points[:80])
    outputs = loss.outputs(1, classes or None)
    start = np.zeros((rows.shape[1], outputs))
    found = minimum(loss, Samples(rows, squares, targets), regularization, start, 300)
    slopes = rows.T @ loss.derivatives(rows @ found, targets) / 400 + regularization * found
    # In the metric of the second derivative: how far from the minimum that leaves the objective.
    stiffness = loss.curvature * squares[:, np.newaxis] / 400 + regularization
    assert np.sum(slopes**2 / stiffness) < 1e-8


@pytest.mark.parametrize(
    ("name", "regularization"),
    [("hinge", 1e-1), ("multiclass hinge", 1e-2), ("absolute", 1e-3), ("hinge", 1e-3)],
)
def test_losses_with_kinks_come_near_the_minimum_of_liblinear(name: str, regularization: float) -> None:
    classes = {"hinge": 2, "multiclass hinge": 4, "absolute": 0}[name]
    loss: Any = {"hinge": Hinge(), "multiclass hinge": MulticlassHinge(), "absolute": Absolute()}[name]
    points, targets = labels(400, classes) if classes else noisy(400)
    rows, squares, _ = features(Gaussian(0.5), points, points[:80])
    strength = {"C": 1 / (400 * regularization), "fit_intercept": False, "max_iter": 100_000, "random_state": 0}
    library = {
        "hinge": LinearSVC(loss="hinge", **strength),
        "multiclass hinge": LinearSVC(multi_class="crammer_singer", **strength),
        "absolute": LinearSVR(epsilon=0.0, **strength),
    }[name].fit(rows, targets[:, 0])

    def objective(coefficients: Any) -> float:
        norm = 0.5 * regularization * np.sum(coefficients**2)
        return float(np.mean(loss.values(np.ascontiguousarray(rows @ coefficients), targets)) + norm)

    samples = Samples(rows, squares, targets)
    start = -rows.T @ loss.derivatives(np.zeros((400, loss.outputs(1, classes or None))), targets) / 400
    found = minimum(loss, samples, regularization, start, 300)
    best = objective(np.reshape(library.coef_, (-1, rows.shape[1])).T)
    assert objective(found) < best + 0.005 * objective(np.zeros_like(found))


@pytest.mark.parametrize(
    ("loss", "classes"), [(Squared(), 0), (Absolute(), 0), (Hinge(), 2)], ids=lambda part: str(part)
)
def test_regularization_is_large_for_noise_and_small_for_a_function(loss: Any, classes: int) -> None:
    random = np.random.default_rng(4)
    points = random.normal(size=(500, 2))
    noise, truth = random.normal(size=(500, 1)), np.sin(2 * points[:, :1])
    if classes:
        noise, truth = (noise > 0).astype(float), (truth > 0).astype(float)
    aimless, aimed = (solved(Gaussian(0.5), loss, points, targets, 200) for targets in (noise, truth))
    assert aimless.regularization > 100 * aimed.regularization
    fresh = random.normal(size=(500, 2))
    value = Gaussian(0.5).cross(fresh, aimed.points) @ aimed.weights
    expected = np.sin(2 * fresh[:, :1])
    if classes:
        assert np.mean((value > 0) == (expected > 0)) > 0.95
    else:
        assert np.mean((value - expected) ** 2) < 0.01 * np.mean(expected**2)


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    ("points", "targets"),
    [
        (np.array([[0.3]]), np.array([[2.0]])),  # a single sample
        (np.full((7, 1), 0.3), np.arange(7.0)[:, np.newaxis]),  # one point seven times
        (np.linspace(0, 1, 9)[:, np.newaxis], np.zeros((9, 1))),  # nothing to learn
        (np.array([[0.1], [0.9]]), np.array([[1e9], [-1e9]])),
    ],
    ids=["one", "equal", "zero", "huge"],
)
def test_poor_data_give_finite_functions(loss: Any, points: Any, targets: Any) -> None:
    found = solved(Gaussian(0.5), loss, points, targets)
    values = Gaussian(0.5).cross(points, found.points) @ found.weights
    assert np.isfinite(values).all()
    assert np.abs(values).max() <= 1.01 * np.abs(targets).max() + 1e-9
    assert found.regularization > 0.0


def test_points_that_the_kernel_takes_for_nothing_give_zero() -> None:
    found = solved(Linear(), Squared(), np.zeros((5, 2)), np.ones((5, 1)))
    np.testing.assert_array_equal(found.weights, np.zeros((5, 1)))


def test_a_class_without_samples_is_never_decided_for() -> None:
    points, targets = labels(200, 3)
    for loss in (MulticlassLogistic(), MulticlassHinge()):
        found = solved(Gaussian(0.5), loss, points, 2 * targets, landmarks=40, outputs=5)  # not 1 and 3
        decided = loss.decide(Gaussian(0.5).cross(points, found.points) @ found.weights)
        assert set(np.unique(decided)) == {0.0, 2.0, 4.0}
        assert np.mean(decided == 2 * targets) > 0.7
