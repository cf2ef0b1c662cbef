"""Proximity under other constraints than on the squared difference."""

import math
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.distances import Absolute, KullbackLeibler, Squared
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import Adaptive, Constant, TrueDifference
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.testing.vectors import neighborhood
from tests.helpers.pairs import in_pairs
from tests.protocols.test_limits import FEATURES, GRAPHS, drawn, stepped

DISTANCES = {"squared": Squared(), "absolute": Absolute(), "kl": KullbackLeibler()}
CLASSES = {"name": "gaussian_mixture", "classes": 3}


def lagrangian_terms(distance, own, answers, duals):
    """The part of the Lagrangian at a node's samples, by its definition: ``sum_j mu_j sum_k h(f_i(x_k), f_j(x_k))``."""
    apart = own[None] - answers
    if distance == "squared":
        each = np.sum(apart**2, axis=-1)
    elif distance == "absolute":
        each = np.sqrt(np.sum(apart**2, axis=-1))
    else:
        p, q = (np.exp(f) / np.exp(f).sum(axis=-1, keepdims=True) for f in (own[None], answers))
        each = np.sum(q * np.log(q / p), axis=-1)
    return each, float(np.sum(duals[:, None] * each))


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_pull_is_the_gradient_of_the_lagrangian(distance):
    generator = np.random.default_rng(0)
    own, answers, duals = generator.normal(size=(4, 3)), generator.normal(size=(3, 4, 3)), np.array([0.3, 0.0, 2.0])
    rule = Proximity(distance=DISTANCES[distance])
    links = rule.init(neighborhood(4, 3))._replace(duals=duals)
    each, _ = lagrangian_terms(distance, own, answers, duals)
    np.testing.assert_allclose(rule.constraint_values(own, answers), each.mean(axis=1))
    slopes = np.empty(own.shape)
    for place in np.ndindex(own.shape):
        step = np.zeros(own.shape)
        step[place] = 1e-6
        above, below = (lagrangian_terms(distance, own + sign * step, answers, duals)[1] for sign in (1, -1))
        slopes[place] = (above - below) / 2e-6
    np.testing.assert_allclose(
        rule.coupling_gradient(links, own, answers).gradients.sum(axis=0), slopes, rtol=1e-5, atol=1e-8
    )
    back = rule.coupling_gradient_at_neighbor(
        links, 1, own, answers[0], 2.0
    ).gradients  # by the neighbour's dual variable
    np.testing.assert_allclose(
        back, rule.coupling_gradient(links._replace(duals=duals[::-1]), own, answers).gradients[0]
    )


def network(graph, distance, batch, gamma=0.0):
    outputs_and_loss = ("sine_regression", "squared") if distance == "absolute" else (CLASSES, "multiclass_logistic")
    stream, loss = outputs_and_loss
    learner = {**FEATURES, "loss": loss, "batch_size": batch, "step_size": 1e-9, "regularization": 0.0}
    protocol = {"name": "proximity", "gamma": gamma, "distance": distance}
    table = {"topology": graph, "stream": stream, "learner": learner, "protocol": protocol}
    return Block(open_network(Experiment.from_dict(table)).plans)


@in_pairs(distance=["absolute", "kl"], name=["ring", "star", "complete"], batch=[1, 8])
def test_no_dual_variables_move_a_network_away_from_agreement(distance, name, batch):
    for largest in (1e7, 1e10, 1e15):
        generator = np.random.default_rng(2)
        block = network(GRAPHS[name], distance, batch)
        for agent in block.agents:  # own steps of almost nothing, so that the coupling is alone
            duals = largest * generator.exponential(size=len(agent.neighbors))
            agent.links = agent.links._replace(duals=duals)
        block._move()  # rounds run in arrays, which have been filled before
        before = drawn(block, generator)
        after = stepped(block, before)
        assert np.abs(after - before).max() > 1e-6  # there was a step
        for agreed in (before.mean(axis=0), generator.standard_normal(before.shape[1:])):
            assert np.sum((after - agreed) ** 2) <= np.sum((before - agreed) ** 2) * (1.0 + 1e-6)


def ran(distance, rounds=60, name="proximity", **keys):
    classes = distance == "kl"
    protocol = {"name": name, **({} if name == "isolated" else {"distance": distance}), **keys}
    table = {
        "rounds": rounds,
        "evaluate_every": rounds,
        "topology": nx.cycle_graph(5),
        "stream": CLASSES if classes else {"name": "sine_regression", "noise": 2.0},
        "learner": {"name": "polk", "step_size": 0.3, "loss": "multiclass_logistic" if classes else "squared"},
        "protocol": protocol,
        "evaluation": {"local_samples": 50, "global_samples": 50},
    }
    return simulate(Experiment.from_dict(table))


@pytest.mark.parametrize(("distance", "step"), [("absolute", "implicit"), ("kl", "implicit"), ("kl", "explicit")])
def test_a_tolerance_that_is_never_met_leaves_the_nodes_alone(distance, step):
    alone = ran(distance, name="isolated", step=step)
    free = ran(distance, gamma=1e12, step=step, form="one_sided")
    for name, array in alone.models.items():
        np.testing.assert_array_equal(free.models[name], array)
    both = ran(distance, gamma=1e12, step=step)  # the neighbours' points join the system, with coefficients of 0
    assert both.final["risk"] == pytest.approx(alone.final["risk"], rel=1e-6)
    bound = ran(distance, gamma=0.0, step="implicit")
    assert bound.final["disagreement"] < 0.7 * alone.final["disagreement"]


@pytest.mark.parametrize("distance", ["absolute", "kl"])
@pytest.mark.parametrize("form", ["one_sided", "symmetric"])
def test_dual_variables_that_grow_for_ever_do_no_harm(distance, form):
    wild = {"gamma": 0.0, "delta": 0.0, "dual_step": 1e9, "form": form}
    found, alone = ran(distance, rounds=200, **wild), ran(distance, rounds=200, name="isolated")
    assert found.edges["dual"].max() > 1e6
    assert found.final["risk"] < 1.02 * alone.final["risk"]


def test_tolerances_that_are_squared_differences_are_turned_into_the_unit_of_the_distance():
    hood = neighborhood(2, 3)
    square = hood.differences
    for distance, wanted in (("squared", square), ("absolute", np.sqrt(square)), ("kl", square / 4.0)):
        rule = Proximity(gamma=TrueDifference(2.0), distance=DISTANCES[distance])
        np.testing.assert_allclose(rule.record(rule.init(hood), 3).tolerances, 2.0 * wanted)
        fixed = Proximity(gamma=Constant(0.3), distance=DISTANCES[distance])
        np.testing.assert_array_equal(fixed.record(fixed.init(hood), 3).tolerances, np.full(3, 0.3))


@pytest.mark.parametrize(("outputs", "curvature"), [(1, 0.25), (3, 0.5)])
def test_learned_tolerances_of_class_probabilities_are_the_excess_log_loss(outputs, curvature):
    # E_y[l(f_j, y) - l(f_i, y)] is the divergence of p_j from p_i where f_i is right.
    rule = Proximity(gamma=Adaptive(2.0, rate=1.0), delta=0.0, distance=KullbackLeibler(), dual_step=1e9)
    links = rule.init(neighborhood(2, outputs))._replace(curvature=curvature)
    excess_loss = np.array([0.2, -0.1, 0.05])
    links = rule.advance(links, np.ones(3), excess_loss, 0.1, 1)
    np.testing.assert_allclose(rule.record(links, 3).tolerances, 2.0 * np.maximum(excess_loss, 0.0))
    pull = rule.coupling_gradient(links, np.zeros((2, outputs)), np.ones((3, 2, outputs)))
    np.testing.assert_allclose(0.1 / 2 * pull.curvatures.sum(axis=0), 1.0)  # neighbours weigh no more than the node


def test_learned_tolerances_of_absolute_differences_are_roots():
    rule = Proximity(gamma=Adaptive(2.0, rate=1.0), distance=Absolute())
    links = rule.init(neighborhood(2))  # of the squared loss
    excess_loss = np.array([0.2, -0.1, np.nan])
    links = rule.advance(links, np.ones(3), excess_loss, 0.1, 1)
    np.testing.assert_allclose(rule.record(links, 3).tolerances, np.sqrt([0.4, 0.0, 0.0]))
    assert math.isinf(rule.dual_max) and (links.duals >= 0.0).all()


@dataclass(frozen=True)
class Bare:
    """A distance that consensus takes."""

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 2
    values, pull, pull_back = Squared.values, Squared.pull, Squared.pull_back


def test_what_does_not_go_together_is_refused():
    for name in ("consensus", "proximity"):
        assert all(build("protocol", {"name": name, "distance": key}).distance == DISTANCES[key] for key in DISTANCES)
        with pytest.raises(InputError, match=r'distance = "absolute" has a pull .* explicit step never settles'):
            build("protocol", {"name": name, "step": "explicit", "distance": "absolute"})
        with pytest.raises(InputError, match=r'protocol.distance = "kl" stands beside as_published = true'):
            build("protocol", {"name": name, "distance": "kl", "as_published": True})
    with pytest.raises(InputError, match=r"protocol.distance"):
        build("protocol", {"name": "proximity", "distance": "manhattan"})
    with pytest.raises(ValueError, match="no multiple, constraint_values and growth"):
        Proximity(distance=Bare())
    assert Proximity(as_published=True).distance == Consensus(0.3, as_published=True).distance == Squared()
