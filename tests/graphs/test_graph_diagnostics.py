"""Diagnostics against definitions and closed forms, the cost of a round, and where networks are drawn."""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.graphs import diagnostics
from kernelswarm.graphs.adjacency import Adjacency, Graph, from_edges
from kernelswarm.graphs.cost import RoundCost, pooled_cost, round_cost
from kernelswarm.graphs.diagnostics import DENSE_NODES, Diagnostics, diagnose, diameter_bounds, laplacian_eigenpairs
from kernelswarm.graphs.layout import KAMADA_KAWAI_NODES, SPRING_NODES, positions
from kernelswarm.graphs.random_families import RandomGeometric
from kernelswarm.graphs.validation import validate

LARGE = 2 * DENSE_NODES


def connected(nodes: int, seed: int, degree: float) -> Graph:
    drawn = nx.gnp_random_graph(nodes, min(1.0, degree / nodes), seed)
    parts = [min(part) for part in nx.connected_components(drawn)]
    drawn.add_edges_from(pairwise(parts))
    return validate(drawn)


# --- diagnostics


def test_parts_are_measured_each_by_itself() -> None:
    apart = diagnose(validate(nx.disjoint_union_all([nx.cycle_graph(5), nx.path_graph(9), nx.empty_graph(2)])))
    assert apart.parts == (9, 5, 1, 1)
    assert (apart.diameter, apart.algebraic_connectivity, apart.degree_min) == (8, 0.0, 0)
    described = apart.describe()
    assert described["parts"] == "4, of 9, 5, 1 and 1 nodes" and described["diameter"] == "8 in the largest part"
    alone = diagnose(validate(nx.empty_graph(3)))
    assert (alone.parts, alone.diameter, alone.algebraic_connectivity) == ((1, 1, 1), 0, 0.0)


@given(nodes=st.integers(2, 30), seed=st.integers(0, 10**6), degree=st.floats(0, 6))
def test_diagnostics_agree_with_networkx(nodes: int, seed: int, degree: float) -> None:
    graph = connected(nodes, seed, degree)
    found = diagnose(graph)
    degrees = [count for _, count in graph.degree]
    assert (found.nodes, found.edges) == (nodes, graph.number_of_edges())
    assert (found.degree_min, found.degree_max) == (min(degrees), max(degrees))
    assert found.degree_mean == pytest.approx(sum(degrees) / nodes)
    assert found.diameter == nx.diameter(graph)
    assert found.algebraic_connectivity == pytest.approx(np.sort(nx.laplacian_spectrum(graph))[1], abs=1e-9)


CLOSED_FORMS = [  # algebraic connectivity and diameter on n nodes
    (nx.path_graph, lambda n: 2 - 2 * cos(pi / n), lambda n: n - 1),
    (nx.cycle_graph, lambda n: 2 - 2 * cos(2 * pi / n), lambda n: n // 2),
    (lambda n: nx.star_graph(n - 1), lambda n: 1.0, lambda n: 2),
    (nx.complete_graph, lambda n: float(n), lambda n: 1),
]


@pytest.mark.parametrize("family", CLOSED_FORMS, ids=["path", "ring", "star", "complete"])
@pytest.mark.parametrize("nodes", [5, DENSE_NODES + 1])
def test_known_families_have_their_closed_forms(family: tuple, nodes: int) -> None:  # type: ignore[type-arg]
    make, connectivity, diameter = family
    found = diagnose(make(nodes))
    assert found.algebraic_connectivity == pytest.approx(connectivity(nodes), rel=1e-6)
    assert found.diameter == diameter(nodes)


@pytest.mark.parametrize(
    "graph",
    [
        connected(LARGE, 1, 8),  # mixes fast: conjugate gradients
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(25, 40)),  # mixes slowly: sparse factors
        nx.connected_caveman_graph(50, 20),
        nx.barabasi_albert_graph(LARGE, 3, seed=1),
        nx.barbell_graph(40, LARGE - 80),
    ],
    ids=["random", "grid", "caveman", "scale free", "barbell"],
)
def test_iterative_eigenvalues_agree_with_the_dense_ones(graph: Graph) -> None:
    adjacency = Adjacency.of(graph).matrix
    values, vectors = laplacian_eigenpairs(adjacency, 2)
    dense = np.diag(adjacency.sum(axis=1)) - adjacency.toarray()
    assert len(graph) > DENSE_NODES
    np.testing.assert_allclose(values, np.linalg.eigvalsh(dense)[1:3], rtol=1e-6)
    np.testing.assert_allclose(dense @ vectors, vectors * values, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0)


@given(nodes=st.integers(3, 60), seed=st.integers(0, 10**6), degree=st.floats(0, 5), searches=st.integers(2, 6))
def test_the_diameter_lies_between_its_bounds_however_few_searches(
    nodes: int, seed: int, degree: float, searches: int
) -> None:
    graph = connected(nodes, seed, degree)
    adjacency = Adjacency.of(graph).matrix
    lower, upper = diameter_bounds(adjacency, work=searches * (nodes + adjacency.nnz))
    assert lower <= nx.diameter(graph) <= upper
    assert upper <= 2 * lower


@given(nodes=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_two_searches_find_the_diameter_of_a_tree(nodes: int, seed: int) -> None:
    tree: Graph = nx.random_labeled_tree(nodes, seed=seed)
    assert diameter_bounds(Adjacency.of(tree).matrix, work=0) == (nx.diameter(tree),) * 2


def test_networks_whose_spectrum_would_take_minutes_are_measured_and_drawn_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = RandomGeometric(2100, 0.07).build(np.random.default_rng(0)).graph  # mixes slowly, 30 neighbors each
    monkeypatch.setattr(diagnostics, "ITERATIONS", 20)
    assert diagnostics.tractable(Adjacency.of(graph).matrix)
    monkeypatch.setattr(diagnostics, "FACTORED_NODES", 600)
    found = diagnose(graph)
    assert np.isnan(found.algebraic_connectivity) and found.describe()["algebraic connectivity"] == "not computed"
    assert np.isfinite(diagnose(validate(nx.cycle_graph(700))).algebraic_connectivity)
    own = np.array([graph.nodes[node].pop("pos") for node in sorted(graph)])
    drawn = np.array([places for _, places in sorted(positions(graph).items())])
    near = np.array([np.linalg.norm(drawn[i] - drawn[j]) for i, j in graph.edges])
    assert len(own) == len(np.unique(drawn, axis=0)) and near.mean() < 0.2 * 0.5  # of the mean distance of any two


def test_bounds_that_differ_are_distinguished_from_a_diameter() -> None:
    exact = diagnose(nx.cycle_graph(11))
    assert exact.describe()["diameter"] == "5"
    bounds = Diagnostics(10_000, 10_000, 2, 2.0, 2, 5000, 5009, 3.9478416e-7)
    assert bounds.diameter is None
    assert bounds.describe() == {
        "nodes": "10,000",
        "edges": "10,000",
        "degree": "min 2, mean 2.00, max 2",
        "diameter": "between 5000 and 5009",
        "algebraic connectivity": "3.948e-07",
    }


def test_the_connectivity_of_a_huge_network_is_not_computed() -> None:
    path = np.arange(diagnostics.LARGEST_NODES + 1)
    network = from_edges(len(path), np.column_stack([path[:-1], path[1:]]))
    assert not diagnostics.tractable(network.matrix)


# --- the cost of a round


@given(
    inputs=st.integers(1, 20),
    outputs=st.integers(1, 10),
    batch=st.integers(1, 40),
    form=st.sampled_from(["one_sided", "symmetric"]),
)
def test_a_round_costs_what_each_directed_edge_and_sample_sends(
    inputs: int, outputs: int, batch: int, form: str
) -> None:
    graph = connected(12, 0, 3)
    cost = duals = 0
    for _ in graph.to_directed().edges:
        cost += batch * (inputs + outputs * (1 if form == "one_sided" else 2))
        duals += form == "symmetric"
    directed = 2 * graph.number_of_edges()
    assert round_cost(graph, inputs, outputs, batch, form) == RoundCost(directed, cost)  # type: ignore[arg-type]
    assert round_cost(graph, inputs, outputs, batch, form, duals=True) == RoundCost(directed, cost + duals)  # type: ignore[arg-type]


def test_nodes_with_larger_batches_send_and_ask_for_more() -> None:
    graph = validate(nx.Graph([(3, 5), (5, 9)]))  # degrees 1, 2, 1
    assert round_cost(graph, inputs=2, outputs=1, batch_size=[10, 1, 4]) == RoundCost(4, (10 + 2 * 1 + 4) * 3)
    assert round_cost(graph, 2, 1, [7, 7, 7]) == round_cost(graph, 2, 1, 7)
    assert pooled_cost(graph, inputs=2, targets=1, batch_size=[10, 1, 4]) == RoundCost(3, 15 * 3)
    assert pooled_cost(graph, 2, 1, 7) == RoundCost(3, 21 * 3)
    assert RoundCost(3, 10).bytes == 80


# --- where networks are drawn


def test_own_positions_are_kept_in_sorted_order() -> None:
    graph = nx.Graph([(4, 1)])
    assert Adjacency.of(graph).positions is None
    nx.set_node_attributes(graph, {4: (4.0, 40.0), 1: (1.0, 10.0)}, "pos")
    found = Adjacency.of(graph).positions
    assert found is not None
    np.testing.assert_array_equal(found, [[1.0, 10.0], [4.0, 40.0]])
    assert positions(graph) == {1: (1.0, 10.0), 4: (4.0, 40.0)}


@pytest.mark.parametrize("nodes", [1, 2, 20, KAMADA_KAWAI_NODES + 1, SPRING_NODES + 1])
def test_networks_without_positions_are_drawn_in_the_unit_square_the_same_every_time(nodes: int) -> None:
    graph = connected(nodes, 2, 4)
    drawn = positions(graph)
    points = np.array(list(drawn.values()))
    assert list(drawn) == sorted(graph.nodes)
    assert points.min() >= -1e-9 and points.max() <= 1 + 1e-9
    assert len(np.unique(points.round(9), axis=0)) == nodes
    shuffled: Graph = nx.Graph()
    shuffled.add_edges_from(list(graph.edges)[::-1])
    shuffled.add_nodes_from(graph.nodes)
    assert positions(shuffled) == drawn == positions(graph)


@pytest.mark.parametrize("nodes", [KAMADA_KAWAI_NODES, 2 * KAMADA_KAWAI_NODES], ids=["Kamada-Kawai", "springs"])
def test_neighbors_are_drawn_nearer_than_others(nodes: int) -> None:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(nodes // 10, 10))
    drawn = positions(graph)
    points = np.array([drawn[node] for node in sorted(graph)])
    gaps = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
    assert np.mean([gaps[i, j] for i, j in graph.edges]) < 0.5 * gaps.mean()
