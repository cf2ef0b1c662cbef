"""Arrays of MATLAB are the data that they are in an npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from kernelswarm.graphs.files import read_graph
from kernelswarm.simulations.data.file import File

random = np.random.default_rng(0)
X, Y = random.normal(size=(40, 3)), random.normal(size=40)
NODES = np.array(["west", "île"] * 20)
WRITTEN: dict[str, dict[str, Any]] = {
    "lower case": {"x": X, "y": Y[:, None]},
    "upper case": {"X": X, "Y": Y[:, None], "Fs": 8000.0, "title": "a run"},
    "a row": {"X": X, "Y": Y[None, :]},
    "one input": {"X": X[:, :1], "Y": Y[:, None]},
    "cells": {"X": X, "Y": Y[:, None], "node": np.array(NODES[:, None], dtype=object)},
    "test rows": {"X": X, "Y": Y[:, None], "X_test": X[:5], "Y_test": Y[:5, None]},
    "two targets": {"X": X, "Y": X[:, :2]},
}


@pytest.mark.parametrize("case", WRITTEN)
@pytest.mark.parametrize("compressed", [False, True])
def test_they_hold_the_rows_of_an_npz_file(case: str, compressed: bool, tmp_path: Path) -> None:
    savemat(tmp_path / "data.mat", WRITTEN[case], do_compression=compressed)
    arrays = {name.lower() if name[0] in "XY" else name: array for name, array in WRITTEN[case].items()}
    for name in ("y", "y_test", "node"):
        if name in arrays and 1 in arrays[name].shape:
            arrays[name] = arrays[name].ravel()
    arrays = {name: array for name, array in arrays.items() if name in ("x", "y", "node", "x_test", "y_test")}
    if "node" in arrays:
        arrays["node"] = arrays["node"].astype(str)
    np.savez(tmp_path / "data.npz", **arrays)
    found, expected = File(tmp_path / "data.mat").read(), File(tmp_path / "data.npz").read()
    for rows, others in zip(found, expected, strict=True):
        if rows is None or others is None:
            assert rows is others
            continue
        assert rows.columns == others.columns and rows.target_columns == others.target_columns
        np.testing.assert_array_equal(rows.points, others.points)
        np.testing.assert_array_equal(rows.targets, others.targets)
        assert (rows.ids is None) == (others.ids is None)
        if rows.ids is not None:
            np.testing.assert_array_equal(rows.ids, others.ids)


def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    savemat(path, {"inputs": X, "Y": Y})
    with pytest.raises(ValueError, match='has no array "x": use one of inputs, y'):
        File(path).read()
    savemat(path, {"x": X, "y": np.array([[1], ["a", 2]], dtype=object)})
    with pytest.raises(ValueError, match="y has type object; it must hold real numbers, or labels as text"):
        File(path).read()
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + bytes(600))
    with pytest.raises(ValueError, match=r"MATLAB 7\.3 in another form\): save it with -v7"):
        File(path).read()
    for content in (b"x,y\n1,2\n", b"\x00" * 200, b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\x0e" * 99):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot be read as a MATLAB file|has no array"):
            File(path).read()
    savemat(path, {"x": X, "y": Y})
    content = path.read_bytes()
    for size in range(128, len(content), 61):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"cannot be read as a MATLAB file|has no array"):
            File(path).read()
    for keys, message in (({"target": "y"}, "mat files have none"), ({"order": "time"}, "mat files have none")):
        with pytest.raises(ValueError, match=message):
            File(path, **keys).read()  # type: ignore[arg-type]


def test_a_sparse_matrix_is_the_full_one(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    savemat(path, {"X": csc_array(X), "y": Y})
    np.testing.assert_array_equal(File(path).read()[0].points, X)
    savemat(path, {"X": csc_array((10**6, 10**6)), "y": Y})
    with pytest.raises(ValueError, match=r"X: 1000000 rows of 1000000 columns take 7451 GiB as a full array"):
        File(path).read()


def test_the_same_is_said_of_a_file_of_data_and_of_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "either.mat"
    for content, words in (
        (
            b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + bytes(600),
            "MATLAB 7.3 in another form",
        ),
        (b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\x0f\x00\x00\x00\x09\x00\x00\x00" + b"\x01" * 9, "rror"),
    ):
        path.write_bytes(content)
        for read in (lambda: File(path).read(), lambda: read_graph(path)):
            with pytest.raises(ValueError, match=words) as caught:
                read()
            assert "MATLAB" in str(caught.value) and "save" in str(caught.value) and ".gz" not in str(caught.value)
