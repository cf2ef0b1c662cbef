"""A node's own values are about points that its neighbour knows, whatever becomes of the messages between them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.simulations.engine.test_unreliable_formulas import compared, described

ROUNDS = 48
POLK = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2}


@dataclass(frozen=True)
class Turns:
    """Every edge is there once in three rounds."""

    constant: ClassVar[bool] = False

    def begin(self, labels, edges, generator):
        """Yield which edges are there, round by round."""
        for now in itertools.count():
            yield (np.arange(len(edges)) + now) % 3 == 0


# A message has 10 scalars, so that an edge of 5 is busy for two rounds and one of 2 for five.
SPARSE: dict[str, tuple[dict[str, Any], int]] = {
    "busy for two rounds": ({"links": {"bandwidth": 5.0}}, 2),
    "busy for five rounds": ({"links": {"bandwidth": 2.0}}, 5),
    "busy, and late": ({"links": {"bandwidth": 5.0, "delay": 3}}, 2),
    "there in every third round": ({"schedule": Turns()}, 3),
    "there in every third round, busy for five": ({"schedule": Turns(), "links": {"bandwidth": 2.0}}, 6),
}


def learned_from(experiment: Experiment) -> tuple[int, int]:
    """Run an experiment; returns how often a node learned from a neighbour's own values, and the directed edges."""
    engine, found = SerialEngine([open_network(experiment).plans]), 0
    before = used(engine)
    for _ in range(experiment.rounds):
        engine.run(1)
        now = used(engine)
        found += int((now != before).sum())
        before = now
    return found, len(before)


def used(engine: SerialEngine) -> np.ndarray[Any, Any]:
    """Return the rounds of the messages whose own values were learned from last, of all directed edges."""
    return np.concatenate([snapshot.arrays["lossy.used"][:, 1] for snapshot in engine.snapshot().values()])


@pytest.mark.parametrize("name", SPARSE)
def test_every_message_that_arrives_couples_at_its_senders_points(name: str) -> None:
    """On an edge with a message in every k rounds, a node learns from its neighbour's own values in every k rounds.

    They are the neighbour's, at the points that it says: by the formulas nothing else is learned.
    """
    tables, every = SPARSE[name]
    experiment = described(**{**tables, "rounds": ROUNDS})
    found, edges = learned_from(experiment)
    assert (ROUNDS / every - 4) * edges <= found <= (ROUNDS / every + 2) * edges
    compared(experiment)


def test_of_lost_messages_every_one_takes_the_values_of_two_rounds() -> None:
    lost, rounds = 0.4, 200
    found, edges = learned_from(described(learner=POLK, links={"loss": lost}, rounds=rounds))
    assert abs(found / (edges * rounds) - (1 - lost) ** 2) < 5 * 0.5 / np.sqrt(edges * rounds)


def test_a_node_that_wakes_learns_from_what_its_neighbours_said_last() -> None:
    found, edges = learned_from(described(learner=POLK, clock={"name": "cyclic", "period": 4}, rounds=80))
    assert abs(found - edges * 80 / 4) <= 2 * edges
