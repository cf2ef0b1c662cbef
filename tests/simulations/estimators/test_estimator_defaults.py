"""The estimators as they are, on data of any unit and size: what they reach, what it costs, when they complain."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from kernelswarm.agents.parts.bandwidths import SHARE, median_distance
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.estimators.estimators import PolkClassifier, PolkRegressor
from kernelswarm.simulations.estimators.kernel_features import OnlineKernelFeatures
from kernelswarm.simulations.estimators.second_order import KernelClassifier, KernelRegressor
from kernelswarm.simulations.records.run_folder import load


def wave(samples: int = 400, inputs: int = 2, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(samples, inputs))
    return x, np.sin(2.0 * x[:, 0]) + 0.1 * generator.normal(size=samples)


@pytest.mark.parametrize("unit", [1e-70, 1e6, 1e74])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_unit_of_the_targets_does_not_matter(loss: str, unit: float) -> None:
    x, y = wave()
    keys = {"regularization": 0.0, "random_state": 0}  # lambda is in the unit of the loss over that of f squared
    plain = PolkRegressor(loss, **keys).fit(x, y)
    scaled = PolkRegressor(loss, **keys).fit(x, unit * y)
    assert plain.score(x, y) > 0.8
    assert scaled.model_order_ == plain.model_order_
    np.testing.assert_allclose(scaled.predict(x) / unit, plain.predict(x), rtol=1e-6, atol=1e-6)


def test_the_intercept_is_part_of_the_model_and_its_file(tmp_path: Path) -> None:
    x, y = wave()
    for targets in (y + 30.0, np.column_stack([y + 30.0, 2.0 * y - 7.0])):
        model = PolkRegressor(random_state=0).fit(x, targets)
        np.testing.assert_allclose(model.intercept_, np.atleast_1d(targets.mean(axis=0)))
        np.testing.assert_array_equal(model.model_.predict(x), model.predict(x))
        model.save(tmp_path / "model.npz")
        np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(x), model.predict(x))


def test_the_median_distance_is_the_bandwidth_unless_held_out_rows_ask_for_another() -> None:
    x, y = wave()
    median = Gaussian(SHARE * median_distance(x))
    assert PolkRegressor(bandwidth="median").fit(x, y).learner_.kernel == median
    noise = np.random.default_rng(7).normal(size=len(y))
    assert PolkRegressor().fit(x, noise).learner_.kernel == median
    lengths = PolkRegressor().fit(x, y).learner_.kernel.bandwidth  # of the second column nothing depends
    assert lengths[1] > 10.0 * lengths[0]
    each = PolkRegressor(bandwidth=[0.5, 3.0]).fit(x, y)
    assert each.learner_.kernel == Gaussian((0.5, 3.0))
    with pytest.raises(InputError, match="bandwidth has 3 entries, and X has 2 columns"):
        PolkRegressor(bandwidth=[0.5, 3.0, 1.0]).fit(x, y)


@pytest.mark.parametrize(("estimator", "most"), [(PolkRegressor, 500), (PolkClassifier, 1000)])
def test_the_dictionary_is_bounded_where_nothing_can_be_learned(estimator: Any, most: int) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2 * most, 20)), generator.normal(size=2 * most) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert estimator(epochs=1, random_state=0).fit(x, y).model_order_ < 1.2 * most


@pytest.mark.parametrize(
    ("load_data", "ours", "theirs"),
    [
        (load_diabetes, PolkRegressor, SVR),
        (load_breast_cancer, PolkClassifier, SVC),
        (load_breast_cancer, KernelClassifier, SVC),
        (load_digits, KernelClassifier, SVC),
    ],
)
def test_defaults_err_at_most_a_tenth_more_than_a_support_vector_machine(
    load_data: Any, ours: Any, theirs: Any
) -> None:
    points, targets = load_data(return_X_y=True)
    if ours is PolkRegressor:  # SVR's defaults want targets of size 1
        targets = (targets - targets.mean()) / targets.std()
    found = []
    for seed in range(5):
        x, x_test, y, y_test = train_test_split(points, targets, test_size=0.2, random_state=seed)
        scaler = StandardScaler().fit(x)
        model, rival = (each.fit(scaler.transform(x), y) for each in (ours(random_state=seed), theirs()))
        errors = [1.0 - each.score(scaler.transform(x_test), y_test) for each in (model, rival)]
        found.append([*errors, model.model_order_, len(rival.support_)])
    error, rivals_error, order, rivals_order = np.mean(found, axis=0)
    assert error < 1.1 * rivals_error
    assert order < rivals_order


ESTIMATORS = [PolkRegressor, KernelRegressor, PolkClassifier, KernelClassifier]
UNITS = 10.0 ** np.array([-9, 9, 0, 3])


def spoiled(x: Array, how: str) -> Array:
    if how == "units":
        return x * UNITS
    if how == "offset":
        return x + 1e9
    if how == "constants":
        noise = np.random.default_rng(1).normal(size=len(x))
        return np.column_stack([x, np.full(len(x), 3.7e5), 1.0 + 1e-9 * noise, np.full(len(x), 1.0 / 3.0)])
    x = x.copy()
    x[3, 1] = 1e9
    return x


@pytest.mark.parametrize("how", ["units", "offset", "constants", "outlier"])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_units_offsets_constants_and_an_outlier_of_the_inputs_do_no_harm(make: Any, how: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 4))
    y = np.sin(2.0 * x[:, 0]) * x[:, 1] + 0.5 * x[:, 2] + 0.05 * generator.normal(size=500)
    y = y > 0.0 if make in (PolkClassifier, KernelClassifier) else y
    errors = []
    for points in (x, spoiled(x, how)):
        model = make(random_state=0).fit(points[:400], y[:400])
        errors.append(1.0 - model.score(points[400:], y[400:]))
    assert errors[0] < 0.15
    if how in ("units", "offset"):
        assert errors[1] == pytest.approx(errors[0], abs=1e-6 if how == "offset" else 1e-9)
    assert errors[1] < errors[0] + 0.06


@pytest.mark.parametrize("make", [PolkRegressor, KernelRegressor])
def test_units_and_offsets_of_the_targets_do_no_harm(make: Any) -> None:
    x, y = wave()
    wanted = make(random_state=0).fit(x, y).score(x, y)
    assert wanted > 0.9
    for targets in (1e-9 * y, 1e9 * y, y + 1e9):
        assert make(random_state=0).fit(x, targets).score(x, targets) == pytest.approx(wanted, abs=1e-5)


def test_wide_inputs_are_learned_in_batches_and_narrow_ones_are_not() -> None:
    x, y = wave(600, 60)
    model = PolkClassifier(random_state=0).fit(x, y > 0)
    size, strong = model.learner_.batch_size, 1.0 / model.learner_.step_size.largest  # steps of that leave nothing else
    assert size > 1
    assert clone(model).set_params(regularization=1.001 * strong).fit(x, y > 0).learner_.batch_size < size
    assert clone(model).set_params(regularization=0.999 * strong).fit(x, y > 0).learner_.batch_size == size
    assert PolkClassifier(step_size=0.5, random_state=0).fit(x, y > 0).learner_.batch_size == 1
    assert PolkClassifier(random_state=0).fit(x[:, :30], y > 0).learner_.batch_size == 1


def complaint(model: Any, x: Array, y: Array) -> str:
    with pytest.warns(ConvergenceWarning) as found:
        model.fit(x, y)
    assert found[0].filename == __file__  # it points at the line that called fit
    return str(found[0].message)


def test_nothing_learned_is_said() -> None:
    x, y = wave()
    text = complaint(PolkRegressor(budget={"epsilon": 1e3}), x, y)
    assert "nothing was learned: every step was smaller than the budget, eps = 1e+03" in text


@pytest.mark.parametrize("kind", [PolkRegressor, KernelRegressor])
def test_nothing_is_said_where_there_is_nothing_to_learn(kind: Any) -> None:
    x, _ = wave()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind().fit(x, np.full(len(x), 7.1))
        assert (kind().fit(x[:1], [0.3]).predict(x) == 0.3).all()
    np.testing.assert_allclose(model.predict(x), 7.1, rtol=1e-12)


@pytest.mark.parametrize("kind", [PolkRegressor, KernelRegressor])
def test_rows_that_are_all_alike_are_said_and_one_that_differs_ends_the_words(kind: Any) -> None:
    _, y = wave()
    x = np.full((len(y), 2), 0.3)
    assert (
        complaint(kind(), x, y)
        == f"{kind.__name__}: all rows of X are alike, so that only a constant can be learned: give inputs that vary"
    )
    x[1] = 0.4  # which is not among the rows that are predicted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind().fit(x, y)
    assert not any("alike" in str(one.message) for one in caught)


@pytest.mark.parametrize(("classes", "size"), [(2, 500), (10, 500), (11, 550), (60, 2000)])
def test_a_dictionary_grows_with_the_number_of_classes(classes: int, size: int) -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(4 * classes) % classes
    x = generator.normal(size=(classes, 3))[labels] + 0.1 * generator.normal(size=(len(labels), 3))
    assert KernelClassifier().fit(x, labels).n_components_ == size
    assert KernelClassifier(7).fit(x, labels).n_components_ == 7
    assert KernelRegressor().fit(x, labels).n_components_ == 500


@pytest.mark.parametrize("size", [2.5, "many", True])
def test_a_dictionary_of_no_size_is_refused(size: Any) -> None:
    with pytest.raises(InputError, match=r"n_components = .* must be a whole number of at least 1"):
        KernelRegressor(size).fit(*wave())


def test_worse_than_a_constant_is_said() -> None:
    x, y = wave()
    text = complaint(PolkRegressor(step_size=1e-3, budget=1e-3, fit_intercept=False, epochs=1), x, y + 100.0)
    assert "worse than" in text
    assert "that of a constant prediction" in text


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_what_was_learned_passes_without_a_word(loss: str) -> None:
    x, y = wave()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PolkRegressor(random_state=0).fit(x, y)
        PolkClassifier(loss, random_state=0).fit(x, y > 0)


def test_transformers_take_the_words_that_need_no_targets() -> None:
    x, _ = wave()
    features = OnlineKernelFeatures(rank=5, bandwidth="median").fit(x)
    assert features.subspace_.kernel == Gaussian(SHARE * median_distance(x))
    with pytest.raises(InputError, match=r'^bandwidth = "relevance" needs targets'):
        OnlineKernelFeatures(rank=5, bandwidth="relevance").fit(x)


def test_one_pass_of_second_order_steps_is_worth_more_than_three_of_gradient_descent() -> None:
    x, y = make_friedman1(2400, noise=1.0, random_state=0)
    train, test = slice(0, 2000), slice(2000, None)
    first_order = PolkRegressor(budget={"target_order": 150, "gain": 0.002}, random_state=0).fit(x[train], y[train])
    second_order = KernelRegressor(150, random_state=0).fit(x[train], y[train])
    assert second_order.model_order_ <= 1.2 * first_order.model_order_
    errors = [1.0 - model.score(x[test], y[test]) for model in (second_order, first_order)]
    assert errors[0] < 0.9 * errors[1]


def test_the_default_loss_has_the_better_probabilities_on_fewer_points() -> None:
    points, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(points / 16.0, labels, test_size=0.4, random_state=0)
    default, logistic = (KernelClassifier(**keys, random_state=0).fit(x, y) for keys in ({}, {"loss": "logistic"}))
    losses = [log_loss(y_test, model.predict_proba(x_test)) for model in (default, logistic)]
    assert losses[0] < 0.5 * losses[1]
    assert default.score(x_test, y_test) >= logistic.score(x_test, y_test)
    assert default.model_order_ < 0.8 * logistic.model_order_


@pytest.mark.parametrize("classes", [2, 3])
def test_the_size_that_was_asked_for_is_kept_where_classes_overlap(classes: int) -> None:
    x = np.random.default_rng(0).normal(size=(2000, 10))
    y = np.random.default_rng(1).integers(classes, size=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert KernelClassifier(200, random_state=0).fit(x, y).model_order_ < 1.5 * 200
