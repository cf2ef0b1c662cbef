"""Every topology is what its definition says."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import dist, log, sqrt
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.directed import DirectedRing, RandomAsking
from kernelswarm.graphs.elementary import (
    BalancedTree,
    Barbell,
    Caveman,
    Complete,
    Exponential,
    Grid,
    Path,
    Ring,
    Star,
    Torus,
)
from kernelswarm.graphs.nearest import NearestNeighbors
from kernelswarm.graphs.random_families import ErdosRenyi, RandomGeometric, Regular, ScaleFree, SmallWorld
from kernelswarm.graphs.topology import Topology
from tests.contracts.specimens import DETERMINISTIC, RANDOM

PLACED = (
    Exponential,
    DirectedRing,
    RandomAsking,
    Ring,
    Path,
    Star,
    Complete,
    BalancedTree,
    Grid,
    Torus,
    Caveman,
    Barbell,
    NearestNeighbors,
    RandomGeometric,
    SmallWorld,
)


def build(topology: Topology, seed: int = 0) -> Graph:
    return Adjacency.of(topology.build(np.random.default_rng(seed))).graph


def edges(graph: Graph) -> set[tuple[int, int]]:
    return {(min(edge), max(edge)) for edge in graph.edges}


def degrees(graph: Graph) -> Counter[int]:
    return Counter(degree for _, degree in graph.degree)


@pytest.mark.parametrize("topology", DETERMINISTIC + RANDOM, ids=repr)
def test_the_families_that_have_natural_positions_give_them(topology: Topology) -> None:
    assert bool(nx.get_node_attributes(build(topology), "pos")) == isinstance(topology, PLACED)


@pytest.mark.parametrize("topology", DETERMINISTIC, ids=repr)
def test_deterministic_topologies_leave_the_generator_alone(topology: Topology) -> None:
    used, fresh = np.random.default_rng(0), np.random.default_rng(0)
    topology.build(used)
    assert used.random() == fresh.random()


@pytest.mark.parametrize("family", [ErdosRenyi, RandomGeometric, SmallWorld, ScaleFree, Regular])
def test_random_topologies_follow_the_seed(family: type[Topology]) -> None:
    assert len({frozenset(edges(build(family(), seed))) for seed in range(5)}) == 5


# --- the definitions


@pytest.mark.parametrize(("branching", "height"), [(1, 5), (2, 3), (3, 3), (5, 1), (4, 0)])
def test_full_tree_branches_at_every_inner_node(branching: int, height: int) -> None:
    graph = build(BalancedTree(branching, height))
    assert len(graph) == sum(branching**level for level in range(height + 1))
    depth = nx.single_source_shortest_path_length(graph, 0)
    for node in graph:
        children = sum(depth[other] == depth[node] + 1 for other in graph.neighbors(node))
        assert children == (branching if depth[node] < height else 0)
    assert nx.is_tree(graph)


@given(branching=st.integers(1, 5), nodes=st.integers(1, 80))
def test_tree_of_any_size_fills_its_levels_in_turn(branching: int, nodes: int) -> None:
    graph = build(BalancedTree(branching, nodes=nodes))
    assert nx.is_tree(graph) and len(graph) == nodes
    sizes = Counter(nx.single_source_shortest_path_length(graph, 0).values())
    last = max(sizes)
    assert all(sizes[level] == branching**level for level in range(last))
    assert 1 <= sizes[last] <= branching**last
    assert BalancedTree(branching, last, nodes) == BalancedTree(branching, last, nodes)  # the height agrees


@pytest.mark.parametrize("family", [Grid, Torus])
@given(rows=st.integers(1, 6), columns=st.integers(1, 6))
def test_lattices_join_nodes_one_step_apart(family: type[Grid], rows: int, columns: int) -> None:
    def apart(first: int, second: int, size: int) -> int:
        return min((first - second) % size, (second - first) % size) if family is Torus else abs(first - second)

    steps = {
        (i, j)
        for i in range(rows * columns)
        for j in range(i + 1, rows * columns)
        if apart(i // columns, j // columns, rows) + apart(i % columns, j % columns, columns) == 1
    }
    assert edges(build(family(rows, columns))) == steps


@pytest.mark.parametrize("family", sorted({type(topology) for topology in DETERMINISTIC + RANDOM}, key=repr))
def test_every_family_has_20_nodes_by_default(family: type[Topology]) -> None:
    assert len(build(family())) == 20


@pytest.mark.parametrize(("cliques", "size"), [(2, 3), (3, 3), (4, 5), (6, 4)])
def test_caveman_rewires_one_edge_of_each_clique_to_the_one_before(cliques: int, size: int) -> None:
    found = edges(build(Caveman(cliques, size)))
    expected = set()
    for clique in range(cliques):
        first = clique * size
        inside = {(i, j) for i in range(first, first + size) for j in range(i + 1, first + size)}
        before = (first - 1) % (cliques * size)
        expected |= inside - {(first, first + 1)} | {(min(first, before), max(first, before))}
    assert found == expected


def test_a_single_clique_is_complete() -> None:
    assert edges(build(Caveman(1, 5))) == edges(build(Complete(5)))


@pytest.mark.parametrize(("nodes", "bridge", "ends"), [(20, 0, 10), (20, 6, 7), (21, 1, 10), (4, 0, 2)])
def test_barbell_is_two_complete_graphs_and_a_path(nodes: int, bridge: int, ends: int) -> None:
    graph = build(Barbell(nodes, bridge))
    left, path, right = range(ends), range(ends, ends + bridge), range(ends + bridge, nodes)
    for clique in (left, right):
        assert edges(graph.subgraph(clique)) == {(i, j) for i in clique for j in clique if i < j}
    line = [left[-1], *path, right[0]]
    joining = {edge for edge in edges(graph) if not (set(edge) <= set(left) or set(edge) <= set(right))}
    assert joining == set(pairwise(line))


def test_erdos_renyi_has_each_edge_with_its_probability() -> None:
    nodes, probability, draws = 20, 0.5, 40
    generator = np.random.default_rng(0)
    topology = ErdosRenyi(nodes, probability)
    counts = Counter(edge for _ in range(draws) for edge in edges(Adjacency.of(topology.build(generator)).graph))
    pairs = nodes * (nodes - 1) // 2
    spread = sqrt(draws * pairs * probability * (1 - probability))
    assert abs(sum(counts.values()) - draws * pairs * probability) < 4 * spread
    each = np.array([counts[i, j] for i in range(nodes) for j in range(i + 1, nodes)])
    assert np.abs(each - draws * probability).max() < 5 * sqrt(draws * probability * (1 - probability))


@pytest.mark.parametrize(("nodes", "radius"), [(20, 0.4), (60, 0.25), (5, 1.5)])
def test_random_geometric_nodes_are_adjacent_iff_within_the_radius(nodes: int, radius: float) -> None:
    graph = build(RandomGeometric(nodes, radius))
    places = nx.get_node_attributes(graph, "pos")
    within = {(i, j) for i in places for j in places if i < j and dist(places[i], places[j]) <= radius}
    assert edges(graph) == within


@pytest.mark.parametrize("family", [RandomGeometric, ErdosRenyi])
def test_networks_stay_connected_and_sparse_as_they_grow(family: type[Any]) -> None:
    assert edges(build(family(24))) == edges(build(family(24, 0.4 if family is RandomGeometric else 0.2)))
    for nodes in (1, 2, 5, 50, 300, 3000):
        graph = build(family(nodes))  # which is connected, or drawn again until it is
        assert 2 * graph.number_of_edges() <= 5.0 * nodes * max(1.0, log(nodes))
    fails = 0
    for seed in range(40):
        try:
            family(60, attempts=1).build(np.random.default_rng(seed))
        except ValueError:
            fails += 1
    assert fails <= 12


@pytest.mark.parametrize("neighbors", [2, 4, 6])
def test_small_world_without_rewiring_joins_the_nearest_on_the_ring(neighbors: int) -> None:
    graph = build(SmallWorld(13, neighbors, 0.0))
    near = {(i, j) for i in range(13) for j in range(i + 1, 13) if min(j - i, 13 - j + i) <= neighbors // 2}
    assert edges(graph) == near


@pytest.mark.parametrize(("nodes", "attachments"), [(30, 1), (30, 2), (100, 5), (4, 3)])
def test_scale_free_nodes_bring_their_attachments(nodes: int, attachments: int) -> None:
    graph = build(ScaleFree(nodes, attachments))
    assert graph.number_of_edges() == attachments * (nodes - attachments)
    for node in range(attachments + 1, nodes):
        assert sum(other < node for other in graph.neighbors(node)) == attachments


@pytest.mark.parametrize(("nodes", "degree"), [(20, 4), (2, 1), (9, 8), (9, 6), (12, 2), (40, 3), (40, 37)])
def test_regular_nodes_have_the_same_degree(nodes: int, degree: int) -> None:
    assert degrees(build(Regular(nodes, degree))) == {degree: nodes}
