"""What kernels and losses in plain Python may return: any layout and type; other shapes are refused by the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm import InputError, SimulationError, simulate
from kernelswarm.agents.parts.losses import Squared


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


LEARNERS = ("polk", "newton", "nystroem", "okfe", "colk")


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


@dataclass(frozen=True)
class Flat(Squared):
    """Derivatives without the dimension of the columns."""

    def derivatives(self, predictions: Any, targets: Any) -> Any:
        return (2.0 * (predictions - targets)).ravel()


@dataclass(frozen=True)
class Sum(Squared):
    """One number in place of one for each sample."""

    def values(self, predictions: Any, targets: Any) -> Any:
        return super().values(predictions, targets).sum()


def learned(loss: Squared) -> Any:
    table = {"name": "polk", "loss": loss}
    return simulate(
        topology={"name": "ring", "nodes": 3}, stream="sine_regression", learner=table, protocol="isolated", rounds=30
    )


def test_losses_of_another_shape_are_refused_by_the_method() -> None:
    with pytest.raises(InputError, match=r"Flat\.derivatives returned an array of shape \(\d+,\), and \(\d+, 1\) is"):
        learned(Flat())
    with pytest.raises(SimulationError, match=r"Sum\.values returned an array of shape \(\), and \(600,\) is"):
        learned(Sum())
