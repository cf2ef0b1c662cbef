"""Kernels in plain Python may return arrays of any layout and type; another shape is refused by the method's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm import SimulationError, simulate


@dataclass(frozen=True)
class Rows:
    """exp(-20 ||x - y||²), as numpy computes it row by row."""

    supremum: ClassVar[float] = 1.0

    def cross(self, points: Any, centers: Any) -> Any:
        return np.exp(-20.0 * ((points[:, None] - centers[None]) ** 2).sum(axis=2))

    def diagonal(self, points: Any) -> Any:
        return np.ones(len(points))


@dataclass(frozen=True)
class Columns(Rows):
    """The same numbers, one column behind the other in memory."""

    def cross(self, points: Any, centers: Any) -> Any:
        return np.asfortranarray(super().cross(points, centers))


@dataclass(frozen=True)
class Lists(Rows):
    """The same numbers as lists, and the diagonal as whole numbers."""

    def cross(self, points: Any, centers: Any) -> Any:
        return super().cross(points, centers).tolist()

    def diagonal(self, points: Any) -> Any:
        return [1] * len(points)


@dataclass(frozen=True)
class Short(Rows):
    """Numbers of 32 bits."""

    def cross(self, points: Any, centers: Any) -> Any:
        return super().cross(points, centers).astype(np.float32)


@dataclass(frozen=True)
class Turned(Rows):
    """The rows of the centers, in place of those of the points."""

    def cross(self, points: Any, centers: Any) -> Any:
        return super().cross(centers, points)


LEARNERS = ("polk", "newton", "krls", "qklms", "nystroem", "norma", "bpa", "projectron", "okfe", "colk")


def run(kernel: Rows, learner: str, protocol: str = "consensus") -> Any:
    table = {"name": learner, "kernel": kernel, "batch_size": 2 if learner == "colk" else 1}
    return simulate(
        topology={"name": "ring", "nodes": 3}, stream="sine_regression", learner=table, protocol=protocol, rounds=30
    )


@pytest.mark.parametrize("learner", LEARNERS)
def test_layouts_and_types_of_the_same_numbers_give_the_same_bits(learner: str) -> None:
    expected = run(Rows(), learner)
    for kernel in (Columns(), Lists()):
        found = run(kernel, learner)
        assert found.summary["digest"] == expected.summary["digest"]
        assert found.final["risk"] == expected.final["risk"]


def test_numbers_of_fewer_bits_are_taken_as_they_are() -> None:
    found, expected = run(Short(), "newton").final["risk"], run(Rows(), "newton").final["risk"]
    assert found != expected and found == pytest.approx(expected, rel=1e-3)


def test_another_shape_is_refused_by_the_method() -> None:
    with pytest.raises(SimulationError, match=r"Turned\.cross returned an array of shape \(\d+, \d+\), and"):
        run(Turned(), "newton")
