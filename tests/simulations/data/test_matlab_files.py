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
TARGETS = {"Y": Y[:, None]}
PLAIN = {"x": X, "y": Y}
WRITTEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # in the file, and the same as arrays of numpy
    "lower case": ({"x": X, "y": Y[:, None]}, PLAIN),
    "upper case": ({"X": X, **TARGETS, "Fs": 8000.0, "title": "a run"}, PLAIN),
    "a row": ({"X": X, "Y": Y[None, :]}, PLAIN),
    "one input": ({"X": X[:, :1], **TARGETS}, {"x": X[:, :1], "y": Y}),
    "cells": ({"X": X, **TARGETS, "node": np.array(NODES[:, None], dtype=object)}, {**PLAIN, "node": NODES}),
    "test rows": (
        {"X": X, **TARGETS, "X_test": X[:5], "Y_test": Y[:5, None]},
        {**PLAIN, "x_test": X[:5], "y_test": Y[:5]},
    ),
    "two targets": ({"X": X, "Y": X[:, :2]}, {"x": X, "y": X[:, :2]}),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_they_hold_the_rows_of_an_npz_file(case: str, tmp_path: Path) -> None:
    written, arrays = WRITTEN[case]
    savemat(tmp_path / "data.mat", written, do_compression=case == "cells")
    np.savez(tmp_path / "data.npz", **arrays)
    found, expected = File(tmp_path / "data.mat").read(), File(tmp_path / "data.npz").read()
    for rows, others in zip(found, expected, strict=True):
        if rows is None or others is None:
            assert rows is others
            continue
        assert rows.columns == others.columns and rows.target_columns == others.target_columns
        for name in ("points", "targets", "ids"):
            np.testing.assert_array_equal(getattr(rows, name), getattr(others, name))


def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    savemat(path, {"inputs": X, "Y": Y})
    with pytest.raises(ValueError, match='has no array "x": use one of inputs, y'):
        File(path).read()
    savemat(path, {"x": X, "y": np.array([[1], ["a", 2]], dtype=object)})
    with pytest.raises(ValueError, match="y has type object; it must hold real numbers, or labels as text"):
        File(path).read()
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + bytes(600))
    for read, words in ((File(path).read, "save it with -v7"), (lambda: read_graph(path), "save")):
        with pytest.raises(ValueError, match=rf"MATLAB 7\.3 in another form.*{words}"):
            read()
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
