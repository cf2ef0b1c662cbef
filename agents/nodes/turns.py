"""Rounds of nodes in arrays, with pauses for samples, room, and returning nodes."""

from typing import Any, Protocol

from kernelswarm.agents.nodes.arrays import DONE, PAUSED, RETURNED
from kernelswarm.agents.nodes.node import Node


class ByTurns(Protocol):
    """Nodes whose rounds may pause before the last one."""

    now: int
    completed: int

    def take(self, left: int) -> tuple[int, int, int, float]:
        """Run at most ``left`` rounds; return why they ended, their number, and the node and curvature at the end."""
        ...

    def pause(self, left: int) -> None:
        """Draw samples, maintain states and make room for them before up to ``left`` further rounds."""
        ...

    def begin_anew(self) -> None:
        """Reset the nodes that return in the next round and are not yet reset for it."""
        ...

    def fail(self, node: int, curvature: float) -> None:
        """Raise a node's error."""
        ...


def run_by_turns(nodes: ByTurns, rounds: int) -> None:
    """Run rounds; ``nodes.completed`` is their number, even if a node's error is raised."""
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
    """Update the counts of node i after steps on some samples, from the sums of rounds."""
    agent.now = now
    agent.samples += samples
    agent.largest_target = float(sums.largest_target[i])
    agent.tally.rounds += steps
    agent.tally.samples += samples
    agent.tally.loss = float(sums.loss[i])
