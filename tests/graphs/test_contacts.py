"""The network of those who meet holds every pair that is ever near, and no other."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import networkx as nx
import numpy as np

from kernelswarm.graphs.schedules import Mobile, contact_graph
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate

WALK = Mobile(radius=0.12, speed=0.01)
ROUNDS = 60


def test_an_edge_is_there_if_and_only_if_its_ends_ever_meet() -> None:
    nodes = 40
    pairs = np.array(list(combinations(range(nodes), 2)))
    rounds = islice(WALK.begin(np.arange(nodes), pairs, np.random.default_rng(3)), ROUNDS)
    ever = np.any(list(rounds), axis=0)
    found = contact_graph(WALK, nodes, ROUNDS, np.random.default_rng(3))
    assert 0.1 < ever.mean() < 0.5
    assert set(found.edges) == set(map(tuple, pairs[ever].tolist()))
    assert set(found) == set(range(nodes))


def test_a_run_is_the_one_on_all_pairs() -> None:
    """With links that skip what is silent, who never meets does not matter."""
    described = Experiment.from_dict(
        {
            "topology": nx.complete_graph(20),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}},
            "protocol": {"name": "consensus", "form": "one_sided", "step": "explicit", "penalty": 0.1},
            "links": {"loss": 0.2, "delay": {"name": "geometric"}},
            "rounds": ROUNDS,
            "evaluate_every": ROUNDS,
        }
    )
    key = generator(described.seed, Role.LINKS_AND_CLOCK).integers(2**32, size=2).tolist()
    few = contact_graph(WALK, 20, ROUNDS, np.random.default_rng(tuple(key)))
    assert nx.is_connected(few) and few.number_of_edges() < 120 < 190
    every, met = (simulate(replace(described, topology=graph, schedule=WALK)) for graph in (nx.complete_graph(20), few))
    assert met.network["messages"][-1] == every.network["messages"][-1] > 0
    # The two rounds that prime the network are ideal on every edge, and what is summed up is summed in another order.
    np.testing.assert_allclose(met.network["error"], every.network["error"], rtol=0.05)
