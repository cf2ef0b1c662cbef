"""Stacking: the shares against their definition, and copies that are what they would be alone."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.protocols.contract import Neighborhood, Predictions
from kernelswarm.protocols.copies.shares import newton_step
from kernelswarm.protocols.copies.stacking import Stacking
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
ALONE = Neighborhood(0, (), None, None, 1.0, 1, (), (), ())
COPIES = 5


def experiment(rounds: int = 12, **tables: object) -> Experiment:
    tables = {
        "topology": GRAPH,
        "stream": {"name": "sensor_field", "noise": 0.5},
        "learner": {"name": "polk", "batch_size": 2, "kernel": {"name": "gaussian", "bandwidth": 0.2}},
        "protocol": {"name": "stacking", "penalty": 0.05, "dual_step": 2.0},
        "evaluation": {"local_samples": 20, "global_samples": 20},
        **tables,
    }
    return Experiment.from_dict({**tables, "rounds": rounds, "evaluate_every": rounds})


def stacked(description: Experiment) -> list[StackedAgent]:
    engine = SerialEngine([open_network(description).plans])
    engine.run(description.rounds)
    agents = engine.blocks[0].agents
    assert all(isinstance(agent, StackedAgent) for agent in agents)
    return agents  # type: ignore[return-value]


def seen(values: np.ndarray, targets: np.ndarray, shares: np.ndarray) -> Predictions:
    """Copies' values (K, n) at samples of the squared loss."""
    mixture = shares @ values
    losses = 0.5 * np.sum((values - targets) ** 2, axis=1)
    gradients = (mixture - targets)[:, np.newaxis]
    return Predictions(values[:, :, np.newaxis], losses, mixture[:, np.newaxis], gradients, 1.0, True)


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e6])
def test_newton_steps_lead_to_the_minimum_over_the_simplex(strength):
    generator = np.random.default_rng(1)
    factor = generator.normal(size=(3, COPIES))  # of rank 3: the minimum is one by the entropy
    products, slopes = strength * factor.T @ factor, strength * generator.normal(size=COPIES)
    shares = np.full(COPIES, 1.0 / COPIES)
    for _ in range(200):
        shares = newton_step(products, slopes, shares)
    assert shares.sum() == pytest.approx(1.0)

    def objective(q):
        return 0.5 * q @ products @ q - slopes @ q + q @ np.log(q)

    least = objective(shares)
    for other in [*np.eye(COPIES), *generator.dirichlet(np.ones(COPIES), 20)]:
        for part in (1e-6, 1e-3, 0.3):
            moved = (1.0 - part) * shares + part * (0.999 * other + 0.001 / COPIES)
            assert objective(moved) >= least - 1e-9 * abs(least)


def test_what_a_node_knows_are_the_weighted_losses_of_all_mixtures():
    generator = np.random.default_rng(2)
    rule = Stacking()
    state, pairs = rule.begin(ALONE), []
    for _ in range(7):
        values, targets = generator.normal(size=(COPIES, 3)), generator.normal(size=3)
        pairs.append((values, targets))
        state = rule.learn(state, seen(values, targets, rule.shares(state)))

    def losses(q):  # by the definition, each round with its number
        return sum(t * 0.5 * np.sum((q @ values - targets) ** 2) for t, (values, targets) in enumerate(pairs, 1))

    first, second = generator.dirichlet(np.ones(COPIES), 2)
    kept = [0.5 * q @ state.products @ q - state.slopes @ q for q in (first, second)]
    assert kept[0] - kept[1] == pytest.approx(losses(first) - losses(second))
    assert state.losses == pytest.approx([losses(one) for one in np.eye(COPIES)])
    assert state.counts.tolist() == [21.0, 3.0 * 28.0, 7.0]


def test_copies_with_errors_of_their_own_share_and_those_that_err_more_do_not():
    generator = np.random.default_rng(3)
    rule = Stacking()
    state = rule.begin(ALONE)
    deviations = np.array([0.3, 0.3, 1.0, 1.0, 3.0])
    for _ in range(400):
        targets = generator.normal(size=4)
        values = targets + deviations[:, np.newaxis] * generator.normal(size=(COPIES, 4))
        state = rule.learn(state, seen(values, targets, rule.shares(state)))
    # Of unbiased and uncorrelated estimates the best mean weighs each by 1 / its variance.
    assert rule.shares(state) == pytest.approx(deviations**-2 / np.sum(deviations**-2), abs=0.02)


def test_what_neighbours_say_counts_by_its_geometric_mean():
    rule = Stacking()
    state = rule.begin(Neighborhood(0, (1, 2), None, None, 1.0, 1, (1, 1), ({}, {}), (1, 1)))
    own, first, second = np.random.default_rng(4).dirichlet(np.ones(COPIES), 3)
    state = rule.hear(state._replace(shares=own), np.log([first, second]))
    wanted = own * np.sqrt(first * second)
    assert rule.shares(state) == pytest.approx(wanted / wanted.sum())


STORM = {
    "links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}},
    "clock": {"name": "bernoulli", "probability": 0.8},
}


@pytest.mark.parametrize("weather", [{}, STORM], ids=["ideal", "storm"])
def test_each_copy_is_what_its_protocol_makes_alone(weather):
    agents = stacked(experiment(**weather))
    alone = [
        {"name": "isolated"},
        *({"name": "consensus", "penalty": penalty} for penalty in (0.05, 0.5, 50.0)),
        {"name": "proximity", "dual_step": 2.0},
    ]
    for k, protocol in enumerate(alone):
        models = simulate(experiment(protocol=protocol, **weather)).models
        for agent in agents:
            for name, array in agent.copies[k].function.arrays().items():
                assert np.array_equal(array, models[f"{name}_{agent.node}"])


@pytest.mark.parametrize("learner", ["polk", "random_features", "linear"])
def test_a_saved_model_answers_as_the_mixture(learner):
    kernel = {} if learner == "linear" else {"kernel": {"name": "gaussian", "bandwidth": 0.2}}
    description = experiment(learner={"name": learner, **kernel})
    result, points = simulate(description), np.linspace(0.0, 1.0, 9)[:, np.newaxis]
    for agent in stacked(description):
        shares = agent.rule.shares(agent.links)
        assert shares.max() < 1.0
        mixture = sum(q * copy.function.values(points) for q, copy in zip(shares, agent.copies, strict=True))
        assert result.model(agent.node).predict(points) == pytest.approx(mixture[:, 0], rel=1e-9, abs=1e-12)


def test_links_that_do_nothing_and_clocks_that_never_rest_have_the_bits_of_none():
    still = {"links": {"silence": "last", "damping": 0.5}, "clock": {"name": "bernoulli", "probability": 1.0}}
    plain, here = (simulate(experiment(**tables)) for tables in ({}, still))
    assert here.summary["digest"] == plain.summary["digest"]
    assert here.final["scalars_sent"] == plain.final["scalars_sent"]


def test_of_a_neighbour_s_opinion_the_newest_counts_that_has_arrived():
    description = experiment(30, **STORM)
    engine = SerialEngine([open_network(description).plans])
    said: dict[int, dict[int, np.ndarray]] = {node: {} for node in GRAPH}
    engine.run(1)
    for _ in range(25):
        agents = engine.blocks[0].agents
        for agent in agents:
            said[agent.node][agent.now - 1] = agent.rule.say(agent.links)
        engine.run(1)
    for agent in agents:
        for e, other in enumerate(agent.neighbors):
            newest = max(sent for sent, packet in agent.inbox.packets[e].items() if packet.due < agent.now)
            if agent.sent_at == agent.now - 1:
                assert np.array_equal(agent.heard[e], said[other][newest])


def test_a_message_under_weather_has_the_bytes_that_check_says():
    description = experiment(20, **STORM)
    final = simulate(description).final
    plans = open_network(description).plans
    assert final["bytes_sent"] / final["messages"] == pytest.approx(message_bytes(plans, EXACT))
    assert final["messages"] < 20 * 8 and final["lost"] > 0


def test_check_counts_what_is_sent():
    description = experiment(rounds=6)
    batch, inputs, outputs, edges, talking = 2, 1, 1, 8, 4
    each = batch * inputs + talking * (batch * 2 * outputs + 2 * batch) + 1 + COPIES
    assert simulate(description).final["scalars_sent"] == 6 * edges * each
    said = as_text(examine(description))
    assert f"{edges * each:,}" in said and "compiled rounds" in said


def test_classes_are_stacked_too():
    stream = {"name": "gaussian_mixture", "classes": 3}
    learner = {"name": "polk", "loss": "multiclass_logistic", "batch_size": 4}
    description = experiment(40, stream=stream, learner=learner)
    result = simulate(description)
    assert result.final["risk"] < 0.9 * np.log(3)  # what equal probabilities lose


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"links": {"noise": 0.1}}, "knows links that lose and delay messages"),
        ({"links": {"trigger": {"threshold": 0.1}}}, "knows links that lose and delay messages"),
        ({"links": {"bandwidth": 9.0}}, "knows links that lose and delay messages"),
        ({"clock": {"name": "churn", "memory": False}}, "clocks with memory"),
        ({"learner": {"name": "okfe", "rank": 4, "kernel": {"name": "gaussian", "bandwidth": 0.2}}}, "have no mean"),
        ({"protocol": {"name": "stacking", "penalty": 0.0}}, "penalty = 0.0 must be a positive number"),
        ({"protocol": {"name": "stacking", "dual_step": -1.0}}, "dual_step = -1.0 must be positive"),
    ],
)
def test_what_stacking_does_not_know_is_refused(tables, says):
    with pytest.raises(InputError, match=says):
        open_network(experiment(**tables))
