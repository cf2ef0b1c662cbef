"""The quick ways for large networks give what the plain ones give."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.adjacency import Adjacency, distances_from, from_edges
from kernelswarm.graphs.diagnostics import LARGEST_NODES, tractable
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.validation import validate
from kernelswarm.simulations.experiment.registry import find, names
from tests.graphs.test_adjacency import contents

FAMILIES = [name for name in names("topology") if name != "file"]


def built(name):
    return Adjacency.of(find("topology", name, "topology")().build(np.random.default_rng(3))).graph


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_in_order_as_it_is_built(name):
    graph = built(name)
    copied = validate(graph)
    assert copied is not graph
    assert contents(copied) == contents(graph)
    assert validate(graph, fresh=True) is graph


@pytest.mark.parametrize(
    "disorder",
    [
        nx.Graph([(2, 1), (1, 0), (0, 2)]),
        nx.Graph([(np.int64(0), np.int64(1))]),
        nx.relabel_nodes(nx.star_graph(4), {0: 9}),
    ],
)
def test_a_graph_in_disorder_is_copied_into_order(disorder):
    network = validate(disorder, fresh=True)
    assert network is not disorder
    assert [*network.nodes] == sorted(network.nodes)
    assert all(type(node) is int for node in network.nodes)
    assert [*network.edges] == sorted(network.edges)


def test_places_that_are_no_plain_pairs_are_made_so():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: np.zeros(2), 1: [1, 0]}, "pos")
    assert dict(validate(graph, fresh=True).nodes(data="pos")) == {0: (0.0, 0.0), 1: (1.0, 0.0)}


@pytest.mark.parametrize(
    "graph", [*map(built, FAMILIES), nx.relabel_nodes(nx.wheel_graph(9), {4: 77, 0: 12}), nx.empty_graph(1)]
)
def test_the_adjacency_matrix_is_that_of_networkx(graph):
    expected = nx.to_numpy_array(graph, nodelist=sorted(graph.nodes), weight=None)
    assert (Adjacency.of(graph).matrix.toarray() == expected).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_distances_are_lengths_of_shortest_paths(name):
    graph = built(name)
    for start in (0, len(graph) - 1):
        expected = nx.single_source_shortest_path_length(graph, start)
        assert distances_from(Adjacency.of(graph).matrix, start).tolist() == [expected[node] for node in sorted(graph)]


def test_edges_may_come_as_pairs_or_as_an_array():
    pairs = [(3, 1), (0, 1), (1, 3), (2, 0), (2, 3)]
    assert contents(from_edges(4, pairs).graph) == contents(from_edges(4, np.array(pairs)).graph)
    assert [*from_edges(4, iter(pairs)).graph.edges] == [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_the_connectivity_of_a_huge_network_is_not_computed():
    ring = from_edges(LARGEST_NODES + 1, np.column_stack([np.arange(LARGEST_NODES), np.arange(1, LARGEST_NODES + 1)]))
    assert not tractable(ring.matrix)


@pytest.mark.parametrize("line", ["{} {}", "{},{}", "{} , {} , x", "{}; {}", "{}\t\t{}", "{} {} , 3"])
def test_an_edge_list_is_read_with_any_separator(tmp_path, line):
    edges = [(5, 1), (1, 2), (2, 5), (2, 1)]
    (tmp_path / "e.txt").write_text("\n".join(line.format(*edge) for edge in edges))
    graph = read_graph(tmp_path / "e.txt")
    assert [*graph.nodes] == [1, 2, 5]
    assert [*graph.edges] == [(1, 2), (1, 5), (2, 5)]
