"""What nodes learned from is drawn again, and the run goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import resume, run
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source
from kernelswarm.simulations.data.curves import Drifting, SineRegression
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.running.baseline import LATEST, TrainingRows
from kernelswarm.simulations.running.simulation import simulate


class Walk:
    """Endless data of a user whose state is more than a count."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)

    def draw(self, count: int) -> tuple[Array, Array]:
        found = self.random.normal(size=(count, 2))
        return found[:, :1], found[:, 1:]

    def held_out(self, samples: int) -> HeldOut:
        return HeldOut(np.zeros((1, 1)), np.zeros((1, 1)))

    def state(self) -> dict[str, Any]:
        return dict(self.random.bit_generator.state)

    def restore(self, state: dict[str, Any]) -> None:
        self.random.bit_generator.state = state


class Forgetful(Walk):
    """One that keeps no state."""

    state = restore = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name in ("state", "restore"):
            raise AttributeError(name)
        return super().__getattribute__(name)


def opened(kind: str, folder: Path) -> Source:
    if kind == "rows":
        random = np.random.default_rng(0)
        np.savez(folder / "data.npz", x=random.normal(size=(100, 1)), y=random.normal(size=100))
        return File(folder / "data.npz", epochs=3).open(2, 0, 10, None)
    if kind in ("walk", "forgetful"):
        nodes: list[NodeSource] = [Walk(), Walk()] if kind == "walk" else [Forgetful(), Forgetful()]
        return Source(1, 1, None, nodes)
    stream: Any = Drifting() if kind == "drifting" else SineRegression()
    source: Source = stream.open(2, 0, 10, None)
    return source


KINDS = ["rows", "sine", "drifting", "walk", "forgetful"]


@pytest.mark.parametrize("kind", KINDS)
def test_looking_disturbs_no_source(kind: str, tmp_path: Path) -> None:
    wanted, source = opened(kind, tmp_path).nodes[1].draw(90)[1], opened(kind, tmp_path)
    rows, pieces = TrainingRows(source), []
    for count in (7, 30, 0, 53):
        pieces.append(source.nodes[1].draw(count)[1])
        rows.of(1, sum(map(len, pieces)))
    assert np.array_equal(np.concatenate(pieces), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_was_drawn(kind: str, tmp_path: Path) -> None:
    drawn = opened(kind, tmp_path).nodes[0].draw(600)[1]
    source = opened(kind, tmp_path)
    rows = TrainingRows(source)
    source.nodes[0].draw(20)
    if kind == "rows":  # 40 of a node, and each but once
        found = [rows.of(0, samples).targets for samples in (20, 40, 100, 0)]
        assert [len(targets) for targets in found] == [20, 40, 40, 40]
        assert all(np.array_equal(targets, drawn[: len(targets)]) for targets in found)
    else:
        assert np.array_equal(rows.of(0, 20).targets, drawn[:LATEST])
        latest = drawn[600 - LATEST :] if kind in ("sine", "drifting") else drawn[:LATEST]  # others cannot be placed
        assert np.array_equal(rows.of(0, 600).targets, latest)


@pytest.mark.parametrize("protocol", ["consensus", "centralized"])
def test_a_resumed_run_says_the_same(protocol: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    keys: dict[str, Any] = {
        "topology": {"name": "ring", "nodes": 3},
        "data": (random.normal(size=(300, 2)), random.normal(size=300) + 50.0),
        "learner": "polk",
        "protocol": protocol,
        "evaluate_every": 10,
    }
    whole = simulate(**keys, rounds=60)
    begun = run(folder=tmp_path / "run", **keys, rounds=30, checkpoint_every=10)
    again = resume(begun.folder, ["rounds=60"]).result
    assert again.final["constant_risk"] == whole.final["constant_risk"]
    assert again.final["rmse"] == whole.final["rmse"] and again.verdict == whole.verdict
