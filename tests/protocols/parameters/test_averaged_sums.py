"""What the sums of samples that nodes average solve, against least squares on all of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tests.helpers.vector_network import BATCH, FEATURES, LAMBDA, NODES, Data, described, learned, metropolis


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
def test_diffusion_rls_averages_what_least_squares_needs(forgetting):
    ridge = 0.3
    tried = described({"name": "diffusion_rls", "ridge": ridge, "forgetting": forgetting})
    data, mixing = Data(tried), metropolis()
    gram, products, count = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros((len(NODES), FEATURES)), 0.0
    for _ in range(tried.rounds):
        data.draw()
        gram = forgetting * gram + np.stack([z.T @ z for z in data.zs])
        products = forgetting * products + np.stack([z.T @ y for z, y in zip(data.zs, data.ys, strict=True)])
        count = forgetting * count + BATCH
        gram, products = np.einsum("ij,jkl->ikl", mixing, gram), mixing @ products
    wanted = np.linalg.solve(gram + (ridge + count * LAMBDA / 2.0) * np.eye(FEATURES), products[..., None])[..., 0]
    np.testing.assert_allclose(learned(tried), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
@pytest.mark.parametrize("exchanges", [1, 3])
def test_drfgp_averages_the_information_of_each_round(exchanges, forgetting):
    ridge, rounds = 0.3, 25
    keys = {"exchanges": exchanges, "ridge": ridge, "forgetting": forgetting}
    tried = described({"name": "drfgp", **keys}, rounds)
    data, mixing = Data(tried), metropolis()
    gram, products = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros((len(NODES), FEATURES))
    for round in range(rounds):
        data.draw()
        times, weight = min(exchanges, rounds - round), forgetting ** (rounds - 1 - round)
        averages = weight * np.linalg.matrix_power(mixing, times)
        gram = gram + np.einsum("ij,jkl->ikl", averages, np.stack([z.T @ z for z in data.zs]))
        products = products + averages @ np.stack([z.T @ y for z, y in zip(data.zs, data.ys, strict=True)])
    count = BATCH * sum(forgetting**age for age in range(rounds))
    wanted = np.linalg.solve(gram + (ridge + count * LAMBDA / 2.0) * np.eye(FEATURES), products[..., None])[..., 0]
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(learned(tried), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("protocol", ["diffusion_rls", "drfgp"])
def test_on_a_complete_graph_sums_are_those_of_all_samples(protocol):
    graph = nx.complete_graph(4)
    tried = described({"name": protocol, "ridge": 0.2}, topology=graph)
    data, gram, products = Data(tried), np.zeros((FEATURES, FEATURES)), np.zeros(FEATURES)
    for _ in range(tried.rounds):
        data.draw()
        gram += sum(z.T @ z for z in data.zs) / 4
        products += sum(z.T @ y for z, y in zip(data.zs, data.ys, strict=True)) / 4
    ridge = 0.2 + tried.rounds * BATCH * LAMBDA / 2.0
    wanted = np.linalg.solve(gram + ridge * np.eye(FEATURES), products)
    np.testing.assert_allclose(learned(tried), np.tile(wanted, (4, 1)), rtol=1e-7, atol=1e-10)
