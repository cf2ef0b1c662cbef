"""Pieces of a reproduction are kept until it has ended, whoever computes them, and are those of one request."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.reproductions.pieces import Shelf, computed, stamp

ASKED: list[int] = []
TASKS = {f"number {k}": k for k in range(5)}
WANTED = {name: k * k for name, k in TASKS.items()}


def square(number: int) -> dict[str, np.ndarray]:
    ASKED.append(number)
    return {"square": np.array(float(number**2)), "empty": np.zeros((0, 2))}


def dying(number: int) -> dict[str, np.ndarray]:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def numbers(found: dict[str, dict[str, np.ndarray]]) -> dict[str, float]:
    assert all(piece["empty"].shape == (0, 2) for piece in found.values())
    return {name: float(piece["square"]) for name, piece in found.items()}


def test_pieces_are_the_same_alone_apart_and_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "kept", {"seed": 0})
    for jobs, place in ((1, None), (2, None), (1, shelf), (2, shelf)):
        shares: list[float] = []
        ASKED.clear()
        found = computed(square, TASKS, jobs, place, lambda name, share, shares=shares: shares.append(share))
        assert numbers(found) == WANTED
        assert list(found) == list(TASKS)
        assert shares == sorted(shares)
        assert all(0.0 <= share <= 1.0 for share in shares)
    assert ASKED == []  # all were there


def test_what_is_there_is_read_and_what_is_damaged_computed_again(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "kept", {"seed": 0, "data": ["/there", 3]})
    computed(square, {"number 1": 1, "number 4": 4}, 1, shelf, lambda name, share: None)
    damaged = next(iter(shelf.folder.glob("*.npz")))
    damaged.write_bytes(damaged.read_bytes()[:40])
    ASKED.clear()
    assert numbers(computed(square, TASKS, 1, shelf, lambda name, share: None)) == WANTED
    assert len(ASKED) == 4
    shelf.clear()
    assert not shelf.folder.exists()


def test_pieces_of_another_request_are_thrown_away(tmp_path: Path) -> None:
    for seed in (0, 1, 1):
        ASKED.clear()
        computed(square, TASKS, 1, Shelf(tmp_path / "kept", {"seed": seed}), lambda name, share: None)
    assert ASKED == []
    computed(square, TASKS, 1, Shelf(tmp_path / "kept", {"seed": 0}), lambda name, share: None)
    assert len(ASKED) == len(TASKS)


def test_a_process_that_dies_is_named_and_what_has_ended_is_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "kept", {"seed": 0})
    with pytest.raises(SimulationError, match="number 3: its process was ended by SIGKILL"):
        computed(dying, TASKS, 2, shelf, lambda name, share: None)
    ASKED.clear()
    assert numbers(computed(square, TASKS, 1, shelf, lambda name, share: None)) == WANTED
    assert 3 in ASKED and len(ASKED) < len(TASKS)


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "kept", {"seed": 0})
    with shelf.open(), pytest.raises(InputError, match="is being written by process"):
        computed(square, TASKS, 1, shelf, lambda name, share: None)
    with held(shelf.folder):
        pass  # it was given back


def test_other_data_of_the_same_name_is_other_data(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1\n")
    first = stamp(path)
    path.write_text("1\n2\n")
    assert stamp(None) is None
    assert stamp(tmp_path) == [str(tmp_path)]
    assert stamp(path) != first
    with pytest.raises(InputError, match="cannot be read"):
        stamp(tmp_path / "gone")
