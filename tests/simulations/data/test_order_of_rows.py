"""The order in which rows of files are learned from: shuffled by the seed, or the file's own."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernelswarm.arrays import Array
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.array_files import Idx, OpenML
from kernelswarm.simulations.data.contract import Stream

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""

ROWS = 120


@pytest.fixture(params=["csv", "npz", "no nodes", "idx", "openml"])
def stream(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Data that says all there is to say, the node of each row and the test rows, where the format can."""
    x, y, node = np.arange(ROWS, dtype=np.float64), np.arange(ROWS) % 3, np.arange(ROWS) % 4
    if request.param == "csv":
        for name in ("train.csv", "test.csv"):
            np.savetxt(tmp_path / name, np.column_stack([x, y, node]), "%d", ",", header="x,y,node", comments="")
        return File(tmp_path / "train.csv", test_path=tmp_path / "test.csv")
    if request.param in ("npz", "no nodes"):
        nodes = {} if request.param == "no nodes" else {"node": node, "node_test": node}
        np.savez(tmp_path / "a.npz", x=x[:, None], y=y, x_test=x[:, None], y_test=y, **nodes)  # type: ignore[arg-type]
        return File(tmp_path / "a.npz")
    if request.param == "idx":
        (tmp_path / "i").write_bytes(struct.pack(">HBB2I", 0, 8, 2, ROWS, 1) + x.astype(np.uint8).tobytes())
        (tmp_path / "l").write_bytes(struct.pack(">HBBI", 0, 8, 1, ROWS) + y.astype(np.uint8).tobytes())
        return Idx(tmp_path / "i", tmp_path / "l", tmp_path / "i", tmp_path / "l")
    bunch = SimpleNamespace(data=x[:, None], target=y.astype(str), feature_names=["x"], target_names=["y"])
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: bunch)
    return OpenML("numbers", standardize=False)


def drawn(stream: Stream, seed: int) -> list[Array]:
    return [node.draw(ROWS)[0] for node in stream.open(4, seed, 10, None).nodes]


def test_each_seed_learns_from_the_rows_in_an_order_of_its_own(stream: Stream) -> None:
    first, again, other = (drawn(stream, seed) for seed in (0, 0, 1))
    for node in range(4):
        assert np.array_equal(first[node], again[node])
        assert not np.array_equal(first[node], other[node])
        assert not np.array_equal(first[node], np.sort(first[node], axis=0))


def test_the_order_of_the_file_is_kept_on_request(tmp_path: Path) -> None:
    x = np.arange(ROWS, dtype=np.float64)
    for nodes in ({}, {"node": np.arange(ROWS) % 4}):
        np.savez(tmp_path / "a.npz", x=x[:, None], y=x, x_test=x[:, None], y_test=x, **nodes)  # type: ignore[arg-type]
        for seed in (0, 1):
            assert [points[:, 0].tolist() for points in drawn(File(tmp_path / "a.npz", order="file"), seed)] == [
                list(range(node, ROWS, 4)) for node in range(4)
            ]
