"""Protocols of vectors against their formulas, written once more for the whole network with stacked matrices."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.contract import LinkRecord
from kernelswarm.protocols.states.least_squares import solve
from kernelswarm.protocols.states.odkla import Odkla
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 8)])
NODES = sorted(GRAPH)
ADJACENCY = nx.to_numpy_array(GRAPH, NODES)
DEGREES = ADJACENCY.sum(axis=0)
FEATURES, ETA, LAMBDA, BATCH = 20, 0.3, 1e-3, 2


def described(protocol: Any, rounds: int = 25, **tables: Any) -> Experiment:
    learner = {
        "name": "random_features",
        "features": FEATURES,
        "step_size": ETA,
        "regularization": LAMBDA,
        "batch_size": BATCH,
        "kernel": {"name": "gaussian", "bandwidth": 0.3},
        **tables.pop("learner", {}),
    }
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": learner,
            "protocol": protocol,
            "rounds": rounds,
            "evaluate_every": rounds,
            **tables,
        }
    )


def learned(experiment: Experiment) -> np.ndarray:
    """The weights of all nodes, (V, L)."""
    engine = SerialEngine([open_network(experiment).plans])
    engine.run(experiment.rounds)
    return np.stack([agent.function.weights[:, 0] for agent in engine.blocks[0].agents])


class Data:
    """The samples of every node, as features and targets, round after round."""

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.sources = [plan.source for plan in plans]
        self.function = plans[0].learner.init(plans[0].inputs, 1).function
        self.zs: list[np.ndarray] = []
        self.ys: list[np.ndarray] = []

    def draw(self) -> None:
        drawn = [source.draw(BATCH) for source in self.sources]
        self.zs = [self.function.features(points) for points, _ in drawn]
        self.ys = [targets[:, 0] for _, targets in drawn]

    def gradients(self, weights: np.ndarray) -> np.ndarray:
        """Of the mean squared loss and half the ridge, at each node's weights."""
        return np.stack(
            [2.0 * z.T @ (z @ w - y) / BATCH + LAMBDA * w for z, y, w in zip(self.zs, self.ys, weights, strict=True)]
        )

    def implicit(self, weights: np.ndarray) -> np.ndarray:
        """Where an implicit step leads: the ridge at the old weights, the loss at the new ones."""
        found = []
        for z, y, w in zip(self.zs, self.ys, weights, strict=True):
            rate = 2.0 * ETA / BATCH
            residual = np.linalg.solve(np.eye(BATCH) + rate * z @ z.T, z @ w - y)
            found.append((1.0 - ETA * LAMBDA) * w - rate * z.T @ residual)
        return np.stack(found)


def metropolis() -> np.ndarray:
    weights = ADJACENCY / (1.0 + np.maximum(DEGREES[:, None], DEGREES[None, :]))
    return weights + np.diag(1.0 - weights.sum(axis=1))


def uniform() -> np.ndarray:
    return (ADJACENCY + np.eye(len(NODES))) / (1.0 + DEGREES)[:, None]


def relative_degree() -> np.ndarray:
    weights = (ADJACENCY + np.eye(len(NODES))) * (1.0 + DEGREES)[None, :]
    return weights / weights.sum(axis=1, keepdims=True)


EXPLICIT = {"step": "explicit"}


@pytest.mark.parametrize("combination", [metropolis, uniform, relative_degree])
@pytest.mark.parametrize("order", ["adapt_then_combine", "combine_then_adapt"])
@pytest.mark.parametrize("step", ["explicit", "implicit"])
def test_diffusion_is_a_step_and_an_average(combination, order, step):
    name = combination.__name__
    tried = described({"name": "diffusion", "combination": name, "order": order, "step": step})
    data, mixing, theta = Data(tried), combination(), np.zeros((len(NODES), FEATURES))
    np.testing.assert_allclose(mixing.sum(axis=1), 1.0)
    for _ in range(tried.rounds):
        data.draw()
        if order == "combine_then_adapt":
            theta = mixing @ theta
        theta = data.implicit(theta) if step == "implicit" else theta - ETA * data.gradients(theta)
        if order == "adapt_then_combine":
            theta = mixing @ theta
    assert np.abs(theta).max() > 0.1
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", ["adapt_then_combine", "combine_then_adapt"])
def test_adaptive_combination_weighs_by_distance(order):
    tried = described({"name": "diffusion", "combination": "adaptive", "order": order, "rate": 0.2, **EXPLICIT})
    data, theta = Data(tried), np.zeros((len(NODES), FEATURES))
    near, variances, before = ADJACENCY + np.eye(len(NODES)), None, theta
    for turn in range(tried.rounds):
        data.draw()
        first = order == "adapt_then_combine"
        before, stepped = (theta, theta - ETA * data.gradients(theta)) if first else (before, theta)
        squares = ((stepped[None] - before[:, None]) ** 2).sum(axis=2)
        if turn or first:  # where averages come first no step has led anywhere yet
            variances = squares if variances is None else 0.8 * variances + 0.2 * squares
        mixing = near / variances if variances is not None else near
        theta = (mixing / mixing.sum(axis=1, keepdims=True)) @ stepped
        if not first:
            before, theta = theta, theta - ETA * data.gradients(theta)
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-8, atol=1e-11)


def test_gossip_leaves_each_pair_in_the_middle():
    """Of a complete graph with an even number of nodes a maximal matching leaves nobody out."""
    rule = {"name": "diffusion", "combination": "heard", **EXPLICIT}
    found = learned(described(rule, topology={"name": "complete", "nodes": 6, "schedule": "gossip"}))
    apart = np.linalg.norm(found[:, None] - found[None, :], axis=2) + np.diag(np.full(6, np.inf))
    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(apart.min(axis=1), 0.0, atol=1e-12)
    assert (np.sort(apart, axis=1)[:, 1] > 1e-3).all()  # pairs, and not all alike
    pair = {"name": "path", "nodes": 2, "schedule": "gossip"}
    data, theta = Data(described(rule, 2, topology=pair)), np.zeros((2, FEATURES))
    for rounds in (1, 2):
        data.draw()
        theta = np.tile(np.mean(theta - ETA * data.gradients(theta), axis=0), (2, 1))
        np.testing.assert_allclose(learned(described(rule, rounds, topology=pair)), theta, rtol=1e-9, atol=1e-12)


def test_gradient_tracking_tracks_the_mean_gradient():
    tried = described({"name": "gradient_tracking", **EXPLICIT})
    data, mixing = Data(tried), metropolis()
    theta = tracker = before = np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        gradients = data.gradients(theta)
        tracker = tracker + gradients - before
        np.testing.assert_allclose(tracker.mean(axis=0), gradients.mean(axis=0), atol=1e-12)
        before = gradients
        theta, tracker = mixing @ (theta - ETA * tracker), mixing @ tracker
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-9, atol=1e-12)


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
    links = {"trigger": {"threshold": threshold, "decay": decay}, "silence": "last"}
    tried = described({"name": method, "penalty": rho, **(EXPLICIT if method == "odkla" else {})}, links=links)
    data, laplacian, signless = Data(tried), np.diag(DEGREES) - ADJACENCY, np.diag(DEGREES) + ADJACENCY
    theta = sent = dual = np.zeros((len(NODES), FEATURES))
    gram, products, told = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros_like(theta), 0
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
        sent, told = np.where(tells[:, None], theta, sent), told + int(tells.sum())
        dual = dual + rho * laplacian @ sent
    assert 0.1 < told / (tried.rounds * len(NODES)) < 0.9
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


def test_sums_heard_with_noise_are_solved_as_the_nearest_of_samples():
    generator = np.random.default_rng(0)
    directions, _ = np.linalg.qr(generator.normal(size=(6, 6)))
    values, right = np.array([-2.0, -0.1, 0.0, 0.5, 1.0, 3.0]), generator.normal(size=(6, 2))
    found = solve(directions @ np.diag(values) @ directions.T, np.full(6, 0.3), right)
    nearest = directions @ np.diag(np.maximum(values, 0.0)) @ directions.T
    np.testing.assert_allclose(found, np.linalg.solve(nearest + 0.3 * np.eye(6), right), rtol=1e-7, atol=1e-10)


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


def test_mocha_holds_weights_by_relations_that_are_learned():
    c = 0.7
    tried = described({"name": "mocha", "penalty": c})
    data, theta = Data(tried), np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        psi = data.implicit(theta)
        for i, row in enumerate(ADJACENCY):
            members = [i, *np.flatnonzero(row)]
            mean = psi[members].mean(axis=0)
            apart = psi[members] - mean
            directions, lengths, _ = np.linalg.svd(apart, full_matrices=False)
            root = directions * lengths @ directions.T  # of D'D
            # D Omega inv(Omega + eta c I), the root in the place of Omega and its trace on the other side
            system = root + ETA * c * np.trace(root) * np.eye(len(members))
            theta[i] = mean + (np.linalg.solve(system, root) @ apart)[0]
    assert np.abs(theta).max() > 0.1 and np.ptp(theta, axis=0).max() > 1e-3
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("step", ["explicit", "implicit"])
def test_ditto_has_a_common_and_a_personal_function(step):
    rho = 0.7
    tried = described({"name": "ditto", "penalty": rho, "step": step})
    data, mixing = Data(tried), metropolis()
    common = own = np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        if step == "implicit":
            common = mixing @ data.implicit(common)
            own = (data.implicit(own) + ETA * rho * common) / (1.0 + ETA * rho)
        else:
            own, common = (
                own - ETA * data.gradients(own) - ETA * rho * (own - common),
                mixing @ (common - ETA * data.gradients(common)),
            )
    np.testing.assert_allclose(learned(tried), own, rtol=1e-9, atol=1e-12)


MIXTURE = {"name": "raker", "factors": [0.4, 1.0, 3.0], "seed": 5}


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


@pytest.mark.parametrize("protocol", ["multitask", "mocha", "ditto", "odkla"])
def test_without_a_penalty_nodes_are_alone(protocol):
    alone = learned(described("isolated"))
    assert np.abs(alone).max() > 0.1
    np.testing.assert_allclose(learned(described({"name": protocol, "penalty": 0.0})), alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("penalty", [1e2, 1e6])
@pytest.mark.parametrize("protocol", ["multitask", "mocha", "ditto", "odkla", "dkla", "domkl"])
def test_no_penalty_makes_the_sound_forms_diverge(protocol, penalty):
    found = simulate(
        described(
            {"name": protocol, "penalty": penalty},
            rounds=200,
            learner={**(MIXTURE if protocol == "domkl" else {}), "step_size": 3.0},
        )
    )
    assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"] * 1.5


def test_a_far_larger_step_than_explicit_ones_bear_is_sound():
    for protocol in ("diffusion", "gradient_tracking"):
        found = simulate(described({"name": protocol}, rounds=300, learner={"step_size": 20.0, "batch_size": 1}))
        assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"]


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ({"name": "odkla", "penalty": -1.0}, "not negative"),
        ({"name": "diffusion", "rate": 0.0}, "rate"),
        ({"name": "dkla", "forgetting": 1.5}, "forgetting"),
        ({"name": "domkl", "forgetting": 0.0}, "forgetting"),
        ({"name": "domkl", "rate": -1.0}, "rate"),
        ({"name": "diffusion_rls", "ridge": 0.0}, "ridge"),
        ({"name": "drfgp", "ridge": 0.0}, "ridge"),
        ({"name": "drfgp", "exchanges": 0}, "exchanges"),
        ({"name": "drfgp", "forgetting": 0.0}, "forgetting"),
    ],
)
def test_keys_out_of_range_are_refused(protocol, said):
    with pytest.raises(InputError, match=said):
        described(protocol)


@pytest.mark.parametrize(
    ("learner", "protocol", "said"),
    [
        ({"loss": "absolute"}, "dkla", r'learner\.loss = "absolute" of node 0: the protocol dkla solves least squares'),
        ({"step_size": 3.0}, {"name": "diffusion", "as_published": True}, r"learner\.step_size = 3 is unstable"),
    ],
)
def test_learners_that_do_not_fit_are_refused(learner, protocol, said):
    with pytest.raises(InputError, match=said):
        open_network(described(protocol, learner=learner))


def test_learners_without_shared_features_are_refused():
    tried = described("diffusion").with_changes({"learner": {"name": "polk"}})
    with pytest.raises(InputError, match=r'learner\.name = "polk" of node 0: the protocol diffusion sends the weights'):
        open_network(tried)


def test_mixtures_are_sent_by_the_protocol_that_mixes_and_by_no_other():
    with pytest.raises(InputError, match=r"protocol diffusion sends.*protocol domkl with learner\.name = \"raker\""):
        open_network(described("diffusion", learner=MIXTURE))
    with pytest.raises(InputError, match=r"protocol domkl mixes.*take learner\.name = \"raker\""):
        open_network(described("domkl"))


def test_features_that_nodes_do_not_share_are_refused():
    tried = described("diffusion", node=[{"nodes": [5], "learner": {"seed": 3}}])
    with pytest.raises(InputError, match=r"nodes 0 and 5 have other features.*learner\.seed"):
        open_network(tried)


def test_any_loss_is_learned_by_those_that_step():
    for loss, stream in (("absolute", "sine_regression"), ("multiclass_logistic", "gaussian_mixture")):
        for protocol in ("diffusion", "gradient_tracking", "odkla", "multitask", "ditto"):
            found = simulate(described(protocol, 200, stream=stream, learner={"loss": loss, "step_size": 0.2}))
            assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"], (protocol, loss)


class Recorded(Odkla):
    """ODKLA that shows what it keeps of its edges."""

    def duals(self, state: Any) -> Any:
        return np.array([np.abs(state.dual).max()])

    def record(self, state: Any, degree: int) -> LinkRecord:
        return LinkRecord(np.full(degree, 0.5), np.full(degree, np.abs(state.dual).max()))


def test_what_an_own_rule_keeps_of_its_edges_is_recorded():
    engine = SerialEngine([open_network(described(Recorded(penalty=0.3), topology=nx.path_graph(2))).plans])
    engine.run(20)
    for agent in engine.blocks[0].agents:
        assert agent.record().tolerances == 0.5
        assert agent.record().duals == agent.duals() > 0.0
