"""Agents in arrays learn the same in blocks of any size, and whether parts are compiled or asked by their methods."""

from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM
from kernelswarm.agents.arithmetic.scratch import SPARE
from kernelswarm.agents.nodes.node import Ahead, DivergenceError
from kernelswarm.agents.nodes.population import FIRST_POINTS, Population
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.data.pooled import pool
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.halves import plans_of

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
PROTOCOLS = {
    "isolated": {"name": "isolated", "as_published": True},
    "isolated, implicit": {"name": "isolated"},
    "centralized": {"name": "centralized"},
    "centralized, averaged": {"name": "centralized", "averaged": True, "step": "explicit"},
    "consensus": {"name": "consensus", "penalty": 0.3, "as_published": True},
    "consensus, symmetric": {"name": "consensus", "penalty": 0.3, "step": "explicit"},
    "consensus, implicit": {"name": "consensus", "penalty": 9.0, "form": "one_sided"},
    "proximity": {"name": "proximity", "gamma": 0.05, "dual_max": 0.5, "as_published": True},
    "proximity, symmetric": {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "step": "explicit"},
    "proximity, adaptive": {"name": "proximity", "form": "one_sided"},
    "proximity, adaptive, symmetric": {
        "name": "proximity",
        "gamma": {"name": "adaptive", "scale": 1.5},
        "form": "symmetric",
        "step": "implicit",
    },
    "proximity, by edge": {
        "name": "proximity",
        "gamma": {"name": "edges", "values": {"0-1": 0.2}, "default": 0.1},
        "dual_max": 0.5,
        "as_published": True,
    },
}
LOSSES = {
    "sine_regression": ["squared", "huber", "absolute"],
    "gaussian_mixture": ["multiclass_logistic", "multiclass_hinge"],
}


def experiment(protocol, loss="squared", stream=None, graph=GRAPH, batch=1, nodes=(), **learner):
    return Experiment.from_dict(
        {
            "topology": graph,
            "stream": stream or {"name": "sine_regression", "noise": 0.3},
            "learner": {
                "name": "polk",
                "loss": loss,
                "step_size": 0.2,
                "regularization": 1e-3,
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 0.4},
                "budget": {"epsilon": 0.05},
                **learner,
            },
            "protocol": protocol,
            "node": list(nodes),
        }
    )


def engines(description, blocks=None):
    """The same network in blocks, and in one whose parts are asked by their methods."""
    plans = open_network(description).plans
    yield SerialEngine([plans] if blocks is None else [[plans[k] for k in block] for block in blocks])
    yield SerialEngine([plans_of(description, plain=True)])


def assert_equal(left, right, held_out):
    """Functions, dual variables and everything that is reported are the same numbers."""
    np.testing.assert_equal(vars(left.report(held_out)), vars(right.report(held_out)))
    for node, found in left.functions().items():
        arrays, duals, _ = right.functions()[node]
        for name, array in found[0].items():
            np.testing.assert_array_equal(array, arrays[name])
        np.testing.assert_equal(found[1], duals)


def pooled(description):
    return pool([source.held_out(0) for source in open_network(description).source.nodes], 50)


def test_one_node_with_many_neighbours_takes_no_room_from_the_others():
    """A symmetric step takes in a point for each neighbour: room for a factor and for rows grows with the square."""
    description = Experiment.from_dict(
        {
            "topology": nx.star_graph(40),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "newton", "kernel": {"name": "gaussian", "bandwidth": 0.4}},
            "protocol": {"name": "consensus", "penalty": 0.3},
        }
    )
    arrays, single = engines(description)
    for engine in (arrays, single):
        engine.run(12)
    population = arrays.blocks[0]._population
    for lengths in (population._states.lengths, np.diff(population._row_begins)):
        assert lengths[0] > 40**2
        assert lengths[1:].max() < lengths[0] / 4
    assert_equal(arrays, single, pooled(description))


@pytest.mark.parametrize(
    "graph", [nx.star_graph(12), nx.complete_graph(9), nx.cycle_graph(5)], ids=["star", "complete", "ring"]
)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("epsilon", [1e-4, 0.02])
def test_states_that_grow_out_of_their_places(graph, batch, epsilon, monkeypatch):
    """Room for a step is on the bench alone. Points that stay get a state another place, which agents find again."""
    found = []
    monkeypatch.setattr(Population, "_make_way", noted(Population._make_way, found))
    description = experiment(
        PROTOCOLS["consensus, symmetric"], graph=graph, batch=batch, step_size=0.02, budget={"epsilon": epsilon}
    )
    arrays, single = engines(description)
    for rounds in (1, 2, 5, 30):
        arrays.run(rounds)
        single.run(rounds)
        assert_equal(arrays, single, pooled(description))
    population = arrays.blocks[0]._population
    states, orders = population._states, population._states.counts[:, ORDER]
    assert found, "no array was ever full"
    places = sorted(zip(states.begins.tolist(), states.lengths.tolist(), strict=True))
    assert all(begin + length <= after for (begin, length), (after, _) in pairwise(places))
    capacities = orders + states.counts[:, ROOM]
    assert (capacities <= np.maximum(FIRST_POINTS, 2 * orders.max() + SPARE)).all()
    for i, agent in enumerate(population.agents):
        assert len(agent.state.function.points_buffer) == capacities[i]
        assert np.shares_memory(agent.state.function.storage, states.storage)


def noted(method, found):
    """Note each call of a method."""

    def call(self, *arguments, **named):
        found.append(named)
        return method(self, *arguments, **named)

    return call


@pytest.mark.parametrize(("stream", "loss"), [(stream, loss) for stream, all_of in LOSSES.items() for loss in all_of])
@pytest.mark.parametrize("kernel", ["laplacian", "matern", "polynomial"])
def test_same_bits_for_every_loss_and_kernel(stream, loss, kernel):
    scale = {"scale": 0.2} if kernel == "polynomial" else {}
    description = experiment(
        PROTOCOLS["consensus, symmetric"], loss, {"name": stream}, kernel={"name": kernel, **scale}, step_size=0.02
    )
    arrays, single = engines(description)
    arrays.run(40)
    single.run(40)
    assert_equal(arrays, single, pooled(description))


@pytest.mark.parametrize(
    "learner",
    [
        {"budget": {"target_order": 8, "alpha": 0.1, "gain": 0.02}},
        {"step_size": {"name": "diminishing", "initial": 0.3, "offset": 20.0}, "budget": {"parsimony": 0.3}},
    ],
    ids=str,
)
def test_schedules_budgets_and_nodes_of_their_own(learner):
    nodes = [
        {"nodes": [0, 5], "learner": {"kernel": {"name": "matern", "bandwidth": 0.7}, "regularization": 1e-4}},
        {"nodes": [2], "learner": {"loss": {"name": "huber", "threshold": 0.2}, "budget": {"epsilon": 0.1}}},
    ]
    description = experiment(PROTOCOLS["consensus"], nodes=nodes, **learner)
    arrays, single = engines(description)
    arrays.run(90)
    single.run(90)
    assert_equal(arrays, single, pooled(description))


def test_dictionaries_outgrow_their_room_and_factors_are_looked_at():
    description = experiment(
        PROTOCOLS["consensus"], kernel={"name": "laplacian", "bandwidth": 0.3}, budget={"epsilon": 0.02}
    )
    arrays, single = engines(description)
    for _ in range(2):
        arrays.run(600)
        single.run(600)
        assert_equal(arrays, single, pooled(description))
    changes = [agent.state.changes for agent in arrays.blocks[0].agents]
    assert changes == [agent.state.changes for agent in single.blocks[0].agents]
    assert max(agent.function.order for agent in single.blocks[0].agents) > 30


@pytest.mark.parametrize("blocks", [None, [[0, 1], [2, 3, 4]]], ids=["one block", "two blocks"])
def test_data_that_ends_at_different_times(tmp_path, blocks):
    generator = np.random.default_rng(0)
    rows = [90, 63, 71, 90, 45]
    nodes = np.repeat(sorted(GRAPH), rows)
    x = generator.normal(size=(len(nodes), 2))
    np.savez(tmp_path / "data.npz", x=x, y=np.sin(x[:, 0]), node=nodes)
    stream = {"name": "file", "path": str(tmp_path / "data.npz")}
    description = experiment(PROTOCOLS["consensus, symmetric"], stream=stream, batch=3)
    arrays, single = engines(description, blocks)
    arrays.run(1)
    for rounds in (1, 2, 40):
        arrays.run(rounds)
        single.run(rounds if rounds > 1 else 2)
        assert_equal(arrays, single, pooled(description))


@pytest.mark.parametrize(
    "protocol",
    [
        {"name": "proximity", "delta": 0.0, "as_published": True},
        {"name": "proximity", "gamma": 0.0, "delta": 0.0, "step": "explicit"},
        {"name": "isolated", "as_published": True},
    ],
    ids=["one_sided", "symmetric", "values"],
)
def test_divergence_is_reported_in_the_same_words(protocol):
    kernel = {"name": "polynomial", "degree": 4} if protocol["name"] == "isolated" else {"name": "gaussian"}
    description = experiment(protocol, kernel=kernel, step_size=0.6)
    found = []
    for engine in engines(description):
        with pytest.raises(DivergenceError) as caught:
            engine.run(4000)
        found.append(str(caught.value))
    assert found[0] == found[1]
    assert "diverged in round" in found[0]


@dataclass(frozen=True)
class Own(Gaussian):
    """A kernel of the user's own."""


@dataclass(frozen=True)
class OwnConsensus(Consensus):
    """A protocol of the user's own."""


def test_kernels_and_protocols_of_ones_own_are_called_by_compiled_rounds():
    rules = Isolated(), Consensus(), Proximity(), Centralized(), OwnConsensus(), Consensus(replay=0.5)
    for rule in (*rules, PROTOCOLS["consensus"]):
        engine = next(iter(engines(experiment(rule, kernel=Own(0.4)))))
        engine.run(5)


def test_samples_drawn_ahead_come_before_those_that_follow():
    class Counting:
        def __init__(self):
            self.drawn = 0

        def draw(self, count):
            count = min(count, 9 - self.drawn)
            numbers = np.arange(self.drawn, self.drawn + count, dtype=float)[:, None]
            self.drawn += count
            return numbers, -numbers

    source = Counting()
    points, targets = source.draw(4)
    ahead = Ahead(points, targets, source)
    found = [ahead.draw(count) for count in (3, 3, 3, 3)]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in found])[:, 0], np.arange(9))
    assert [len(y) for _, y in found] == [3, 3, 3, 0]
