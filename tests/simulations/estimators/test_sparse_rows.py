"""Sparse rows, and arrays that may not be written, are learned from and predicted at as dense ones of one's own."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csr_array, csr_matrix
from sklearn.base import clone

from kernelswarm import (
    BudgetedKernelFeatures,
    InputError,
    KernelClassifier,
    KernelRegressor,
    OnlineKernelFeatures,
    PolkClassifier,
    PolkRegressor,
    load_model,
    simulate,
)
from kernelswarm.arrays import Array
from kernelswarm.simulations.estimators import rows
from tests.helpers.pairs import in_pairs

ESTIMATORS: list[Any] = [
    PolkRegressor(random_state=0),
    PolkRegressor(kernel="linear", random_state=0),
    PolkRegressor(kernel="polynomial", bandwidth="scale", random_state=0),
    PolkRegressor(bandwidth="scale", batch_size=7, random_state=0),
    KernelRegressor(40, random_state=0),
    PolkClassifier(random_state=0),
    KernelClassifier(40, random_state=0),
    OnlineKernelFeatures(4),
    BudgetedKernelFeatures(4, 9, bandwidth="median"),
]


def data(inputs: int = 50) -> tuple[Array, Array]:
    generator = np.random.default_rng(2)
    x = generator.normal(size=(230, inputs)) * (generator.random((230, inputs)) < 0.2)
    return x, x[:, 0] - 2.0 * x[:, 1]


def learned(estimator: Any, x: Any, y: Array, parts: bool) -> Any:
    model, keys = clone(estimator), {}
    if hasattr(model, "decision_function"):
        y, keys = np.where(y > 0.0, 1, 0), {"classes": [0, 1]}
    if not parts:
        return model.fit(x, y)
    for places in (slice(0, 1), slice(1, 30), slice(30, 230)):
        model.partial_fit(x[places], y[places], **keys)
    return model


def answers(model: Any, x: Any) -> Array:
    name = next(name for name in ("transform", "decision_function", "predict") if hasattr(model, name))
    found: Array = getattr(model, name)(x)
    return found


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_rows_are_learned_from_as_dense_ones(
    estimator: Any, parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data()
    dense = learned(estimator, x, y, parts)
    for size in (rows.BLOCK_BYTES, 8 * 50 * 37):  # all rows at once, and in blocks
        monkeypatch.setattr(rows, "BLOCK_BYTES", size)
        sparse = learned(estimator, csr_array(x), y, parts)
        np.testing.assert_array_equal(answers(sparse, x), answers(dense, x))
        for kind in (csr_array, csr_matrix, csc_array, coo_matrix):
            np.testing.assert_allclose(answers(sparse, kind(x)), answers(dense, x), rtol=1e-9, atol=1e-12)


def test_no_more_rows_are_dense_at_a_time_than_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    densely = rows.dense
    monkeypatch.setattr(rows, "dense", lambda points: seen.append(points.shape[0]) or densely(points))
    monkeypatch.setattr(rows, "BLOCK_BYTES", 8 * 50 * 32)
    x, y = data()
    KernelRegressor(40, batch_size=8, bandwidth=1.0, step_size=0.1, ridge=0.1, budget=0.1).fit(csr_array(x), y)
    assert max(seen) == 32


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_sparse_rows_whose_dictionary_has_no_room_are_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = csr_array((np.ones(3), np.arange(3), np.arange(4)), shape=(3, 2_000_000))
    with monkeypatch.context() as patch:
        patch.setattr(rows, "free", lambda: 2**30)
        if method == "fit":
            patch.setattr(rows, "BLOCK_BYTES", 2**24)
            patch.setattr(rows, "free", lambda: 2**26)
        with pytest.raises(InputError, match=r"X is sparse with 2,000,000 columns: .*TruncatedSVD"):
            getattr(PolkRegressor(), method)(wide, [1.0, 2.0, 3.0])


def test_sparse_rows_that_hold_no_numbers_are_refused() -> None:
    x, y = data()
    for value in (np.nan, 1e200):
        x[7, 3] = value
        with pytest.raises(ValueError, match="X"):
            PolkRegressor().fit(csr_array(x), y)


@in_pairs(estimator=ESTIMATORS, inputs=[2, 50], kind=["mapped", "read-only", "columns", "float32"])
def test_arrays_that_may_not_be_written_are_taken(estimator: Any, inputs: int, kind: str, tmp_path: Path) -> None:
    x, y = data(inputs)
    if kind == "float32":
        x = x.astype(np.float32).astype(np.float64)
    for parts in (False, True):
        wanted = learned(estimator, x, y, parts)
        given = [locked(each, kind, tmp_path / f"{place}.npy") for place, each in enumerate((x, y))]
        if kind == "float32":
            given[1] = y
        found = learned(estimator, *given, parts)
        np.testing.assert_array_equal(answers(found, given[0]), answers(wanted, x))
        np.testing.assert_array_equal(answers(found, given[0][:1]), answers(wanted, x[:1]))
        if hasattr(found, "save"):
            found.save(tmp_path / "model.npz")
            model = load_model(tmp_path / "model.npz")
            np.testing.assert_array_equal(model.predict(given[0]), wanted.predict(x))
            weights = locked(np.abs(x[:, 0]), kind, tmp_path / "weights.npy")
            aims = wanted.predict(x) if hasattr(found, "classes_") else given[1]
            clone(estimator).fit(given[0], aims, sample_weight=weights)


def copied(model: Any, way: str, path: Path) -> Any:
    """Return a copy of an estimator: in memory, in buffers that may not be written, or in a file that is mapped."""
    if way == "copy":
        return copy.deepcopy(model)
    if way == "buffers":
        buffers: list[pickle.PickleBuffer] = []
        held = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
        return pickle.loads(held, buffers=[bytes(buffer) for buffer in buffers])
    joblib.dump(model, path)
    return joblib.load(path, mmap_mode=None if way == "file" else way)


@in_pairs(
    estimator=[*ESTIMATORS, KernelRegressor(20, forgetting="auto")],
    rows=[40, 120],
    way=["copy", "buffers", "file", "r", "c", "r+"],
)
def test_copies_learn_on_alike_wherever_they_lie(estimator: Any, rows: int, way: str, tmp_path: Path) -> None:
    x, y = data(2)
    keys, path = {}, tmp_path / "model.joblib"
    if hasattr(estimator, "decision_function"):
        y, keys = np.where(y > 0.0, 1, 0), {"classes": [0, 1]}
    model = clone(estimator).partial_fit(x[:rows], y[:rows], **keys)
    twin = copied(model, way, path)
    before = path.read_bytes() if path.exists() else b""
    np.testing.assert_array_equal(answers(twin, x), answers(model, x))
    twin.partial_fit(x[rows:], y[rows:])
    assert before == (path.read_bytes() if path.exists() else b"")
    np.testing.assert_array_equal(answers(twin, x), answers(model.partial_fit(x[rows:], y[rows:]), x))
    if hasattr(model, "model_"):  # which file, or memory, is read again
        again = copied(twin.model_, way, tmp_path / "again.joblib")
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("kind", ["mapped", "read-only", "columns"])
def test_networks_learn_from_arrays_that_may_not_be_written(kind: str, tmp_path: Path) -> None:
    x, y = data(3)
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 4}, "learner": "polk", "protocol": "consensus"}
    for stream in ({"standardize": False, "order": "file"}, {"standardize": True}):
        own, given = (
            simulate(data=each, stream=stream, rounds=8, **keys)
            for each in ((x, y), [locked(part, kind, tmp_path / f"{len(part.shape)}.npy") for part in (x, y)])
        )
        np.testing.assert_array_equal(
            given.model(0).predict(locked(x, kind, tmp_path / "x.npy")), own.model(0).predict(x)
        )


def locked(values: Array, kind: str, path: Path) -> Any:
    """Return an array that may not be written."""
    if kind in ("mapped", "float32"):
        np.save(path, values if kind == "mapped" else values.astype(np.float32))
        return np.load(path, mmap_mode="r")
    found = np.asfortranarray(values) if kind == "columns" else values.copy()
    found.flags.writeable = False
    return found
