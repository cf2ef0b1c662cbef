"""Which agents share a process: blocks of neighbouring nodes of nearly equal size."""

from collections.abc import Sequence
from itertools import pairwise

import networkx as nx

from kernelswarm.simulations.block import AgentPlan


def partition(plans: Sequence[AgentPlan], size: int) -> list[list[AgentPlan]]:
    """Cut the network into blocks of at most ``size`` nodes.

    The nodes are ordered by a Cuthill-McKee sweep, in which neighbours stand near one another, and the order is cut
    into pieces whose sizes differ by at most one. The models do not depend on it, only the messages between processes.

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
    if size == 1:
        return [[of_node[node]] for node in sorted(of_node)]
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(sorted(of_node))
    graph.add_edges_from((node, other) for node, plan in of_node.items() for other in plan.neighborhood.neighbors)
    order = list(nx.utils.cuthill_mckee_ordering(graph))
    count = -(-len(order) // size)
    cuts = [len(order) * place // count for place in range(count + 1)]
    blocks = sorted(sorted(order[start:end]) for start, end in pairwise(cuts))
    return [[of_node[node] for node in block] for block in blocks]
