"""Bad data files and impossible combinations end in one paragraph: what, where, the rule, the remedy."""

from __future__ import annotations

import gzip
import re
import struct
import urllib.error
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.data.array_files import Idx, OpenML
from kernelswarm.simulations.data.contract import Stream
from kernelswarm.simulations.data.file import File

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10.0)


def refusal(stream: Stream, nodes: int = 2) -> str:
    """Message of the refused stream, checked for its form: one paragraph that ends with a remedy."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is what the tests look at
        stream.open(nodes, 0, 10, None)
    message = str(caught.value)
    assert "\n" not in message and ":" in message
    assert re.match(r"[a-z_]+( = |: | )", message)
    return message


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def text(folder: Path, content: str, name: str = "data.csv") -> Path:
    (folder / name).write_text(content)
    return folder / name


# Files


def test_a_missing_file_is_named_with_the_nearest(tmp_path: Path) -> None:
    text(tmp_path, "x,y\n1,2\n", "train.csv")
    message = refusal(File(tmp_path / "trian.csv"))
    assert message.startswith(f'path = "{tmp_path}/trian.csv": there is no such file') and '"train.csv"?' in message
    assert "there is no folder" in refusal(File(tmp_path / "no" / "x.csv"))
    assert "is a folder" in refusal(File(tmp_path))
    assert "cannot be read (" in refusal(File(tmp_path / ("a" * 300)))
    assert "cannot be read (" in refusal(File(tmp_path / "a\0b"))
    empty = text(tmp_path, "")
    assert refusal(File(empty)) == f'path = "{empty}" is an empty file: choose one with data'


def test_an_unknown_ending_needs_a_format(tmp_path: Path) -> None:
    message = refusal(File(text(tmp_path, "x,y\n1,2\n", "t.asc")))
    assert message.startswith('format = "auto" cannot tell') and '".asc"' in message


@pytest.mark.parametrize("format", ["npz", "parquet", "csv", "svmlight"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, format: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(1, 256)) * 4)
    message = refusal(File(path, format=format))
    assert f'path = "{path}"' in message and message.isprintable()


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"x,y\n" + b"1.234,5\n" * 5000, compresslevel=1)
    path = tmp_path / "data.csv.gz"
    for content in (whole[: len(whole) // 2], whole[:40] + b"\x00" * 20 + whole[60:]):
        path.write_bytes(content)
        assert "is damaged or cut short" in refusal(File(path))
        assert "is damaged or cut short" in refusal(Idx(path, path))


# Values


@pytest.mark.parametrize(
    ("written", "shown"),
    [("nan", "missing"), ("", "missing"), ("-", "missing"), ("-inf", "-inf"), ("a-b", '"a-b"')],
)
def test_a_bad_value_in_csv_is_refused_with_row_and_column(tmp_path: Path, written: str, shown: str) -> None:
    path = text(tmp_path, f"income,age,y\n1,2,3.5\n4,{written},6.5\n7,8,9.5\n")
    message = refusal(File(path))
    assert message.startswith(f'path = "{path}": row 2, column "age"') and shown in message
    assert "the first row of data is row 1" in message
    assert 'row 2, column "age"' in refusal(File(path, target="age"))


@pytest.mark.parametrize("array", ["x", "y", "x_test", "y_test"])
def test_a_bad_value_in_npz_is_refused_with_row_and_column(tmp_path: Path, array: str) -> None:
    arrays = {"x": X.copy(), "y": Y.copy(), "x_test": X.copy(), "y_test": Y.copy()}
    arrays[array][7] = np.nan
    message = refusal(File(npz(tmp_path, **arrays)))
    column = f"{array}[:, 0]" if array.startswith("x") else array
    assert f'data.npz": row 7, column "{column}" is missing (rows count from 0)' in message
    assert 'set stream.missing = "drop", "mean" or "last"' in message


def test_a_bad_value_in_svmlight_and_idx_is_refused(tmp_path: Path) -> None:
    assert 'row 2, column "feature 1" is missing' in refusal(
        File(text(tmp_path, "1 1:2 2:3\n0 1:4 2:nan\n", "t.svm")), nodes=1
    )
    images = np.ones((4, 2, 2), dtype=">f4")
    images[3, 1, 0] = np.inf
    (tmp_path / "images").write_bytes(struct.pack(">HBB3I", 0, 13, 3, 4, 2, 2) + images.tobytes())
    (tmp_path / "labels").write_bytes(struct.pack(">HBBI", 0, 8, 1, 4) + bytes([0, 1, 0, 1]))
    assert 'row 3, column "pixel 2" is inf' in refusal(Idx(tmp_path / "images", tmp_path / "labels"))


def test_labels_must_be_whole_numbers_of_at_least_two_classes(tmp_path: Path) -> None:
    labels = np.repeat([0.0, 1.0], 5)
    labels[4] = 0.5
    message = refusal(File(npz(tmp_path, x=X, y=labels), task="classification"))
    assert 'row 4 has label 0.5 in column "y"' in message and "labels must be whole numbers or names" in message
    assert "all rows have the label 3" in refusal(File(npz(tmp_path, x=X, y=np.full(10, 3))))
    two = npz(tmp_path, x=X, y=np.ones((10, 2)))
    assert "the target has 2 columns" in refusal(File(two, task="classification"))


# Columns and arrays


def test_unknown_columns_are_named_with_the_nearest(tmp_path: Path) -> None:
    path = text(tmp_path, "longitude,latitude,value\n1,2,3\n4,5,6\n")
    assert 'target = "" means the column "y"' in refusal(File(path))
    for keys in ({"target": "vlaue"}, {"target": ("value", "vlaue")}):
        message = refusal(File(path, **keys))
        assert message.startswith('target = "vlaue" is not a column of path') and '"value"?' in message
    assert 'features = "lattitude"' in refusal(File(path, target="value", features=("lattitude",)))
    assert 'node_column = "sensor"' in refusal(File(path, target="value", node_column="sensor"))
    assert 'split_columns = "longtude"' in refusal(
        File(path, target="value", split="patches", split_columns=("longtude",))
    )
    assert "split_columns = 0" in refusal(File(path, target="value", split="patches", split_columns=(0,)))
    assert 'features = "value" is also the target' in refusal(File(path, target="value", features=("value",)))


def test_tables_need_a_header_with_different_names(tmp_path: Path) -> None:
    assert 'the column "y"' in refusal(File(text(tmp_path, "1,2,3\n4,5,6\n")))
    assert "has no rows of data" in refusal(File(text(tmp_path, "a,b,y\n")))
    assert "as many fields in every line as in the header" in refusal(File(text(tmp_path, "a,b,y\n1,2,3\n4,5\n")))
    for ends in ("\n", "\r\n"):
        ragged = "".join(line + ends for line in ["# by hand", "a,b,y", *["1,2,3"] * 30, "4,5"])
        assert "got 2: 4,5, line 33 of the file)" in refusal(File(text(tmp_path, ragged)))
    assert "leaves no column for the inputs" in refusal(File(text(tmp_path, "y\n1\n2\n")))
    (tmp_path / "data.csv").write_bytes("größe,y\n1,2\n".encode("latin1"))
    assert "for UTF-8, and byte 0xf6 in line 1 is none" in refusal(File(tmp_path / "data.csv"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X, "y": Y}, 'has no array "x": use one of X, y'),
        ({"x": X[:, 0], "y": Y}, "x has shape (10,); it must be (rows, inputs): save x[:, None]"),
        ({"x": X, "y": Y[:9]}, "y has shape (9,); with x of shape (10, 2)"),
        ({"x": X, "y": Y, "x_test": X}, 'has no array "y_test"'),
        ({"x": X, "y": Y, "x_test": X[:, :1], "y_test": Y}, "the test rows have 1 input, the rows to learn from 2"),
        ({"x": X, "y": np.array([b"a"] * 10)}, "y has type |S1; it must hold real numbers, or labels as text"),
        ({"x": np.array([["a"]] * 10), "y": Y}, "x has type <U1; it must hold real numbers: convert it"),
        ({"x": X.astype(object), "y": Y}, 'the array "x" cannot be read'),
        ({"x": X, "y": Y, "node": Y}, "node has shape (10,) and type float64; it must be integers or text (10,)"),
        ({"x": X[:0], "y": Y[:0]}, "has no rows of data"),
        ({"x": X, "y": np.ones((10, 0))}, "has targets without columns"),
        ({"x": X[:, :0], "y": Y}, "leaves no column for the inputs"),
    ],
)
def test_arrays_must_fit_together(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    assert message in refusal(File(npz(tmp_path, **arrays)))


def test_keys_of_another_format_are_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, x=X, y=Y)
    assert "target names columns, and npz files have none" in refusal(File(path, target="y"))
    assert "test_path is not for npz files" in refusal(File(path, test_path=path))
    assert "give numbers from 0 to 1" in refusal(File(path, split="patches", split_columns=("x",)))
    assert "give numbers from 0 to 1" in refusal(File(path, split="patches", split_columns=(2,)))


# Nodes


def test_too_few_rows_for_the_nodes(tmp_path: Path) -> None:
    path = npz(tmp_path, x=X, y=Y)
    message = refusal(File(path), nodes=6)
    assert "10 rows are too few for 6 nodes, each of which needs one to learn from and one to measure" in message
    separate = npz(tmp_path, x=X, y=Y, x_test=X[:3], y_test=Y[:3])
    assert "10 rows are too few for 11 nodes" in refusal(File(separate), nodes=11)
    assert "none of the 3 test rows falls to node 3" in refusal(File(separate), nodes=5)


def test_nodes_of_the_data_must_be_those_of_the_network(tmp_path: Path) -> None:
    path = npz(tmp_path, x=X, y=Y, node=np.repeat([0, 4], 5))
    assert "name 2 different nodes (0, 4) and the network has 3" in refusal(File(path), nodes=3)
    assert "already says each row's node" in refusal(File(path, split="sorted"))
    single = npz(tmp_path, x=X, y=Y, node=np.array([1] + [0] * 9))
    assert "node 1 has 1 row;" in refusal(File(single))
    named = npz(tmp_path, x=X, y=Y, node=np.array(["b"] + ["a"] * 9))
    assert 'node "b" has 1 row;' in refusal(File(named))
    stranger = npz(tmp_path, x=X, y=Y, node=np.repeat([0, 1], 5), x_test=X, y_test=Y, node_test=np.repeat([0, 7], 5))
    assert "row 5 belongs to node 7 (rows count from 0), which has no rows to learn from" in refusal(File(stranger))
    half = text(tmp_path, "node,x,y\n0,1,2\n0.5,3,4\n")
    assert 'row 2 names node 0.5 in column "node"' in refusal(File(half))


def test_a_skew_that_starves_a_node_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, x=np.zeros((40, 1)), y=np.arange(40) % 2)
    message = refusal(File(path, split="label_skew", concentration=0.001), nodes=10)
    assert message.startswith("concentration = 0.001 left a node with fewer than 2 of 40 rows")


def test_splits_that_do_not_fit_the_task_are_refused(tmp_path: Path) -> None:
    regression, classes = (npz(tmp_path, x=X, y=Y), "regression"), (tmp_path / "c.npz", "classification")
    np.savez(classes[0], x=X, y=np.arange(10) % 2)
    for (path, task), split in ((regression, "label_skew"), (classes, "target_shift")):
        message = refusal(File(path, split=split))  # type: ignore[arg-type]
        assert message.startswith(f'split = "{split}"') and f"does not fit the {task}" in message
        with pytest.raises(ValueError, match=f'split = "{split}"'):
            File(path, split=split, task=task)  # type: ignore[arg-type]
    same = npz(tmp_path, x=np.ones((10, 2)), y=Y)
    assert 'split = "patches" cannot cut' in refusal(File(same, split="patches"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"epochs": 0}, "epochs = 0 must be at least 1"),
        ({"test_fraction": 0.0}, "test_fraction = 0.0 must be between 0 and 1"),
        ({"test_fraction": 1.0}, "test_fraction = 1.0 must be between 0 and 1"),
        ({"delimiter": "ab"}, 'delimiter = "ab" must be one character'),
        ({"order": "random"}, 'order = "random" must be "auto", "shuffled", "file" or "time"'),
        ({"split": "by_label"}, 'split = "by_label" must be "iid", "label_skew", .* or "sorted"'),
    ],
)
def test_wrong_keys_are_refused_by_name(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        File(Path("data.csv"), **keys)


# IDX and OpenML


def test_idx_files_are_checked(tmp_path: Path) -> None:
    images, labels, short, other = (tmp_path / name for name in ("images", "labels", "short", "other"))
    images.write_bytes(struct.pack(">HBB3I", 0, 8, 3, 4, 2, 2) + bytes(range(16)))
    labels.write_bytes(struct.pack(">HBBI", 0, 8, 1, 4) + bytes([0, 1, 0, 1]))
    assert Idx(images, labels).open(2, 0, 5, None).inputs == 4
    short.write_bytes(images.read_bytes()[:-1])
    assert "announces an array (4, 2, 2), which takes 32 bytes, and the file has 31" in refusal(Idx(short, labels))
    short.write_bytes(images.read_bytes()[:9])
    assert "is damaged" in refusal(Idx(short, labels))
    other.write_bytes(b"PK\x03\x04 something else")
    assert "is not an IDX file (it begins with the bytes 50 4b 03 04)" in refusal(Idx(images, other))
    assert "exchange the two" in refusal(Idx(labels, images))
    other.write_bytes(struct.pack(">HBBI", 0, 8, 1, 3) + bytes([0, 1, 0]))
    other_images = tmp_path / "none"
    other_images.write_bytes(struct.pack(">HBB3I", 0, 8, 3, 0, 2, 2))
    assert "has 0 images and labels" in refusal(Idx(other_images, labels))
    assert "has 4 images and labels" in refusal(Idx(images, other))
    assert "there is no such file" in refusal(Idx(images, tmp_path / "label"))
    with pytest.raises(ValueError, match="test_labels is missing, and test_images is given"):
        Idx(images, labels, test_images=images)
    with pytest.raises(ValueError, match='split = "target_shift"'):
        Idx(images, labels, split="target_shift")


def test_openml_without_a_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: Any) -> None:
        raise urllib.error.URLError("Temporary failure in name resolution")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    message = refusal(OpenML("mnist_784"))
    assert message.startswith('dataset = "mnist_784" could not be fetched from openml.org')
    assert "needs a network connection" in message and "name resolution" in message


def test_openml_refusals_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**_: Any) -> None:
        raise ValueError("Dataset mnsit with version active not found.")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    assert "not found" in refusal(OpenML("mnsit"))
    bunch = SimpleNamespace(
        data=np.array([[1.0, np.nan]] * 9), target=np.arange(9.0), feature_names=["u", "v"], target_names=["t"]
    )
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: bunch)
    assert 'row 0, column "v" is missing' in refusal(OpenML(3))
    assert 'features = "w" is not a column of dataset = 3' in refusal(OpenML(3, features=("w",)))
    assert OpenML(3, features=("u",)).open(2, 0, 5, None).inputs == 1


def test_names_that_come_again_get_a_number_and_unnamed_columns_are_left_out(tmp_path: Path) -> None:
    rows, _ = File(text(tmp_path, "a,a,a.1,y,y\n1,2,3,4,5\n6,7,8,9,0\n")).read()
    assert rows.columns == ("a", "a.2", "a.1", "y.1") and rows.target_columns == ("y",)
    np.testing.assert_array_equal(rows.points, [[1.0, 2.0, 3.0, 5.0], [6.0, 7.0, 8.0, 0.0]])
    rows, _ = File(text(tmp_path, "a;y;;\n1;2;;\n3;4;;\n")).read()
    assert rows.columns == ("a",) and len(rows) == 2
    rows, _ = File(text(tmp_path, ",a,y\n0,1,2\n1,3,4\n")).read()
    assert rows.columns == ("a",)


@pytest.mark.parametrize("name", ["http://example.org/data.csv", "https://example.org/a/data.csv.gz"])
def test_an_address_is_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="is an address: download the file, and give its path"):
        File(Path(name)).open(1, 0, 9, None)


@pytest.mark.parametrize("place", [0, 3, 39])
def test_a_null_byte_is_refused_with_its_line(tmp_path: Path, place: int) -> None:
    lines = [f"{k},{k / 7}" for k in range(40)]
    lines[place] = lines[place].replace(",", "\0,")
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    with pytest.raises(ValueError, match=f"has a null byte in line {place + 2}, and text has none"):
        File(tmp_path / "t.csv").open(1, 0, 9, None)
