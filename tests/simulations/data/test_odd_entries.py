"""One odd entry is named or a gap, and never changes what the others of its column are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from kernelswarm.simulations.data.columns import learn
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.frames import coded_points
from kernelswarm.simulations.data.guessing import guess
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.data.times import are_few, of_text

ROWS = 40
MOMENTS = [datetime(2023, 1, 3) + timedelta(days=3 * k, hours=7 * k, minutes=13 * k) for k in range(ROWS)]


def at(form: str) -> Callable[[int], str]:
    return lambda k: MOMENTS[k].strftime(form)


KINDS: dict[str, Callable[[int], str]] = {
    "whole numbers": lambda k: str(k * 7 - 20),
    "decimals": lambda k: f"{k * 1.25:.2f}",
    "decimal commas": lambda k: f"{k * 1.25:.2f}".replace(".", ","),
    "three decimals": lambda k: f"{k + 1}.{k + 100}",
    "thousands with points": lambda k: f"{1234.5 * k:,.2f}".translate(str.maketrans(",.", ".,")),
    "percent": lambda k: f"{k}.5%",
    "amounts": lambda k: f"${1234.5 * k:,.2f}",
    "units": lambda k: f"{k}.5 m",
    "few numbers": lambda k: f"{k % 3}.5",
    "ISO dates": at("%Y-%m-%d"),
    "few dates": lambda k: f"2023-05-0{k % 3 + 1}",
    "day first": at("%d/%m/%Y"),
    "month first": at("%m/%d/%Y"),
    "points": at("%d.%m.%Y"),
    "year first": at("%Y/%m/%d"),
    "short years, when": at("%m/%d/%y"),
    "digits, when": at("%Y%m%d"),
    "names of months": at("%b %d, %Y"),
    "date and time": at("%Y-%m-%dT%H:%M:%S"),
    "zone": at("%Y-%m-%d %H:%M+02:00"),
    "letters of a zone": at("%d.%m.%Y %H:%M CET"),
    "half days": at("%m/%d/%Y %I:%M %p"),
    "times of day": at("%H:%M"),
    "half days alone": at("%I:%M %p"),
    "times with points": at("%H.%M.%S"),
    "codes of digits": lambda k: f"{k % 12 + 3:03}",
    "codes of one shape": lambda k: f"A-{k % 12:02}",
    "words": lambda k: "NESW"[k % 4],
    "truth": lambda k: "true" if k % 3 else "false",
}
SOME = ("soon", "31/02/2023", "17")
ODD = (
    *SOME,
    *("2023-02-31", "3.O", "12:60", "007", "1.234.567", "1,234", "-", "2023-05-04", "12/25/2023", "05/06/2023"),
    *("3 Feb 2023", "5:30", "5:30 PM", "2023-05-04 10:00Z", "99999999", "0000-00-00", "1,5", "12%", "true", "A7"),
)


def in_csv(folder: Path, columns: dict[str, Any]) -> File:
    rows = [";".join(f'"{value}"' for value in row) for row in zip(*columns.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join([";".join(columns), *rows]) + "\n")
    return File(folder / "t.csv")


def in_parquet(folder: Path, columns: dict[str, Any]) -> File:
    parquet.write_table(pa.table(columns), folder / "t.parquet")
    return File(folder / "t.parquet")


def in_json(folder: Path, columns: dict[str, Any]) -> File:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    (folder / "t.json").write_text("\n".join(map(json.dumps, rows)))
    return File(folder / "t.json")


def in_excel(folder: Path, columns: dict[str, Any]) -> File:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (tuple(columns), *zip(*columns.values(), strict=True)):
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return File(folder / "t.xlsx")


def in_frame(folder: Path, columns: dict[str, Any]) -> File:
    held, keys = from_python({name: np.array(values, object) for name, values in columns.items()})
    return File(held.path, **keys).holding(held)


FORMATS = {"csv": in_csv, "parquet": in_parquet, "json": in_json, "excel": in_excel, "frame": in_frame}


def column(form: str, folder: Path, values: Sequence[Any], called: str = "x", **keys: Any) -> tuple[str, list[Any]]:
    """Return what a column holds, and its values, with words for their places and None for gaps."""
    numbers = list(range(len(values)))
    stream = FORMATS[form](folder, {"k": numbers, called: values, "y": [k / 7 for k in numbers]})
    changed = replace(stream, task="regression", **keys)
    rows, _ = (changed if stream.held is None else changed.holding(stream.held)).read()
    kind, found = rows.held[1], rows.points[:, 1].astype(float)
    if kind.kind in ("words", "ranks"):
        return kind.kind, [None if np.isnan(value) else kind.words[int(value)] for value in found]
    return f"{kind.kind}{' of a zone' * kind.zoned}", [None if np.isnan(value) else value for value in found]


def followed(text: str) -> Any:
    """Return the value of na_values that a refusal advises."""
    advice = re.search(r"stream\.(na_values = .*) if ", text)
    assert advice is not None, text
    return tomllib.loads(advice[1])["na_values"]


def names(text: str, row: int, odd: Any) -> bool:
    """Tell whether a refusal names a row and its entry, which a typed column may write in its own way."""
    if re.search(rf"\brow {row}\b", text) is None:
        return False
    if str(odd) in text:
        return True
    return f"holds {float(str(odd).replace(',', '.')):.15g}," in text


def refused(form: str, folder: Path, values: Sequence[Any], called: str = "x") -> tuple[str, Any]:
    """Return the refusal of a column, or else "" and what `column` does."""
    try:
        return "", column(form, folder, values, called)
    except ValueError as refusal:
        return str(refusal), None


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        pair
        for place, kind in enumerate(KINDS)
        for pair in (("csv", kind), (("parquet", "json", "excel", "frame")[place % 4], kind))
    ],
)
def test_an_odd_entry_is_named_or_leaves_the_others_as_they_were(tmp_path: Path, form: str, kind: str) -> None:
    good = list(map(KINDS[kind], range(ROWS)))
    called = "when" if kind.endswith("when") else "x"
    expected = column(form, tmp_path, good, called)
    named = 0
    for odd in ODD if form == "csv" else SOME:
        for place in (0, ROWS) if form == "csv" and odd in SOME[:2] else (17,):
            values = [*good[:place], odd, *good[place:]]
            text, found = refused(form, tmp_path, values, called)
            named += bool(text)
            assert not text or names(text, place + 1, odd), (odd, place, text)
            if text and odd in SOME:
                found = column(form, tmp_path, values, called, na_values=followed(text))
                assert found[1][place] is None, (odd, text)
            if found is not None:
                assert (found[0], found[1][:place] + found[1][place + 1 :]) == expected, (odd, place)
    assert named or kind == "words"


@pytest.mark.parametrize(
    ("form", "kind", "odd"),
    [
        (form, kind, odd)
        for form in ("json", "excel", "frame")
        for kind in (float, bool)
        for odd in ("soon", "17", None, 2.5)
    ],
)
def test_of_typed_columns_too(tmp_path: Path, form: str, kind: Any, odd: Any) -> None:
    good = [kind(k * 7 % 5) for k in range(ROWS)]
    expected = column(form, tmp_path, good)
    for place in (0, ROWS):
        text, found = refused(form, tmp_path, [*good[:place], odd, *good[place:]])
        assert names(text, place + 1, odd) if text else (found[0], found[1][:place] + found[1][place + 1 :]) == expected


def test_moments_among_dates_and_zones_in_a_column_of_objects(tmp_path: Path) -> None:
    days = [moment.date() for moment in MOMENTS]
    midnights = [datetime(*day.timetuple()[:3]) for day in days]
    assert column("frame", tmp_path, [*days[:20], *MOMENTS[20:]]) == column(
        "frame", tmp_path, [*midnights[:20], *MOMENTS[20:]]
    )
    for odd in (5, "soon", MOMENTS[0].astimezone()):
        for values in ([odd, *days], [*days, odd]):
            row = values.index(odd) + 1
            with pytest.raises(ValueError, match=rf"row {row}\b.* holds .* where the other 40 entries are dates"):
                column("frame", tmp_path, values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_reads_the_others_as_it_did(tmp_path: Path, kind: str) -> None:
    good = list(map(KINDS[kind], range(ROWS)))
    called = "when" if kind.endswith("when") else "x"
    rows, _ = in_csv(tmp_path, {called: good, "k": range(ROWS), "y": [k / 7 for k in range(ROWS)]}).read()
    coding = learn("data", [rows.points.astype(float)], rows.held, "refuse")
    expected = coded_points({called: np.array(good, object), "k": range(ROWS)}, coding)
    for odd in ODD:
        values, text = np.array([*good[:17], odd, *good[17:]], object), ""
        try:
            found = coded_points({called: values, "k": [*range(17), 0, *range(17, ROWS)]}, coding)
        except ValueError as refusal:
            text = str(refusal)
        if text:
            assert ("row 18," in text and odd in text and "stream." not in text) or "row 17," in text, (odd, text)
        else:
            np.testing.assert_array_equal(np.delete(found, 17, axis=0), expected, err_msg=odd)


# The border


@pytest.mark.parametrize(
    ("odd", "others", "few"),
    [
        ((1,), (1,) * 9, True),
        ((1,), (1,) * 8, False),
        ((1,), (9,), True),
        ((1,), (8,), False),
        ((9, 9), (1,) * 18, True),
        ((), (1,), False),
        ((1,), (), False),
    ],
)
def test_odd_entries_are_a_tenth_of_the_different_ones_or_of_all(odd: Any, others: Any, few: bool) -> None:
    marked = np.arange(len(odd) + len(others)) < len(odd)
    assert are_few(marked, np.array([*odd, *others])) is few


# Dates


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Feb 1, 2023", "3 Feb 2023", "February 5th 2023", "07-Sept-2023"], ["02-01", "02-03", "02-05", "09-07"]),
        (["2023-02-01", "25/12/2023", "31.12.2023"], ["02-01", "12-25", "12-31"]),
        (["2023-02-01 5:30 PM", "2023/02/01 17:30", "1.2.2023 17.30.00"], ["02-01T17:30"] * 3),
        (["2023-02-01T10:00Z", "2023-02-01 11:00 CET", "2023-02-01 12:30:00,0+0230"], ["02-01T10:00"] * 3),
        (["31/12/2023", "30/12/2023", "31/02/2023", "12/25/2023"], ["12-31", "12-30", None, None]),
        (["12/25/2023", "01/31/2023", "31/02/2023", "02/03/2023"], ["12-25", "01-31", None, "02-03"]),
        (["2023-02-01", "2023-02-02", "2023-02-01 10:00Z", "2023-02-02Z"], ["02-01", "02-02", None, None]),
        (["1:00 PM", "5:30", "11:30 am"], ["13:00", None, "11:30"]),
        (["13:00", "5:30 PM", "5:30"], ["13:00", "17:30", "05:30"]),
        (
            ["02/13/2023 12:00 AM", "02/13/2023 12:30 PM", "02/14/2023 1:05 p.m."],
            ["02-13", "02-13T12:30", "02-14T13:05"],
        ),
        (["13:00 PM", "1:00 PM"], [None, "13:00"]),
        (["2023-02-01 2:00 CEST", "01.02.2023 02:00 MESZ", "1.2.2023 1:00 MEZ", "2023-02-01 0:00 gmt"], ["02-01"] * 4),
        (["2023-02-01 02:00 UTC", "2023-02-01 02:00", "2023-02-01 02:00 IST"], ["02-01T02:00", None, None]),
        (["24:00", "24:01", "0:00"], ["24:00", None, "00:00"]),
        (["29.02.2024", "29.02.2023", "00.01.2023"], ["02-29", None, None]),
    ],
)
def test_each_text_is_read_where_it_leaves_no_doubt(texts: list[str], expected: list[str | None]) -> None:
    for order in (1, -1):  # none decides for those behind it
        read = of_text(texts[::order])
        assert read.doubt is None and read.odd.tolist() == [text is None for text in expected][::order]
        for value, text in zip(read.times.values.tolist(), expected[::order], strict=True):
            if text is None:
                assert np.isnan(value)
            elif ":" in text and "-" not in text:
                assert value == (int(text[:2]) * 60 + int(text[3:])) * 60e6
            else:
                year = 2024 if text == "02-29" else 2023
                assert value == np.datetime64(f"{year}-{text}", "us").astype(int)


@pytest.mark.parametrize(
    ("form", "day"),
    [
        ("%Y-%m-%d", "0001-01-01"),
        ("%d/%m/%Y", "1900-01-01"),
        ("%m/%d/%Y", "1970-01-01"),
        ("%Y%m%d", "9999-12-31"),
        ("%b %d, %Y", "1900-01-01"),
        ("%Y-%m-%dT%H:%M:%SZ", "1970-01-01"),
    ],
)
def test_dates_that_stand_for_none_are_looked_for(tmp_path: Path, form: str, day: str) -> None:
    code = datetime.fromisoformat(day).strftime(form.replace("%Y", day[:4]))
    texts = [moment.strftime(form) for moment in MOMENTS]
    for often, there in ((2, []), (3, [4, 13, 22])):
        values = [code if k % 9 == 4 and k < 9 * often else text for k, text in enumerate(texts)]
        found = guess(in_csv(tmp_path, {"when": values, "y": [k / 7 for k in range(ROWS)]}))
        assert np.flatnonzero(np.isnan(found.rows.points[:, 0])).tolist() == there
        assert found.file.na_values == ((day,) if there else ())


def test_a_first_day_that_others_come_near_stands_for_itself(tmp_path: Path) -> None:
    days = ["1900-01-01"] * 3 + [f"{1900 + k}-12-25" for k in range(100)]
    assert guess(in_csv(tmp_path, {"when": days, "y": [k / 7 for k in range(len(days))]})).file.na_values == ()


def test_zeros_for_a_date_are_gaps_to_init_and_mistyped_dates_are_not(tmp_path: Path) -> None:
    texts = [moment.strftime("%Y-%m-%d") for moment in MOMENTS]
    for odd, taken in (("0000-00-00", True), ("soon", True), ("2023-02-31", False)):
        stream = in_csv(tmp_path, {"x": [*texts, odd, odd], "y": [k / 7 for k in range(ROWS + 2)]})
        if taken:
            assert guess(stream).file.na_values == {"x": (odd,)}
        else:
            with pytest.raises(ValueError, match='row 41, column "x" holds "2023-02-31"'):
                guess(stream)


@pytest.mark.parametrize(
    ("values", "code", "there"),
    [
        (["04/03/2021", "31/12/2021"] * 4, "2021-03-04", True),
        (["03/04/2021", "12/31/2021"] * 4, "2021-03-04", True),
        (["03/04/2021", "12/31/2021"] * 4, "2021-04-03", False),
        ([20210304, 20211231] * 4, "2021-03-04", True),
        (["18:30", "19:30"] * 4, "6:30 PM", True),
        (["18:30", "19:30"] * 4, "2021-03-04", False),
        ([datetime(2021, 3, 4), datetime(2021, 12, 31)] * 4, "Mar 4, 2021", True),
        (["N", "E"] * 4, "2021-03-04", False),
    ],
)
def test_a_moment_is_a_gap_however_it_is_written(tmp_path: Path, values: list[Any], code: str, there: bool) -> None:
    for form in ("csv", "parquet"):
        _, found = column(form, tmp_path, values, "when", na_values={"when": code})
        assert [value is None for value in found] == [there and not k % 2 for k in range(8)]


# Numbers


@pytest.mark.parametrize(("mark", "meant"), [(",", 1234.0), (".", 1.234)])
def test_one_mark_decides_for_no_other_column(tmp_path: Path, mark: str, meant: float) -> None:
    """1.234 m may be a thousand, and is where the file has decimal commas; one odd number more does not turn it."""
    for odd, same in (("7,5", mark == ","), ("7.5", mark == ".")):
        columns = {"x": ["1.234 m"] * ROWS, "z": [odd, *[f"{k}{mark}25" for k in range(1, ROWS)]], "y": range(ROWS)}
        stream = in_csv(tmp_path, columns)
        if same:
            assert set(stream.read()[0].points[:, 0].tolist()) == {meant}
        else:
            with pytest.raises(ValueError, match=f'row 1, column "z" holds "{odd}"'):
                stream.read()
            assert set(replace(stream, features=("x",)).read()[0].points[:, 0].tolist()) == {meant}


@pytest.mark.parametrize("count", [4, 5])
def test_labels_with_few_fractions_are_refused_and_with_more_numbers(tmp_path: Path, count: int) -> None:
    y = [*(k % 3 for k in range(40 - count)), *(k + 0.5 for k in range(count))]
    np.savez(tmp_path / "t.npz", x=np.arange(40.0)[:, None], y=np.array(y))
    for stream in (in_csv(tmp_path, {"x": range(40), "y": y}), File(tmp_path / "t.npz")):
        if count == 5:
            assert stream.open(1, 0, 9, None).classes is None
            continue
        with pytest.raises(ValueError, match=r'holds 0.5 in column "y".* or set stream.task = "regression"'):
            stream.open(1, 0, 9, None)
