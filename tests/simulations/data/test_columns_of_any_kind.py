"""Words, times and numbers that are written as text become the same numbers, wherever they come from."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from kernelswarm.simulations.core.data_description import DAY
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.experiment.data_template import write_for

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""

ROWS = 40
K = np.arange(ROWS)
START = np.datetime64("2021-12-30T06:00", "s")
MOMENTS = START + K * np.timedelta64(5, "h")
DAYS = (MOMENTS - START) / np.timedelta64(1, "D")


def column(tmp_path: Path, values: Any, **keys: Any) -> Source:
    """Open a csv file with one column beside the number of the row."""
    lines = [f'{k},"{value}",{k / 7}' for k, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join(["k,x,y", *lines]) + "\n")
    return File(tmp_path / "t.csv", **keys).open(1, 0, 99, None)


def held(columns: dict[str, Any], kind: Any = dict, **keys: Any) -> Source:
    found, found_keys = from_python(kind({"k": K, **columns, "y": K / 7}))
    return File(found.path, **found_keys, **keys).holding(found).open(1, 0, 99, None)


def inputs(source: Source) -> dict[int, list[float]]:
    """Return what has become of the column, of all rows in their order."""
    source.nodes[0].restore({"samples": 0})
    rows = np.concatenate([source.nodes[0].draw(99)[0], source.nodes[0].held_out(0).points])
    return {int(row[0]): row[1:].tolist() for row in rows}


def refusal(tmp_path: Path, values: Any, **keys: Any) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the message is what the tests look at
        column(tmp_path, values, **keys)
    return str(refused.value)


# Words


@pytest.mark.parametrize("values", [["N", "S"], ["2021-03-04", "2021-03-05"], ["18:00", "18:30"]])
def test_test_rows_hold_what_the_others_do(tmp_path: Path, values: list[str]) -> None:
    (tmp_path / "test.csv").write_text(f"x,k,y\n{values[0]},1,1\n{values[1]},2,2\n")
    message = refusal(tmp_path, K / 8, test_path=tmp_path / "test.csv")
    assert message.startswith(f'test_path = "{tmp_path / "test.csv"}": ') and 'column "x" holds' in message
    (tmp_path / "test.csv").write_text("x,k,y\n0.5,1,1\n0.25,2,2\n")
    if values[0] != "N":  # a word may look like anything
        assert 'column "x" holds numbers, and the training data hold' in refusal(
            tmp_path, [values[k % 2] for k in K], test_path=tmp_path / "test.csv"
        )


@pytest.mark.parametrize("columns", [(), ("k",), ("x",)])
def test_rows_with_words_and_gaps_are_cut_into_patches(tmp_path: Path, columns: tuple[str, ...]) -> None:
    lines = [f"{k},{'' if k % 9 == 2 else MOMENTS[k]},{'NS'[k % 2]},{k / 7}" for k in K]
    (tmp_path / "t.csv").write_text("\n".join(["k,x,word,y", *lines]) + "\n")
    stream = File(tmp_path / "t.csv", split="patches", split_columns=columns, missing="mean")
    sizes = [len(node.draw(99)[0]) for node in stream.open(4, 0, 9, None).nodes]
    assert len(sizes) == 4 and max(sizes) - min(sizes) <= 1


def test_a_word_that_no_row_to_learn_from_has_makes_no_column(tmp_path: Path) -> None:
    found = set()
    for seed in range(8):
        lines = [f"{'rare' if k == 5 else 'N' if k % 2 else 'S'},{k / 7}" for k in K]
        (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]) + "\n")
        source = File(tmp_path / "t.csv", test_fraction=0.5).open(1, seed, 99, None)
        names = source.description.inputs.names
        apart = (source.nodes[0].held_out(0).points == 0.0).all(axis=1).any()
        assert names == (("x=N", "x=S") if apart else ("x=N", "x=S", "x=rare"))
        found.add(names)
    assert len(found) == 2


def test_ordered_words_become_their_places(tmp_path: Path) -> None:
    places = pa.array((K % 3).tolist(), pa.int8())
    sizes = pa.DictionaryArray.from_arrays(places, ["small", "medium", "large"], ordered=True)
    parquet.write_table(pa.table({"k": K, "x": sizes, "y": K / 7}), tmp_path / "t.parquet")
    source = File(tmp_path / "t.parquet").open(1, 0, 99, None)
    assert source.description.inputs.names == ("k", "x")
    assert inputs(source) == {k: [float(k % 3)] for k in K}
    assert source.facts["inputs_made_of"] == "x (small = 0 to large = 2)"


# Times


@pytest.mark.parametrize(
    "written",
    [
        str,
        lambda moment: moment.item().strftime("%d/%m/%Y %H:%M"),
        lambda moment: moment.item().strftime("%m/%d/%Y %H:%M:%S"),
        lambda moment: f"{moment + np.timedelta64(2, 'h')}+02:00",
    ],
)
def test_every_way_to_write_times_gives_the_same_days(tmp_path: Path, written: Any) -> None:
    source = column(tmp_path, map(written, MOMENTS), test_fraction=0.1)
    coding = source.description.inputs.coding
    assert coding is not None
    first = (coding.columns[1].origin - START.astype("datetime64[us]").astype(float)) / DAY
    assert [inputs(source)[k][0] + first for k in range(ROWS)] == pytest.approx(DAYS)
    texts = held({"x": np.array(list(map(written, MOMENTS)))}, test_fraction=0.1)
    assert inputs(texts) == inputs(source)
    zone = "UTC" if coding.columns[1].zoned else None
    for unit in ("s", "ns"):
        moments = pa.array(MOMENTS).cast(pa.timestamp(unit, zone))
        parquet.write_table(pa.table({"k": K, "x": moments, "y": K / 7}), tmp_path / "t.parquet")
        assert inputs(File(tmp_path / "t.parquet", test_fraction=0.1).open(1, 0, 99, None)) == inputs(source)


def test_dates_without_a_day_beyond_12_are_refused_unless_points_stand_in_them(tmp_path: Path) -> None:
    ambiguous = [f"{1 + k % 12:02}/{1 + k // 12:02}/2021" for k in K]
    message = refusal(tmp_path, ambiguous)
    assert 'holds dates such as "01/01/2021", none of which shows whether the day or the month comes first' in message
    found = inputs(column(tmp_path, [text.replace("/", ".") for text in ambiguous]))
    assert found[1][0] - found[0][0] == pytest.approx(1.0)


def test_cycles_are_sines_and_cosines_of_hour_weekday_and_season(tmp_path: Path) -> None:
    source = column(tmp_path, MOMENTS, times="cycles")
    waves = [f"x {cycle} {wave}" for cycle in ("hour", "weekday", "season") for wave in ("sine", "cosine")]
    assert source.description.inputs.names == ("k", "x in days", *waves)
    for k, values in inputs(source).items():
        moment = MOMENTS[k].item()
        hour = 2 * np.pi * (moment.hour + moment.minute / 60) / 24
        week = 2 * np.pi * (moment.weekday() / 7 + moment.hour / 24 / 7)
        assert values[1:5] == pytest.approx([np.sin(hour), np.cos(hour), np.sin(week), np.cos(week)], abs=1e-9)
        assert values[6] > 0.97  # about the turn of the year
    with pytest.raises(ValueError, match='times = "years" must be "auto", "days" or "cycles"'):
        File(tmp_path / "t.csv", times="years")  # type: ignore[arg-type]


def test_times_of_day_and_lengths_of_time_are_days(tmp_path: Path) -> None:
    minutes = K * 30 % 1440
    for written in ("{:02}:{:02}", "{:02}:{:02}:00", "{:02}.{:02}.00"):
        source = column(tmp_path, [written.format(*divmod(minute, 60)) for minute in minutes])
        assert inputs(source) == {k: [minute / 1440] for k, minute in enumerate(minutes)}
    source = held({"x": K * np.timedelta64(90, "m")})
    assert [inputs(source)[k] for k in range(ROWS)] == [[k * 90 / 1440] for k in range(ROWS)]


def test_a_column_of_times_that_is_no_input_may_order_rows(tmp_path: Path) -> None:
    lines = [f"{k},{MOMENTS[k]},{k % 2},{k / 7}" for k in np.random.default_rng(0).permutation(ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(["k,when,node,y", *lines]) + "\n")
    stream = File(tmp_path / "t.csv", order="time", features=("k",), time_column="when")
    for node in stream.open(2, 0, 9, None).nodes:
        seen = node.draw(99)[0][:, 0]
        assert (np.diff(seen) > 0).all() and len(seen) == 16
    with pytest.raises(ValueError, match=r"has no such input: name one as stream.time_column"):
        File(tmp_path / "t.csv", order="time", features=("k",)).open(2, 0, 9, None)
    with pytest.raises(ValueError, match='time_column = "when" is for order = "time"'):
        File(tmp_path / "t.csv", order="shuffled", time_column="when")
    text = write_for(tmp_path / "t.csv", tmp_path / "t.toml", nodes="node")
    assert '"when" becomes days since the first' in text
    assert "held-out rows are later: the last 20% of each node's rows, in the order of when (stream.order = " in text
    assert '\norder = "auto"          # of when; ' in (tmp_path / "t.toml").read_text()


# Numbers as text
