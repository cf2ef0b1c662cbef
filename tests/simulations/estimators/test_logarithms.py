"""Logarithms of columns with heavy tails: which columns, when the likelihood takes them, and what carries them."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import log_loss

from kernelswarm import (
    IncrementalRegressor,
    InputError,
    KernelClassifier,
    KernelRegressor,
    PolkClassifier,
    PolkRegressor,
    load_model,
)
from kernelswarm.agents.parts import tails
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.data_description import Variables
from tests.helpers.checkout import ROOT

REGRESSORS: list[Any] = [PolkRegressor, KernelRegressor]
ALL: list[Any] = [*REGRESSORS, PolkClassifier, KernelClassifier]


def counts(rows: int = 500, kind: Any = PolkRegressor) -> tuple[Array, Array]:
    """Draw twelve counts over five decades, one column without tails, and targets by the logarithms of the rates."""
    random = np.random.default_rng(4)
    hidden = random.normal(size=(rows, 2))
    angles = np.linspace(0.0, 5.0, 12)
    rates = 3.0 + 2.0 * hidden @ np.stack([np.cos(angles), np.sin(angles)]) + 0.2 * random.normal(size=(rows, 12))
    x = np.column_stack([random.poisson(np.exp(np.minimum(rates, 12.0))), random.normal(size=rows)])
    y = hidden[:, 0] + np.sin(2.0 * hidden[:, 1]) + 0.1 * random.normal(size=rows)
    return x, (y > 0.0).astype(float) if kind in ALL[2:] else y


@pytest.mark.parametrize("kind", ALL)
def test_counts_over_decades_are_learned_by_their_logarithms(kind: Any) -> None:
    x, y = counts(kind=kind)
    known, new = slice(0, 300), slice(300, 500)
    off, auto, asked = (kind(random_state=0, logarithms=key).fit(x[known], y[known]) for key in (False, "auto", True))
    if kind in REGRESSORS:
        errors = [1.0 - model.score(x[new], y[new]) for model in (off, auto)]
    else:
        errors = [log_loss(y[new], model.predict_proba(x[new])) for model in (off, auto)]
    assert errors[1] < 0.8 * errors[0]
    assert np.array_equal(auto.logarithms_ > 0.0, np.arange(13) < 12) and not off.logarithms_.any()
    assert np.array_equal(auto.predict(x), asked.predict(x))
    assert "logarithms=12" in repr(auto.model_) and "logarithms" not in repr(off.model_)


@pytest.mark.parametrize("kind", ALL)
def test_units_and_offsets_of_columns_change_nothing(kind: Any) -> None:
    x, y = counts(300, kind)
    units = 10.0 ** np.random.default_rng(0).integers(-6, 7, 13)
    model, other = (kind(random_state=0).fit(points, y) for points in (x, units * (x + 5.0)))
    np.testing.assert_allclose(other.logarithms_, units * model.logarithms_)
    assert model.logarithms_.any()
    for name in ("predict",) if kind in REGRESSORS else ("predict", "decision_function"):
        np.testing.assert_allclose(getattr(other, name)(units * (x + 5.0)), getattr(model, name)(x), atol=1e-6)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("case", ["no tails", "lengths in numbers", "heavy tails that matter as they are"])
def test_without_tails_or_evidence_no_bit_changes(kind: Any, case: str) -> None:
    x, y = counts(300, kind)
    keys: dict[str, Any] = {}
    if case == "no tails":
        x = np.column_stack([np.random.default_rng(1).normal(size=(300, 3)), x[:, :1] > 0.0, np.ones(300)])
    elif case == "lengths in numbers":
        keys["bandwidth"] = 1e3
    else:
        x = np.random.default_rng(1).standard_t(1.5, size=(300, 2))
        y = x[:, 0] - 2.0 * x[:, 1] if kind is KernelRegressor else y[::-1]  # affine, or nothing to do with x
        assert tails.found(x) is not None
    auto, off = (kind(random_state=0, logarithms=key, **keys).fit(x, y) for key in ("auto", False))
    assert np.array_equal(auto.predict(x), off.predict(x)) and not auto.logarithms_.any()


@pytest.mark.parametrize("kind", ALL)
def test_files_pickles_sparse_rows_and_single_rows_have_the_same_bits(kind: Any, tmp_path: Path) -> None:
    x, y = counts(400, kind)
    model = kind(random_state=0).fit(x[:300], y[:300])
    model.save(tmp_path / "model.npz")
    read, again = load_model(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))
    sparse = kind(random_state=0).fit(csr_array(x[:300]), y[:300])
    wanted = model.predict(x)
    assert model.logarithms_.any()
    for found in (read.predict(x), again.predict(x), sparse.predict(csr_array(x)), sparse.predict(x)):
        assert np.array_equal(found, wanted)
    assert np.array_equal(model.predict(x[7:8]), wanted[7:8])
    elsewhere = runpy.run_path(str(ROOT / "examples/elsewhere.py"))
    np.testing.assert_allclose(elsewhere["predict"](*elsewhere["read"](tmp_path / "model.npz"), x), wanted, atol=1e-9)
    if kind is KernelRegressor:
        for found, known in zip(read.predict(x, return_std=True), model.predict(x, return_std=True), strict=True):
            assert np.array_equal(found, known)


@pytest.mark.parametrize("kind", ALL)
def test_single_rows_are_learned_from_by_their_logarithms_as_chunks_are(kind: Any) -> None:
    x, y = counts(200, kind)
    single, classes = kind(random_state=0), {} if kind in REGRESSORS else {"classes": [0.0, 1.0]}
    for row, target in zip(x[:, np.newaxis], y[:, np.newaxis], strict=True):
        single.partial_fit(row, target, **classes)
    one = kind(random_state=0).partial_fit(x[:100], y[:100], **classes).partial_fit(x[100:], y[100:], **classes)
    assert one.logarithms_.any() and np.array_equal(single.predict(x), one.predict(x))


def test_the_model_of_an_incremental_estimator_takes_logarithms_too() -> None:
    x, y = counts(150)
    model = IncrementalRegressor(PolkRegressor())
    rows = [dict(zip("abcdefghijklm", row, strict=True)) for row in x.tolist()]
    for row, target in zip(rows, y.tolist(), strict=True):
        model.learn_one(row, target)
    assert model.estimator.logarithms_.any()
    assert model.model_.predict(rows[:1])[0] == model.predict_one(rows[0])


@pytest.mark.parametrize("value", ["yes", 1.0, None])
def test_other_words_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r'logarithms = .* must be True, False or "auto"'):
        PolkRegressor(logarithms=value).fit(*counts(80))


def test_only_tails_of_many_rows_are_heavy() -> None:
    random = np.random.default_rng(0)
    outlier = random.normal(size=1000)
    outlier[3] = 1e9
    log_normal = np.exp(1.5 * random.normal(size=1000))
    rare = np.where(random.random(1000) < 0.05, log_normal, 0.0)
    plain = [random.normal(size=1000), random.exponential(size=1000), outlier, rare, rare > 0.0, np.ones(1000)]
    assert tails.found(np.column_stack(plain)) is None
    assert tails.found(log_normal[:59, np.newaxis]) is None
    heavy = np.column_stack([log_normal, 7.0 - log_normal, np.sinh(3.0 * random.normal(size=1000)), plain[0]])
    found = tails.found(heavy)
    assert found is not None
    middle, unit = found
    assert middle[:2].tolist() == [log_normal.min(), (7.0 - log_normal).max()]
    assert middle[2] == np.median(heavy[:, 2]) and (unit > 0.0).tolist() == [True, True, True, False]
    far = np.abs(heavy - middle)
    np.testing.assert_allclose([np.mean(far[far[:, k] > 0.0, k] < unit[k]) for k in range(3)], 0.5, atol=1e-3)


def test_what_logarithms_promise_is_a_matter_of_the_order_of_targets() -> None:
    x, y = counts(200)
    bent = np.column_stack([np.log1p(x[:, :12]), x[:, 12]])
    found = tails.promise(x, bent, y[:, np.newaxis])
    assert found > tails.GAIN
    assert found == tails.promise(x, bent, np.exp(5.0 * y)[:, np.newaxis]) == -tails.promise(bent, x, y[:, np.newaxis])
    assert tails.promise(x, bent, np.random.default_rng(0).permutation(y)[:, np.newaxis]) < tails.GAIN


def test_errors_left_out_are_those_of_fits_without_each_row() -> None:
    x, y = counts(40)
    gram = 3.0 * Gaussian(100.0).cross(x, x)
    wanted = []
    for i in range(40):
        rows = np.arange(40) != i
        weights = np.linalg.solve(gram[np.ix_(rows, rows)] + 0.3 * np.eye(39), y[rows])
        wanted.append((y[i] - gram[i, rows] @ weights) ** 2)
    assert tails.error_left_out(gram, y[:, np.newaxis]) == pytest.approx(np.mean(wanted))


def test_scaling_by_logarithms_is_undone_and_damaged_ones_are_refused() -> None:
    inputs = Variables(("a", "b"), np.array([0.5, 3.0]), np.array([2.0, 4.0]), None, np.ones(2), np.array([5.0, 0.0]))
    x = np.array([[1e6, 2.0], [-1e6, 3.0], [1.0, 4.0]])
    sign, apart = np.array([1.0, -1.0, 1.0]), np.array([1e6 - 1.0, 1e6 + 1.0, 0.0])
    wanted = np.column_stack([(sign * np.log(1.0 + apart / 5.0) - 0.5) / 2.0, (x[:, 1] - 3.0) / 4.0])
    np.testing.assert_allclose(inputs.scaled(x), wanted)
    np.testing.assert_allclose(inputs.raw(inputs.scaled(x)), x, rtol=1e-9)
    table = inputs.to_dict()
    assert np.array_equal(Variables.from_dict(table, "inputs").scaled(x), inputs.scaled(x))
    for change in ({"tail": [1.0, -1.0]}, {"tail": None}, {"middle": [0.0]}, {"tail": [1.0], "middle": [0.0]}):
        with pytest.raises(ValueError, match="inputs"):
            Variables.from_dict(table | change, "inputs")
