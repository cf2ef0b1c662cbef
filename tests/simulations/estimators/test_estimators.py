"""The scikit-learn estimators: scikit-learn's own checks, and agreement with the learner they stand for."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame, Series
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from kernelswarm.agents.parts.losses import Hinge, Huber, Logistic, MulticlassHinge, MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.estimators.estimators import PolkClassifier, PolkRegressor
from kernelswarm.simulations.estimators.second_order import KernelClassifier, KernelRegressor
from kernelswarm.simulations.records.run_folder import load
from tests.helpers.checkout import ROOT


def sine(samples: int = 300, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    x = generator.random((samples, 1))
    return x, np.sin(6.0 * x[:, 0]) + 0.1 * generator.normal(size=samples)


def sectors(classes: int, samples: int = 300, seed: int = 0) -> tuple[Array, AnyArray]:
    """Draw points of the plane, labelled by the sector in which they lie."""
    x = np.random.default_rng(seed).normal(size=(samples, 2))
    angle = np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi) + 0.5
    return x, np.array(["ash", "birch", "cedar", "date", "elm"])[np.minimum((angle * classes).astype(int), classes - 1)]


def in_expectation(estimator: Any) -> dict[str, str]:
    """Name the checks that ask for the same function where a row is repeated: online steps visit rows in an order."""
    reason = "a row of weight 2 is one step, the same row twice is two, and the first data are others"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    [
        PolkRegressor(),
        KernelRegressor(),
        KernelRegressor(20, loss="huber", forgetting=0.99, epochs=2),
        KernelClassifier(),
        PolkClassifier("hinge", kernel="laplacian", batch_size=4, step_size={"name": "diminishing", "initial": 2.0}),
        PolkClassifier("multiclass_logistic"),
    ],
    expected_failed_checks=in_expectation,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_one_pass_in_order_is_the_learner_fed_by_hand() -> None:
    x, y = sine()
    estimator = PolkRegressor(
        bandwidth=0.1,
        step_size=0.4,
        batch_size=7,
        budget={"epsilon": 0.01},
        fit_intercept=False,
        epochs=1,
        shuffle=False,
    ).fit(x, y)
    learner = Polk(kernel=Gaussian(0.1), step_size=Constant(0.4), batch_size=7, budget=Epsilon(0.01))
    state = learner.init(1, 1)
    for start in range(0, len(x), 7):
        own = learner.evaluate(state, x[start : start + 7])
        gradient = learner.gradient(state, own, y[start : start + 7, np.newaxis])
        learner.step(state, [own], [gradient * (len(own.points) / 7)], None, y[start : start + 7, np.newaxis])
    np.testing.assert_array_equal(estimator.dictionary_, state.function.points)
    np.testing.assert_array_equal(estimator.dual_coef_, state.function.weights)
    assert estimator.model_order_ == state.function.order == len(estimator.dictionary_)
    np.testing.assert_array_equal(estimator.predict(x), state.function.values(x)[:, 0])


def test_batches_continue_where_the_last_one_ended() -> None:
    x, y = sine()
    keys = {"bandwidth": 0.1, "step_size": 0.2, "budget": 0.5, "fit_intercept": False}  # none is taken from the data
    whole = PolkRegressor(**keys, epochs=1, shuffle=False).fit(x, y)
    parts = PolkRegressor(**keys)
    for start in range(0, len(x), 50):
        parts.partial_fit(x[start : start + 50], y[start : start + 50])
    np.testing.assert_array_equal(parts.predict(x), whole.predict(x))


def test_seeds_decide_the_shuffle_and_fit_starts_afresh() -> None:
    x, y = sine()
    first = PolkRegressor(random_state=3).fit(x, y)
    again = clone(first).fit(x, y)
    found = first.predict(x)
    np.testing.assert_array_equal(found, again.predict(x))
    np.testing.assert_array_equal(found, first.fit(x, y).predict(x))
    assert np.any(found != PolkRegressor(random_state=4).fit(x, y).predict(x))


@pytest.mark.parametrize(
    ("loss", "classes"), [("logistic", 2), ("hinge", 2), ("multiclass_logistic", 5), ("multiclass_hinge", 5)]
)
def test_classifier_learns_sectors(loss: str, classes: int) -> None:
    x, y = sectors(classes, 800)
    model = PolkClassifier(loss, random_state=0).fit(x, y)
    assert model.score(*sectors(classes, 500, seed=1)) > 0.88


@pytest.mark.parametrize(
    ("loss", "classes", "part"),
    [
        ("logistic", 2, Logistic()),
        ("hinge", 2, Hinge()),
        ("logistic", 3, MulticlassLogistic()),
        ("hinge", 3, MulticlassHinge()),
        ("multiclass_logistic", 2, MulticlassLogistic()),
        ({"name": "multiclass_hinge"}, 2, MulticlassHinge()),
        (MulticlassHinge(), 3, MulticlassHinge()),
    ],
)
def test_loss_follows_the_number_of_classes(loss: Any, classes: int, part: object) -> None:
    assert PolkClassifier(loss, epochs=1).fit(*sectors(classes)).learner_.loss == part


@pytest.mark.parametrize(("loss", "classes"), [("logistic", 2), ("multiclass_logistic", 2), ("logistic", 4)])
def test_probabilities_decision_and_prediction_agree(loss: str, classes: int) -> None:
    x, y = sectors(classes)
    model = PolkClassifier(loss, epochs=1, random_state=0).fit(x, y)
    probabilities, decision = model.predict_proba(x), model.decision_function(x)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(x))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(x), np.log(probabilities))
    assert decision.shape == ((len(x),) if classes == 2 else (len(x), classes))
    if classes == 2:
        np.testing.assert_allclose(probabilities[:, 1], 1.0 / (1.0 + np.exp(-decision)))


@pytest.mark.parametrize(
    "estimator",
    [
        KernelClassifier(random_state=0),
        PolkClassifier("hinge", epochs=1, random_state=0),
        PolkClassifier("squared_hinge", batch_size=8, random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_of_margins_are_those_of_what_comes(estimator: Any, classes: int) -> None:
    x, y = sectors(classes, 1600)
    x = x + 0.4 * np.random.default_rng(1).normal(size=x.shape)  # some are classified wrong whatever is learned
    model = clone(estimator).fit(x[:800], y[:800])
    probabilities = model.predict_proba(x[800:])
    right = model.predict(x[800:]) == y[800:]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(x[800:]))
    assert probabilities.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.05)
    assert model.temperature_ == model.model_.temperature > 0.0
    assert np.all(np.exp(model.predict_log_proba(x)) == pytest.approx(model.predict_proba(x)))


def test_logistic_losses_say_their_probabilities_themselves() -> None:
    for loss in ("logistic", Logistic()):
        assert PolkClassifier(loss, epochs=1).fit(*sectors(2)).temperature_ is None


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_temperature_is_that_of_the_first_pass(epochs: int) -> None:
    x, y = sectors(3)
    model = KernelClassifier(batch_size=1, shuffle=False, random_state=0)
    fitted = clone(model).set_params(epochs=epochs).fit(x, y)
    assert fitted.temperature_ == clone(model).fit(x, y).temperature_
    # What comes sample by sample is predicted before it is learned from, too.
    stream = clone(model).partial_fit(x[:150], y[:150], classes=np.unique(y))
    whole = clone(model).partial_fit(x[:150], y[:150], classes=np.unique(y)).partial_fit(x[150:], y[150:])
    for row in range(150, len(x)):
        stream.partial_fit(x[row : row + 1], y[row : row + 1])
    later = whole.temperature_
    assert stream.temperature_ == later != whole.partial_fit(x, y).temperature_
    assert clone(model).fit(x, y).temperature_ == whole.fit(x, y).temperature_  # fit begins afresh


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "part"),
    [
        ("gaussian", 0.3, Gaussian(0.3)),
        ("polynomial", 0.3, Polynomial()),
        ("linear", "scale", Linear()),
        ({"name": "matern", "smoothness": 2.5}, 0.3, Matern(0.3, 2.5)),
        ({"name": "matern", "bandwidth": 2.0}, 0.3, Matern(2.0)),
        ({"bandwidth": 2.0}, 0.3, Gaussian(2.0)),
        (Laplacian(0.7), 0.3, Laplacian(0.7)),
    ],
)
def test_bandwidth_fills_in_what_the_kernel_leaves_open(kernel: Any, bandwidth: Any, part: object) -> None:
    model = PolkRegressor(kernel=kernel, bandwidth=bandwidth, step_size=0.01, epochs=1).fit(*sine())
    assert model.learner_.kernel == part


def test_scale_follows_the_spread_of_the_inputs() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(200, 8)), generator.normal(size=200)
    bandwidth = float(np.sqrt(8 * x.var() / 2))  # scikit-learn's gamma = "scale"
    assert PolkRegressor(bandwidth="scale", epochs=1).fit(x, y).learner_.kernel == Gaussian(bandwidth)
    wider = PolkRegressor(kernel="matern", bandwidth="scale", epochs=1).fit(16 * x, y).learner_.kernel
    assert wider == Matern(16 * bandwidth)
    assert PolkRegressor(bandwidth="scale").partial_fit([[3.0]], [1.0]).learner_.kernel == Gaussian(1.0)


def test_parts_tables_and_numbers_name_the_same_learner() -> None:
    x, y = sine()
    by_part = PolkRegressor(Huber(0.5), step_size=Diminishing(0.5), budget=Epsilon(0.01), random_state=0)
    by_table = PolkRegressor(
        {"name": "huber", "threshold": 0.5},
        step_size={"name": "diminishing", "initial": 0.5},
        budget={"epsilon": 0.01},
        random_state=0,
    )
    assert by_part.fit(x, y).learner_ == by_table.fit(x, y).learner_
    np.testing.assert_array_equal(by_part.predict(x), by_table.predict(x))


def test_targets_of_several_columns_share_one_dictionary() -> None:
    x, y = sine()
    model = PolkRegressor(bandwidth=0.15, random_state=0).fit(x, np.column_stack([y, -y]))
    prediction = model.predict(x)
    assert prediction.shape == (len(x), 2)
    np.testing.assert_array_equal(prediction[:, 0], -prediction[:, 1])
    assert PolkRegressor(epochs=1).fit(x, y[:, np.newaxis]).predict(x).shape == (len(x), 1)
    with pytest.raises(ValueError, match="y has 1 column: the first batch had 2"):
        model.partial_fit(x, y)


def test_the_model_taken_from_an_estimator_stays_as_it_was() -> None:
    x, y = sine()
    estimator = PolkRegressor(epochs=1, random_state=0).fit(x, y)
    model, before = estimator.model_, estimator.predict(x)
    estimator.partial_fit(x, y)
    np.testing.assert_array_equal(model.predict(x), before)
    assert np.any(estimator.predict(x) != before)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "estimator", [PolkClassifier("hinge"), PolkClassifier("multiclass_logistic"), KernelClassifier()], ids=str
)
def test_saved_classifiers_predict_the_same(tmp_path: Path, estimator: Any, classes: int) -> None:
    x, y = sectors(classes)
    fitted = clone(estimator).fit(x, y)
    fitted.save(tmp_path / "trees.npz")
    model = load(tmp_path / "trees.npz")
    assert np.all(model.predict(x) == fitted.predict(x))
    assert np.all(model.predict_proba(x) == fitted.predict_proba(x))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (PolkClassifier("logistics"), r'^loss = "logistics" is not the name of a loss; did you mean "logistic"\?'),
        (PolkClassifier("squared"), "^loss squared predicts numbers, but the targets are 2 classes"),
        (PolkClassifier(kernel="gausian"), r'^kernel = "gausian" .*did you mean "gaussian"\?'),
        (PolkClassifier(bandwidth=-1.0), "^kernel.bandwidth = -1.0 must be positive"),
        (PolkClassifier(bandwidth="wide"), '^kernel.bandwidth = "wide" must be a number'),
        (PolkClassifier(step_size=-1.0), "^step_size = -1.0 must be positive"),
        (PolkClassifier(step_size=10.0, regularization=0.5), "^step_size = 10.0 must be below 1 / regularization"),
        (PolkClassifier(batch_size=0), "^batch_size = 0 must be at least 1"),
        (PolkClassifier(budget={"epsilons": 1}), "^budget = "),
        (PolkClassifier(budget=-1.0), "^budget.parsimony = -1.0 must not be negative"),
        (PolkClassifier(epochs=0), "^epochs = 0 must be a whole number of at least 1"),
    ],
)
def test_wrong_parameters_are_refused_by_name(estimator: PolkClassifier, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(*sectors(2))


def test_wrong_labels_are_refused() -> None:
    x, y = sectors(3)
    with pytest.raises(ValueError, match="classes must be given in the first call of partial_fit"):
        PolkClassifier().partial_fit(x, y)
    with pytest.raises(ValueError, match=r"^y has 1 class, "):
        PolkClassifier().fit(x, np.full(len(x), "ash"))
    with pytest.raises(ValueError, match=r"^y has the labels \['cedar'\], which are not among the classes"):
        PolkClassifier().partial_fit(x, y, classes=["ash", "birch"])
    model = PolkClassifier(epochs=1).fit(x, y)
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(x, y, classes=["ash", "birch"])


def test_divergence_is_reported_with_its_remedy() -> None:
    generator = np.random.default_rng(0)
    x, y = 10.0 * generator.normal(size=(400, 3)), generator.normal(size=400)
    with pytest.raises(
        FloatingPointError, match=r"^learning diverged after \d+ steps: step_size = 0.2 must stay below"
    ):
        PolkRegressor(kernel="linear", step_size=0.2).fit(x, y)


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    first, _, last = re.findall(r"```python\n(.*?)```", page, re.DOTALL)  # the second needs river's kind of samples
    scope: dict[str, Any] = {}
    for block in (first, last):
        exec(block, scope)
    assert {entry.name for entry in tmp_path.iterdir()} == {"moons.npz", "moons.png"}


@pytest.mark.parametrize("estimator", [PolkRegressor(random_state=0), KernelClassifier(random_state=0)])
def test_targets_whose_index_is_in_another_order_are_paired_by_position_with_a_warning(estimator: Any) -> None:
    x, y = sectors(3) if isinstance(estimator, KernelClassifier) else sine()
    forwards, backwards = list(range(300)), list(range(300))[::-1]
    expected = clone(estimator).fit(x, y).predict(x)
    with pytest.warns(UserWarning, match=r"indices of the same labels in different orders.*give y\.loc\[X\.index\]"):
        found = clone(estimator).fit(DataFrame(x, forwards), Series(y, backwards))
    np.testing.assert_array_equal(found.predict(x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(estimator).fit(DataFrame(x, backwards), Series(y, backwards))
        clone(estimator).fit(DataFrame(x, forwards), Series(y, [label + 1 for label in forwards]))
        clone(estimator).fit(DataFrame(x, forwards), y)
