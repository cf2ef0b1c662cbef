"""Agents in arrays learn the same in blocks of any size, and whether parts are compiled or asked by their methods."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM
from kernelswarm.agents.arithmetic.scratch import SPARE
from kernelswarm.agents.nodes.node import Ahead, DivergenceError
from kernelswarm.agents.nodes.population import FIRST_POINTS, Population
from kernelswarm.simulations.data.pooled import pool
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.same_bits import engine_in

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
ONE_SIDED = {"name": "consensus", "penalty": 0.3, "as_published": True}
SYMMETRIC = {"name": "consensus", "penalty": 0.3, "step": "explicit"}


def experiment(protocol, graph=GRAPH, batch=1, **learner):
    return Experiment.from_dict(
        {
            "topology": graph,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {
                "name": "polk",
                "step_size": 0.2,
                "regularization": 1e-3,
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 0.4},
                "budget": {"epsilon": 0.05},
                **learner,
            },
            "protocol": protocol,
        }
    )


def engines(description):
    """The same network in arrays, and in a block whose parts are asked by their methods."""
    return engine_in(description), engine_in(description, plain=True)


def assert_equal(left, right, held_out):
    """Functions, dual variables and everything that is reported are the same numbers."""
    np.testing.assert_equal(vars(left.report(held_out)), vars(right.report(held_out)))
    np.testing.assert_equal(left.functions(), right.functions())


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
    ("graph", "batch", "epsilon"),
    [(nx.star_graph(12), 1, 0.02), (nx.complete_graph(9), 2, 1e-4), (nx.cycle_graph(5), 1, 1e-4)],
    ids=["star", "complete", "ring"],
)
def test_states_that_grow_out_of_their_places(graph, batch, epsilon, monkeypatch):
    """Room for a step is on the bench alone. Points that stay get a state another place, which agents find again."""
    found = []
    monkeypatch.setattr(Population, "_make_way", noted(Population._make_way, found))
    description = experiment(SYMMETRIC, graph=graph, batch=batch, step_size=0.02, budget={"epsilon": epsilon})
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


def test_dictionaries_outgrow_their_room_and_factors_are_looked_at():
    description = experiment(ONE_SIDED, kernel={"name": "laplacian", "bandwidth": 0.3}, budget={"epsilon": 0.02})
    arrays, single = engines(description)
    for _ in range(2):
        arrays.run(600)
        single.run(600)
        assert_equal(arrays, single, pooled(description))
    changes = [agent.state.changes for agent in arrays.blocks[0].agents]
    assert changes == [agent.state.changes for agent in single.blocks[0].agents]
    assert max(agent.function.order for agent in single.blocks[0].agents) > 30


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
