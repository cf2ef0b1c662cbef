"""What a csv file's lines say of its delimiter and its decimal mark, and what they leave open."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelswarm.simulations.data.csv_dialect import dialect_of
from kernelswarm.simulations.data.file import File


def found(text: str, delimiter: str = "auto", decimal: str = "auto") -> tuple[str, str]:
    return tuple(dialect_of(text.encode(), delimiter, decimal)[:2])


@pytest.mark.parametrize(
    ("text", "delimiter", "decimal"),
    [
        ("x,y\n1.5,2\n", ",", "."),
        ("x;y\n1.5;2\n", ";", "."),
        ("x;y\n1,5;2\n", ";", ","),
        ("x\ty\n-,5\t2\n", "\t", ","),
        ("x|y\r\n1,5e-3|2\r\n", "|", ","),
        ("y\n1\n", ",", "."),  # one column
        ("", ",", "."),
        ("x, in mm;y, in s\n1;2\n", ";", "."),  # as many commas as semicolons in the header
        ('"x;1","y"\n"1","2"\n', ",", "."),  # quoted
        ("a,b,c;y\n1,5;2\n", ";", ","),  # more commas in the header, but not in the line below it
        ("x;y\n1,234;2\n", ";", "."),  # may be a thousand
        ("x;y\n1,234;0,5\n", ";", ","),
        ("x;y\n1,234;1,234,567\n", ";", "."),
        ("x;y\n0,125;1\n", ";", ","),  # no thousands begin with 0
        ("x;y\n1,5;2.5\n", ";", "."),  # both marks: left to the reader, who refuses the column
        ("x;y\n" + "3;4\n" * 900 + "0,5;1\n" * 101, ";", ","),
        ("x;y\n" + "3;4\n" * 900 + "0,5;1\n" * 100, ";", "."),  # too few: they may be mistyped
        ("x;y\n0,5;7%\n" + "1,5;0.5%\n" * 9, ";", "."),  # points beside signs count too
        ("\ufeffx;y\n1,5;2\n", ";", ","),  # with a byte order mark
        ("x;name\n1,5;Potsdam, Berlin\n", ";", ","),
    ],
)
def test_lines_say_how_they_are_written(text: str, delimiter: str, decimal: str) -> None:
    assert found(text) == (delimiter, decimal)


def test_what_is_said_is_taken() -> None:
    assert found("x;y\n1,5;2\n", ",", ".") == (",", ".")
    assert found("x;y\n1,5;2\n", ";") == (";", ",")
    assert found("x,y;z\n1,5;2\n", decimal=",") == (";", ",")


@pytest.mark.parametrize("number", ["1,234", "-12,345"])
@pytest.mark.parametrize("column", ["x", "y"])
def test_what_may_be_thousands_or_fractions_is_refused_until_said(tmp_path: Path, number: str, column: str) -> None:
    fields = {"x": "2", "y": "3", column: number}
    (tmp_path / "t.csv").write_text("x\ty\n" + f"{fields['x']}\t{fields['y']}\n" * 9)
    for task in ("regression", "auto"):
        with pytest.raises(ValueError, match=f'holds "{number}", which is not a number') as refused:
            File(tmp_path / "t.csv", task=task).open(1, 0, 9, None)  # type: ignore[arg-type]
        assert 'set stream.decimal = "." if the commas part thousands' in str(refused.value)
        for decimal, meant in ((".", number.replace(",", "")), (",", number.replace(",", "."))):
            rows, _ = File(tmp_path / "t.csv", task=task, decimal=decimal).read()  # type: ignore[arg-type]
            assert {"x": rows.points, "y": rows.targets}[column][0, 0] == float(meant)
