"""The methods that leave every node weights of its own, against their formulas."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.mocha import relate
from kernelswarm.protocols.parameters.multitask import Multitask
from tests.helpers.vector_network import (
    DEGREES,
    ETA,
    FEATURES,
    GRAPH,
    NODES,
    Data,
    described,
    learned,
)


@pytest.mark.parametrize("step", ["explicit", "implicit"])
def test_multitask_holds_weights_by_the_edges_weights(step):
    graph = GRAPH.copy()
    for k, edge in enumerate(graph.edges):
        graph.edges[edge]["weight"] = 0.5 + 0.25 * k
    c, rho = 0.2, nx.to_numpy_array(graph, NODES)
    tried = described({"name": "multitask", "penalty": c, "step": step}, topology=graph)
    data, theta = Data(tried), np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        psi = data.implicit(theta) if step == "implicit" else theta - ETA * data.gradients(theta)
        part = ETA * c * rho
        if step == "implicit":
            part = part / (1.0 + part * (DEGREES[:, None] + DEGREES[None, :]))
        theta = psi + part @ psi - part.sum(axis=1)[:, None] * psi
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (float("nan"), "negative or not finite"),
        (-0.5, "negative or not finite"),
        (float("inf"), "negative or not finite"),
        ("abc", "the weight 'abc', which is no number"),
        (None, "the weight None, which is no number"),
        (np.float32(0.5), ""),
    ],
)
def test_a_weight_of_an_edge_is_a_number_from_zero(weight, words):
    edges = ({}, {"weight": weight})
    known = Neighborhood(0, (1, 2), None, None, 1.0, 1, (1, 1), edges, (1, 1))
    if not words:
        np.testing.assert_array_equal(Multitask(penalty=2.0).begin(known, np.zeros((2, 1))).strengths, [2.0, 1.0])
        return
    with pytest.raises(ValueError, match=words):
        Multitask(penalty=2.0).begin(known, np.zeros((2, 1)))


@pytest.mark.parametrize("degree", [0, 1, 4, 60])
def test_relations_of_a_neighbourhood_of_any_size(degree):
    # (D'D)^1/2 by SVD; counts move a neighbour towards the node, or leave it out. Without a pull all stays, under an
    # endless one all is the mean, and where nothing differs nothing moves.
    generator = np.random.default_rng(degree)
    own, vectors = generator.normal(size=23), generator.normal(size=(degree, 23))
    counts = generator.choice([0.0, 0.5, 1.0], degree)
    together = np.vstack([own, *(own + c * (vector - own) for c, vector in zip(counts, vectors, strict=True) if c)])
    mean = together.mean(axis=0)
    apart = together - mean
    directions, lengths, _ = np.linalg.svd(apart, full_matrices=False)
    relations = directions * lengths @ directions.T / max(lengths.sum(), 1e-300)
    found = np.empty(23)
    for pull in (0.03, 2.0):
        relate(own, vectors, counts, pull, found)
        kept = np.linalg.solve(relations + pull * np.eye(len(together)), relations)
        np.testing.assert_allclose(found, mean + (kept @ apart)[0], rtol=1e-6, atol=1e-7)
    for pull, expected in ((0.0, own), (1e12, mean)):
        relate(own, vectors, counts, pull, found)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    relate(own, np.tile(own, (degree, 1)), counts, 1.0, found)
    np.testing.assert_allclose(found, own, atol=1e-12)
