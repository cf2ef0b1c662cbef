"""Diffusion, gossip and gradient tracking against their formulas, for the whole network with stacked matrices."""

from __future__ import annotations

import re

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.gradient_tracking import GradientTracking
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.pairs import in_pairs
from tests.helpers.vector_network import (
    ADJACENCY,
    DEGREES,
    ETA,
    EXPLICIT,
    FEATURES,
    MIXTURE,
    NODES,
    Data,
    described,
    learned,
    metropolis,
)


def uniform() -> np.ndarray:
    return (ADJACENCY + np.eye(len(NODES))) / (1.0 + DEGREES)[:, None]


def relative_degree() -> np.ndarray:
    weights = (ADJACENCY + np.eye(len(NODES))) * (1.0 + DEGREES)[None, :]
    return weights / weights.sum(axis=1, keepdims=True)


@in_pairs(
    combination=[metropolis, uniform, relative_degree],
    order=["adapt_then_combine", "combine_then_adapt"],
    step=["explicit", "implicit"],
)
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


def test_gossip_leaves_each_pair_in_the_middle():
    """Of a complete graph with an even number of nodes a maximal matching leaves nobody out."""
    rule = {"name": "diffusion", "combination": "received", **EXPLICIT}
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


def test_in_directed_networks_weights_are_averaged_by_rows_and_steps_shared_out_by_columns():
    """Push-Pull: every step that a node takes is taken by all, however few ask it."""
    asking = nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 8), (8, 7), (7, 2), (8, 0)])
    tried = described({"name": "gradient_tracking", **EXPLICIT}, topology=asking, rounds=40)
    data, both = Data(tried), nx.to_numpy_array(asking.to_undirected(), NODES)
    degrees = both.sum(axis=0)
    shares = nx.to_numpy_array(asking, NODES) / (1.0 + np.maximum(degrees[:, None], degrees[None, :]))
    rows, columns = (shares + np.diag(1.0 - shares.sum(axis=axis)) for axis in (1, 0))
    np.testing.assert_allclose(columns.sum(axis=0), 1.0)
    theta = tracker = before = np.zeros((len(NODES), FEATURES))
    for _ in range(tried.rounds):
        data.draw()
        gradients = data.gradients(theta)
        tracker, before = tracker + gradients - before, gradients
        np.testing.assert_allclose(tracker.mean(axis=0), gradients.mean(axis=0), atol=1e-9)
        theta, tracker = rows @ (theta - ETA * tracker), columns @ tracker
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-8, atol=1e-10)


def test_trackers_and_duals_need_both_ends_of_an_edge():
    asking = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    for protocol, learner in (
        ({"name": "gradient_tracking", "sends": "trackers"}, {}),
        ({"name": "dkla"}, {}),
        ({"name": "odkla"}, {}),
        ({"name": "domkl"}, MIXTURE),
    ):
        with pytest.raises(InputError, match="both ends of each edge"):
            open_network(described(protocol, topology=asking, learner=learner))
        open_network(described(protocol, topology=nx.DiGraph(nx.cycle_graph(3)), learner=learner))


def test_a_far_larger_step_than_explicit_ones_bear_is_sound():
    for protocol in ("diffusion", "gradient_tracking"):
        found = simulate(described({"name": protocol}, rounds=300, learner={"step_size": 20.0, "batch_size": 1}))
        assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"]


class Constant:
    """Samples on which the step is always the same."""

    eta, batch_size = 1.0, 1
    features, targets, lambdas = np.zeros((1, 4)), np.zeros((1, 1)), np.zeros(4)

    def __init__(self, step: np.ndarray) -> None:
        self.step = step

    def descend(self, weights: np.ndarray) -> np.ndarray:
        return weights - self.step


def test_sums_make_up_for_what_was_lost():
    """Steps that every node tracks become the mean of all nodes' own, however many messages were lost before."""
    rule, random = GradientTracking(), np.random.default_rng(3)
    samples = [Constant(step) for step in random.normal(size=(len(NODES), 4, 1))]
    wanted = np.mean([each.step for each in samples], axis=0)
    near = [np.flatnonzero(row) for row in ADJACENCY]
    plans = open_network(described({"name": "gradient_tracking"})).plans
    states = [rule.begin(plan.neighborhood, np.zeros((4, 1))) for plan in plans]
    for turn in range(400):
        before = [state.following[1] for state in states]
        states = [rule.adapt(state, each) for state, each in zip(states, samples, strict=True)]
        last_sent = [rule.send(state) for state in states]
        for i, others in enumerate(near):
            arrives = (random.random(len(others)) < 0.3) | (turn >= 100)
            received = Received(last_sent[i], np.stack([last_sent[j] for j in others]), arrives.astype(float))
            states[i] = rule.receive(states[i], received, samples[i])
    steps = [state.following[1] - last for state, last in zip(states, before, strict=True)]
    np.testing.assert_allclose(steps, np.tile(wanted, (len(NODES), 1, 1)), atol=1e-9)


def test_trackers_on_unreliable_links_are_refused_with_what_lasts():
    """Lower steps only put off the end, so that none are advised."""
    rule = {"name": "gradient_tracking", "sends": "trackers"}
    advice = 'set protocol.sends = "sums": trackers that are lost, late or rounded are missing for good'
    stormy = {"links": {"delay": 4}, "clock": {"name": "bernoulli", "probability": 0.5}}
    with pytest.raises(SimulationError, match=re.escape(advice)) as failed:
        simulate(described(rule, 20000, learner={"batch_size": 1, "step_size": 1.0}, **stormy))
    assert "lower" not in str(failed.value)
    assert advice in as_text(examine(described(rule, **stormy)))
    for calm in (described(rule), described({"name": "gradient_tracking"}, **stormy)):
        assert advice not in as_text(examine(calm))
