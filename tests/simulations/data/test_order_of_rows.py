"""The order in which rows of files are learned from: shuffled by the seed, or the file's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.data import file

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""

ROWS = 120


@pytest.fixture(params=["nodes that are named", "no nodes"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    x = np.arange(ROWS, dtype=np.float64)
    nodes: dict[str, Any] = {} if request.param == "no nodes" else {"node": np.arange(ROWS) % 4}
    np.savez(tmp_path / "a.npz", x=x[:, None], y=x, x_test=x[:, None], y_test=x, **nodes)
    return tmp_path / "a.npz"


def drawn(path: Path, seed: int, **keys: Any) -> list[list[float]]:
    return [node.draw(ROWS)[0][:, 0].tolist() for node in File(path, **keys).open(4, seed, 10, None).nodes]


def test_each_seed_learns_from_the_rows_in_an_order_of_its_own(path: Path) -> None:
    assert drawn(path, 0) == drawn(path, 0)
    for first, other in zip(drawn(path, 0), drawn(path, 1), strict=True):
        assert first != other and first != sorted(first)


def test_the_order_of_the_file_is_kept_on_request(path: Path) -> None:
    for seed in (0, 1):
        assert drawn(path, seed, order="file") == [list(range(node, ROWS, 4)) for node in range(4)]
