"""Learned tolerances cost little where all nodes look for one function: neighbours never outweigh a node's own data."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant as ConstantStep
from kernelswarm.protocols.coupling import step_damping
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import Adaptive, Constant
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.testing import check_stream
from tests.helpers.checkout import ROOT

EXAMPLE = ROOT / "examples" / "fair" / "common_target.toml"


def neighborhood(degree, batch=1):
    """What the hub of a star knows of its links."""
    learner = Polk(batch_size=batch, step_size=ConstantStep(0.1), budget=Epsilon(0.01))
    description = Experiment(
        topology=nx.star_graph(degree), stream=SineRegression(), learner=learner, protocol=Proximity()
    )
    return open_network(description).plans[0].neighborhood


def driven_apart(rule, eta, degree, batch=1):
    """The links of a node whose neighbours predict it as well as it does itself, and never come nearer than 7."""
    links = rule.init(neighborhood(degree, batch))
    for round in range(1, 201):
        links = rule.advance(links, np.full(degree, 49.0), np.zeros(degree), eta, round)
    return links


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("degree", [1, 3, 9])
@pytest.mark.parametrize("eta", [0.05, 0.5, 24.0])
def test_neighbours_that_never_meet_weigh_together_as_much_as_the_node(eta, degree, batch):
    links = driven_apart(Proximity(gamma=Adaptive(), delta=0.0), eta, degree, batch)
    assert eta / batch * 2.0 * links.duals.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("eta", [0.05, 0.5, 5.0])
def test_the_own_sample_moves_the_node_by_at_least_half_of_what_it_would_alone(eta):
    rule = Proximity(gamma=Adaptive(), form="one_sided", step="implicit")
    links = driven_apart(rule, eta, 4)
    learner = Polk(kernel=Gaussian(1.0), step_size=ConstantStep(eta), budget=Epsilon(0.0))
    moved, share = [], 1.0
    for coupled in (False, True):
        state = learner.init(1, 1)
        own = learner.evaluate(state, np.zeros((1, 1)))
        gradient, curvature = learner.gradient(state, own, np.ones((1, 1))), learner.loss.curvature
        if coupled:  # to neighbours that agree, which shows how much own data counts
            pulls = rule.coupling_gradient(links, own.values, np.zeros((4, 1, 1)))
            share = step_damping(eta, 1.0, 1.0, curvature, float(pulls.curvatures.sum()), 0, 10**9)
            gradient = gradient + pulls.gradients.sum(axis=0) / share
        learner.step(state, [own], [gradient], [curvature], np.ones((1, 1)), eta * share)
        moved.append(float(learner.function(state).values(np.zeros((1, 1)))[0, 0]))
    assert 0.5 * moved[0] <= moved[1] < moved[0]


@pytest.mark.parametrize("batch", [1, 8])
def test_adaptive_proximity_costs_at_most_two_percent_on_a_common_target(batch):
    described = Experiment.from_file(
        EXAMPLE,
        [f"rounds={200 // batch}", f"learner.batch_size={batch}", f"learner.step_size={0.5 * batch}"],
    )
    errors = {"isolated": [], "proximity": []}
    for seed in range(4):
        for name in errors:
            changed = described.with_changes({"seed": seed, "protocol": {"name": name, "step": "implicit"}})
            errors[name].append(simulate(changed).final["error"])
    assert np.mean(errors["proximity"]) < 1.02 * np.mean(errors["isolated"])


def test_the_example_draws_another_function_for_each_seed_and_says_it_in_its_own_unit():
    stream = Experiment.from_file(EXAMPLE).stream
    check_stream(stream)
    first, second = (stream.open(10, seed, 400, None) for seed in (0, 1))
    points = np.zeros((1, 8))
    assert first.truth(0, points, 0) == first.truth(9, points, 0) != second.truth(0, points, 0)
    targets = np.concatenate([node.draw(200)[1] for node in first.nodes])
    assert targets.mean() == pytest.approx(0.0, abs=0.01) and targets.std() == pytest.approx(1.0, abs=0.01)


def test_dual_variables_of_given_tolerances_grow_as_published():
    rule = Proximity(gamma=Constant(0.1), delta=0.0)
    links = rule.init(neighborhood(2))
    for round in range(1, 101):
        links = rule.advance(links, np.array([0.5, 0.1]), None, 0.5, round)
    np.testing.assert_allclose(links.duals, [100 * 0.5 * 0.4, 0.0])


def test_learned_tolerances_keep_the_published_step_within_its_stability_rule():
    # eta (l'' + 2 sum_j mu_ij) is at most 0.3 * 2 + 1; with a tolerance of 0 the same noise stops the run.
    rule = Proximity(gamma=Adaptive(), delta=0.0, form="one_sided", step="explicit")
    learner = Polk(kernel=Gaussian(0.2), step_size=ConstantStep(0.3), budget=Epsilon(0.01))
    description = Experiment(
        topology=nx.star_graph(3), stream=SensorField(noise=3.0), learner=learner, protocol=rule, rounds=300
    )
    assert simulate(description).summary["status"] == "done"
