"""Columns of every type that frames have are learned from, or refused with the value, the rule and what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest

from kernelswarm import InputError, simulate

COUNT = 60
X = np.random.default_rng(0).normal(size=COUNT)
Y = np.sin(X)
BEGIN = datetime(2020, 1, 1)


def learned(data: Any, target: Any = "y", **keys: Any) -> Any:
    graph = nx.path_graph(3)
    return simulate(topology=graph, data=data, target=target, learner="polk", protocol="consensus", rounds=3, **keys)


def inputs_of(data: Any, target: Any = "y") -> tuple[str, ...]:
    found: tuple[str, ...] = learned(data, target).data.inputs.names
    return found


@pytest.mark.parametrize("place", ["y", "node"])
def test_times_are_no_targets_and_no_names_and_it_says_what_would_be(place: str) -> None:
    times = pyarrow.array([BEGIN + timedelta(days=k % 3) for k in range(COUNT)])
    data = pyarrow.table({"x": X, "y": Y, place: times} if place == "node" else {"x": X, "y": times})
    cure = {"y": "give a number in its place, such as the days since", "node": "give the nodes whole numbers or text"}
    with pytest.raises(InputError, match=f'row 1, column "{place}" holds 2020-01-01 00:00:00, which .*{cure[place]}'):
        learned(data, node=place if place == "node" else None)


@pytest.mark.parametrize("kind", [pyarrow.month_day_nano_interval(), pyarrow.list_(pyarrow.int64()), pyarrow.null()])
def test_a_column_of_gaps_is_one_whatever_its_type(kind: Any) -> None:
    empty = pyarrow.nulls(COUNT, kind)
    with pytest.raises(InputError, match=f'row 1, column "c" is missing .*one of {COUNT} gaps'):
        learned(pyarrow.table({"x": X, "y": Y, "c": empty}))


def test_bytes_are_the_text_that_they_hold_or_refused() -> None:
    words = ["ä", "b", "c"] * (COUNT // 3)
    plain = learned({"x": X, "y": Y, "c": words})
    for values in (np.array([word.encode() for word in words]), pyarrow.array([word.encode() for word in words])):
        result = learned({"x": X, "y": Y, "c": values})
        assert result.data.inputs.names == ("x", "c=b", "c=c", "c=ä") and result.final["risk"] == plain.final["risk"]
    with pytest.raises(InputError, match=r'row 1, column "c" holds b.\\xff., which is not a number'):
        learned({"x": X, "y": Y, "c": [b"\xff"] * COUNT})


def test_periods_intervals_and_sparse_columns_of_pandas_are_what_they_stand_for() -> None:
    pandas = pytest.importorskip("pandas", reason="an extra of its users")
    frame = pandas.DataFrame({"x": X, "y": Y})
    months = pandas.period_range("2020-01", periods=COUNT, freq="M")
    assert inputs_of(frame.assign(t=months)) == ("x", "t in days")
    started = frame.assign(t=months.to_timestamp())
    assert learned(frame.assign(t=months)).summary["digest"] == learned(started).summary["digest"]
    cut = pandas.cut(frame["x"], 3)
    assert inputs_of(frame.assign(c=cut)) == ("x", "c")  # in their order
    ranks = pandas.Categorical.from_codes(cut.cat.codes, ["low", "mid", "top"], ordered=True)
    assert learned(frame.assign(c=cut)).final["risk"] == learned(frame.assign(c=ranks)).final["risk"]
    full = np.arange(COUNT) % 2.0
    sparse = frame.assign(c=pandas.arrays.SparseArray(full))
    assert learned(sparse).summary["digest"] == learned(frame.assign(c=full)).summary["digest"]
    result = learned(frame.assign(t=months))
    new = frame.assign(t=months)[["t", "x"]]
    assert (result.model(0).predict(new) == result.model(0).predict(started[["x", "t"]])).all()


def test_types_of_pandas_and_of_polars_with_gaps_text_and_zones() -> None:
    pandas = pytest.importorskip("pandas", reason="an extra of its users")
    polars = pytest.importorskip("polars", reason="an extra of its users")
    frame, other = pandas.DataFrame({"x": X, "y": Y}), polars.DataFrame({"x": X, "y": Y})
    zoned = pandas.date_range("2020", periods=COUNT, tz="Europe/Berlin")
    words = ["a", "b", "c"] * (COUNT // 3)
    for column, names in (
        (pandas.array([1, 2, 3] * 20, dtype="Int64"), ("x", "c")),
        (pandas.array([True, False, True] * 20, dtype="boolean"), ("x", "c")),
        (pandas.array(words, dtype="string"), ("x", "c=a", "c=b", "c=c")),
        (pandas.Categorical(words), ("x", "c=a", "c=b", "c=c")),
        (pandas.to_timedelta(np.arange(COUNT), unit="h"), ("x", "c in days")),
        (zoned, ("x", "c in days")),
    ):
        assert inputs_of(frame.assign(c=column)) == names
    for series, names in (
        (polars.Series(words, dtype=polars.Categorical), ("x", "c=a", "c=b", "c=c")),
        (polars.Series(words, dtype=polars.Enum(["c", "b", "a"])), ("x", "c")),
        (polars.Series([timedelta(hours=k) for k in range(COUNT)]), ("x", "c in days")),
    ):
        assert inputs_of(other.with_columns(series.alias("c"))) == names
    levels = frame.copy()
    levels.columns = pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    assert inputs_of(levels, "a.y") == ("a.x",)
