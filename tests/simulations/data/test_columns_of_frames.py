"""Columns of every type that frames have are learned from, or refused with the value, the rule and what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import networkx as nx
import numpy as np
import pandas
import polars
import pyarrow
import pytest

from kernelswarm import InputError, simulate
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.in_memory import from_python

COUNT = 60
X = np.random.default_rng(0).normal(size=COUNT)
Y = np.sin(X)
BEGIN = datetime(2020, 1, 1)


def learned(data: Any, target: Any = "y", **keys: Any) -> Any:
    graph = nx.path_graph(3)
    return simulate(topology=graph, data=data, target=target, learner="polk", protocol="consensus", rounds=3, **keys)


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


def names_and_points(data: Any, target: str = "y") -> tuple[tuple[str, ...], Any]:
    held, keys = from_python(data, target=target)
    source = File("", **keys).holding(held).open(1, 0, COUNT, None)
    return source.description.inputs.names, source.nodes[0].held_out(0).points


def test_columns_of_pandas_are_what_they_stand_for() -> None:
    frame, words, full = pandas.DataFrame({"x": X, "y": Y}), ["a", "b", "c"] * (COUNT // 3), np.arange(COUNT) % 2.0
    months, cut = pandas.period_range("2020-01", periods=COUNT, freq="M"), pandas.cut(frame["x"], 3)
    for column, same, names in (
        (months, months.to_timestamp(), ("x", "c in days", "c season sine", "c season cosine")),
        (cut, pandas.Categorical.from_codes(cut.cat.codes, ["low", "mid", "top"], ordered=True), ("x", "c")),
        (pandas.arrays.SparseArray(full), full, ("x", "c")),
        (pandas.array([1, 2, 3] * 20, dtype="Int64"), np.array([1, 2, 3] * 20), ("x", "c")),
        (pandas.array(words, dtype="string"), pandas.Categorical(words), ("x", "c=a", "c=b", "c=c")),
        (pandas.to_timedelta(np.arange(COUNT), unit="h"), np.arange(COUNT) * timedelta(hours=1), ("x", "c in days")),
    ):
        (found, points), (_, wanted) = names_and_points(frame.assign(c=column)), names_and_points(frame.assign(c=same))
        assert found == names
        np.testing.assert_array_equal(points, wanted)
    frame.columns = pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    assert names_and_points(frame, "a.y")[0] == ("a.x",)


def test_columns_of_polars_are_what_they_stand_for() -> None:
    frame, words = polars.DataFrame({"x": X, "y": Y}), ["a", "b", "c"] * (COUNT // 3)
    for series, names in (
        (polars.Series(words, dtype=polars.Categorical), ("x", "c=a", "c=b", "c=c")),
        (polars.Series(words, dtype=polars.Enum(["c", "b", "a"])), ("x", "c")),
        (polars.Series([timedelta(hours=k) for k in range(COUNT)]), ("x", "c in days")),
    ):
        assert names_and_points(frame.with_columns(series.alias("c")))[0] == names
