"""A spanning tree is one of each part, with shortest paths from a root in the middle."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.adjacency import Adjacency, spanning_tree

GRAPHS = {
    "one node": nx.empty_graph(1),
    "path": nx.path_graph(8),
    "ring": nx.cycle_graph(9),
    "star": nx.star_graph(6),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
    "random": nx.erdos_renyi_graph(60, 0.04, seed=3),
    "parts": nx.disjoint_union_all([nx.path_graph(5), nx.empty_graph(2), nx.complete_graph(4)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_paths_of_a_tree_are_shortest_from_its_root(name: str) -> None:
    graph = GRAPHS[name]
    found = spanning_tree(Adjacency.of(graph))
    tree = nx.empty_graph(graph.nodes)
    tree.add_edges_from(found.edges.tolist())
    assert nx.is_forest(tree) and all(graph.has_edge(*edge) for edge in tree.edges)
    assert sorted(map(sorted, nx.connected_components(tree))) == sorted(map(sorted, nx.connected_components(graph)))
    for part in nx.connected_components(graph):
        inside = graph.subgraph(part)
        (root,) = (node for node in part if found.parents[node] < 0)
        depths = nx.single_source_shortest_path_length(inside, root)
        assert {node: int(found.depths[node]) for node in part} == depths
        assert set(found.deepest[list(part)]) == {max(depths.values())}
        assert max(depths.values()) == nx.radius(inside)
    np.testing.assert_array_equal(found.depths[found.edges[:, 0]] + 1, found.depths[found.edges[:, 1]])
