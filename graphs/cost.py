"""The cost of one round of communication in messages and scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Graph

BYTES = 8  # a scalar is a float64


@dataclass(frozen=True)
class RoundCost:
    """The messages of all nodes together in one round.

    Parameters
    ----------
    messages : int
        Arrays sent: everything that one node sends to one other in a round travels as one array.
    scalars : int
        Numbers in them.
    """

    messages: int
    scalars: int

    @property
    def bytes(self) -> int:
        """Bytes of the numbers alone, 8 each."""
        return BYTES * self.scalars


def round_cost(
    network: Graph | Adjacency,
    inputs: int,
    outputs: int,
    batch_size: int | Sequence[int],
    form: Literal["one_sided", "symmetric"] = "one_sided",
    duals: bool = False,
    row_sums: bool = False,
    replay: float = 0.0,
    variances: bool = False,
) -> RoundCost:
    """Count the scalars sent in one round by protocols that exchange values, such as consensus and proximity.

    For the directed edge (i, j) and b samples of i, node i sends its points (b, p) and j answers with its predictions
    (b, C): ``b (p + C)`` scalars. In the symmetric form i also sends its own predictions, ``b (p + 2 C)`` in all, and
    under proximity one more scalar, the edge's dual variable. Symmetric implicit steps limit each pair of an edge and a
    point by the row sums of both ends, which both ends send for every point: ``2 b`` more.

    Parameters
    ----------
    network : networkx.Graph or Adjacency
        A validated network.
    inputs, outputs : int
        p and C.
    batch_size : int, or sequence of int in the order of the labels
        b, the samples a node draws per round.
    form : "one_sided" or "symmetric"
        Whose samples enter a node's gradient: its own, or its neighbors' too.
    duals : bool
        Whether edges have dual variables, as under proximity; only the symmetric form sends them.
    row_sums : bool
        Whether the ends of an edge send each other the row sums of its pairs; only the symmetric form sends them.
    replay : float
        r, the number of points that a node replays in addition to its samples. For a rate below 1 the mean number is
        counted, rounded down.
    variances : bool
        Whether the ends also send each other the variances of their values: as many numbers as row sums.
    """
    degrees = Adjacency.of(network).degrees
    directed_edges = int(degrees.sum())
    # Points of a node count once for each of its neighbors.
    points = int((degrees * (np.asarray(batch_size) + replay)).sum())
    if form == "one_sided":
        return RoundCost(directed_edges, points * (inputs + outputs))
    each = inputs + 2 * outputs + (2 if row_sums else 0) + (2 if variances else 0)
    return RoundCost(directed_edges, points * each + (directed_edges if duals else 0))


def vector_cost(network: Graph | Adjacency, length: int, tree: bool = False) -> RoundCost:
    """Count the scalars of one round in which every node sends a vector of ``length`` numbers to each neighbor.

    With ``tree`` only the edges of a spanning tree of each part are counted.
    """
    network = Adjacency.of(network)
    directed_edges = 2 * (network.number_of_nodes() - len(network.parts) if tree else network.number_of_edges())
    return RoundCost(directed_edges, length * directed_edges)


def flooded_cost(
    network: Graph | Adjacency, inputs: int, targets: int, batch_size: int | Sequence[int], share: float
) -> RoundCost:
    """Count the scalars of one round in which a share of samples is sent once over each edge of a spanning tree.

    Parameters
    ----------
    network : networkx.Graph or Adjacency
        A validated network.
    inputs, targets : int
        p and q.
    batch_size : int, or sequence of int in the order of the labels
        b, the samples a node draws per round.
    share : float
        The fraction of samples that are sent.
    """
    network = Adjacency.of(network)
    sizes = np.broadcast_to(batch_size, (network.number_of_nodes(),))
    hops = (np.bincount(network.part) - 1)[network.part]
    return RoundCost(vector_cost(network, 0, tree=True).messages, round(share * (hops @ sizes) * (inputs + targets)))


def pooled_cost(network: Graph | Adjacency, inputs: int, targets: int, batch_size: int | Sequence[int]) -> RoundCost:
    """Count the scalars of one round in which every node sends its samples, points and targets, to one learner.

    Parameters
    ----------
    network : networkx.Graph or Adjacency
        A validated network.
    inputs, targets : int
        p and q.
    batch_size : int, or sequence of int in the order of the labels
        b, the samples a node draws per round.
    """
    nodes = network.number_of_nodes()
    samples = int(np.broadcast_to(batch_size, (nodes,)).sum())
    return RoundCost(nodes, samples * (inputs + targets))
