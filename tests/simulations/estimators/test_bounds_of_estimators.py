"""Every bound of the estimators, tried at both of its sides."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelswarm import InputError, KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.simulations.estimators.rows import HEAVIEST, LARGEST

ABOVE = math.nextafter(LARGEST, math.inf)
X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(60, 2))
Y = np.sin(3.0 * X[:, 0])


def fitted(**keys: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KernelRegressor(**{"n_components": 10, **keys}).fit(X, Y)


def spiked(values: Any, spike: float) -> Any:
    """Return a copy with an entry of this size in its first row."""
    found = values.copy()
    found.flat[0] = spike
    return found


def weights(first: float, others: float) -> Any:
    return np.concatenate([[first], np.full(len(Y) - 1, others)])


TRIED: dict[str, tuple[Any, Any, str]] = {
    # name: what is done with a number, the number that is refused and the one beside it that is taken, what is said
    "first": (lambda first: KernelRegressor(first=first).partial_fit(X, Y), (0, 1), "first = 0 must be"),
    "epochs": (lambda epochs: fitted(epochs=epochs), (0, 1), "epochs = 0 must be"),
    "n_components": (lambda count: fitted(n_components=count), (0, 1), "n_components = 0 must be"),
    "value of y": (lambda size: KernelRegressor().fit(X, np.full(60, size)), (ABOVE, LARGEST), "y has a value of 1e"),
    "later value of y": (
        lambda size: fitted().fit(X, np.full(60, LARGEST)).partial_fit(X, np.full(60, size)),
        (ABOVE, LARGEST),
        "y has a value",
    ),
    "value of X": (lambda size: fitted().predict(spiked(X, size)), (ABOVE, LARGEST), "X has a value of 1e"),
    "lower value of X": (lambda size: fitted().predict(spiked(X, size)), (-ABOVE, -LARGEST), "X has a value"),
    "later value of X": (lambda size: fitted().partial_fit(spiked(X, size), Y), (ABOVE, LARGEST), "X has a value"),
    "least weight": (
        lambda weight: fitted().partial_fit(X, Y, weights(weight, 1.0)),
        (math.nextafter(0.0, -1.0), 0.0),
        "must be from 0 to",
    ),
    "greatest weight": (
        lambda weight: KernelRegressor().fit(X, Y, weights(weight, weight)),
        (math.nextafter(HEAVIEST, math.inf), HEAVIEST),
        "must be from 0 to",
    ),
    "least level": (lambda level: fitted().model_.interval(X, level), (0.0, 1e-9), "level = 0.0 must be between"),
    "greatest level": (lambda level: fitted().model_.interval(X, level), (1.0, 1.0 - 1e-9), "level = 1.0 must be"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TRIED)
def test_a_number_beyond_a_bound_is_refused_and_the_one_at_it_is_taken(name: str) -> None:
    take, (refused, taken), words = TRIED[name]
    with pytest.raises((InputError, ValueError), match=words):
        take(refused)
    take(taken)


# --- what is chosen on either side of a number of rows or columns


@pytest.mark.parametrize(("rows", "size"), [(511, 1), (512, 2), (1023, 2), (1024, 4), (16384, 64), (40000, 64)])
def test_batches_leave_256_steps_a_pass_and_have_at_most_64_samples(rows: int, size: int) -> None:
    x = np.linspace(0.0, 1.0, rows)[:, None]
    assert KernelRegressor(5, bandwidth=0.3).fit(x, x[:, 0]).learner_.batch_size == size


@pytest.mark.parametrize(("columns", "batched"), [(NARROW, False), (NARROW + 1, True)])
def test_gradient_steps_take_batches_from_33_columns_on(columns: int, batched: bool) -> None:
    x = np.random.default_rng(0).normal(size=(400, columns))
    assert (PolkRegressor(epochs=1).fit(x, x[:, 0]).learner_.batch_size > 1) == batched


@pytest.mark.parametrize(("rows", "columns", "several"), [(20, 2, True), (19, 2, False), (30, 3, True), (29, 3, False)])
def test_lengths_by_relevance_want_ten_rows_for_each_column(rows: int, columns: int, several: bool) -> None:
    """Of a target that hangs on one column alone, which rows enough show at once."""
    x = np.random.default_rng(1).uniform(size=(rows, columns))
    model = KernelRegressor().fit(x, np.sin(8.0 * x[:, 0]))
    assert isinstance(model.learner_.kernel.bandwidth, tuple) == several


# --- warnings


def warned(estimator: Any, x: Any, y: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(x, y)
    return " ".join(str(each.message) for each in caught)


@pytest.mark.parametrize(
    ("rows", "copies", "said"),
    [(20, 0, False), (21, 0, True), (100, 5, True), (100, 6, False), (40, 2, True), (40, 3, False)],
)
def test_a_dictionary_of_nearly_all_samples_is_named(rows: int, copies: int, said: bool) -> None:
    x = np.arange(rows, dtype=float)
    x[rows - copies :] = x[:copies]
    found = warned(PolkRegressor(bandwidth=0.01, budget=1e-9), x[:, None], np.sin(x))
    assert ("samples were kept" in found) == said


@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier, PolkRegressor, PolkClassifier])
@pytest.mark.parametrize(("bandwidth", "remedy"), [(1e-5, "widen bandwidth"), (1e5, "shorten bandwidth")])
def test_the_remedy_for_a_bandwidth_points_to_where_it_helps(estimator: Any, bandwidth: float, remedy: str) -> None:
    x = np.random.default_rng(0).uniform(size=(200, 1))
    y = np.sin(6.0 * x[:, 0]) if "Regressor" in estimator.__name__ else x[:, 0] > 0.5
    keys = {"n_components": 30} if "Kernel" in estimator.__name__ else {}
    found = warned(estimator(bandwidth=bandwidth, **keys), x, y)
    assert remedy in found
    assert "bandwidth" not in warned(estimator(bandwidth=0.2, **keys), x, y)


# --- what a fit leaves behind


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [KernelRegressor(10, random_state=0), PolkRegressor(random_state=0)])
def test_rows_kept_before_a_fit_do_not_come_back_after_it(estimator: Any) -> None:
    x = np.random.default_rng(2).uniform(size=(200, 1))
    y = np.sin(6.0 * x[:, 0])
    plain, again = clone(estimator), clone(estimator).partial_fit(x[:9] + 5.0, 100.0 + y[:9])  # of other data
    for model in (plain, again):
        model.fit(x[:150], y[:150]).partial_fit(x[150:], y[150:])
    np.testing.assert_array_equal(again.predict(x), plain.predict(x))
