"""Networks as arrays are the networks that networkx would hold, in the same order."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.graphs.diagnostics import diagnose
from kernelswarm.graphs.directed import ASKS, is_directed
from kernelswarm.graphs.random_families import RandomGeometric
from kernelswarm.graphs.validation import as_network, validate
from kernelswarm.simulations.experiment.registry import find, names
from kernelswarm.simulations.records.graphml import graphml

FAMILIES = [name for name in names("topology") if name != "file"]


def contents(graph):
    """All that two graphs can differ in: nodes, edges, their order, their attributes and that of neighbours."""
    return (
        [*graph.nodes(data=True)],
        [*graph.edges(data=True)],
        [(node, [*around]) for node, around in graph.adjacency()],
    )


def in_order(nodes, edges, positions=None):
    """Make the graph that networkx holds when nodes and edges are added in sorted order, one by one."""
    graph = nx.Graph()
    for node in range(nodes):
        graph.add_node(node, **({} if positions is None else {"pos": tuple(positions[node])}))
    for low, high in sorted({(min(edge), max(edge)) for edge in edges}):
        graph.add_edge(low, high)
    return graph


def same_facts(network, graph):
    order = sorted(graph)
    assert network.labels.tolist() == order
    assert network.number_of_nodes() == graph.number_of_nodes()
    assert network.number_of_edges() == graph.number_of_edges()
    assert network.degrees.tolist() == [graph.degree[node] for node in order]
    assert network.labelled_edges.tolist() == sorted(sorted(edge) for edge in graph.edges)
    assert [[order[k] for k in network.around(place)] for place in range(len(order))] == [
        sorted(graph[node]) for node in order
    ]
    assert (network.matrix.toarray() == nx.to_numpy_array(graph, nodelist=order, weight=None)).all()
    assert network.parts == sorted(map(len, nx.connected_components(graph)), reverse=True)
    assert network.is_connected == nx.is_connected(graph)


@st.composite
def graphs(draw):
    """Draw a simple graph whose labels have gaps and whose nodes and edges come in any order."""
    labels = draw(st.lists(st.integers(0, 10**12), min_size=1, max_size=12, unique=True))
    pairs = draw(st.lists(st.sampled_from(list(combinations(labels, 2))), max_size=30)) if len(labels) > 1 else []
    graph = nx.Graph()
    graph.add_nodes_from(labels)
    graph.add_edges_from(pair[::-1] if draw(st.booleans()) else pair for pair in pairs)
    return graph


@given(graph=graphs())
def test_the_arrays_of_a_graph_say_what_networkx_says(graph):
    network = Adjacency.of(graph)
    same_facts(network, graph)
    assert network.graph is graph


@given(nodes=st.integers(2, 12), seed=st.integers(0, 10**6), count=st.integers(0, 40))
def test_edges_in_any_order_and_number_make_the_graph_that_sorted_ones_make(nodes, seed, count):
    random = np.random.default_rng(seed)
    pairs = random.integers(0, nodes, (count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    places = random.random((nodes, 2))
    network, expected = from_edges(nodes, pairs, places), in_order(nodes, pairs.tolist(), places.tolist())
    same_facts(network, expected)
    assert network.held is None
    assert graphml(network) == graphml(expected)
    assert network.held is None  # to write it takes no networkx graph
    assert contents(network.graph) == contents(expected)
    assert network.graph is network.graph
    assert from_edges(nodes, iter(pairs.tolist()), places).edges.tolist() == network.edges.tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_the_facts_and_the_order_of_networkx(name):
    built = find("topology", name, "topology")(nodes=42).build(np.random.default_rng(5))
    network = as_network(built, fresh=True)
    graph = network.graph
    same_facts(network, graph)
    plain = in_order(42, graph.edges)
    assert [*graph] == [*plain] and [*graph.edges] == [*plain.edges]
    assert [(node, [*around]) for node, around in graph.adjacency()] == [
        (node, [*around]) for node, around in plain.adjacency()
    ]
    held = nx.get_node_attributes(graph, "pos")
    assert (network.positions is None) == (not held)
    if held:
        assert network.positions.tolist() == [[*held[node]] for node in sorted(held)]
    copied = validate(graph)
    assert copied is not graph
    assert contents(copied) == contents(graph)  # nothing would have to be changed for a run
    assert validate(graph, fresh=True) is graph
    directed = any(ASKS in attributes for *_, attributes in graph.edges(data=True))
    assert is_directed(network) == directed == (name in ("directed_ring", "random_asking"))


@pytest.mark.parametrize(
    "broken",
    [
        from_edges(4, [(0, 1), (2, 3)]),
        from_edges(3, [(0, 1)]),
        from_edges(2, [(0, 1)], np.array([[0.0, np.nan], [0.0, 1.0]])),
        from_edges(0, []),
    ],
    ids=["two parts", "an isolated node", "no place", "no node"],
)
def test_arrays_are_refused_in_the_words_for_graphs(broken):
    with pytest.raises(ValueError, match="graph ") as refused:
        as_network(broken, strict=True)
    places = None if broken.positions is None else broken.positions.tolist()
    with pytest.raises(ValueError, match="graph ") as expected:
        validate(in_order(broken.number_of_nodes(), broken.edges.tolist(), places), strict=True)
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize("edges", [[(0, 3)], [(-1, 0)], [(1, 1)]], ids=["too large", "negative", "a loop"])
def test_edges_between_other_nodes_are_refused(edges):
    with pytest.raises(ValueError, match="every edge joins two different nodes of 0 to 2"):
        from_edges(3, [(0, 1), (1, 2), *edges])


def test_a_large_network_is_opened_without_networkx(monkeypatch):
    monkeypatch.setattr(nx.Graph, "add_edges_from", lambda *_: pytest.fail("a networkx graph was made"))
    network = as_network(RandomGeometric(3000).build(np.random.default_rng(0)))
    assert diagnose(network).nodes == 3000 and network.held is None


def test_positions_that_are_not_one_for_each_node_are_refused() -> None:
    with pytest.raises(ValueError, match=r"positions have the shape \(2, 2\): give a row for each of the 3 nodes"):
        from_edges(3, [(0, 1), (1, 2)], np.zeros((2, 2)))
