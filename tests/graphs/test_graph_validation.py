"""A network is simple, connected and labelled by integers; all else is refused, offenders named."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.directed import asks, is_directed
from kernelswarm.graphs.validation import listed, validate


def refusal(graph: Any) -> str:
    with pytest.raises(ValueError, match="graph ") as refused:
        validate(graph)
    return str(refused.value)


def test_a_valid_graph_comes_back_as_a_sorted_copy_with_its_attributes() -> None:
    graph = nx.Graph([(7, 2), (2, 0), (0, 7)], name="sensors")
    graph.edges[2, 7]["length"] = 3.5
    graph.nodes[7]["site"] = "roof"
    network = validate(graph)
    assert network is not graph
    assert list(network.nodes) == [0, 2, 7]
    assert list(network.edges) == [(0, 2), (0, 7), (2, 7)]
    assert network.edges[7, 2] == {"length": 3.5}
    assert network.nodes[7] == {"site": "roof"}
    assert network.graph == {"name": "sensors"}
    network.nodes[7]["site"] = "cellar"
    network.edges[2, 7]["length"] = 0.0
    assert graph.nodes[7]["site"] == "roof" and graph.edges[2, 7]["length"] == 3.5


def test_validating_twice_changes_nothing() -> None:
    network = validate(nx.petersen_graph())
    assert nx.utils.graphs_equal(validate(network), network)


def test_one_node_is_a_network() -> None:
    assert list(validate(nx.empty_graph(1)).nodes) == [0]


def test_numpy_integers_become_plain_ones() -> None:
    graph = nx.Graph([(np.int64(3), np.int32(1)), (np.uint8(1), 2)])
    network = validate(graph)
    assert list(network.nodes) == [1, 2, 3]
    assert all(type(node) is int for edge in network.edges for node in edge)


def test_what_is_no_graph_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="expected a networkx graph, got list"):
        validate([(0, 1)])  # type: ignore[arg-type]


def test_an_empty_graph_is_refused() -> None:
    assert "no nodes" in refusal(nx.Graph())


def test_a_directed_graph_says_who_asks_whom() -> None:
    network = validate(nx.DiGraph([(0, 1), (1, 0), (2, 1), (0, 2)]))
    assert type(network) is nx.Graph
    assert dict(network.edges) == {(0, 1): {}, (0, 2): {"asks": "lower"}, (1, 2): {"asks": "higher"}}
    assert [asks(i, j, network.edges[i, j]) for i, j in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1))] == [
        *(True, True),
        *(True, False),
        *(False, True),
    ]
    assert "[(0, 1)]" in refusal(nx.Graph([(0, 1, {"asks": "left"})]))


def test_a_graph_directed_both_ways_is_undirected() -> None:
    network = validate(nx.path_graph(3).to_directed())
    assert dict(network.edges) == {(0, 1): {}, (1, 2): {}} and not is_directed(network)


def test_a_multigraph_is_refused_with_its_parallel_edges() -> None:
    graph: nx.Graph[Any] = nx.MultiGraph([(0, 1), (1, 0), (1, 2)])
    text = refusal(graph)
    assert "multigraph" in text and "[(0, 1)]" in text and "networkx.Graph(graph)" in text
    validate(nx.Graph(graph))
    assert "directed multigraph" in refusal(nx.MultiDiGraph([(0, 1)]))
    assert "[(4, 4)]" in refusal(nx.MultiGraph([(4, 4), (4, 4)]))


def test_labels_that_are_not_integers_are_named() -> None:
    graph: nx.Graph[Any] = nx.Graph([("a", 0), (0, 1.5), (0, (1, 2)), (0, 3)])
    text = refusal(graph)
    for label in ("'a'", "1.5", "(1, 2)"):
        assert label in text
    assert " 3" not in text
    renumbered = validate(nx.convert_node_labels_to_integers(graph, label_attribute="label"))
    assert len(renumbered) == len(graph)


def test_truth_values_are_no_labels() -> None:
    assert "True" in refusal(nx.Graph([(True, 2)]))


@pytest.mark.parametrize("label", [-1, 2**63])
def test_labels_outside_64_bits_or_below_zero_are_named(label: int) -> None:
    assert f"[{label}]" in refusal(nx.Graph([(label, 5)]))


def test_self_loops_are_named() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 3), (2, 3), (0, 0)])
    assert "self loops at nodes [0, 3]" in refusal(graph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    validate(graph)


def test_one_node_with_a_self_loop_is_refused() -> None:
    assert "self loops at nodes [0]" in refusal(nx.Graph([(0, 0)]))


def test_isolated_nodes_are_named() -> None:
    graph = nx.path_graph(4)
    graph.add_nodes_from([9, 6])
    assert "isolated nodes [6, 9]" in refusal(graph)
    graph.remove_nodes_from(list(nx.isolates(graph)))
    validate(graph)


def test_the_parts_of_a_disconnected_graph_are_named_largest_first() -> None:
    graph = nx.Graph([(0, 1), (2, 3), (3, 4), (7, 8)])
    text = refusal(graph)
    assert "3 parts, [2, 3, 4] (3 nodes); [0, 1] (2 nodes); [7, 8] (2 nodes)" in text
    validate(graph.subgraph(max(nx.connected_components(graph), key=len)).copy())


def test_long_lists_of_offenders_are_cut() -> None:
    assert listed(range(3)) == "[0, 1, 2]"
    assert listed(range(30)) == "[0, 1, 2, 3, 4, 5, 6, 7, ... and 22 more]"
    assert "... and 92 more]" in refusal(nx.empty_graph(100))
    parts = refusal(nx.disjoint_union_all([nx.path_graph(40)] * 6))
    assert "6 parts" in parts and "... and 32 more] (40 nodes)" in parts and "and 3 smaller ones" in parts
    assert len(parts) < 500


def test_positions_become_pairs_of_floats() -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: np.array([1, 2]), 1: [3, np.float32(4)]}, "pos")
    assert nx.get_node_attributes(validate(graph), "pos") == {0: (1.0, 2.0), 1: (3.0, 4.0)}


def test_positions_on_some_nodes_only_are_refused() -> None:
    graph = nx.path_graph(3)
    graph.nodes[1]["pos"] = (0.0, 1.0)
    assert "no pos at nodes [0, 2]" in refusal(graph)


@pytest.mark.parametrize("place", [(0.0, float("nan")), (0.0, 1.0, 2.0), "ab", 3, (0.0, None)], ids=repr)
def test_positions_that_are_no_pairs_of_finite_numbers_are_refused(place: object) -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: (0.0, 0.0), 1: (0.0, 1.0), 2: place}, "pos")
    text = refusal(graph)
    assert "not a pair of finite numbers at nodes [2]" in text and repr(place) in text
