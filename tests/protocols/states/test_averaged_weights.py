"""Diffusion, gossip and gradient tracking against their formulas, for the whole network with stacked matrices."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.vector_network import (
    ADJACENCY,
    DEGREES,
    ETA,
    EXPLICIT,
    FEATURES,
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


def test_a_far_larger_step_than_explicit_ones_bear_is_sound():
    for protocol in ("diffusion", "gradient_tracking"):
        found = simulate(described({"name": protocol}, rounds=300, learner={"step_size": 20.0, "batch_size": 1}))
        assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"]
