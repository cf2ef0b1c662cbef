"""Random networks are drawn again until connected, and what no network can be built from is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import networkx as nx
import pytest

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.elementary import BalancedTree, Barbell, Caveman, Complete, Grid, Path, Ring, Star, Torus
from kernelswarm.graphs.random_families import (
    ErdosRenyi,
    RandomGeometric,
    Regular,
    ScaleFree,
    SmallWorld,
    connecting_radius,
)
from kernelswarm.graphs.topology import Topology
from tests.graphs.test_topologies import build

# --- drawing again until connected


@pytest.mark.parametrize("topology", [ErdosRenyi(20, 0.12), RandomGeometric(20, 0.3), Regular(12, 2)], ids=repr)
def test_networks_that_are_seldom_connected_are_redrawn(topology: Topology) -> None:
    assert all(nx.is_connected(build(topology, seed)) for seed in range(10))
    once = type(topology)(**{**vars(topology), "attempts": 1})
    refused = 0
    for seed in range(10):
        try:
            first = build(once, seed)
        except ValueError:
            refused += 1
        else:
            assert set(first.edges) == set(
                build(topology, seed).edges
            )  # a connected first draw is the one that is taken
    assert refused > 0


def refused(topology: Topology) -> str:
    """Return the message for the first seed whose draws are all disconnected."""
    for seed in range(50):
        try:
            build(topology, seed)
        except ValueError as refusal:
            return str(refusal)
    raise AssertionError(f"{topology} always found a connected network")


@pytest.mark.parametrize(
    ("topology", "begin", "end"),
    [
        (
            ErdosRenyi(20, 0.02, attempts=5),
            "edge_probability = 0.02 gave no connected network of 20 nodes in 5 draws (the last one fell",
            "raise edge_probability above ln(nodes)/nodes = 0.15",
        ),
        (
            ErdosRenyi(20, 0.16, attempts=1),
            "edge_probability = 0.16 gave no connected network of 20 nodes in the only draw",
            "raise edge_probability to 0.24 or raise attempts",
        ),
        (Regular(60, 2, attempts=1), "degree = 2 ", "use a degree of at least 3, or the ring"),
    ],
)
def test_draws_that_never_connect_are_refused_with_what_to_raise(topology: Topology, begin: str, end: str) -> None:
    message = refused(topology)
    assert message.startswith(begin) and message.endswith(end)


def test_a_radius_that_is_too_small_is_refused_with_one_that_would_do() -> None:
    message = refused(RandomGeometric(20, 0.05, attempts=1))
    assert message.startswith("radius = 0.05 ")
    found = re.search(r"raise radius \((0\.\d+) would have connected the last one\)", message)
    assert found is not None
    enough = float(found[1])
    assert len(build(RandomGeometric(20, enough, attempts=1))) == 20  # the same only draw, seed 0, is connected now


def test_the_connecting_radius_is_the_smallest_that_connects() -> None:
    graph = build(RandomGeometric(25, 2.0))
    places = nx.get_node_attributes(graph, "pos")
    enough = connecting_radius(Adjacency.of(graph))
    assert nx.is_connected(nx.random_geometric_graph(25, enough + 1e-9, pos=places))
    assert not nx.is_connected(nx.random_geometric_graph(25, enough - 1e-9, pos=places))


# --- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ring(0), "nodes = 0 must be at least 1"),
        (lambda: Path(-3), "nodes = -3 must be at least 1"),
        (lambda: Star(10**9), "nodes = 1000000000 must be at most 1,000,000"),
        (lambda: Complete(100_000), "nodes = 100000 gives about 5e+09 edges"),
        (lambda: BalancedTree(10, 12), "height = 12 makes a tree of more than 1,000,000 nodes"),
        (lambda: BalancedTree(2, 3, 20), "nodes = 20 makes a tree of height 4"),
        (lambda: BalancedTree(2, nodes=0), "nodes = 0 must be at least 1"),
        (lambda: Grid(0, 4), "rows = 0 must be at least 1"),
        (lambda: Grid(4, -1), "columns = -1 must be at least 1"),
        (lambda: Grid(rows=3), "rows = 3 is one side only: give columns or nodes too"),
        (lambda: Torus(columns=3), "columns = 3 is one side only: give rows or nodes too"),
        (lambda: Grid(3, 4, 13), "nodes = 13 is not rows * columns = 3 * 4"),
        (lambda: Grid(rows=3, nodes=20), "nodes = 20 is not rows * columns = 3 * 6"),
        (lambda: Torus(nodes=17), "nodes = 17 is a prime number and has no two sides: use 16 or 18"),
        (lambda: Grid(nodes=0), "nodes = 0 must be at least 1"),
        (lambda: Grid(2000, 2000), "nodes = 4000000 must be at most 1,000,000"),
        (lambda: Caveman(5, 2), "clique_size = 2 must be at least 3"),
        (lambda: Caveman(0, 3), "cliques = 0 must be at least 1"),
        (lambda: Caveman(nodes=2), "nodes = 2 must be at least 3"),
        (lambda: Caveman(cliques=5, nodes=10), "clique_size = 2 must be at least 3"),
        (lambda: Barbell(3), "nodes = 3 must be at least 4"),
        (lambda: Barbell(20, -2), "bridge = -2 must be at least 0"),
        (lambda: Barbell(20, 3), "bridge = 3 leaves 17 of 20 nodes"),
        (lambda: Barbell(20, 18), "bridge = 18 leaves fewer than two nodes"),
        (lambda: ErdosRenyi(100_000, 0.5), "edge_probability = 0.5 gives about 2.5e+09 edges"),
        (lambda: SmallWorld(20, 3), "neighbors = 3 must be even"),
        (lambda: SmallWorld(20, 20), "neighbors = 20 must be less than nodes = 20"),
        (lambda: ScaleFree(20, 0), "attachments = 0 must be at least 1 and below nodes = 20"),
        (lambda: ScaleFree(20, 20), "attachments = 20 must be at least 1 and below nodes = 20"),
        (lambda: Regular(9, 3), "degree = 3 must be even for an odd number of nodes, 9"),
        (lambda: Regular(9, 9), "degree = 9 must be at least 1 and less than nodes = 9"),
        (lambda: Regular(9, 0), "degree = 0 must be at least 1"),
        (lambda: Regular(8, 1), "degree = 1 leaves 8 nodes in separate pairs"),
    ],
)
def test_impossible_settings_are_refused_by_name(make: Callable[[], Topology], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make()
