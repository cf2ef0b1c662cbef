"""Implicit steps move no two networks further apart, whatever the penalty, and a node that listens goes on learning."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.protocols.coupling import OWN_STEP, limit, step_damping
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.naive_network import own_part
from tests.helpers.pairs import in_pairs

GRAPHS = {
    "ring": nx.cycle_graph(8),
    "complete": nx.complete_graph(6),
    "star": nx.star_graph(7),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)),
    "erdos_renyi": nx.erdos_renyi_graph(12, 0.4, seed=1),
    "pair": nx.path_graph(2),
}
FEATURES = {"name": "random_features", "features": 40, "kernel": {"name": "gaussian", "bandwidth": 0.2}}


def block_of(graph, penalty, form, batch, eta, stream, node=(), regularization=0.0):
    learner = {**FEATURES, "batch_size": batch, "step_size": eta, "regularization": regularization}
    description = Experiment.from_dict(
        {
            "topology": graph,
            "stream": stream,
            "learner": learner,
            "protocol": {"name": "consensus", "penalty": penalty, "form": form},
            "node": list(node),
        }
    )
    return Block(open_network(description).plans)


def stepped(block, coefficients):
    """Let nodes with these coefficients take the first step; returns what the coefficients become, (V, L, C)."""
    for agent, entry in zip(block.agents, coefficients, strict=True):
        agent.state.function.coefficients[:] = entry
    block.run(PRIMING + 1)
    assert all(agent.round == 1 for agent in block.agents)
    return np.array([agent.state.function.coefficients.copy() for agent in block.agents])


def drawn(block, generator, size=1.0):
    return size * generator.standard_normal((len(block.agents), *block.agents[0].state.function.coefficients.shape))


@in_pairs(
    name=GRAPHS,
    penalty=[0.0, 0.1, 10.0, 100.0, 1e3, 1e4, 1e6],
    eta=[0.05, 0.5, 50.0],
    batch=[1, 8],
    stream=["sine_regression", "sensor_field"],
)
def test_a_symmetric_implicit_round_moves_no_two_networks_apart(name, penalty, eta, batch, stream):
    generator = np.random.default_rng(3)
    each = []
    for _ in range(2):
        block = block_of(GRAPHS[name], penalty, "symmetric", batch, eta, stream)
        before = drawn(block, generator)
        each.append((before, stepped(block, before)))
    (one, one_after), (other, other_after) = each
    assert np.linalg.norm(one_after - one) > 0.01  # there was a step
    assert np.linalg.norm(one_after - other_after) <= np.linalg.norm(one - other) * (1.0 + 1e-12)


@pytest.mark.parametrize("penalty", [10.0, 1e6])
def test_nodes_with_steps_of_their_own_sizes_move_no_two_networks_apart(penalty):
    etas = np.array([0.01, 5.0, 0.2, 1.0, 0.05, 2.0, 0.5, 0.1])
    node = [{"nodes": [i], "learner": {"step_size": eta, "batch_size": 1 + i % 3}} for i, eta in enumerate(etas)]
    generator = np.random.default_rng(4)
    each = []
    for _ in range(2):
        block = block_of(GRAPHS["ring"], penalty, "symmetric", 1, 0.1, "sine_regression", node)
        before = drawn(block, generator)
        each.append((before, stepped(block, before)))
    apart = [np.sum((one - other) ** 2, axis=(1, 2)) for one, other in zip(*each, strict=True)]
    assert np.sum(apart[1] / etas) <= np.sum(apart[0] / etas) * (1.0 + 1e-12)
    assert not np.allclose(apart[0], apart[1])


@pytest.mark.parametrize("form", ["symmetric", "one_sided"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_penalty_without_bounds_draws_neighbors_together(name, form):
    # without data of their own to follow: an own step of almost nothing, and every pair at its limit
    block = block_of(GRAPHS[name], 1e6, form, 1, 0.1, "sine_regression")
    generator = np.random.default_rng(5)
    before = drawn(block, generator)
    after = stepped(block, before)

    def spread(coefficients):
        return np.sum((coefficients - coefficients.mean(axis=0)) ** 2)

    assert spread(after) < 0.995 * spread(before)


def test_pairs_are_shortened_only_beyond_their_limit():
    assert limit(3.0, 0.0, 1) == 1.0
    assert limit(3.0, 0.25, 1) == 1.0
    assert limit(4.0, 0.5, 1) == 0.5
    assert limit(4.0, 0.5, 8) == 1.0
    assert 1e6 * limit(1e6, 2.0, 4) == pytest.approx(2.0)  # b / E: no more at any strength


@pytest.mark.parametrize("samples", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("coupling", [0.0, 0.5, 1e6])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 20.0])
def test_the_own_part_is_that_of_the_rule(rate, coupling, samples):
    for curvature in (0.0, 0.25, 2.0):
        found = step_damping(rate, 0.7, 1.3, curvature, coupling, 9, samples)
        assert found == pytest.approx(own_part(rate, 0.7, 1.3, curvature, coupling, 9, samples))
        assert 0.0 < found <= 1.0
        if coupling == 0.0 or samples < 18:
            assert found == 1.0 or rate * 0.7 * max(curvature, 1.0) > 1.0
    assert step_damping(20.0, 1.0, 1.0, 2.0, 1e6, 0, 10**6) * 40.0 == pytest.approx(OWN_STEP)


@pytest.mark.parametrize("form", ["symmetric", "one_sided"])
def test_a_small_penalty_is_the_published_gradient(form):
    # Below its limit a pair's pull is not shortened at all: what the penalty adds to a step is linear in it.
    def increment(penalty):
        found = []
        for strength in (penalty, 0.0):
            block = block_of(GRAPHS["grid"], strength, form, 1, 1e-3, "sine_regression")
            before = drawn(block, np.random.default_rng(6))
            found.append(stepped(block, before) - before)
        return found[0] - found[1]

    # The own part of the step changes with the penalty by the order of eta squared.
    np.testing.assert_allclose(increment(2.0), 2.0 * increment(1.0), atol=1e-2 * np.abs(increment(2.0)).max())
