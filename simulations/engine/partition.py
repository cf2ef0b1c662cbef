"""The partition of agents into processes: blocks of nearly equal size with few edges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from kernelswarm.simulations.engine.block import AgentPlan

Adjacency = list[list[int]]

SEED = 0
TRIES = 10
MOST_REPEATS = 20


def partition(plans: Sequence[AgentPlan], size: int) -> list[list[AgentPlan]]:
    """Cut the network into blocks of at most ``size`` nodes; see :func:`blocks_of`.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The agents of the network.
    size : int
        Maximum number of nodes of a block, at least 1.

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
    """Cut a network into blocks whose sizes differ by at most one, none larger than ``size``, with METIS.

    The partition affects the messages between processes, but not the models. It is deterministic, unless another thread
    of the process continuously draws from the C library's ``rand``. If METIS is not installed (it has no build for
    Windows and for Linux on ARM), blocks consist of consecutive labels.

    Parameters
    ----------
    neighbors : mapping of int to sequence of int
        The neighbours of each node, by its label.
    size : int
        Maximum number of nodes of a block, at least 1.

    Returns
    -------
    list of list of int
        The blocks in the order of their smallest labels, each in the order of its labels.

    References
    ----------
    G. Karypis and V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM Journal
    on Scientific Computing 20, 1998.
    """
    nodes = sorted(neighbors)
    count = -(-len(nodes) // size)
    if count in (1, len(nodes)):
        return [nodes] if count == 1 else [[node] for node in nodes]
    places = {node: place for place, node in enumerate(nodes)}
    adjacency = [[places[other] for other in neighbors[node]] for node in nodes]
    homes = _evened(adjacency, _homes(adjacency, count), count)
    blocks: list[list[int]] = [[] for _ in range(count)]
    for node, home in zip(nodes, homes, strict=True):
        blocks[home].append(node)
    return sorted(blocks)


def _homes(adjacency: Adjacency, count: int) -> list[int]:
    """Find blocks of about equal size with few edges between them; return the block of each node."""
    try:
        import pymetis
    except ModuleNotFoundError:
        return [place * count // len(adjacency) for place in range(len(adjacency))]
    kind = pymetis.zero_copy_dtype()
    starts = np.array([0, *accumulate(map(len, adjacency))], dtype=kind)
    others = np.array([other for ends in adjacency for other in ends], dtype=kind)
    # Bisection cuts fewer edges than a direct partition into all blocks, and the best of ten attempts even fewer.
    options = pymetis.Options(seed=SEED, ncuts=TRIES, ufactor=1)
    graph = pymetis.CSRAdjacency(starts, others)

    def homes() -> list[int]:
        return list(pymetis.part_graph(count, graph, recursive=True, options=options).vertex_part)

    # METIS uses the C library's rand, whose state is common to all threads of a process, including Ray's threads. So
    # the seed is effective only while no other thread draws, which two equal results in a row confirm.
    found = homes()
    for _ in range(MOST_REPEATS):
        before, found = found, homes()
        if found == before:
            break
    return found


def _evened(adjacency: Adjacency, homes: Sequence[int], count: int) -> list[int]:
    """Move nodes from the largest block to the smallest, fewest added cut edges first, until all are even.

    METIS balances sizes to one in a thousand, except in small, unconnected and star-like networks.
    """
    homes = list(homes)
    members: list[set[int]] = [set() for _ in range(count)]
    for node, home in enumerate(homes):
        members[home].add(node)
    while True:
        large = max(range(count), key=lambda home: len(members[home]))
        small = min(range(count), key=lambda home: len(members[home]))
        if len(members[large]) - len(members[small]) <= 1:
            return homes

        def added(node: int, large: int = large, small: int = small) -> int:
            return sum((homes[other] == large) - (homes[other] == small) for other in adjacency[node])

        node = min(sorted(members[large]), key=added)
        members[large].remove(node)
        members[small].add(node)
        homes[node] = small


# The placement of blocks of nodes on the machines of a cluster.


def placed(machines: Sequence[Mapping[str, Any]], actors: int) -> list[str]:
    """Return the machine of each actor: consecutive actors, in proportion to the machines' cores.

    Consecutive blocks are often neighbours, so fewer messages leave a machine. Ray's own placement does not know this,
    and places most actors without reserved cores on one machine.

    Parameters
    ----------
    machines : sequence of mapping
        The machines as listed by Ray: "NodeID", "Alive", and "Resources" with the cores as "CPU". Machines without
        cores host no actors, unless all machines have none.
    actors : int
        The number of actors.

    Examples
    --------
    >>> machine = {"Alive": True, "Resources": {"CPU": 2.0}}
    >>> placed([{**machine, "NodeID": "a"}, {**machine, "NodeID": "b"}], 5)
    ['a', 'a', 'a', 'b', 'b']
    """
    alive = {machine["NodeID"]: machine["Resources"].get("CPU", 0.0) for machine in machines if machine["Alive"]}
    cores = {name: count for name, count in alive.items() if count > 0} or dict.fromkeys(alive, 1.0)
    ends = list(accumulate(cores.values()))
    return [
        next(name for name, end in zip(cores, ends, strict=True) if (place + 0.5) / actors <= end / ends[-1])
        for place in range(actors)
    ]
