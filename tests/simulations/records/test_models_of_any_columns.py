"""Models keep how words, times and gaps became numbers, and take the data as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pandas import DataFrame

from kernelswarm import load_model, resume, run, save_model, simulate
from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.core.data_description import CodedColumn, Coding
from kernelswarm.simulations.records.model import Model

RANDOM = np.random.default_rng(5)
ROWS = 120
WHEN = np.datetime64("2021-12-30T06:00", "s") + np.arange(ROWS) * np.timedelta64(5, "h")
COLUMNS: dict[str, Any] = {
    "when": [moment.item().strftime("%d/%m/%Y %H:%M") for moment in WHEN],
    "wind": [("N", "NE", "S")[k % 3] for k in range(ROWS)],
    "load": [f"{1234567 * (k % 9):,}" for k in range(ROWS)],
    "warmth": np.where(np.arange(ROWS) % 11 == 4, np.nan, RANDOM.uniform(size=ROWS)),
}
Y = np.sin(np.arange(ROWS) / 9) + (np.arange(ROWS) % 3 == 0)
KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 3},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 2.0}, "step_size": 0.3},
    "protocol": "isolated",
    "rounds": 30,
    "evaluate_every": 30,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    stream = {"missing": "mean", "times": "cycles"}
    run(folder=folder / "run", data={**COLUMNS, "y": Y}, stream=stream, **KEYS)
    result = simulate(data={**COLUMNS, "y": Y}, stream=stream, **KEYS)
    save_model(result.model(1), folder / "model.npz")
    np.save(folder / "expected.npy", result.model(1).predict(COLUMNS))
    return folder


def expected(folder: Path) -> AnyArray:
    found: AnyArray = np.load(folder / "expected.npy")
    return found


def models(folder: Path) -> list[Model]:
    return [load_model(folder / "model.npz"), load_model(folder / "run", node=1)]


def test_models_take_raw_frames_of_every_kind(folder: Path) -> None:
    turned = {name: COLUMNS[name] for name in reversed(COLUMNS)} | {"note": ["-"] * ROWS}
    typed = COLUMNS | {"when": WHEN, "load": 1234567 * (np.arange(ROWS) % 9)}
    objects = np.array([WHEN.astype(object), COLUMNS["wind"], typed["load"], COLUMNS["warmth"]], dtype=object).T
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    for model in models(folder):
        for points in (COLUMNS, turned, typed, DataFrame(turned), DataFrame(typed), objects, objects.tolist(), rows):
            np.testing.assert_array_equal(model.predict(points), expected(folder))
        table = pa.table({name: pa.array(values, from_pandas=True) for name, values in typed.items()})
        np.testing.assert_array_equal(model.predict(table), expected(folder))


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_a_run_folder_holds_the_data_as_they_were_given(tmp_path: Path, unit: str) -> None:
    data = {**COLUMNS, "when": WHEN.astype(f"datetime64[{unit}]"), "y": Y, "node": ["a", "b", "?", "c"] * 30}
    run(folder=tmp_path / "run", data=data, stream={"missing": "drop"}, **KEYS)
    resume(tmp_path / "run", ["rounds=40"])
    longer = simulate(data=data, stream={"missing": "drop"}, **(KEYS | {"rounds": 40}))
    for node in ("a", "b", "c"):
        resumed = load_model(tmp_path / "run", node=node)
        np.testing.assert_array_equal(resumed.weights, longer.model(node).weights)


def test_columns_of_another_kind_are_refused(folder: Path) -> None:
    model = load_model(folder / "model.npz")
    for changed, message in (
        ({"when": np.arange(ROWS)}, 'column "when" holds numbers, and the training data hold dates or times'),
        ({"wind": np.arange(ROWS)}, 'column "wind" holds numbers, and the training data hold words'),
        ({"load": ["much"] * ROWS}, 'row 1, column "load" holds "much", which is not a number'),
        (
            {"when": [*map(str, WHEN[:-2]), "1 March 23", str(WHEN[-1])]},
            f'row {ROWS - 1}, column "when" holds "1 March 23", where the other 119 entries are dates or times',
        ),
        ({"when": [f"{moment}Z" for moment in WHEN]}, "holds dates or times of a time zone"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            model.predict({**COLUMNS, **changed})
    with pytest.raises(
        ValueError, match=r"points have shape \(3, 11\): the model needs \(n, 4\), the columns when, wind"
    ):
        model.predict(np.zeros((3, 11)))


def test_a_model_that_fills_no_gaps_refuses_them() -> None:
    model = simulate(data={**COLUMNS, "y": Y}, stream={"missing": "drop"}, **KEYS).model(0)
    with pytest.raises(ValueError, match='points: row 4, column "warmth" is missing'):
        model.predict(COLUMNS)
    whole = {name: np.array(values)[:4] for name, values in COLUMNS.items()}
    assert np.isfinite(model.predict(whole)).all()


def test_gaps_are_filled_from_above_where_the_last_value_counts() -> None:
    model = simulate(data={**COLUMNS, "y": Y}, stream={"missing": "last"}, **KEYS).model(0)
    filled = COLUMNS["warmth"].copy()
    filled[4::11] = filled[3::11][: len(filled[4::11])]
    np.testing.assert_array_equal(model.predict(COLUMNS), model.predict({**COLUMNS, "warmth": filled}))


def test_files_hold_the_coding_as_json(folder: Path) -> None:
    arrays = dict(np.load(folder / "model.npz", allow_pickle=False))
    description = json.loads(str(arrays["description"]))
    kinds = [column["kind"] for column in description["inputs"]["coding"]["columns"]]
    assert kinds == ["time", "words", "number", "number"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "smell"}, "does not describe a column"),
        ({"words": ["N", "N"]}, "does not describe a column"),
        ({"fill": "N"}, "does not describe a column"),
        ({"more": 1}, "must be a table with codes, cycles, fill, kind"),
        ({"words": ["N", "S"]}, "inputs.coding makes"),
    ],
)
def test_a_damaged_coding_is_refused(folder: Path, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    arrays = dict(np.load(folder / "model.npz", allow_pickle=False))
    description = json.loads(str(arrays["description"]))
    description["inputs"]["coding"]["columns"][1] |= changed
    np.savez(tmp_path / "bad.npz", **(arrays | {"description": np.array(json.dumps(description))}))
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "bad.npz")


def test_a_coding_is_read_back_as_it_was_written() -> None:
    columns = (
        CodedColumn(
            "when", "time", zoned=True, cycles=("hour", "season"), origin=1.5e15 + 1 / 3, fill=0.1, written="day"
        ),
        CodedColumn("size", "ranks", ("small", "large"), fill=1.0),
    )
    coding = Coding(columns, "last")
    read = Coding.from_dict(json.loads(json.dumps(coding.to_dict())), "coding")
    assert (read.columns, read.missing) == (columns, "last")
    with pytest.raises(ValueError, match='column "size" holds "huge", which has no place in its order'):
        read.coded(np.array([[0.0, 0.0]]), (columns[0], CodedColumn("size", "words", ("huge",))))
