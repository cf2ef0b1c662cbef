"""Where data ends within a mini-batch, a sample's step is what it always was: eta / b."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Laplacian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build, describe
from kernelswarm.simulations.running.simulation import simulate
from tests.contracts.specimens import SIZES, TRANSITIONS
from tests.simulations.engine.test_rows_seen_again import Rows

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5)])
ROWS = (7, 5, 8, 6)
ETA, BATCH = 0.15, 3


def rows(*counts):
    """A sine in noise, so many rows at each node, once."""
    return Rows(1, counts, 0.3)


def experiment(protocol, stream=None, graph=GRAPH, batch=BATCH, eta=ETA, epsilon=0.0, bandwidth=0.3, **keys):
    learner = Polk(
        kernel=Laplacian(bandwidth),
        step_size=Constant(eta),
        regularization=0.02,
        batch_size=batch,
        budget=Epsilon(epsilon),
    )
    return Experiment(topology=graph, stream=stream or rows(*ROWS), learner=learner, protocol=protocol, **keys)


NUMBERS = {
    "dispersion_weight": 0.01,
    "insensitivity": 0.1,
    "aggressiveness": 1.0,
    "weight_bound": 1e300,
    "low": 0.0,
    "high": 1.0,
    "quantization": 0.1,
    "tracking_rate": 0.2,
    "points": [[0.0], [0.5], [1.0]],
}
"""In place of words, by the key."""


@pytest.mark.parametrize("name", SIZES)
def test_a_partial_batch_is_a_step_as_much_smaller(name):
    keys = {"step_size": 0.1, "regularization": 0.001, **SIZES[name]}
    table = describe(build("learner", {"name": name, **SIZES[name]}))
    for key in ("budget", "tracking_budget"):
        if key in table:
            keys[key] = {"epsilon": 1e-3}
    if "regularization" not in table:
        del keys["regularization"]
    keys |= {key: number for key, number in NUMBERS.items() if key in table}  # the same for batches of either size
    whole = build("learner", {"name": name, **keys, "batch_size": 8})
    few = {"batch_size": 2, "step_size": 0.1 * 2 / 8}
    if "regularization" in keys:
        few["regularization"] = keys["regularization"] * 8 / 2
    smaller = build("learner", {"name": name, **keys, **few})
    stream = build("stream", TRANSITIONS if name == "policy_evaluation" else "sine_regression")
    points, targets = stream.open(1, 0, 10, None).nodes[0].draw(82)
    outputs = whole.loss.outputs(1, None)
    state = whole.init(1, outputs)
    passes.learn(whole, state, points[:80], targets[:80])
    arrays = whole.snapshot(state)
    other = smaller.init(1, outputs)
    smaller.restore(other, arrays)
    before = whole.function(state).values(points)
    passes.learn(whole, state, points[80:], targets[80:])
    passes.learn(smaller, other, points[80:], targets[80:])
    after = whole.function(state).values(points)
    assert np.abs(after - before).max() > 1e-6  # something was learned
    np.testing.assert_allclose(after, smaller.function(other).values(points), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rule", [Isolated(), Isolated("explicit"), Consensus(0.3), Centralized(averaged=True)])
def test_the_last_round_does_no_harm(rule):
    # 202 = 25 * 8 + 2 rows a node
    found = simulate(experiment(rule, rows(*(202,) * 4), batch=8, eta=0.8, epsilon=0.01, rounds=50, evaluate_every=1))
    np.testing.assert_array_equal(found.network["round"][-2:], [25, 26])
    before, last = found.network["risk"][-2:]
    assert last < before + 0.01  # the mean of two samples, each of weight .4, moved it by .1 and more
    assert before < 0.05  # f = 0 has .5


def test_a_stable_penalty_stays_stable_to_the_end():
    rule = Consensus(
        1.2, step="explicit"
    )  # .8 / 8 * (2 + 1.2 * 3) = .56; with .8 / 2 in the last round it would be 2.2
    found = simulate(experiment(rule, rows(*(202,) * 4), batch=8, eta=0.8, epsilon=0.01, bandwidth=0.02, rounds=50))
    assert found.summary["status"] == "done" and found.summary["rounds"] == 26


@pytest.mark.parametrize("averaged", [False, True])
def test_centralized_learning_does_not_suffer_when_nodes_run_dry(averaged):
    counts = (300, 60, 40, 20)
    found = simulate(
        experiment(
            Centralized(averaged=averaged),
            rows(*counts),
            batch=1,
            eta=0.5,
            epsilon=0.005,
            rounds=400,
            evaluate_every=10,
        )
    )
    risk = found.network["risk"]
    assert risk[-1] < 0.2
    alive = risk[found.network["round"] > 60]
    assert alive.max() < risk[found.network["round"] <= 60][-1] + 0.05
    assert found.nodes["samples"][-1] == sum(counts) // 4


def test_nodes_that_run_dry_are_counted():
    found = simulate(experiment(Consensus(0.3), rows(30, 12, 20, 30), rounds=50, evaluate_every=1))
    np.testing.assert_array_equal(found.network["learning"], [4] * 4 + [3] * 3 + [2] * 3)
    assert found.summary["used_up"] == {"first": 4, "last": 10}
    assert simulate(experiment(Consensus(0.3), rounds=2)).summary["used_up"] is None
