"""Scores of many nodes at once are those of each alone, to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelswarm import simulate
from kernelswarm.agents.parts.losses import Absolute, Huber, Logistic, Loss, MulticlassHinge, Squared
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.scores import scores


@dataclass(frozen=True)
class Ranked(Squared):
    """A user's own loss, which knows how many samples it was shown."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return np.full(len(predictions), float(len(predictions)))


def agents_of(losses: list[Loss]) -> list[Any]:
    return [SimpleNamespace(learner=SimpleNamespace(loss=loss)) for loss in losses]


def lone(loss: Loss, values: Array, data: HeldOut) -> tuple[float, float]:
    """The definitions, on one node's data."""
    risk = float(loss.values(values, data.targets).mean())
    decided = loss.decide(values)
    if loss.task == "regression":
        truth = data.targets if data.truth is None else data.truth
        return risk, float(np.sum((decided - truth) ** 2) / len(values))
    return risk, np.count_nonzero(decided[:, 0] != data.targets[:, 0]) / len(values)


@pytest.mark.parametrize("size", [1, 7, 8, 200, 1000])
@pytest.mark.parametrize("loss", [Squared(), Absolute(), Huber(), Logistic(), MulticlassHinge()])
def test_together_each_has_what_it_has_alone(loss: Loss, size: int) -> None:
    random = np.random.default_rng(size)
    columns = {"regression": 2, "binary": 1, "multiclass": 3}[loss.task]
    values = [random.standard_normal((size, columns)) for _ in range(9)]
    held_out: list[HeldOut] = []
    for place in range(9):
        if loss.task == "regression":
            truth = random.standard_normal((size, 2)) if place > 4 else None
            held_out.append(HeldOut(np.zeros((size, 1)), random.standard_normal((size, 2)), truth))
        else:
            classes = random.integers(columns + (columns == 1), size=(size, 1)).astype(float)
            held_out.append(HeldOut(np.zeros((size, 1)), classes))
    wanted = [lone(loss, *pair) for pair in zip(values, held_out, strict=True)]
    assert list(zip(*scores(agents_of([loss] * 9), values, held_out), strict=True)) == wanted


def test_losses_and_sizes_may_differ_from_node_to_node() -> None:
    losses: list[Loss] = [Squared(), Squared(), Absolute(), Squared()]
    random = np.random.default_rng(0)
    values = [random.standard_normal((size, 1)) for size in (3, 4, 4, 4)]
    held_out = [HeldOut(each, random.standard_normal(each.shape)) for each in values]
    wanted = [lone(*each) for each in zip(losses, values, held_out, strict=True)]
    assert list(zip(*scores(agents_of(losses), values, held_out), strict=True)) == wanted


def test_a_loss_that_is_not_compiled_sees_one_node_at_a_time() -> None:
    values = [np.zeros((5, 1))] * 3
    found = scores(agents_of([Ranked()] * 3), values, [HeldOut(each, each) for each in values])
    assert list(zip(*found, strict=True)) == [(5.0, 0.0)] * 3


def test_without_data_there_is_no_score() -> None:
    values = [np.zeros((0, 1)), np.ones((2, 1))]
    found = scores(agents_of([Squared()] * 2), values, [HeldOut(each, each) for each in values])
    np.testing.assert_array_equal(found, [[np.nan, 0.0], [np.nan, 0.0]])


@pytest.mark.parametrize("learner", ["linear", "random_features", "raker"])
def test_shared_features_are_computed_once_and_change_no_value(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nodes() -> Any:
        network = {"topology": {"name": "ring", "nodes": 5}, "stream": "sine_regression", "rounds": 10, "seed": 1}
        protocol = "domkl" if learner == "raker" else "diffusion"
        return simulate(**network, learner=learner, protocol=protocol).nodes

    together = nodes()
    monkeypatch.setattr("kernelswarm.simulations.engine.measure.fulfils", lambda part, contract: False)
    alone = nodes()
    assert all(np.array_equal(together[name], alone[name], equal_nan=True) for name in together)
