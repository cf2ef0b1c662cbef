"""A node's own values are about points that its neighbour knows, whatever becomes of the messages between them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

ROUNDS = 48


@dataclass(frozen=True)
class Turns:
    """Every edge is there once in three rounds."""

    constant: ClassVar[bool] = False

    def begin(self, labels, edges, generator):
        """Yield which edges are there, round by round."""
        for now in itertools.count():
            yield (np.arange(len(edges)) + now) % 3 == 0


def described(schedule: Any = None, **tables: Any) -> Experiment:
    learner = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2}
    found = Experiment.from_dict(
        {
            "topology": nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)]),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": learner,
            "protocol": {"name": "consensus", "penalty": 3.0},
            "rounds": ROUNDS,
            **tables,
        }
    )
    return found if schedule is None else replace(found, schedule=schedule)


# A message has 10 scalars, so that an edge of 5 is busy for two rounds and one of 2 for five.
SPARSE: dict[str, tuple[dict[str, Any], int]] = {
    "busy for two rounds": ({"links": {"bandwidth": 5.0}}, 2),
    "busy for five rounds": ({"links": {"bandwidth": 2.0}}, 5),
    "busy, and late": ({"links": {"bandwidth": 5.0, "delay": 3}}, 2),
    "there in every third round": ({"schedule": Turns()}, 3),
    "there in every third round, busy for five": ({"schedule": Turns(), "links": {"bandwidth": 2.0}}, 6),
}


Found = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def found(monkeypatch) -> Found:
    """Return the points, and the values there, at which nodes learn from their neighbours' own values."""
    found: Found = []
    backward = LossyAgent._backward

    def listen(agent, e, now):
        pairs = backward(agent, e, now)
        if pairs is not None:
            found.append((pairs.evaluation.points, pairs.theirs))
        return pairs

    monkeypatch.setattr(LossyAgent, "_backward", listen)
    return found


def live(experiment: Experiment) -> int:
    """Run the experiment agent by agent; returns the number of directed edges."""
    plans = open_network(experiment).plans
    SerialEngine([plans], compiled=False).run(experiment.rounds)
    return sum(len(plan.neighborhood.neighbors) for plan in plans)


@pytest.mark.parametrize("name", SPARSE)
def test_every_message_that_arrives_couples_at_its_senders_points(name, found, monkeypatch):
    """On an edge with a message in every k rounds, a node learns from its neighbour's own values in every k rounds.

    They are the neighbour's, at the points that it says: looked up among all that any node has evaluated.
    """
    tables, every = SPARSE[name]
    evaluated: dict[bytes, np.ndarray] = {}
    evaluate = LossyAgent.evaluate

    def remember(agent, points, theirs):
        evaluate(agent, points, theirs)
        evaluated[agent.own.points.tobytes()] = agent.own.values

    monkeypatch.setattr(LossyAgent, "evaluate", remember)
    edges = live(described(**tables))
    assert (ROUNDS / every - 4) * edges <= len(found) <= (ROUNDS / every + 2) * edges
    for points, values in found:
        np.testing.assert_array_equal(evaluated[points.tobytes()], values)


def test_of_lost_messages_every_one_takes_the_values_of_two_rounds(found):
    lost, rounds = 0.4, 200
    edges = live(described(links={"loss": lost}, rounds=rounds))
    share = len(found) / (edges * rounds)
    assert abs(share - (1 - lost) ** 2) < 5 * 0.5 / np.sqrt(edges * rounds)


def test_a_node_that_wakes_learns_from_what_its_neighbours_said_last(found):
    edges = live(described(clock={"name": "cyclic", "period": 4}, rounds=80))
    assert abs(len(found) - edges * 80 / 4) <= 2 * edges
