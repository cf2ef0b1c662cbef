"""Over how many rounds a network that changes connects all its nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from kernelswarm.protocols.unreliable.timetable import Timetable

Integers = npt.NDArray[np.int64]

ROUNDS = 400
"""Rounds that are looked at, at most."""

WORK = 2_000_000
"""Edges times rounds that are looked at, at most."""


class Reach(NamedTuple):
    """The facts about a network that changes.

    Attributes
    ----------
    rounds : int
        The rounds looked at.
    share : float
        The mean share of the edges that are there.
    window : int or None
        The fewest rounds such that the edges of any so many in a row connect all nodes; None where all those that were
        looked at do not.
    """

    rounds: int
    share: float
    window: int | None


def reach(timetable: Timetable, nodes: int, edges: Integers, rounds: int) -> Reach:
    """Look at the first rounds of a network that changes.

    In round t let an edge be as old as the rounds since it was last there, this one included. The last w rounds connect
    the nodes where a spanning tree of edges no older than w exists: w is the oldest edge of the minimum spanning tree.

    Parameters
    ----------
    timetable : Timetable
        The network's.
    nodes : int
        V.
    edges : Integers
        The ends of every edge, (E, 2), places among the nodes.
    rounds : int
        Rounds of the run.
    """
    count = max(1, min(rounds, ROUNDS, WORK // max(len(edges), 1)))
    active = timetable.rounds(0, count, np.arange(len(edges)))
    share = float(active.mean()) if len(edges) else 1.0
    ages = np.full(len(edges), np.inf)
    widest, known = 0.0, False
    for t in range(count):
        ages = np.where(active[:, t], 1.0, ages + 1.0)
        seen = np.isfinite(ages)
        ends = edges[seen].astype(np.int32)  # of longer numbers not every scipy makes a tree
        graph = csr_array((ages[seen], (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
        if not known and connected_components(graph, directed=False)[0] > 1:
            continue
        tree = minimum_spanning_tree(graph)
        known = True
        widest = max(widest, float(tree.data.max(initial=1.0)))
    return Reach(count, share, int(widest) if known else None)
