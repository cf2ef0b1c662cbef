"""The contract of a topology: a connected, undirected, simple graph that its fields and the generator decide."""

from __future__ import annotations

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.topology import Topology
from kernelswarm.graphs.validation import validate
from kernelswarm.simulations.testing.properties import checked, require


def check_topology(topology: Topology) -> None:
    """Check that a topology keeps its contract, ``graphs/topology.py``.

    A network that a run accepts, with labels and edges in sorted order; as many nodes as its key ``nodes`` says; where
    nodes have positions, all have different ones, in the unit square; the same graph from the same seed; and where it
    leaves the generator alone, the same graph from every seed.

    Parameters
    ----------
    topology : Topology
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no topology.
    """
    with checked("topology", topology):
        graph = _built(topology, 0)
        require(isinstance(graph, nx.Graph), topology, f"build returns a networkx graph, not a {type(graph).__name__}")
        try:
            valid = validate(graph, strict=True)
        except ValueError as refused:
            raise AssertionError(f"{topology!r} breaks its contract: a run accepts its network: {refused}") from None
        _is_sorted(topology, graph, valid)
        _keeps_its_places(topology, graph)
        for seed in (0, 3):
            same = nx.utils.graphs_equal(_built(topology, seed), _built(topology, seed))
            require(same, topology, "the same seed gives the same network")
        used, fresh = np.random.default_rng(0), np.random.default_rng(0)
        topology.build(used)
        if used.bit_generator.state == fresh.bit_generator.state:
            same = nx.utils.graphs_equal(_built(topology, 1), graph)
            require(same, topology, "all chance comes from the generator: without it every network is the same")


def _built(topology: Topology, seed: int) -> Graph:
    built = topology.build(np.random.default_rng(seed))
    return built.graph if isinstance(built, Adjacency) else built


def _is_sorted(topology: Topology, graph: Graph, valid: Graph) -> None:
    labels = list(graph.nodes)
    require(labels == sorted(labels), topology, "nodes are stored in sorted order, so that files of them are equal")
    require(all(type(node) is int for node in labels), topology, "labels are integers of Python's own")
    edges = list(graph.edges)
    require(edges == sorted(tuple(sorted(edge)) for edge in edges), topology, "edges are stored in sorted order")
    require(nx.utils.graphs_equal(valid, graph), topology, "nothing has to be changed for a run")
    nodes = getattr(topology, "nodes", None)
    require(nodes is None or len(graph) == nodes, topology, f"the number of nodes is the one asked for, {nodes}")


def _keeps_its_places(topology: Topology, graph: Graph) -> None:
    places = nx.get_node_attributes(graph, "pos")
    if not places:
        return
    require(len(places) == len(graph), topology, "either all nodes have a position or none has")
    points = np.array(list(places.values()), dtype=np.float64)
    require(points.shape == (len(graph), 2), topology, f"positions are pairs, not of shape {points.shape[1:]}")
    inside = points.min() >= -1e-12 and points.max() <= 1.0 + 1e-12
    require(bool(inside), topology, "positions lie in the unit square")
    require(len(np.unique(points.round(6), axis=0)) == len(points), topology, "positions are different points")
    plain = all(type(value) is float for place in places.values() for value in place)
    require(plain, topology, "positions are floats of Python's own, as files hold them")
