"""Values that are missing: refused, or left out, or filled with what the rows that are learned from say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pandas import DataFrame
from pyarrow import parquet

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.core.data_description import Missing
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.array_files import OpenML
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.in_memory import from_python

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""

WARMTH = [1.0, np.nan, 3.0, 4.0, np.nan, 6.0, 7.0, 8.0, np.nan, 10.0, 11.0, 12.0] * 5
WIND = ["N", "E", None, "N", "N", "S", "E", "N", None, "N", "S", "N"] * 5
Y = [*(np.nan if k % 20 == 7 else 0.5 * k for k in range(60))]
OWNER = ["a", "b"] * 30
COUNT = np.arange(60.0)


def written(gap: str = "") -> str:
    def field(value: Any) -> str:
        return gap if value is None or value != value else str(value)

    columns = {"k": COUNT, "warmth": WARMTH, "wind": WIND, "y": Y, "node": OWNER}
    rows = [",".join(map(field, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *rows]) + "\n"


def columns() -> dict[str, Any]:
    return {"k": COUNT, "warmth": np.array(WARMTH), "wind": np.array(WIND, object), "y": np.array(Y), "node": OWNER}


def samples(source: Source, place: int = 0) -> tuple[AnyArray, AnyArray]:
    """Return all rows that a node learns from."""
    source.nodes[place].restore({"samples": 0})
    points, targets = source.nodes[place].draw(99)
    return points, targets


def test_gaps_are_refused_by_row_and_column_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(written())
    with pytest.raises(
        ValueError, match=r'row 2, column "warmth" is missing .*, one of 28 gaps in 3 columns'
    ) as refused:
        File(tmp_path / "t.csv").open(2, 0, 9, None)
    assert 'set stream.missing = "drop", "mean" or "last"' in str(refused.value)
    with pytest.raises(ValueError, match='missing = "zero" must be "refuse", "drop", "mean" or "last"'):
        File(tmp_path / "t.csv", missing="zero")  # type: ignore[arg-type]


def with_parquet(tmp_path: Path, **keys: Any) -> Source:
    parquet.write_table(
        pa.table({name: pa.array(own, from_pandas=True) for name, own in columns().items()}), tmp_path / "t.parquet"
    )
    return File(tmp_path / "t.parquet", **keys).open(2, 0, 99, None)


def with_csv(tmp_path: Path, **keys: Any) -> Source:
    (tmp_path / "t.csv").write_text(written())
    return File(tmp_path / "t.csv", **keys).open(2, 0, 99, None)


def held(data: Any, **keys: Any) -> Source:
    found, found_keys = from_python(data)
    return File(found.path, **found_keys, **keys).holding(found).open(2, 0, 99, None)


def in_memory(_: Path, **keys: Any) -> Source:
    return held(columns(), **keys)


def in_a_frame(_: Path, **keys: Any) -> Source:
    return held(DataFrame(columns()), **keys)


def as_objects(_: Path, **keys: Any) -> Source:
    own = columns()
    x = np.array([COUNT, own["warmth"], own["wind"]], dtype=object).T
    return held((x, own["y"], np.array(OWNER)), **keys)


OPENED: list[Callable[..., Source]] = [with_csv, with_parquet, in_memory, in_a_frame, as_objects]


@pytest.mark.parametrize("missing", ["drop", "mean", "last"])
def test_every_format_gives_the_same_numbers(tmp_path: Path, missing: Missing) -> None:
    sources = [opened(tmp_path, missing=missing, standardize="auto") for opened in OPENED]
    for source in sources[1:]:
        for place in (0, 1):
            for own, first in zip(samples(source, place), samples(sources[0], place), strict=True):
                assert np.array_equal(own, first) and not np.isnan(own).any()
    for source in sources[:-1]:
        assert source.description.inputs.names == ("k", "warmth", "wind=E", "wind=N", "wind=S")
        assert str(source.facts["gaps"]).startswith("28 values missing of 60 rows, in warmth 15, wind 10 and y 3: ")


def test_dropped_rows_are_those_with_any_gap(tmp_path: Path) -> None:
    source = with_csv(tmp_path, missing="drop")
    whole = [k for k in range(60) if WARMTH[k] == WARMTH[k] and WIND[k] is not None and Y[k] == Y[k]]
    for place, node in enumerate(source.nodes):
        points = np.concatenate([samples(source, place)[0], node.held_out(0).points])
        assert sorted(points[:, 0].tolist()) == [k for k in whole if k % 2 == place]
    assert f"left out ({60 - len(whole)} rows)" in str(source.facts["gaps"])


def test_means_are_those_of_the_rows_that_are_learned_from(tmp_path: Path) -> None:
    source = with_csv(tmp_path, missing="mean")
    coding = source.description.inputs.coding
    assert coding is not None
    learned = np.concatenate([samples(source, place)[0] for place in (0, 1)])
    tested = np.concatenate([node.held_out(0).points for node in source.nodes])
    warmth, blank = np.array(WARMTH), np.array([wind is None for wind in WIND])
    fill = coding.columns[1].fill
    assert fill == pytest.approx(np.nanmean(warmth[learned[:, 0].astype(int)]), rel=1e-14)
    assert fill != pytest.approx(np.nanmean(warmth), rel=1e-6)
    for points in (learned, tested):
        rows = points[:, 0].astype(int)
        assert set(points[np.isnan(warmth[rows]), 1].tolist()) == {fill}
        assert (points[blank[rows], 2:] == [0.0, 1.0, 0.0]).all()  # N, the most frequent
    assert len(learned) + len(tested) == 57  # three have no target


def test_the_last_known_value_is_the_nodes_own_and_of_no_test_row(tmp_path: Path) -> None:
    source = with_csv(tmp_path, missing="last")
    for place, node in enumerate(source.nodes):
        points, _ = samples(source, place)
        points = points[np.argsort(points[:, 0])]
        tests = node.held_out(0).points
        everything = np.concatenate([points, tests])
        coding = source.description.inputs.coding
        assert coding is not None
        for rows, before in ((points, points), (tests, everything)):
            for row in rows:
                k = int(row[0])
                known = [int(j) for j in before[:, 0] if j <= k and WARMTH[int(j)] == WARMTH[int(j)]]
                assert row[1] == (WARMTH[max(known)] if known else coding.columns[1].fill)


def test_with_test_rows_of_their_own_these_are_filled_from_what_was_learned(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(written())
    (tmp_path / "test.csv").write_text("wind,k,warmth,y,node\nN,0,,1,a\nNNW,1,5,1,b\n,2,?,2,a\nE,3,1,,b\n")
    source = File(tmp_path / "t.csv", test_path=tmp_path / "test.csv", missing="mean").open(2, 0, 9, None)
    first, second = (node.held_out(0).points for node in source.nodes)
    assert len(first) == 2 and len(second) == 1
    assert (second[0, 2:] == 0.0).all()  # no row to learn from has this wind
    known = [WARMTH[k] for k in range(60) if Y[k] == Y[k]]
    assert first[:, 1].tolist() == 2 * [pytest.approx(np.nanmean(known))]
    assert "of the test rows 4 values missing of 4 rows" in str(source.facts["gaps"])


def test_labels_stay_whole_numbers_beside_gaps(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "x,y,node\n" + "".join(f"{k},{k % 3 or ''},{k % 2 if k % 5 else ''}\n" for k in range(60))
    )
    found = File(tmp_path / "t.csv", missing="drop", task="classification").open(2, 0, 9, None).description
    assert repr(found.classes) == "array([1, 2])" and repr(found.nodes) == "array([0, 1])"


def test_rows_are_still_called_by_their_number_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n,1\n" + "".join(f"{k},{k % 2}\n" for k in range(8)) + "3,0.5\n")
    with pytest.raises(ValueError, match=r"row 10 has label 0\.5"):
        File(tmp_path / "t.csv", missing="drop", task="classification").open(1, 0, 9, None)


def test_columns_and_tables_without_any_value_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,z,y\n" + "".join(f"{k},,{k % 7}\n" for k in range(40)))
    with pytest.raises(ValueError, match='column "z" has no value in any row that is learned from: leave it out'):
        File(tmp_path / "t.csv", missing="mean").open(1, 0, 9, None)
    with pytest.raises(ValueError, match=r'no row is left .* set stream.missing = "mean" or "last"'):
        File(tmp_path / "t.csv", missing="drop").open(1, 0, 9, None)


def test_masked_arrays_and_data_sets_of_openml_have_gaps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.ma.masked_equal(np.resize([0.0, 1.0, 2.0], (60, 2)), 0.0), np.ma.masked_less(COUNT, 3.0)
    source = held((x, y), missing="mean")
    assert source.facts["gaps"] == (
        "43 values missing of 60 rows, in x[:, 0] 20, x[:, 1] 20 and y 3: inputs are filled with the mean or most "
        "frequent word of the training rows; 3 rows without a target or node are left out"
    )
    halves = {name: (x[place::2], y[place::2]) for place, name in enumerate("ab")}
    for same in (halves, ([*x], y)):
        assert str(held(same, missing="mean").facts["gaps"]).startswith("43 values missing of 60 rows")

    class Bunch:
        data = np.where(np.arange(40)[:, None] % 4, 1.0 * np.arange(40)[:, None], np.nan)
        target, feature_names, target_names = np.arange(40.0), ("v",), ("t",)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: Bunch())
    assert "10 values missing" in str(OpenML(3, missing="mean").open(2, 0, 5, None).facts["gaps"])


def test_without_gaps_filling_changes_no_bit(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.random.default_rng(0).normal(size=(60, 3)), y=COUNT)
    plain = File(tmp_path / "t.npz", standardize="auto").open(2, 0, 9, None)
    assert plain.description.inputs.coding is None
    for missing in ("drop", "mean", "last"):
        source = File(tmp_path / "t.npz", standardize="auto", missing=missing).open(2, 0, 9, None)  # type: ignore[arg-type]
        assert all(map(np.array_equal, samples(source), samples(plain)))
