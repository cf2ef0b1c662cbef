"""Certainty that travels: the round with it is that of the formulas, and the same however a network is run."""

import math

import numpy as np
import pytest

from kernelswarm.agents.nodes.agent import learn_from_surer_in
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.replay import certainty_of
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from tests.helpers.link_mixes import GRAPH
from tests.helpers.same_bits import engine_after

KRLS = {"name": "krls", "kernel": {"name": "gaussian", "bandwidth": 0.15}, "batch_size": 2}


def described(rounds=20, certainty=3.0, replay=1, **tables):
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
            "protocol": {"name": "consensus", "penalty": 5.0, "replay": replay, "certainty": certainty},
            "rounds": rounds,
            "evaluate_every": rounds,
            "evaluation": {"local_samples": 20, "global_samples": 60},
            **tables,
        }
    )


def test_variances_are_counted():
    experiment = described(7, replay=3, learner=KRLS)
    sent = sum(agent.tally.scalars_sent for agent in engine_after(experiment).blocks[0].agents)
    each, directed = (1 + 2 + 2 + 2) * (2 + 3), 2 * GRAPH.number_of_edges()
    assert sent == 7 * directed * each
    assert f"{directed * each:,}" in as_text(examine(experiment))
    assert message_bytes(open_network(experiment).plans, EXACT) == 8 * each


def test_a_node_learns_from_the_surest_and_both_ends_know_it():
    variances, others = np.array([8.0, 1.0, 1.0]), np.array([[1.0, 9.0, 1.5], [0.5, 1.0, 0.9], [3.0, 1.0, 1.0]])
    values, answers = np.array([[1.0], [2.0], [3.0]]), np.arange(9.0).reshape(3, 3, 1)
    pulls, curvatures, taught = np.ones((3, 3, 1)), np.ones((3, 3)), np.empty((3, 3))
    learn_from_surer_in(4.0, variances, others, values, answers, pulls, curvatures, 1, (0.5, 2.0), taught)
    assert taught.tolist() == [[3.0, 0.5 * (1.0 - 3.0), 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert curvatures.tolist() == pulls[:, :, 0].tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_rounding_does_not_say_whether_a_lesson_is_learned_again():
    """It leaves s times the teacher's variance, up to the last bits: there pairs pull, on whichever side they are."""
    learned, teacher = 4.0 * (1.0 + np.array([-3e-16, 0.0, 3e-16, 1e-9, -1e-9, 1e-3])), np.ones((1, 6))
    values = np.zeros((6, 1))
    pulls, curvatures, taught = np.ones((1, 6, 1)), np.ones((1, 6)), np.empty((6, 3))
    learn_from_surer_in(4.0, learned, teacher, values, np.zeros((1, 6, 1)), pulls, curvatures, 6, (1.0, 1.0), taught)
    assert curvatures[0].tolist() == [1.0] * 5 + [0.0] and taught[:, 2].tolist() == [0.0] * 5 + [4.0]
    pulls, curvatures, taught = np.ones((1, 6, 1)), np.ones((1, 6)), np.empty((6, 3))
    taught_one = teacher[0], learned[np.newaxis]  # the teacher's end of the same pairs
    learn_from_surer_in(4.0, *taught_one, values, np.zeros((1, 6, 1)), pulls, curvatures, 6, (1.0, 1.0), taught)
    assert curvatures[0].tolist() == [1.0] * 5 + [0.0] and not taught[:, 2].any()


def test_points_that_lean_on_each_other_can_be_overstated():
    """A function of n + 1 numbers of which a teacher knows each to within 1: see docs/decisions/0055."""
    n, ratio, lean = 40, 4.0, 0.2
    information = 1e-9 * np.eye(n + 1)
    axes = np.eye(n + 1)
    leaning = [math.cos(lean) * axes[0] + math.sin(lean) * axis for axis in axes[1:]]
    for z in [axes[0], *leaning, *axes[1:]]:
        mine = z @ np.linalg.solve(information, z)
        if mine > ratio:
            information += (1.0 / ratio - 1.0 / mine) * np.outer(z, z)
    assert axes[0] @ np.linalg.solve(information, axes[0]) < 0.5  # where the teacher's own variance is 1


def test_what_does_not_fit_is_refused():
    assert certainty_of(Consensus()) == certainty_of("a protocol of a user's own") == 0.0
    for certainty in (1.0, -2.0, math.inf, math.nan):
        with pytest.raises(RefusedKey, match="certainty"):
            Consensus(certainty=certainty)
    for keys in ({"form": "one_sided"}, {"step": "explicit"}, {"as_published": True}):
        with pytest.raises(RefusedKey, match=r"certainty.*symmetric"):
            Consensus(certainty=4.0, **keys)
    with pytest.raises(RefusedKey, match='robust = "trust"'):
        Consensus(certainty=3.0, robust="trust")
    with pytest.raises(InputError, match="polk of node 0 does not know how certain"):
        open_network(described(learner={"name": "polk"}))
