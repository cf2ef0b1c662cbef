"""Parquet, Arrow and JSON files of the same rows are the same data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import feather, ipc, parquet

from kernelswarm.simulations.data.file import File

random = np.random.default_rng(0)
RECORDS = [
    {
        "stamp": f"2024-05-01 {k // 60:02}:{k % 60:02}:00",
        "node": f"s{k % 3}",
        "pose": {"x": float(random.normal()), "at": {"z": k}},
        "moving": bool(k % 2),
        "word": ("north", "south")[k % 2],
        "y": None if k == 7 else float(random.normal()),
    }
    for k in range(60)
]
FLAT = pyarrow.Table.from_pylist(RECORDS).flatten().flatten()
STAMPS = pyarrow.array([record["stamp"] for record in RECORDS]).cast(pyarrow.timestamp("s"))
FLAT = FLAT.set_column(FLAT.column_names.index("stamp"), "stamp", STAMPS)


def write_lines(path: Path) -> None:
    path.write_text("\n".join(map(json.dumps, RECORDS)) + "\n")


def write_list(path: Path) -> None:
    path.write_text(json.dumps(RECORDS, indent=1))


def write_zipped(path: Path) -> None:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, RECORDS)).encode("utf-8-sig")))


def write_stream(path: Path) -> None:
    with ipc.new_stream(path, FLAT.schema) as stream:
        stream.write_table(FLAT, max_chunksize=7)


WRITTEN: dict[str, Any] = {
    "lines.jsonl": write_lines,
    "lines.ndjson": write_lines,
    "list.json": write_list,
    "zipped.jsonl.gz": write_zipped,
    "feather.feather": lambda path: feather.write_feather(FLAT, str(path)),
    "stream.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_all_of_them_hold_the_rows_of_a_parquet_file(name: str, tmp_path: Path) -> None:
    parquet.write_table(FLAT, tmp_path / "rows.parquet")
    WRITTEN[name](tmp_path / name)
    rows, test = File(tmp_path / name, missing="drop").read()
    expected, _ = File(tmp_path / "rows.parquet", missing="drop").read()
    assert test is None and rows.columns == expected.columns and "pose.at.z" in rows.columns
    assert [(one.kind, one.words) for one in rows.kinds] == [(one.kind, one.words) for one in expected.kinds]
    for part in ("points", "targets", "ids"):
        np.testing.assert_array_equal(getattr(rows, part), getattr(expected, part))
    both, held_out = File(tmp_path / name, test_path=tmp_path / name, missing="drop").read()
    assert held_out is not None
    np.testing.assert_array_equal(both.points, held_out.points)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            '{"x": 1, "y": 2}\n{"x": "one", "y": 3}\n{"x": 2, "y": 3}\n',
            'in column "x" row 2 holds "one" \\(text\\), where the other 2 entries are numbers',
        ),
        ("a.json", '{"x": 1', "cannot be read as json"),
        ("a.json", "[1, 2, 3]", "holds a list, and not one of records"),
        ("a.json", "[]", "holds a list, and not one of records"),
        ("a.jsonl", '{"x": [1, 2], "y": 2}\n', r'column "x" holds \[1, 2\], which is not a number'),
        ("a.arrow", "x,y\n1,2\n", "cannot be read as arrow"),
        ("a.parquet", "x,y\n1,2\n", "cannot be read as parquet"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        File(tmp_path / name).read()
