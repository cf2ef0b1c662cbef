"""Tables as programs write them: each is read as what it is, or refused with the key that reads it."""

from __future__ import annotations

import csv
import gzip
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.data.csv_dialect import head_of
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.experiment.experiment import Experiment, build_experiment, digests
from tests.helpers.command_line import Command

ROWS = [(k * 0.5, k % 7 + 0.25, k * k + 0.125) for k in range(12)]
BODY = "".join(f"{a},{b},{y}\n" for a, b, y in ROWS)
PLAIN = f"a,b,y\n{BODY}"

WRITTEN: dict[str, str | bytes] = {
    "plain": PLAIN,
    "comments above": f"# made by a logger\n# units: m, s\n\n{PLAIN}",
    "comments between": "a,b,y\n# calibrated\n" + BODY.replace("\n", "\n# a pause\n", 3),
    "a comment as header": f"# run 3\n# a,b,y\n{BODY}",
    "preamble": f"Station Potsdam\nexported 2024-05-01\n\n{PLAIN}",
    "preamble with more fields": f"Station,5,height,81,m\n{PLAIN}",
    "preamble as wide as the table": f"Station Potsdam,,\n,,\n{PLAIN}",
    "separator": "sep=;\n" + PLAIN.replace(",", ";"),
    "quoted separator": '"sep=\t"\r\n' + PLAIN.replace(",", "\t").replace("\n", "\r\n"),
    "separator and decimal commas": "sep=;\n" + PLAIN.replace(",", ";").replace(".", ","),
    "byte order mark": PLAIN.encode("utf-8-sig"),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16 of big endians": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "UTF-32": PLAIN.encode("utf-32"),
    "index of pandas": ",a,b,y\n" + "".join(f"{k},{line}\n" for k, line in enumerate(BODY.splitlines())),
    "index of R": '"a","b","y"\n' + "".join(f'"{k + 1}",{line}\n' for k, line in enumerate(BODY.splitlines())),
    "named index of R": '"a","b","y"\n' + "".join(f'"day {k}",{line}\n' for k, line in enumerate(BODY.splitlines())),
    "index with a preamble": "Station\n,a,b,y\n" + "".join(f"{k},{line}\n" for k, line in enumerate(BODY.splitlines())),
    "old Macintosh": PLAIN.replace("\n", "\r"),
    "blanks beside commas": PLAIN.replace(",", " , "),
    "blanks": PLAIN.replace(",", " "),
    "columns of blanks": "".join(
        "  ".join(f"{field:>8}" for field in line.split(",")) + "  \n" for line in PLAIN.splitlines()
    ),
    "blanks and tabs": PLAIN.replace(",", " \t", 9).replace(",", "\t "),
    "a comment as header, blanks": f"#  a b  y\n{BODY.replace(',', ' ')}",
    "windows, blanks": PLAIN.replace(",", "   ").replace("\n", " \r\n"),
    "gzip": gzip.compress(f"# packed\n{PLAIN}".encode("utf-16")),
}


def write(place: Path, text: str | bytes) -> Path:
    path = place / "t.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_way_to_write_a_table_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    rows, _ = File(write(tmp_path, WRITTEN[kind])).read()
    assert rows.columns == ("a", "b")
    np.testing.assert_array_equal(rows.points, np.array(ROWS)[:, :2])
    np.testing.assert_array_equal(rows.targets[:, 0], np.array(ROWS)[:, 2])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (PLAIN.replace("b", "größe").encode("cp1252"), "cp1252"),
        (PLAIN.encode("utf-16-le"), "utf-16-le"),
        (PLAIN.encode("utf-16-be"), "utf-16-be"),
    ],
)
def test_an_encoding_that_is_left_open_is_refused_with_the_one_that_reads_it(
    tmp_path: Path, text: bytes, encoding: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(RefusedKey, match=f'"{encoding}"') as refused:
        File(path).read()
    assert refused.value.key == "encoding"
    rows, _ = File(path, encoding=encoding).read()
    np.testing.assert_array_equal(rows.points, np.array(ROWS)[:, :2])


def test_lines_above_the_table_are_skipped_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "of 3 fields, with commas, too\n" + PLAIN)
    with pytest.raises(ValueError, match='the column "y"'):
        File(path).read()
    np.testing.assert_array_equal(File(path, skip_lines=1).read()[0].points, np.array(ROWS)[:, :2])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", ",\n").replace("a,b,y,", "a,b,y"),  # all rows end in a comma: not an index
        "a,b,y\n" + BODY * 30 + "1,2,3,4\n" + BODY,  # one row too long is no end of a preamble
        "a,y\n" + "".join(f"{k % 3},5,{k}\n" for k in range(9)),  # decimal commas between commas
    ],
)
def test_a_broken_table_is_not_taken_for_another_one(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="as many fields in every line as in the header"):
        File(write(tmp_path, text)).read()


@pytest.mark.parametrize("lines", [[], [""], ["\0"], ["#"], ["a"], ["#", "# "], ["sep=;"], ['"', "a,b"]])
def test_the_header_of_nearly_nothing_is_left_to_the_reader(lines: list[str]) -> None:
    assert head_of(lines, ",").skipped <= len(lines)


def test_encodings_are_those_that_python_knows(tmp_path: Path) -> None:
    for wrong in ("utf-9", "base64", "\0"):
        with pytest.raises(RefusedKey, match="none that Python knows"):
            File(tmp_path / "t.csv", encoding=wrong)
    with pytest.raises(RefusedKey, match=r'"ascii" is not what .* is written in, byte 0xc3 in line 14'):
        File(write(tmp_path, PLAIN + "ö,1,2\n"), encoding="ascii").read()


def test_a_folder_of_parquet_parts_is_one_table_and_a_change_in_it_is_seen(tmp_path: Path) -> None:
    whole = pyarrow.table(dict(zip("aby", np.array(ROWS).T, strict=True)))
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, (start, end) in enumerate(pairwise((0, 5, 9, 12))):
        parquet.write_table(whole.slice(start, end - start), folder / f"part-{part:05}.parquet")
    (folder / "_SUCCESS").touch()
    np.testing.assert_array_equal(File(folder).read()[0].points, np.array(ROWS)[:, :2])
    keys: dict[str, Any] = {"topology": "ring", "learner": "linear", "protocol": "isolated"}
    experiment = build_experiment(stream={"name": "file", "path": str(folder)}, **keys)
    before = digests(experiment)
    parquet.write_table(whole.slice(0, 3), folder / "part-00002.parquet")
    assert set(before) == {"stream.path"} and digests(experiment) != before
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        File(tmp_path / "empty").read()


def test_an_excel_sheet_is_read_like_a_csv_file(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    first = book.active
    for row in [("Station Potsdam",), (), ("a", "b", "größe", "y"), *((a, b, "<&>", y) for a, b, y in ROWS)]:
        first.append(row)
    book.create_sheet("empty")
    path = tmp_path / "t.xlsx"
    book.save(path)
    rows, _ = File(path, drop=("größe",)).read()
    np.testing.assert_array_equal(rows.points, np.array(ROWS)[:, :2])
    np.testing.assert_array_equal(rows.targets[:, 0], np.array(ROWS)[:, 2])
    second = book.create_sheet("second")
    second.append(("a", "y"))
    second.append((1, True))
    book.save(path)
    with pytest.raises(RefusedKey, match="has several: use one of Sheet, second") as refused:
        File(path).read()
    assert refused.value.key == "sheet"
    assert File(path, sheet="second").read()[0].targets.tolist() == [[1]]
    with pytest.raises(RefusedKey, match='did you mean "second"'):
        File(path, sheet="secnd").read()
    path.write_bytes(b"PK not a book")
    with pytest.raises(ValueError, match="cannot be read as Excel"):
        File(path).read()


def test_excel_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r'pip install "kernelswarm\[excel\]", or save the sheet as csv'):
        File(tmp_path / "t.xlsx").read()


def test_init_says_how_it_read_a_file_and_writes_a_file_that_reads_it(call: Command) -> None:
    write(Path(), PLAIN.replace("b", "größe").encode("cp1252"))
    answer = call("init", "--data", "t.csv")
    assert answer.code == 0 and "read as cp1252" in answer.out
    assert Experiment.from_file("experiment.toml").stream.read()[0].points.shape == (12, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "header",
    ["400,410.5,y", "400,410,class", "2001,2002,", "0,a,y", "sample 1,2,3", "0,1,2", "2001,2002,2003"],
    ids=str,
)
def test_a_header_with_numbers_in_it_stays_one(header: str) -> None:
    found = head_of([header, *(f"{a},{b},{'ab'[k % 2]}" for k, (a, b, _) in enumerate(ROWS))], ",")
    assert found.names == () and found.skipped == 0


@pytest.mark.parametrize("seed", range(40))
def test_tables_written_in_any_way_are_never_read_as_other_ones(seed: int, tmp_path: Path) -> None:
    """Read as they are or refused: delimiter, decimal mark, header, quotes, comments and ends of lines are drawn."""
    random = np.random.default_rng(seed)
    rows, columns = int(random.integers(2, 30)), int(random.integers(2, 6))
    delimiter, decimal = str(random.choice([",", ";", "\t", "|", " "])), str(random.choice([".", ","]))
    header, quoting = random.random() < 0.7, int(random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]))
    values = np.round(random.normal(size=(rows, columns)) * 10.0 ** random.integers(-2, 5, size=columns), 4)
    fields, words = np.char.replace(values.astype(str), ".", decimal).astype(object), int(columns > 2)
    if words:
        fields[:, 1] = random.choice(["the west", "no;rth", "e,ast"], size=rows)
    text = io.StringIO()
    written = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    written.writerows([["a", "b c", "x.1", "2020", "T [K]"][:columns]] * header + fields.tolist())
    content = ("# made by hand\n" if random.random() < 0.3 else "") + text.getvalue()
    path = write(tmp_path, content.replace("\n", "\r\n") if random.random() < 0.3 else content)
    try:
        found, _ = File(path, target="a" if header else "x1", task="regression").read()
    except ValueError:
        return
    np.testing.assert_array_equal(found.targets[:, 0], values[:, 0])
    numbers = [place for place, column in enumerate(found.held) if column.kind == "number"]
    assert numbers == list(range(words, columns - 1))
    np.testing.assert_array_equal(found.points[:, numbers], values[:, 1 + words :])
    if words:
        assert [found.held[0].words[int(place)] for place in found.points[:, 0]] == fields[:, 1].tolist()
