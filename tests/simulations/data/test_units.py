"""What loggers write between the header and the rows is no row, and what is a row is never taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.data.csv_dialect import head_of
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.text import WRITTEN

TOA5 = """\
"TOA5","CR1000","CR1000","24018","CR1000.Std.31","CPU:met.CR1","6125","Table1"
"TIMESTAMP","RECORD","AirTC_Avg","RH","WS_ms_Avg","y"
"TS","RN","Deg C","%","meters/second","W/m2"
"","","Avg","Smp","Avg","Avg"
"""
ROWS = "".join(
    f'"2024-01-02 03:{k:02d}:00",{100 + 3 * k * k},{k / 7:.3f},{50 + k % 9},"NAN",{k % 5}.5\n' for k in range(20)
)


def write(folder: Path, text: str) -> Path:
    path = folder / "data.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_loggers_file_is_read_as_it_is(tmp_path: Path) -> None:
    rows, _ = File(write(tmp_path, TOA5 + ROWS.replace('"NAN"', "1.5")), task="regression").read()
    assert len(rows) == 20 and rows.columns == ("TIMESTAMP", "RECORD", "AirTC_Avg", "RH", "WS_ms_Avg")
    assert rows.units == (
        "TIMESTAMP TS, RECORD RN, AirTC_Avg Deg C Avg, RH % Smp, WS_ms_Avg meters/second Avg, y W/m2 Avg: "
        "a line below the header is no row"
    )
    np.testing.assert_array_equal(rows.targets[:, 0], [k % 5 + 0.5 for k in range(20)])


@pytest.mark.parametrize("seed", range(12))
def test_units_change_nothing_that_is_read(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    columns, delimiter = int(random.integers(2, 7)), str(random.choice([",", ";", "\t"]))
    values = np.round(random.normal(size=(int(random.integers(3, 30)), columns)), 3).astype(str)
    values[random.random(values.shape) < 0.1] = str(random.choice(["", "NA"]))
    values[:, -1] = np.arange(len(values)) + 0.5
    if seed % 2 and columns > 3:
        values[:, 0] = random.choice(["S1", "west"], size=len(values))
    units = [*random.choice(["m/s", "°C", "%", "ppb", "g m-3", "-", ""], size=columns - 2), "hPa", "W/m2"]
    header, below, *rows = (delimiter.join(line) for line in ([*"abcdef"[: columns - 1], "y"], units, *values.tolist()))
    keys: dict[str, Any] = {"task": "regression", "na_values": ()}
    plain, found = (
        File(write(tmp_path, "\n".join(lines)), **keys).read()[0] for lines in ([header, *rows], [header, below, *rows])
    )
    assert found.units and not plain.units
    assert found.columns == plain.columns and found.kinds == plain.kinds
    np.testing.assert_array_equal(found.points, plain.points)
    np.testing.assert_array_equal(found.targets, plain.targets)


@pytest.mark.parametrize("gap", [gap for gap in WRITTEN if gap])
def test_a_first_row_of_gaps_is_a_row(gap: str) -> None:
    lines = ["a,b,y", f"{gap},{gap},{gap}", *(f"{k},{k}.5,{-k}" for k in range(9))]
    assert head_of(lines, ",").units == () and head_of(lines, ",").skipped == 0


@pytest.mark.parametrize(
    "lines",
    [
        ["a,b,y", "low,high,1", "1,2,3", "4,5,6", "7,8,9"],  # a number in it
        ["a,b,y", "low,high,no", "1,2,3", "4,5,6"],  # too few rows to tell
        ["a,b,y", "low,1a,no", "1,2,yes", "4,5,no", "7,8,no"],  # begins with a digit, and one comes again
        ["a,b,y", "low,x,no", "1,u,yes", "4,v,no", "7,w,no"],  # one column of numbers
        ["a,b,y", "low,error,no", "1,2,yes", "4,error,no", "7,8,no", "7,8,no"],  # words below too
        ["a,b,y", "red,big,yes", "blue,small,no", "red,small,no", "red,big,no"],  # no numbers at all
        ["time,a,b", "2024-01-01,error,error", *(f"2024-01-0{k},{k},{k}" for k in range(2, 7))],  # a date is no unit
        ["a,b,y", "u,v,w", "x,y,z", "u,v,w", "1,2,3", "4,5,6", "7,8,9"],  # three lines
        ["a,b,y", "cm,kg,s", "1,2,3", "4,5", "7,8,9"],  # a broken table
    ],
    ids=range(9),
)
def test_what_may_be_a_row_is_one(lines: list[str]) -> None:
    assert head_of(lines, ",").units == ()
