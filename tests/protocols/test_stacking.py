"""Stacking: the shares against their definition, and copies that are what they would be alone."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.stacked import StackedAgent
from kernelswarm.protocols.contract import Neighborhood, Predictions
from kernelswarm.protocols.ensemble.stacking import Stacking, newton_step
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.halves import Halves

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


def seen(values: np.ndarray, targets: np.ndarray, mixture_weights: np.ndarray) -> Predictions:
    """Copies' values (K, n) at samples of the squared loss."""
    mixture = mixture_weights @ values
    losses = 0.5 * np.sum((values - targets) ** 2, axis=1)
    gradients = (mixture - targets)[:, np.newaxis]
    return Predictions(values[:, :, np.newaxis], losses, mixture[:, np.newaxis], gradients, 1.0, True)


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e6])
def test_newton_steps_lead_to_the_minimum_over_the_simplex(strength):
    generator = np.random.default_rng(1)
    factor = generator.normal(size=(3, COPIES))  # of rank 3: the minimum is one by the entropy
    products, slopes = strength * factor.T @ factor, strength * generator.normal(size=COPIES)
    mixture_weights = np.full(COPIES, 1.0 / COPIES)
    for _ in range(200):
        mixture_weights = newton_step(products, slopes, mixture_weights)
    assert mixture_weights.sum() == pytest.approx(1.0)

    def objective(q):
        return 0.5 * q @ products @ q - slopes @ q + q @ np.log(q)

    least = objective(mixture_weights)
    for other in [*np.eye(COPIES), *generator.dirichlet(np.ones(COPIES), 20)]:
        for part in (1e-6, 1e-3, 0.3):
            moved = (1.0 - part) * mixture_weights + part * (0.999 * other + 0.001 / COPIES)
            assert objective(moved) >= least - 1e-9 * abs(least)


def test_what_a_node_knows_are_the_weighted_losses_of_all_mixtures():
    generator = np.random.default_rng(2)
    rule = Stacking()
    state, pairs = rule.begin(ALONE), []
    for _ in range(7):
        values, targets = generator.normal(size=(COPIES, 3)), generator.normal(size=3)
        pairs.append((values, targets))
        state = rule.learn(state, seen(values, targets, rule.mixture_weights(state)))

    def losses(q):  # by the definition, each round with its number
        return sum(t * 0.5 * np.sum((q @ values - targets) ** 2) for t, (values, targets) in enumerate(pairs, 1))

    first, second = generator.dirichlet(np.ones(COPIES), 2)
    kept = [0.5 * q @ state.products @ q - state.slopes @ q for q in (first, second)]
    assert kept[0] - kept[1] == pytest.approx(losses(first) - losses(second))
    assert state.losses == pytest.approx([losses(one) for one in np.eye(COPIES)])
    assert state.counts.tolist() == [21.0, 3.0 * 28.0, 7.0]


def test_what_neighbours_say_counts_by_its_geometric_mean():
    rule = Stacking()
    state = rule.begin(Neighborhood(0, (1, 2), None, None, 1.0, 1, (1, 1), ({}, {}), (1, 1)))
    own, first, second = np.random.default_rng(4).dirichlet(np.ones(COPIES), 3)
    state = rule.receive(state._replace(mixture_weights=own), np.log([first, second]))
    wanted = own * np.sqrt(first * second)
    assert rule.mixture_weights(state) == pytest.approx(wanted / wanted.sum())


STORM = {
    "links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}},
    "clock": {"name": "bernoulli", "probability": 0.8},
}


CHANGING = {
    "topology": {"name": "ring", "nodes": 4, "schedule": {"name": "failures", "fails": 0.3, "repairs": 0.4}},
    "links": {"loss": 0.2, "delay": 1, "quantization": {"bits": 6}},
}
ONE_WAY = {"topology": nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 7), (0, 2)]), **STORM}
FORGETFUL = {**STORM, "clock": {"name": "churn", "leaves": 0.2, "returns": 0.4, "memory": False}}
KINDS = {"ideal": {}, "storm": STORM, "changing": CHANGING, "one way": ONE_WAY, "forgetful": FORGETFUL}


@pytest.mark.parametrize("conditions", KINDS.values(), ids=KINDS)
def test_each_copy_is_what_its_protocol_makes_alone(conditions):
    agents = stacked(experiment(**conditions))
    alone = [
        {"name": "isolated"},
        *({"name": "consensus", "penalty": penalty} for penalty in (0.05, 0.5, 50.0)),
        {"name": "proximity", "dual_step": 2.0},
    ]
    for k, protocol in enumerate(alone):
        single = replace(experiment(protocol=protocol, **conditions), backend=Halves(10))
        models = simulate(single).models
        for agent in agents:
            for name, array in agent.ensemble[k].function.arrays().items():
                assert np.array_equal(array, models[f"{name}_{agent.node}"])


@pytest.mark.parametrize("learner", ["polk", "random_features", "linear"])
def test_a_saved_model_answers_as_the_mixture(learner):
    kernel = {} if learner == "linear" else {"kernel": {"name": "gaussian", "bandwidth": 0.2}}
    description = experiment(learner={"name": learner, **kernel})
    result, points = simulate(description), np.linspace(0.0, 1.0, 9)[:, np.newaxis]
    for agent in stacked(description):
        mixture_weights = agent.rule.mixture_weights(agent.links)
        assert mixture_weights.max() < 1.0
        mixture = sum(q * copy.function.values(points) for q, copy in zip(mixture_weights, agent.ensemble, strict=True))
        assert result.model(agent.node).predict(points) == pytest.approx(mixture[:, 0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("bits", [EXACT, 6])
def test_a_message_on_unreliable_links_has_the_bytes_that_check_says(bits):
    links = {**STORM["links"], "quantization": {"bits": bits}}
    description = experiment(20, **{**STORM, "links": links})
    final = simulate(description).final
    plans = open_network(description).plans
    assert final["bytes_sent"] / final["messages"] == pytest.approx(message_bytes(plans, bits))
    assert final["messages"] < 20 * 8 and final["lost"] > 0
    if bits == EXACT:
        assert final["bytes_sent"] == 8 * final["scalars_sent"]


def test_what_is_sent_one_way_is_counted_and_where_an_edge_is_not_there_nothing_is():
    batch, talking, asking = 2, 4, 5
    # Points and values go one way, answers and shares the other; row sums of both ends and a dual go with them.
    each = batch + 2 * talking * batch + 2 * talking * batch + 1 + COPIES
    final = simulate(experiment(10, topology=ONE_WAY["topology"])).final
    assert final["scalars_sent"] == 10 * asking * each
    still = simulate(experiment(10, **{**CHANGING, "links": {}})).final
    alone = simulate(experiment(10, protocol="consensus", **{**CHANGING, "links": {}})).final
    assert still["messages"] == alone["messages"] < 10 * 8


def test_check_counts_what_is_sent():
    description = experiment(rounds=6)
    batch, inputs, outputs, edges, talking = 2, 1, 1, 8, 4
    each = batch * inputs + talking * (batch * 2 * outputs + 2 * batch) + 1 + COPIES
    assert simulate(description).final["scalars_sent"] == 6 * edges * each
    sent = as_text(examine(description))
    assert f"{edges * each:,}" in sent and "compiled rounds" in sent


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"links": {"noise": 0.1}}, "without noise or triggers"),
        ({"links": {"clip": {"values": 0.1}}}, "without noise or triggers"),
        ({"links": {"trigger": {"threshold": 0.1}}}, "without noise or triggers"),
        ({"links": {"bandwidth": 9.0}}, "without noise or triggers"),
        ({"learner": {"name": "okfe", "rank": 4, "kernel": {"name": "gaussian", "bandwidth": 0.2}}}, "have no mean"),
    ],
)
def test_what_stacking_does_not_know_is_refused(tables, says):
    with pytest.raises(InputError, match=says):
        open_network(experiment(**tables))


def test_copies_with_the_same_points_answer_with_these_once() -> None:
    learner = {"name": "rbf_network", "centers": 6, "batch_size": 2, "kernel": {"name": "gaussian", "bandwidth": 0.2}}
    probes = np.linspace(0.0, 1.0, 9)[:, np.newaxis]
    for agent in stacked(experiment(learner=learner, stream={"name": "sensor_field", "noise": 0.5})):
        mixture, mixture_weights = agent.function, agent.rule.mixture_weights(agent.links)
        wanted = sum(
            share * copy.function.values(probes) for share, copy in zip(mixture_weights, agent.ensemble, strict=True)
        )
        np.testing.assert_allclose(mixture.values(probes), wanted, rtol=1e-12, atol=1e-14)
        assert mixture.order == agent.ensemble[0].function.order == 6
        assert not np.shares_memory(mixture.points, agent.ensemble[0].function.points)
    polk = stacked(experiment())[0]  # dictionaries of their own stay side by side
    assert polk.function.order == sum(copy.function.order for copy in polk.ensemble) > 6


def test_links_that_do_nothing_and_clocks_that_never_rest_have_the_bits_of_none():
    still = {"links": {"on_missing": "repeat", "damping": 0.5}, "clock": {"name": "bernoulli", "probability": 1.0}}
    plain, here = (simulate(experiment(**tables)) for tables in ({}, still))
    assert here.summary["digest"] == plain.summary["digest"]
    assert here.final["scalars_sent"] == plain.final["scalars_sent"]
