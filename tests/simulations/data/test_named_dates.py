"""Columns that are called by a time hold dates where all of their whole numbers, or short years, are some."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from kernelswarm.simulations.core.data_description import Written
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.columns import learn
from kernelswarm.simulations.data.frames import coded_points
from kernelswarm.simulations.data.times import is_called_by_time, of_numbers, of_text

File = partial(file.File, standardize=False)

MANY = [datetime(2019, 12, 27, 6) + timedelta(hours=7 * k) for k in range(200)]


def inputs(path: Path, values: Any, called: str = "date", **keys: Any) -> tuple[str, list[float]]:
    """Return what a column of a csv file holds, and its values: of moments microseconds since 1970."""
    lines = [f"{value},{k / 7}" for k, value in enumerate(values)]
    (path / "t.csv").write_text("\n".join([f"{called},y", *lines]) + "\n")
    return read(path / "t.csv", **keys)


def read(path: Path, **keys: Any) -> tuple[str, list[float]]:
    rows, _ = File(path, **keys).read()
    return rows.held[0].kind, rows.points[:, 0].tolist()


def since_1970(texts: Sequence[str], form: str) -> list[float]:
    return [(datetime.strptime(text, form) - datetime(1970, 1, 1)) / timedelta(microseconds=1) for text in texts]


@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
@pytest.mark.parametrize("called", ["DATE", "time", "MESS_DATUM", "validDate", "YYYYMMDD"])
def test_whole_numbers_are_the_moments_that_they_write(tmp_path: Path, form: str, called: str) -> None:
    written = [moment.strftime(form) for moment in MANY]
    assert inputs(tmp_path, written, called) == ("time", since_1970(written, form))


def test_they_are_the_same_from_text_and_with_gaps(tmp_path: Path) -> None:
    written = [int(moment.strftime("%Y%m%d")) for moment in MANY]
    _, expected = inputs(tmp_path, written)
    for column in (written, list(map(str, written)), np.array(written, float)):
        table = pyarrow.table({"date": column, "y": np.arange(len(written)) / 7})
        parquet.write_table(table, tmp_path / "t.parquet")
        assert read(tmp_path / "t.parquet") == ("time", expected)
    kind, found = inputs(tmp_path, [*written[:50], "NA", *written[51:]], missing="drop")
    assert kind == "time" and np.isnan(found[50]) and found[:50] + found[51:] == expected[:50] + expected[51:]


@pytest.mark.parametrize(
    ("called", "values"),
    [
        ("level", [20210101, 20210102, 20210103]),  # called otherwise
        ("update", [20210101, 20210102, 20210103]),
        ("date", [20210101, 20210229, 20210301]),  # no such day
        ("date", [17991231, 18000101, 18000102]),
        ("date", [21001231, 21010101, 21010102]),
        ("time", [202101012401, 202101012359, 202101010000]),
        ("load", [1700000000, 1700003600, 1700007200]),  # seconds since 1970 in a column that is called otherwise
        ("time", [631151999, 631152000, 631152001]),  # not all since 1990
        ("time", [1700000000, 1700003600000, 1700007200]),  # of two units
        ("time", [4102444801, 4102444802, 4102444803]),
        ("day", [1, 2, 3]),
        ("date", [20210101, 2021010112, 20210102]),
        ("date", [20210101.5, 20210102, 20210103]),
    ],
)
def test_all_others_stay_numbers(tmp_path: Path, called: str, values: list[float]) -> None:
    assert inputs(tmp_path, values, called) == ("number", [float(value) for value in values])


def test_numbers_are_dates_exactly_where_the_calendar_has_them() -> None:
    numbers = np.arange(20231201, 20240401)
    for number, found in zip(numbers, of_numbers(numbers.astype(float)).values, strict=True):
        try:
            assert [found] == since_1970([str(number)], "%Y%m%d")
        except ValueError:
            assert np.isnan(found)


# Seconds since 1970


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("called", ["timestamp", "t", "stamp_ns", "unixTime", "epoch"])
def test_counts_since_1970_are_moments_of_utc_in_every_unit(tmp_path: Path, unit: int, called: str) -> None:
    expected = since_1970([moment.strftime("%Y%m%d%H") for moment in MANY], "%Y%m%d%H")
    counts = [round(moment / 1e6) * unit for moment in expected]
    assert inputs(tmp_path, counts, called) == ("time", expected)
    assert File(tmp_path / "t.csv").read()[0].held[0].zoned


def test_parts_of_seconds_are_kept_and_a_count_among_dates_is_refused(tmp_path: Path) -> None:
    stamps = [1700000000.25, 1700000000.5, 1700000001.0]
    assert inputs(tmp_path, stamps, "t") == ("time", [stamp * 1e6 for stamp in stamps])
    with pytest.raises(
        ValueError, match='row 12, column "time" holds 0, where the other 19 entries are dates or times'
    ):
        inputs(tmp_path, [0 if k == 11 else 1700000000 + 60 * k for k in range(20)], "time")


# Years of two digits


@pytest.mark.parametrize(
    ("form", "moments"),
    [("%m/%d/%y", MANY), ("%m-%d-%y", MANY), ("%m/%d/%y %H:%M", MANY), ("%d.%m.%y", MANY)]
    + [(form, [moment.replace(year=1994) for moment in MANY[20:]]) for form in ("%d/%m/%y", "%y/%m/%d", "%y-%m-%d")],
)
def test_years_of_two_digits_are_read_in_the_only_order(tmp_path: Path, form: str, moments: list[datetime]) -> None:
    written = [moment.strftime(form) for moment in moments]
    assert inputs(tmp_path, written, "Valid date") == ("time", since_1970(written, form))


@pytest.mark.parametrize("written", [["05/01/22", "05/02/22"], ["31/01/22", "30/01/22"], ["22-05-01", "22-05-31"]])
def test_several_orders_are_refused(tmp_path: Path, written: list[str]) -> None:
    with pytest.raises(ValueError, match=r"row \d, .* the day, the month or the year comes first"):
        inputs(tmp_path, written)


def test_codes_stay_words(tmp_path: Path) -> None:
    assert inputs(tmp_path, ["10-10-10", "05-10-15"] * 9, "npk")[0] == "words"


def test_what_a_column_has_shown_holds_for_one_date() -> None:
    cases: list[tuple[Written, str]] = [("day", "2022-01-05"), ("month", "2022-05-01"), ("year", "2005-01-22")]
    for written, expected in cases:
        found = of_text(["05/01/22"], named=True, written=written)
        assert found.times.values.tolist() == since_1970([expected], "%Y-%m-%d")
        assert found.times.written == written
    doubt = of_text(["05/01/22"], named=True).doubt
    assert doubt is not None and doubt.choices == "the day, the month or the year"
    assert of_text(["05/32/22"], named=True).odd.all()


@pytest.mark.parametrize(("form", "kind"), [("%Y%m%d", int), ("%m/%d/%y", str)])
def test_models_take_dates_as_they_were(tmp_path: Path, form: str, kind: Any) -> None:
    written = [kind(moment.strftime(form)) for moment in MANY]
    lines = [f"{text},{k / 7}" for k, text in enumerate(written)]
    (tmp_path / "t.csv").write_text("\n".join(["date,y", *lines]) + "\n")
    rows, _ = File(tmp_path / "t.csv").read()
    coding = learn("data", [rows.points.astype(float)], rows.held, "refuse")
    one, plain, all_of_them = (
        coded_points({"date": np.array(dates)}, coding)
        for dates in (written[5:6], [f"{moment:%Y-%m-%d}" for moment in MANY], written)
    )
    assert one[0].tolist() == plain[5].tolist() == all_of_them[5].tolist()


def test_names_of_columns_of_dates() -> None:
    assert all(map(is_called_by_time, ["Date", "obs_time", "timestamp", "when", "DAY", "Zeitstempel", "dateTime"]))
    assert not any(map(is_called_by_time, ["daylight", "runtime", "stage", "candidate", "x1", ""]))
