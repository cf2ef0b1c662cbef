"""Penalties on other distances than the squared one: what they pull at, and that no penalty on them is too large."""

import numpy as np
import pytest

from kernelswarm.protocols.distances import Absolute, KullbackLeibler, Squared
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.pairs import in_pairs
from tests.protocols.test_limits import FEATURES, GRAPHS, drawn, stepped

NAMES = ["squared", "absolute", "kl"]
CLASSES = {"name": "gaussian_mixture", "classes": 3}


def block_of(graph, distance, penalty, batch, outputs):
    # Own steps of almost nothing, so that the coupling is alone; what is limited does not depend on eta.
    loss = "squared" if outputs == 1 else "multiclass_logistic"
    description = Experiment.from_dict(
        {
            "topology": graph,
            "stream": "sine_regression" if outputs == 1 else CLASSES,
            "learner": {**FEATURES, "loss": loss, "batch_size": batch, "step_size": 1e-9, "regularization": 0.0},
            "protocol": {"name": "consensus", "penalty": penalty, "distance": distance},
        }
    )
    return Block(open_network(description).plans)


@in_pairs(distance=NAMES, name=GRAPHS, batch=[1, 8], outputs=[1, 3])
def test_no_penalty_moves_a_network_away_from_agreement(distance, name, batch, outputs):
    for penalty in (1e7, 1e9, 1e10, 1e15):
        block = block_of(GRAPHS[name], distance, penalty, batch, outputs)
        generator = np.random.default_rng(2)
        before = drawn(block, generator)
        after = stepped(block, before)
        common = generator.standard_normal(before.shape[1:])
        assert np.abs(after - before).max() > 1e-5  # there was a step
        for agreed in (before.mean(axis=0), common):
            assert np.sum((after - agreed) ** 2) <= np.sum((before - agreed) ** 2) * (1.0 + 1e-6)


def test_probabilities_of_two_classes_are_those_of_one_output():
    generator = np.random.default_rng(0)
    one, other = generator.normal(size=(5, 1)), generator.normal(size=(5, 1))
    both = [np.concatenate([np.zeros((5, 1)), side], axis=1) for side in (one, other)]
    distance = KullbackLeibler()
    np.testing.assert_allclose(distance.values(one, other), distance.values(*both))
    whole, single = distance.pull_back(0.3, *both), distance.pull_back(0.3, one, other)
    np.testing.assert_allclose(whole.gradients[:, 1:], single.gradients)
    shifted = distance.pull_back(0.3, both[0] + 7.0, both[1] - 900.0)
    np.testing.assert_allclose(shifted.gradients, whole.gradients)  # what all classes share is no difference


def test_distances_are_their_formulas_on_numbers_at_hand():
    own, other = np.array([[3.0, 4.0]]), np.array([[0.0, 0.0]])
    assert Squared().values(own, other)[0] == 12.5
    assert Absolute().values(own, other)[0] == 5.0
    pull = Absolute().pull_back(2.0, own, other)
    np.testing.assert_allclose(pull.gradients, [[1.2, 1.6]])
    assert pull.curvatures[0] == 0.4
    equal = Absolute().pull_back(2.0, own, own)
    assert not equal.gradients.any() and not equal.curvatures.any()
    halves = np.log([[0.5, 0.5]])
    assert KullbackLeibler().values(np.log([[0.25, 0.75]]), halves)[0] == pytest.approx(0.5 * np.log(4.0 / 3.0))
    np.testing.assert_allclose(
        KullbackLeibler().pull_back(1.0, np.log([[0.25, 0.75]]), halves).gradients, [[-0.25, 0.25]]
    )


def ran(stream, learner, protocol, **changes):
    table = {
        "rounds": 500,
        "evaluate_every": 500,
        "topology": {"name": "complete", "nodes": 7},
        "stream": stream,
        "learner": {"name": "polk", **learner},
        "protocol": protocol,
        "evaluation": {"local_samples": 300, "global_samples": 300, "rkhs_distance": False},
        **changes,
    }
    return simulate(Experiment.from_dict(table))


def test_one_node_far_off_draws_the_others_less_by_its_absolute_distance():
    # Node 6 learns next to nothing and pulls the others to 0, all the harder the more they know, but for the absolute
    # distance. Each has its best of six penalties, with worse ones below and above.
    node = [{"nodes": [6], "learner": {"kernel": {"name": "linear"}, "step_size": 1e-4}}]
    stream, learner = {"name": "sine_regression", "noise": 1.0}, {"step_size": 0.2, "kernel": {"bandwidth": 0.1}}
    least = {}
    for distance in ("squared", "absolute"):
        errors = []
        for penalty in (0.01, 0.03, 0.1, 0.3, 10.0, 100.0):
            rule = {"name": "consensus", "penalty": penalty, "distance": distance}
            nodes = ran(stream, learner, rule, node=node).nodes
            others = (nodes["round"] == nodes["round"].max()) & (nodes["node"] != 6)
            errors.append(nodes["error"][others].mean())
        least[distance] = min(errors)
        assert errors[0] > least[distance] < errors[-1]
    assert least["absolute"] < 0.8 * least["squared"]


@pytest.mark.parametrize("distance", NAMES[:2])
@pytest.mark.parametrize("protocol", ["consensus", "proximity"])
def test_what_data_decide_is_in_the_unit_of_the_distance(protocol, distance):
    found = []
    for unit in (1.0, 1000.0):
        stream = {"name": "sine_regression", "slope": 2.0 * unit, "amplitude": 3.0 * unit, "noise": 0.3 * unit}
        found.append(ran(stream, {}, {"name": protocol, "distance": distance}).final["error"] / unit**2)
    assert found[1] == pytest.approx(found[0], rel=0.02)
