"""What a simulation records is what its columns say."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.protocols import tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment, Override
from kernelswarm.simulations.running import driver
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])


def experiment(protocol, stream=None, loss=None, **keys):
    learner = Polk(**({"loss": loss} if loss else {}), kernel=Gaussian(0.3), step_size=Constant(0.2), batch_size=2)
    keys = {"rounds": 50, "evaluate_every": 20, "evaluation": Evaluation(40, 100), **keys}
    return Experiment(
        topology=GRAPH, stream=stream or SensorField(noise=0.2), learner=learner, protocol=protocol, **keys
    )


@pytest.fixture(scope="module")
def ran():
    """A run of consensus, and its source of data."""
    description = experiment(Consensus(0.2))
    return simulate(description), open_network(description).source


def rebuilt(result, node):
    points, weights = result.models[f"points_{node}"], result.models[f"weights_{node}"]
    return Expansion(Gaussian(0.3), points.shape[1], weights.shape[1]).assign(points, weights)


def test_rows_come_every_so_many_rounds_and_after_the_last(ran):
    result, _ = ran
    np.testing.assert_array_equal(result.network["round"], [20, 40, 50])
    np.testing.assert_array_equal(result.nodes["round"], np.repeat([20, 40, 50], 4))
    np.testing.assert_array_equal(result.nodes["node"], [0, 1, 2, 7] * 3)
    np.testing.assert_array_equal(result.nodes["samples"], np.repeat([40, 80, 100], 4))
    assert len(result.edges["round"]) == 3 * 2 * GRAPH.number_of_edges()


def test_risk_and_error_are_those_of_the_saved_models(ran):
    result, source = ran
    last = result.nodes["round"] == 50
    for place, node in enumerate([0, 1, 2, 7]):
        held_out = source.nodes[place].held_out(100)
        values = rebuilt(result, node).values(held_out.points)
        assert result.nodes["risk"][last][place] == pytest.approx(np.mean((values - held_out.targets) ** 2), rel=1e-12)
        assert result.nodes["error"][last][place] == pytest.approx(np.mean((values - held_out.truth) ** 2), rel=1e-12)
        assert result.nodes["model_order"][last][place] == len(result.models[f"points_{node}"])
    for name in ("risk", "error", "global_risk", "global_error", "model_order", "progressive_risk"):
        assert result.network[name][-1] == pytest.approx(result.nodes[name][last].mean(), rel=1e-12)


def test_disagreement_and_hilbert_distance_follow_their_definitions(ran):
    result, source = ran
    share = np.linspace(0, 39, 25).round().astype(int)  # 100 of 160 points, as many of each node
    points = np.concatenate([node.held_out(100).points[share] for node in source.nodes])
    functions = {node: rebuilt(result, node) for node in GRAPH}
    gaps = [np.mean((functions[i].values(points) - functions[j].values(points)) ** 2) for i, j in GRAPH.edges]
    assert result.network["disagreement"][-1] == pytest.approx(np.mean(gaps), rel=1e-10)
    distances = [functions[i].distance(functions[j]) for i, j in GRAPH.edges]
    assert result.summary["final"]["rkhs_distance"] == pytest.approx(np.mean(distances), rel=1e-10)


def test_violation_is_clipped_after_the_sum_over_time():
    result = simulate(experiment(Proximity(tolerances.Constant(0.0)), evaluate_every=5))
    for round in np.unique(result.edges["round"]):
        at = result.edges["round"] == round
        expected = np.maximum(result.edges["violation"][at], 0.0).sum()
        assert result.network["violation"][result.network["round"] == round][0] == pytest.approx(expected)
    # the running sum is made of the mean values of each stretch of five rounds, gamma = 0
    one = (result.edges["source"] == 2) & (result.edges["target"] == 7)
    np.testing.assert_allclose(np.cumsum(5 * result.edges["constraint"][one]), result.edges["violation"][one])


@pytest.mark.parametrize(
    ("protocol", "scalars", "messages"),
    [
        (Isolated(), 0, 0),
        (Consensus(0.1, "one_sided"), 8 * 50 * 2 * (1 + 1), 8 * 50),
        (Consensus(0.1, step="explicit"), 8 * 50 * 2 * (1 + 2), 8 * 50),
        (Consensus(0.1), 8 * 50 * 2 * (1 + 2 + 2), 8 * 50),
        (Proximity(form="symmetric", step="implicit"), 8 * 50 * (2 * (1 + 2 + 2) + 1), 8 * 50),
        (Centralized(), 4 * 50 * 2 * (1 + 1), 4 * 50),
    ],
    ids=str,
)
def test_traffic_is_that_of_the_protocol(protocol, scalars, messages):
    result = simulate(experiment(protocol))
    assert result.network["scalars_sent"][-1] == scalars
    assert result.network["bytes_sent"][-1] == 8 * scalars
    assert result.network["messages"][-1] == messages


def test_classification_error_is_the_rate_of_wrong_classes():
    description = experiment(Consensus(0.1), GaussianMixture(classes=3), MulticlassLogistic())
    result = simulate(description)
    held_out = open_network(description).source.nodes[0].held_out(100)
    wrong = np.argmax(rebuilt(result, 0).values(held_out.points), axis=1) != held_out.targets[:, 0]
    assert result.nodes["error"][result.nodes["round"] == 50][0] == pytest.approx(np.mean(wrong))


def test_overrides_reach_their_nodes_only():
    override = Override((7,), {"kernel": {"name": "laplacian", "bandwidth": 0.7}, "batch_size": 3})
    description = experiment(Consensus(0.1, "symmetric"), overrides=(override,))
    learners = {plan.neighborhood.node: plan.learner for plan in open_network(description).plans}
    assert learners[7].kernel != learners[0].kernel == Gaussian(0.3)
    result = simulate(description)
    last = result.nodes["round"] == 50
    np.testing.assert_array_equal(result.nodes["samples"][last], [100, 100, 100, 150])
    assert result.summary["final"]["rkhs_distance"] is None  # two spaces, no distance


def test_slots_are_places_among_the_neighbors_of_a_neighbor():
    graph = nx.relabel_nodes(nx.gnp_random_graph(30, 0.2, seed=1), lambda node: 3 * node + node % 2)
    found = Adjacency.of(graph).slots(sorted(graph)[::2])
    assert found == {
        node: tuple(sorted(graph[other]).index(node) for other in sorted(graph[node])) for node in sorted(graph)[::2]
    }


def test_the_time_to_go_counts_rounds_and_evaluations_each_at_their_own_pace(monkeypatch):
    now = [0.0]
    run, report = SerialEngine.run, SerialEngine.report

    def slowly(taken, of):
        def advance(engine, *rest):
            now[0] += taken(*rest)
            return of(engine, *rest)

        return advance

    # So long that what may be compiled meanwhile, which is not counted, is nothing beside it.
    # The first round takes far longer than others, as it does where compiled code is loaded.
    monkeypatch.setattr(SerialEngine, "run", slowly(lambda rounds: 1e6 * rounds if now[0] else 1e10, run))
    monkeypatch.setattr(SerialEngine, "report", slowly(lambda _: 1e8, report))
    monkeypatch.setattr(driver, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    seen = []
    simulate(experiment(Isolated()), seen.append)
    left = {(word.phase, word.done): word.remaining for word in seen}
    assert left["running", 1] is None  # nothing is known yet of other rounds, nor then of evaluations
    assert next(left[word] for word in left if word[1] == 2) == pytest.approx(48e6, rel=1e-3)
    assert left["evaluating", 20] == pytest.approx(30e6 + 2e8, rel=1e-3)
    assert left["running", 50] == pytest.approx(1e8, rel=1e-3)


def test_same_seed_same_digest_other_seed_other_digest():
    first, again, other = (simulate(experiment(Consensus(0.2), seed=seed)).summary["digest"] for seed in (1, 1, 2))
    assert first == again != other
