"""The round, written once: what every backend does, eagerly or as a graph of bound calls."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kernelswarm.simulations.round.block import AgentPlan

Message = TypeVar("Message")


def advance(
    steps: Sequence[Callable[..., Message]], neighbors: Sequence[Sequence[int]], outgoing: Sequence[object]
) -> list[Message]:
    """Run one round of every block with the messages that its neighbour blocks sent in the round before.

    Parameters
    ----------
    steps : sequence of callable
        One for each block: :meth:`Block.advance`, or a callable that binds or submits a call of it.
    neighbors : sequence of sequence of int
        The places of the blocks that send to each block.
    outgoing : sequence
        Each block's messages of the round before: an array, a reference to one, or a node of a graph of calls.

    Returns
    -------
    list
        Each block's messages of this round, or what its step returns in their place.
    """
    return [step(*[outgoing[other] for other in others]) for step, others in zip(steps, neighbors, strict=True)]


def block_neighbors(blocks: Sequence[Sequence[AgentPlan]]) -> list[list[int]]:
    """Find, for each block of agents, the places of the other blocks that send to it."""
    home = {plan.neighborhood.node: place for place, block in enumerate(blocks) for plan in block}
    senders: list[list[int]] = []
    for place, block in enumerate(blocks):
        others = {
            home[other]
            for plan in block
            if plan.rule.communicates
            for other in plan.neighborhood.neighbors
            if home[other] != place
        }
        senders.append(sorted(others))
    return senders
