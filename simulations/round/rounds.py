"""The round, written once: what every backend does, eagerly or as a graph of bound calls."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kernelswarm.simulations.round.block import AgentPlan

Message = TypeVar("Message")


def advance(
    steps: Sequence[Callable[..., Message]], neighbors: Sequence[Sequence[int]], outgoing: Sequence[object]
) -> list[Message]:
    """Take every block through one round with what its neighbour blocks sent in the round before.

    Parameters
    ----------
    steps : sequence of callable
        One for each block: :meth:`Block.advance`, or something that binds or submits a call of it.
    neighbors : sequence of sequence of int
        The places of the blocks that each block hears from.
    outgoing : sequence
        What each block sent in the round before: an array, a reference to one, or a node of a graph of calls.

    Returns
    -------
    list
        What each block sends in this round, or what its step returns in the place of it.
    """
    return [step(*[outgoing[other] for other in others]) for step, others in zip(steps, neighbors, strict=True)]


def block_neighbors(blocks: Sequence[Sequence[AgentPlan]]) -> list[list[int]]:
    """Find, for each block of agents, the places of the other blocks that it hears from."""
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
