"""The methods of multipliers against their formulas, for the whole network with stacked matrices."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.running.network import open_network
from tests.helpers.vector_network import (
    ADJACENCY,
    BATCH,
    DEGREES,
    ETA,
    EXPLICIT,
    FEATURES,
    GRAPH,
    LAMBDA,
    MIXTURE,
    NODES,
    Data,
    described,
    learned,
)


def test_odkla_is_linearised_admm():
    rho = 0.4
    tried = described({"name": "odkla", "penalty": rho, **EXPLICIT})
    data, laplacian = Data(tried), np.diag(DEGREES) - ADJACENCY
    theta = dual = np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        pulled = rho * (np.diag(DEGREES) + ADJACENCY) @ theta + theta / ETA - dual - data.gradients(theta)
        theta = pulled / (2.0 * rho * DEGREES + 1.0 / ETA)[:, None]
        dual = dual + rho * laplacian @ theta
    np.testing.assert_allclose(dual.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("forgetting", [1.0, 0.8])
def test_dkla_is_admm_on_all_samples_so_far(forgetting):
    rho = 0.4
    tried = described({"name": "dkla", "penalty": rho, "forgetting": forgetting})
    data, laplacian = Data(tried), np.diag(DEGREES) - ADJACENCY
    theta = dual = np.zeros((len(NODES), FEATURES))
    gram, products, count = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros_like(theta), 0.0
    for _ in range(tried.rounds):
        data.draw()
        gram = forgetting * gram + np.stack([z.T @ z for z in data.zs])
        products = forgetting * products + np.stack([z.T @ y for z, y in zip(data.zs, data.ys, strict=True)])
        count = forgetting * count + BATCH
        right = 2.0 / count * products + rho * (np.diag(DEGREES) + ADJACENCY) @ theta - dual
        theta = np.stack(
            [
                np.linalg.solve(2.0 / count * g + (LAMBDA + 2.0 * rho * d) * np.eye(FEATURES), r)
                for g, d, r in zip(gram, DEGREES, right, strict=True)
            ]
        )
        dual = dual + rho * laplacian @ theta
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["dkla", "odkla"])
def test_coke_goes_on_with_the_weights_that_were_sent_last(method):
    """Xu et al. (JMLR 2021), algorithm 2: weights farther than h(k) = v mu^k from those sent last are sent."""
    rho, threshold, decay = 0.4, 1.0, 0.96
    links = {"trigger": {"threshold": threshold, "decay": decay}, "on_missing": "repeat"}
    tried = described({"name": method, "penalty": rho, **(EXPLICIT if method == "odkla" else {})}, links=links)
    data, laplacian, signless = Data(tried), np.diag(DEGREES) - ADJACENCY, np.diag(DEGREES) + ADJACENCY
    theta = sent = dual = np.zeros((len(NODES), FEATURES))
    gram, products, count = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros_like(theta), 0
    for k in range(1, tried.rounds + 1):
        data.draw()
        if method == "dkla":
            gram = gram + np.stack([z.T @ z for z in data.zs])
            products = products + np.stack([z.T @ y for z, y in zip(data.zs, data.ys, strict=True)])
            right = 2.0 / (k * BATCH) * products + rho * signless @ sent - dual
            ridges = [(LAMBDA + 2.0 * rho * d) * np.eye(FEATURES) for d in DEGREES]
            theta = np.linalg.solve(2.0 / (k * BATCH) * gram + np.stack(ridges), right[..., None])[..., 0]
        else:
            pulled = 1.0 / ETA * theta - data.gradients(theta) - dual - rho * laplacian @ sent
            theta = (pulled + 2.0 * rho * DEGREES[:, None] * theta) / (2.0 * rho * DEGREES + 1.0 / ETA)[:, None]
        tells = np.linalg.norm(theta - sent, axis=1) > threshold * decay ** (k - 1)
        sent, count = np.where(tells[:, None], theta, sent), count + int(tells.sum())
        dual = dual + rho * laplacian @ sent
    assert 0.1 < count / (tried.rounds * len(NODES)) < 0.9
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-6, atol=1e-9)


def test_dkla_comes_to_ridge_regression_on_all_samples(tmp_path):
    """Where the data ends and its epochs go on, as in the paper, every node comes to the centralised solution."""
    generator = np.random.default_rng(0)
    x, node = generator.uniform(size=(60, 1)), np.repeat(NODES, 10)
    y = np.sin(6.0 * x[:, 0]) + 0.1 * generator.normal(size=60)
    np.savez(tmp_path / "data.npz", x=x, y=y, node=node, x_test=x[:6], y_test=y[:6])
    stream = {"name": "file", "path": str(tmp_path / "data.npz"), "epochs": 400, "standardize": False}
    learner = {"regularization": 0.05}
    tried = described({"name": "dkla", "penalty": 0.05}, rounds=2000, stream=stream, learner=learner)
    found = learned(tried)
    plans = open_network(tried).plans
    z = plans[0].learner.init(1, 1).function.features(x)
    wanted = np.linalg.solve(z.T @ z / 60 + 0.05 / 2.0 * np.eye(FEATURES), z.T @ y / 60)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, np.tile(wanted, (len(NODES), 1)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rate", ["auto", 1.5])
@pytest.mark.parametrize("graph", [GRAPH, nx.complete_graph(3)], ids=["graph", "complete"])
def test_domkl_is_admm_for_every_kernel_mixed_by_the_neighbourhood(graph, rate):
    rho, forgetting, kernels = 0.4, 0.9, 3
    protocol = {"name": "domkl", "penalty": rho, "rate": rate, "forgetting": forgetting}
    tried = described(protocol, learner=MIXTURE, topology=graph)
    data, nodes = Data(tried), len(graph)
    adjacency = nx.to_numpy_array(graph, sorted(graph))
    degrees = adjacency.sum(axis=0)
    theta = dual = np.zeros((kernels, nodes, FEATURES))
    losses, count, shares = np.zeros((nodes, kernels)), 0.0, np.full((nodes, kernels), 1.0 / kernels)
    for _ in range(tried.rounds):
        data.draw()
        # The function has the features of all kernels together, each kernel's over the root of their number.
        z = np.sqrt(kernels) * np.stack(data.zs).reshape(nodes, BATCH, kernels, FEATURES)
        errors = np.stack(data.ys)[:, :, None] - np.einsum("nbkl,knl->nbk", z, theta)
        losses = forgetting**BATCH * losses + (errors**2).sum(axis=1)
        count = forgetting**BATCH * count + BATCH
        speeds = np.full(nodes, rate) if rate != "auto" else 0.5 * count / losses.min(axis=1)
        logs = -speeds[:, None] * losses
        logs = (adjacency + np.eye(nodes)) @ (logs - logs.max(axis=1, keepdims=True))
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        new = np.empty_like(theta)
        for k in range(kernels):
            near = rho * (degrees[:, None] * theta[k] + adjacency @ theta[k])
            for i in range(nodes):
                left = 2.0 / BATCH * z[i, :, k].T @ z[i, :, k] + (1.0 / ETA + 2.0 * rho * degrees[i]) * np.eye(FEATURES)
                right = 2.0 / BATCH * z[i, :, k].T @ data.ys[i] + (1.0 / ETA - LAMBDA) * theta[k, i]
                new[k, i] = np.linalg.solve(left, right + near[i] - dual[k, i])
        theta = new
        dual = dual + rho * (np.diag(degrees) - adjacency) @ theta
    wanted = np.einsum("nk,knl->nkl", shares, theta)
    assert shares.min() < 0.2 < 0.5 < shares.max() and np.abs(wanted).max() > 0.1
    found = learned(tried).reshape(nodes, kernels, FEATURES) / np.sqrt(kernels)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-11)


def test_domkl_of_one_kernel_takes_the_steps_of_random_features_where_nothing_holds_it():
    keys = {"regularization": 0.0, "seed": 5}
    alone = learned(described("isolated", learner=keys))
    assert np.abs(alone).max() > 0.1
    tried = described({"name": "domkl", "penalty": 0.0}, learner={**MIXTURE, **keys, "factors": [1.0]})
    np.testing.assert_allclose(learned(tried), alone, rtol=1e-7, atol=1e-10)
