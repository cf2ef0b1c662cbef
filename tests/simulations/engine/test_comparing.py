"""Neighbours' functions are compared as by the definition, in whatever order, and few values are held meanwhile."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.engine.comparing import AT_ONCE, Comparison

GRAPHS = {
    "ring": nx.cycle_graph(300),
    "random": nx.gnp_random_graph(200, 0.05, seed=1),
    "star": nx.star_graph(150),
    "without edges": nx.empty_graph(70),
    "one node": nx.empty_graph(1),
}


def compared(comparison: Comparison, values: np.ndarray, labels: np.ndarray) -> int:
    """Let a comparison have all values, and return how many it held at most."""
    most = 0
    for turn, start in enumerate(range(0, len(labels), AT_ONCE)):
        places = comparison.order[start : start + AT_ONCE]
        most = max(most, len(comparison.values) + len(places))
        comparison.add(turn, values[places])
    return most


@pytest.mark.parametrize("name", GRAPHS)
def test_all_edges_are_compared_and_values_forgotten(name: str) -> None:
    random, graph = np.random.default_rng(3), GRAPHS[name]
    labels, values = random.choice(1_000, len(graph), replace=False), random.normal(size=(len(graph), 50, 2))
    ends = np.array(sorted(map(sorted, graph.edges)), dtype=np.int64).reshape(-1, 2)
    comparison = Comparison(labels, labels[ends])
    assert sorted(comparison.order.tolist()) == list(range(len(graph)))
    assert compared(comparison, values, labels) == comparison.most
    wanted = [np.sum(((values[i] - values[j]) ** 2).ravel()) / 50 for i, j in ends.tolist()]
    assert comparison.squares.tolist() == wanted
    assert not comparison.values


def test_a_large_ring_is_compared_with_the_values_of_few_nodes() -> None:
    edges = np.array(sorted(map(sorted, nx.cycle_graph(2_000).edges)))
    assert Comparison(np.arange(2_000), edges).most < AT_ONCE + 5


def test_values_of_nodes_with_neighbours_elsewhere_stay() -> None:
    random = np.random.default_rng(4)
    labels, values = np.array([12, 7, 30]), random.normal(size=(3, 5, 1))
    comparison = Comparison(labels, np.array([[7, 12], [2, 12], [30, 99]]))
    assert comparison.inside.tolist() == [True, False, False]
    compared(comparison, values, labels)
    assert sorted(comparison.values) == [12, 30]
    np.testing.assert_array_equal(comparison.values[30], values[2])
    assert comparison.squares.tolist() == [np.sum((values[0] - values[1]) ** 2) / 5]
