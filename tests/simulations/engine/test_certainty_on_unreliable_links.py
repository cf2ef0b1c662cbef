"""Certainty on links and by clocks that are not ideal: nothing is taken twice, and what is stated covers the errors.

That what is taught is what a message says, however old it is: `test_unreliable_formulas.py`.
"""

import numpy as np
import pytest

from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from tests.helpers.link_mixes import GRAPH, NOTHING
from tests.helpers.same_bits import engine_after

RATIO = 3.0
KERNEL = {"name": "gaussian", "bandwidth": 0.15}
RLS = {"name": "rls", "kernel": KERNEL, "features": 30}
LATE = {"links": {"loss": 0.2, "delay": {"name": "between", "longest": 3}}}
KINDS = {
    "late and lost": LATE,
    "bursts kept": {"links": {"loss": "bursts", "on_missing": "repeat", "damping": 0.1}},
    "asleep": {"clock": {"name": "bernoulli", "probability": 0.4}},
    "churn without memory": {"clock": {"name": "churn", "leaves": 0.2, "returns": 0.3, "memory": False}, **LATE},
}


def described(rounds=20, learner=RLS, certainty=RATIO, **tables):
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
            "learner": learner,
            "protocol": {"name": "consensus", "penalty": 5.0, "replay": 1, "certainty": certainty},
            "rounds": rounds,
            "evaluate_every": rounds,
            "evaluation": {"local_samples": 20, "global_samples": 60},
            **tables,
        }
    )


def agents_of(engine):
    return [agent for block in engine.blocks for agent in block.agents]


def variances(agent, evaluation):
    """Return a node's variances at points, in units of the noise, as messages hold them."""
    return agent.learner.inner(agent.state, evaluation).diagonal() / agent.learner.reach


def test_what_is_received_twice_is_taken_once():
    """A value that comes again finds a node that is as sure as it leaves one: the second time nothing moves."""
    engine = engine_after(described(30, **KINDS["bursts kept"]))
    agent = next(agent for agent in agents_of(engine) if agent.neighbors)
    at = np.array([[0.3]])
    evaluation = agent.learner.evaluate(agent.state, at)
    before = variances(agent, evaluation)[0]
    lesson = np.array([[1.0, 0.0, before / 4.0]])
    given = [evaluation], [np.zeros((1, 1))], [0.0], np.zeros((0, 1)), 1.0, lesson
    found = []
    for _ in range(2):
        agent.learner.step(agent.state, *given)
        after = agent.learner.evaluate(agent.state, at)
        found.append((variances(agent, after)[0], after.values[0, 0]))
    assert found[0][0] == pytest.approx(before / 4.0, rel=1e-9)
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_stated_variances_cover_the_errors(kind):
    """Over nodes, points and draws the mean squared error is at most what nodes state with s = 4.

    The ridge is one whose variances cover the target where nothing is known yet.
    """
    ratios, learner = [], {**RLS, "features": 100, "ridge": 0.02}
    for seed in range(4):
        experiment = described(60, learner, 4.0, seed=seed, **KINDS[kind])
        test = open_network(experiment).source.nodes[0].held_out(200)
        for agent in agents_of(engine_after(experiment)):
            evaluation = agent.learner.evaluate(agent.state, test.points)
            stated = variances(agent, evaluation)
            noise = 2.0 * 0.3**2  # of the curvature 2, in which variances are counted
            ratios.append(np.mean((evaluation.values - test.truth)[:, 0] ** 2 / (noise * stated)))
    assert 0.01 < np.mean(ratios) < 1.0


def test_it_says_and_counts_what_travels():
    experiment = described(7, links=NOTHING)
    directed, each = 2 * GRAPH.number_of_edges(), (1 + 1 + 2 + 1 + 1 + 1) * 2
    assert sum(agent.tally.scalars_sent for agent in agents_of(engine_after(experiment))) == 7 * directed * each
    assert message_bytes(open_network(experiment).plans, EXACT) == 8 * each
    assert "compiled rounds" in as_text(examine(experiment))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"links": {"quantization": {"bits": 8}}}, "links.quantization"),
        ({"links": {"noise": 0.1}}, "links.noise"),
        ({"links": {"clip": {"values": 1.0}}}, "links.clip"),
        ({"fault": [{"nodes": [0], "kind": "sign", "of": "messages"}]}, "fault"),
    ],
)
def test_what_changes_values_is_refused(table, key):
    with pytest.raises(InputError, match=f"certainty = 3 takes a value.*{key} changes it: leave out {key}"):
        open_network(described(**table))
    open_network(described(certainty=0.0, **table))
