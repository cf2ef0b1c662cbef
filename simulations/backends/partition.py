"""Which agents share a process: blocks of nearly equal size with few edges between them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kernelswarm.simulations.backends.bisection import bisect
from kernelswarm.simulations.round.block import AgentPlan


def partition(plans: Sequence[AgentPlan], size: int) -> list[list[AgentPlan]]:
    """Cut the network into blocks of at most ``size`` nodes; see :func:`blocks_of`.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The agents of the network.
    size : int
        The most nodes of a block, at least 1.

    Returns
    -------
    list of list of AgentPlan
        The blocks in the order of their smallest labels, each in the order of its labels.
    """
    of_node = {plan.neighborhood.node: plan for plan in plans}
    blocks = blocks_of({node: plan.neighborhood.neighbors for node, plan in of_node.items()}, size)
    return [[of_node[node] for node in block] for block in blocks]


def crossing(blocks: Sequence[Sequence[AgentPlan]]) -> int:
    """Count the edges between nodes of different blocks."""
    home = {plan.neighborhood.node: place for place, block in enumerate(blocks) for plan in block}
    plans = [plan for block in blocks for plan in block]
    ends = [(plan.neighborhood.node, other) for plan in plans for other in plan.neighborhood.neighbors]
    return sum(home[node] != home[other] for node, other in ends) // 2


def blocks_of(neighbors: Mapping[int, Sequence[int]], size: int) -> list[list[int]]:
    """Cut a network into blocks whose sizes differ by at most one, none larger than ``size``, by repeated bisection.

    The models do not depend on it, only the messages between processes.

    Parameters
    ----------
    neighbors : mapping of int to sequence of int
        The neighbours of each node, by its label.
    size : int
        The most nodes of a block, at least 1.

    Returns
    -------
    list of list of int
        The blocks in the order of their smallest labels, each in the order of its labels.
    """
    nodes = sorted(neighbors)
    if size == 1:
        return [[node] for node in nodes]
    count = -(-len(nodes) // size)
    ends = [len(nodes) * place // count for place in range(count + 1)]
    return sorted(_cut(neighbors, nodes, [end - start for start, end in pairwise(ends)]))


def _cut(neighbors: Mapping[int, Sequence[int]], nodes: list[int], sizes: Sequence[int]) -> list[list[int]]:
    if len(sizes) == 1:
        return [nodes]
    places = {node: place for place, node in enumerate(nodes)}
    adjacency = [[places[other] for other in neighbors[node] if other in places] for node in nodes]
    half = len(sizes) // 2
    inside = bisect(adjacency, sum(sizes[:half]))
    halves = [[node for node, found in zip(nodes, inside, strict=True) if found is side] for side in (True, False)]
    return _cut(neighbors, halves[0], sizes[:half]) + _cut(neighbors, halves[1], sizes[half:])
