"""Rounds of nodes in arrays, with stops between them: for samples, room, and nodes that come back."""

from typing import Any, Protocol

from kernelswarm.agents.nodes.arrays import DONE, PAUSED, RETURNED
from kernelswarm.agents.nodes.node import Node


class ByTurns(Protocol):
    """Nodes whose rounds may stop before the last one."""

    now: int
    completed: int

    def take(self, left: int) -> tuple[int, int, int, float]:
        """Run up to so many rounds; returns why they ended, how many were run, and the node and the curvature there."""
        ...

    def pause(self, left: int) -> None:
        """Draw samples, maintain states and give them room before so many further rounds."""
        ...

    def begin_anew(self) -> None:
        """Reset the nodes that come back in the round to come and have not been reset for it."""
        ...

    def fail(self, node: int, curvature: float) -> None:
        """Raise a node's error."""
        ...


def run_by_turns(nodes: ByTurns, rounds: int) -> None:
    """Run rounds; ``nodes.completed`` holds how many, also where a node's error is raised."""
    left, nodes.completed = rounds, 0
    while left:
        reason, completed, node, curvature = nodes.take(left)
        nodes.now += completed
        nodes.completed += completed
        left -= completed
        if reason == PAUSED:
            nodes.pause(left)
        elif reason == RETURNED:
            nodes.begin_anew()
        elif reason != DONE:
            nodes.fail(node, curvature)


def settle(agent: Node, i: int, now: int, steps: int, samples: int, sums: Any) -> None:
    """Bring what node i counts up to date after steps on some samples, by the sums of rounds."""
    agent.now = now
    agent.samples += samples
    agent.largest_target = float(sums.largest_target[i])
    agent.tally.rounds += steps
    agent.tally.samples += samples
    agent.tally.loss = float(sums.loss[i])
