"""Networks of nearest nodes: adjacent where one is among the nearest of the other, connected by the shortest edges."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.nearest import NearestNeighbors
from kernelswarm.refused_key import RefusedKey


@pytest.mark.parametrize(("nodes", "neighbors"), [(60, 3), (8, 20), (2, 1), (1, 4)])
def test_nodes_are_adjacent_where_one_is_among_the_nearest_of_the_other(nodes: int, neighbors: int) -> None:
    network = NearestNeighbors(nodes, neighbors).build(np.random.default_rng(3))
    places = network.positions
    assert places is not None
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    order = np.argsort(distances, axis=1)[:, 1 : 1 + neighbors]
    wanted = {(min(node, other), max(node, other)) for node in range(nodes) for other in order[node].tolist()}
    found = set(map(tuple, network.edges.tolist()))
    assert wanted <= found
    assert nx.is_connected(network.graph)
    parts = nx.Graph(sorted(wanted))
    parts.add_nodes_from(range(nodes))
    assert len(found) - len(wanted) == nx.number_connected_components(parts) - 1 or len(found) == len(wanted)


def test_parts_are_connected_by_their_shortest_edge() -> None:
    left = [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    right = [(50.0 + x, 50.0 + y) for x, y in left]
    network = NearestNeighbors(neighbors=2, positions=tuple(left + right)).build(np.random.default_rng(0))
    assert [edge for edge in network.edges.tolist() if edge[0] < 4 <= edge[1]] == [[3, 4]]
    assert nx.is_connected(network.graph)


@pytest.mark.parametrize("neighbors", [1, 3, 20])
def test_equally_near_nodes_are_chosen_alike_in_every_unit(neighbors: int) -> None:
    grid = np.array([(x, y) for x in range(7) for y in range(7)], dtype=np.float64)
    networks = [
        NearestNeighbors(neighbors=neighbors, positions=tuple(map(tuple, (grid * unit + moved).tolist()))).build(
            np.random.default_rng(0)
        )
        for unit, moved in ((1.0, 0.0), (0.1, 0.3), (0.3048, 5.0), (1e-6, 1e-5), (1e3 / 7, -3.0))
    ]
    assert len({network.edges.tobytes() for network in networks}) == 1


def test_nodes_at_one_place_are_joined_and_never_with_themselves() -> None:
    network = NearestNeighbors(neighbors=2, positions=((1.0, 2.0),) * 9 + ((4.0, 2.0),)).build(np.random.default_rng(0))
    assert nx.is_connected(network.graph) and nx.number_of_selfloops(network.graph) == 0
    assert network.positions is None


def test_positions_keep_their_proportions() -> None:
    network = NearestNeighbors(positions=((0.0, 0.0), (300.0, 0.0), (0.0, 400.0))).build(np.random.default_rng(0))
    assert network.positions is not None
    lengths = [float(np.linalg.norm(network.positions[0] - network.positions[node])) for node in (1, 2)]
    assert lengths[0] / lengths[1] == pytest.approx(0.75)


def test_what_gives_no_network_is_refused() -> None:
    for wrong, key in (
        ({"nodes": 3, "positions": ((0.0, 0.0), (1.0, 1.0))}, "nodes"),
        ({"positions": ((0.0, float("nan")), (1.0, 1.0))}, "positions"),
        ({"neighbors": 0}, "neighbors"),
        ({"nodes": 0}, "nodes"),
    ):
        with pytest.raises(RefusedKey) as refused:
            NearestNeighbors(**wrong)  # type: ignore[arg-type]
        assert refused.value.key == key
