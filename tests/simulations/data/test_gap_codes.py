"""Values that stand for gaps though they look like others: -200, -999, "missing"."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Coding
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.gaps import NaValues, gap_codes, table_without
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.experiment.data_template import write_for
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.simulation import simulate

File = partial(file.File, missing="mean", standardize=False)
ROWS = 80
RANDOM = np.random.default_rng(0)
GAPS = {column: RANDOM.uniform(size=ROWS) < 0.2 for column in ("gas", "count", "wind", "y")}
GAS, COUNT = RANDOM.uniform(1.0, 9.0, ROWS).round(2), RANDOM.integers(0, 50, ROWS)
WIND, Y = np.array(["N", "E", "S", "W"] * (ROWS // 4)), RANDOM.normal(size=ROWS).round(3)
CODES: dict[str, Any] = {"gas": -200, "count": -200, "wind": "none", "y": -9999}
BY_COLUMN: NaValues = {"gas": -200.0, "count": (-200.0, -1.0), "wind": ("none",), "y": -9999.0}
EVERYWHERE: NaValues = (-200.0, "none", -9999.0)
FLAT = (-200.0, -9999.0)


def columns(gap: Any = None) -> dict[str, Any]:
    """Return columns with codes, or one kind of gap, where values are missing."""
    found = {}
    for column, values in {"gas": GAS, "count": COUNT, "wind": WIND, "y": Y}.items():
        there = [None if missing else value for missing, value in zip(GAPS[column], values.tolist(), strict=True)]
        found[column] = [(CODES[column] if gap is None else gap) if value is None else value for value in there]
    return found


def written(gap: Any = None) -> str:
    own = columns(gap)
    return "\n".join([",".join(own), *(",".join(map(str, row)) for row in zip(*own.values(), strict=True))]) + "\n"


def samples(source: Source) -> list[Any]:
    for node in source.nodes:
        node.restore({"samples": 0})
    return [array.tolist() for node in source.nodes for array in (*node.draw(ROWS), node.held_out(0).points)]


def opened(stream: file.File) -> Source:
    return stream.open(3, 0, 100, None)


@pytest.fixture
def gaps(tmp_path: Path) -> Source:
    """The rows with empty fields in place of all codes."""
    (tmp_path / "empty.csv").write_text(written(""))
    return opened(File(tmp_path / "empty.csv"))


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        *((kind, asked) for kind in ("csv", "parquet", "frame", "categories") for asked in (EVERYWHERE, BY_COLUMN)),
        ("csv", ("-200", "none", "-9999")),
    ],
)
def test_codes_are_what_empty_fields_are(tmp_path: Path, gaps: Source, kind: str, asked: NaValues) -> None:
    table = pa.table(columns())
    if kind == "categories":
        table = table.set_column(2, "wind", table.column("wind").dictionary_encode())
    (tmp_path / "t.csv").write_text(written())
    parquet.write_table(table, tmp_path / "t.parquet")
    stream = File(tmp_path / ("t.csv" if kind == "csv" else "t.parquet"), na_values=asked)
    if kind == "frame":
        held, names = from_python(table, target="y")
        stream = File("", **names, na_values=asked).holding(held)
    assert samples(opened(stream)) == samples(gaps)


def test_decimals_may_be_codes() -> None:
    table = pa.table({"a": pa.array([1.5, -200.0, 2.0]).cast(pa.decimal128(9, 3))})
    left = table_without(table, ["a"], -200.0).column("a")
    assert left.type == pa.decimal128(9, 3) and left.cast(pa.float64()).to_pylist() == [1.5, None, 2.0]


def test_an_order_of_categories_stays_without_the_one_that_is_a_gap() -> None:
    levels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 1, None]), ["unknown", "low", "high"], ordered=True)
    found: dict[str, int] = {}
    left = table_without(pa.table({"level": levels}), ["level"], "unknown", found).column("level")
    assert left.to_pylist() == [None, "low", "high", None, "low", None]
    assert left.type.ordered and left.chunk(0).dictionary.to_pylist() == ["low", "high"]
    assert found == {'"unknown"': 2}


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("asked", [FLAT, {"x[:, 0]": -200.0, "x[:, 1]": -200.0, "y": -9999.0}], ids=str)
def test_arrays_know_codes(tmp_path: Path, kind: Any, asked: NaValues) -> None:
    own = columns()
    x = np.column_stack([np.round(own["gas"]), own["count"]]).astype(kind)
    y = np.round(own["y"]).astype(kind)
    arrays = {"x": x, "y": y, "x_test": x[:9], "y_test": y[9:18]}
    gaps = {name: np.where(np.isin(array, FLAT), np.nan, array.astype(float)) for name, array in arrays.items()}
    np.savez(tmp_path / "d.npz", **arrays)
    keys: dict[str, Any] = {"task": "regression"}
    expected = samples(opened(File("", **keys).holding(from_python(gaps)[0])))
    streams = [File(tmp_path / "d.npz", na_values=asked, **keys)]
    streams.append(File("", na_values=asked, **keys).holding(from_python(arrays)[0]))
    for stream in streams:
        assert samples(opened(stream)) == expected


def test_svmlight_files_know_codes(tmp_path: Path) -> None:
    lines = [f"{y} 1:{x} 2:{n}" for x, n, y in zip(GAS, np.where(GAPS["count"], -200, COUNT), Y, strict=True)]
    (tmp_path / "d.svm").write_text("\n".join(lines))
    source = opened(File(tmp_path / "d.svm", na_values={"feature 1": -200.0}))
    assert source.facts["gaps"].startswith(f"{GAPS['count'].sum()} values missing")  # type: ignore[union-attr]


def test_narrow_numbers_are_compared_as_they_were_written() -> None:
    table = pa.table({"a": pa.array([1.0, -999.9, 2.0], pa.float32())})
    assert table_without(table, ["a"], -999.9).column("a").to_pylist() == [1.0, None, 2.0]


def test_how_many_are_codes_is_said_and_which_occur_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(written())
    found = opened(File(tmp_path / "t.csv", na_values=(-200.0, -9999.0, "none", -77.0)))
    coded = GAPS["gas"].sum() + GAPS["count"].sum()
    assert f", {coded} of them written as -200, {GAPS['y'].sum()} of them written as -9999, in" in found.facts["gaps"]  # type: ignore[operator]
    assert str(found.facts["gaps"]).endswith("; no value is -77, which na_values names")
    with pytest.raises(ValueError, match=r'column "[a-z]+" is missing') as refusal:
        opened(File(tmp_path / "t.csv", na_values=EVERYWHERE, missing="refuse"))
    assert 'stream.missing = "drop"' in str(refusal.value)


def test_models_know_the_codes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(written())
    keys = {"name": "file", "path": str(tmp_path / "t.csv"), "missing": "mean", "na_values": ["none", -200, -9999]}
    experiment = {"topology": {"name": "ring", "nodes": 3}, "learner": "linear", "protocol": "consensus", "rounds": 20}
    result = simulate(Experiment.from_dict({**experiment, "stream": keys}))
    model: Model = result.model(0)
    assert np.array_equal(model.predict(columns()), model.predict(columns(np.nan) | {"wind": columns(None)["wind"]}))
    assert not np.array_equal(model.predict(columns()), model.predict(columns() | {"gas": GAS}))
    coding = model.input_variables.coding
    assert coding is not None
    again = Coding.from_dict(json.loads(json.dumps(coding.to_dict())), "coding")
    assert again.columns == coding.columns and again.columns[0].codes == ("none", -200.0, -9999.0)


@pytest.mark.parametrize(
    ("asked", "output"),
    [
        ({"gaz": -200}, 'na_values = "gaz" is not a column of'),
        ([True], "na_values = \\[true\\] must be a number or a string"),
        (float("nan"), "na_values = nan must be"),
        ({"gas": [[1]]}, "must be a number or a string"),
    ],
)
def test_what_is_no_code_is_refused(tmp_path: Path, asked: Any, output: str) -> None:
    (tmp_path / "t.csv").write_text(written())
    keys = {"name": "file", "path": str(tmp_path / "t.csv"), "missing": "mean", "na_values": asked}
    with pytest.raises((InputError, RefusedKey), match=output):
        examine(
            Experiment.from_dict(
                {"topology": {"name": "ring", "nodes": 3}, "stream": keys, "learner": "linear", "protocol": "consensus"}
            )
        )


def air(folder: Path, **more: Any) -> tuple[Path, int]:
    """Write measurements as a logger does: -200 far outside of some columns' values. Returns how often it occurs."""
    random = np.random.default_rng(1)
    own = {
        "CO(GT)": random.uniform(0.1, 9.0, 200),
        "NOx(GT)": random.uniform(2.0, 1500.0, 200),
        "T": random.normal(15.0, 9.0, 200),
        "ozone": random.normal(1000.0, 300.0, 200),
    }
    own = {name: np.where(random.uniform(size=200) < 0.1, -200.0, values.round(3)) for name, values in own.items()}
    rows = zip(*own.values(), *more.values(), strict=True)
    lines = [",".join(map(str, row)) for row in [(*own, *more), *rows]]
    (folder / "air.csv").write_text("\n".join(lines))
    return folder / "air.csv", sum(int((values == -200.0).sum()) for values in own.values())


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(99) % 10 == 0, 30.0, np.arange(99) % 7),  # a jump upwards may be measured
        np.where(np.arange(99) == 5, -999.0, np.arange(99)),  # once
        np.where(np.arange(99) % 9 == 0, -999.0, -1010.0 + np.arange(99)),  # among others
        np.zeros(50),
        np.full(50, np.nan),
    ],
)
def test_what_may_be_measured_is_not_suspected(values: Any) -> None:
    assert gap_codes(["a"], [values]) == ()


def test_init_names_the_codes_and_check_warns_of_them(tmp_path: Path) -> None:
    path, times = air(tmp_path)
    output = write_for(path, tmp_path / "e.toml", target="ozone")
    assert "all of them written as -200" in output and "change stream.na_values if it was measured" in output
    experiment = Experiment.from_file(tmp_path / "e.toml")
    assert isinstance(experiment.stream, file.File) and experiment.stream.na_values == (-200.0,)
    assert "as if it stood for gaps" not in as_text(examine(experiment))
    assert file.File(path, target="ozone").open(3, 0, 10, None).facts["gap_codes"] == (
        f'-200 occurs {times} times in "CO(GT)", "NOx(GT)", "T" and 1 more '
        "columns, far from other values, as if it stood for gaps: name it in stream.na_values"
    )


def test_init_names_the_columns_where_others_measure_the_value(tmp_path: Path) -> None:
    path, _ = air(tmp_path, height=np.resize([-400.0, -200.0, 0.0, 350.0], 200))
    write_for(path, tmp_path / "e.toml", target="ozone")
    experiment = Experiment.from_file(tmp_path / "e.toml")
    assert isinstance(experiment.stream, file.File) and isinstance(experiment.stream.na_values, dict)
    assert set(experiment.stream.na_values) == {"CO(GT)", "NOx(GT)", "T", "ozone"}
    examine(experiment)
