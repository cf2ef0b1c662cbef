"""Any graph becomes a network, with a word where it is changed; or strictly, is refused with its offenders named."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from datetime import date
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.directed import asks, renumbered
from kernelswarm.graphs.validation import validate


def refusal(graph: Any, strict: bool = True) -> str:
    with pytest.raises(ValueError, match="graph ") as refused:
        validate(graph, strict=strict)
    return str(refused.value)


def validated(graph: Any) -> tuple[Graph, list[str]]:
    """Return the network and what is said of how it was made."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        network = validate(graph)
    return network, [str(warning.message) for warning in messages]


def names(graph: Any) -> list[int | str] | None:
    return Adjacency.of(validate(graph)).names


@pytest.mark.parametrize(
    "disorder",
    [
        nx.Graph([(2, 1), (1, 0), (0, 2)]),
        nx.Graph([(np.int64(0), np.int64(1))]),
        nx.relabel_nodes(nx.star_graph(4), {0: 9}),
    ],
)
def test_a_graph_in_disorder_is_copied_into_order(disorder: Graph) -> None:
    network = validate(disorder, fresh=True)
    assert network is not disorder
    assert [*network.nodes] == sorted(network.nodes)
    assert all(type(node) is int for node in network.nodes)
    assert [*network.edges] == sorted(network.edges)


def test_places_that_are_no_plain_pairs_are_made_so() -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: np.zeros(2), 1: [1, 0]}, "pos")
    assert dict(validate(graph, fresh=True).nodes(data="pos")) == {0: (0.0, 0.0), 1: (1.0, 0.0)}


def test_what_is_no_graph_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="expected a networkx graph, got list"):
        validate([(0, 1)])  # type: ignore[arg-type]


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


def test_a_multigraph_is_refused_with_its_parallel_edges() -> None:
    graph: nx.Graph[Any] = nx.MultiGraph([(0, 1), (1, 0), (1, 2)])
    text = refusal(graph)
    assert "multigraph" in text and "[(0, 1)]" in text and "networkx.Graph(graph)" in text
    validate(nx.Graph(graph))
    assert "directed multigraph" in refusal(nx.MultiDiGraph([(0, 1)]))
    assert "[(4, 4)]" in refusal(nx.MultiGraph([(4, 4), (4, 4)]))


def test_parallel_edges_are_merged_with_a_word() -> None:
    graph: nx.Graph[Any] = nx.MultiGraph([(0, 1, {"length": 2.0}), (1, 0), (1, 2), (2, 2)])
    network, messages = validated(graph)
    assert type(network) is nx.Graph and dict(network.edges) == {(0, 1): {"length": 2.0}, (1, 2): {}}
    assert (
        len(messages) == 2
        and "parallel edges between [(0, 1)]: merged" in messages[0]
        and "[2]: dropped" in messages[1]
    )
    assert graph.number_of_edges() == 4
    assert validated(nx.MultiGraph([(0, 1)]))[1] == []


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["b", "a", "c"], ["a", "b", "c"]),
        ([-3, 5, 0], [-3, 0, 5]),
        ([2.5, True, -1], ["-1", "True", "2.5"]),
        ([(1, 0), (0, 10), (0, 9)], ["(0, 9)", "(0, 10)", "(1, 0)"]),
        ([(np.int64(1), "a"), (np.int64(0), "b"), (0, "a")], ["(0, 'a')", "(0, 'b')", "(1, 'a')"]),
        (["a", 10, 9], ["10", "9", "a"]),
        ([frozenset("zyxwv"), frozenset("v"), "w"], ["w", "{'v', 'w', 'x', 'y', 'z'}", "{'v'}"]),  # whatever hashes are
        ([date(2024, 1, 2), date(2023, 5, 6), date(2023, 1, 1)], ["2023-01-01", "2023-05-06", "2024-01-02"]),
        ([float("nan"), 1.5, 0.5], ["0.5", "1.5", "nan"]),
        ([2**70, 1, 0], ["0", "1", str(2**70)]),
        (["a\x00", "\ud800", "ü"], ["a\\x00", "ü", "\\ud800"]),
    ],
    ids=["text", "negative", "several", "tuples", "numpy", "mixed", "sets", "dates", "nan", "large", "odd"],
)
def test_labels_of_any_kind_become_names_in_an_order_of_their_own(
    labels: list[Hashable], wanted: list[int | str]
) -> None:
    assert sorted(map(str, wanted)) == sorted(map(str, names(nx.path_graph(labels)) or []))
    for order in (labels, labels[::-1], labels[1:] + labels[:1]):
        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from(order)
        graph.add_edge(labels[0], labels[1])
        network = validate(graph)
        assert list(network.nodes) == list(range(len(labels)))
        assert Adjacency.of(network).names == wanted
    assert dict(network.nodes(data="name")) == dict(enumerate(wanted))


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph], ids=["undirected", "directed"])
def test_two_nodes_with_one_text_are_refused(make: Callable[[Any], Any]) -> None:
    assert "two nodes with the text '1', 1 (int) and '1' (str)" in refusal(make([(1, "1"), (1, "a")]), strict=False)


def test_nodes_without_a_text_of_their_own_are_refused() -> None:
    class Agent:
        pass

    assert "class Agent" in refusal(nx.path_graph([Agent(), Agent()]), strict=False)


def test_who_asks_is_right_among_the_numbers() -> None:
    network = validate(nx.DiGraph([("b", "a"), ("b", "c"), ("c", "a"), ("a", "c")]))
    assert dict(network.edges) == {(0, 1): {"asks": "higher"}, (0, 2): {}, (1, 2): {"asks": "lower"}}
    turned = renumbered(network, {0: 2, 1: 0, 2: 1})
    assert list(turned.nodes) == [0, 1, 2]
    assert dict(turned.edges) == {(0, 1): {"asks": "lower"}, (0, 2): {"asks": "lower"}, (1, 2): {}}
    assert dict(turned.nodes(data="name")) == {0: "b", 1: "c", 2: "a"}


def test_self_loops_are_named() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 3), (2, 3), (0, 0)])
    assert "self loops at nodes [0, 3]" in refusal(graph)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    validate(graph)


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


def test_positions_on_some_nodes_only_are_left_out_with_a_word() -> None:
    graph = nx.path_graph(3)
    graph.nodes[1]["pos"] = (0.0, 1.0)
    assert "no pos at nodes [0, 2]" in refusal(graph)
    network, messages = validated(graph)
    assert not nx.get_node_attributes(network, "pos") and graph.nodes[1]["pos"] == (0.0, 1.0)
    assert len(messages) == 1 and messages[0].startswith(
        "positions are left out, as the network has no pos at nodes [0, 2]"
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_positions_may_have_any_number_of_coordinates(count: int) -> None:
    graph = nx.path_graph(3)
    points = np.random.default_rng(0).random((3, count))
    nx.set_node_attributes(graph, dict(enumerate(points)), "pos")
    found = Adjacency.of(validate(graph)).positions
    assert found is not None and np.array_equal(found, points)


@pytest.mark.parametrize("place", [(0.0, float("nan")), (0.0, 1.0, 2.0), "ab", 3, (0.0, None), ()], ids=repr)
def test_positions_that_are_no_finite_numbers_are_left_out_with_a_word(place: object) -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: (0.0, 0.0), 1: (0.0, 1.0), 2: place}, "pos")
    text = refusal(graph)
    assert "[2, 3] numbers" in text or ("not of finite numbers at nodes [2]" in text and repr(place) in text)
    network, messages = validated(graph)
    assert not nx.get_node_attributes(network, "pos") and len(messages) == 1 and "positions are left out" in messages[0]
