"""Rounds on links and by clocks that are not ideal: nothing changes where nothing happens, and every message counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.protocols.links.arrivals import Bursts
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.same_bits import engine_after

ROUNDS = 40

POLK = {
    "name": "polk",
    "step_size": 0.3,
    "kernel": {"name": "gaussian", "bandwidth": 0.2},
    "budget": {"epsilon": 0.02},
    "batch_size": 2,
}


def described(protocol: str, **tables: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": POLK,
            "protocol": {"name": protocol, **({"penalty": 3.0} if protocol == "consensus" else {})},
            "rounds": ROUNDS,
            "evaluate_every": 10,
            **tables,
        }
    )


@pytest.mark.parametrize("mix", ["loss", "long delay", "churn", "joining", "narrow, rounded, lost", "everything"])
def test_every_message_is_accounted_for(mix):
    result = simulate(described("consensus", **MIXES[mix]))
    rows, edges = result.network, result.edges
    assert (rows["messages"] == rows["delivered"] + rows["lost"] + rows["late"] + rows["waiting"]).all()
    assert (rows["waiting"] >= 0).all()
    assert rows["messages"][-1] > 0
    for name in ("sent", "delivered", "lost", "late"):
        last = edges[name][edges["round"] == ROUNDS]
        assert last.sum() == rows["messages" if name == "sent" else name][-1]
    assert (edges["sent"] >= edges["delivered"] + edges["lost"] + edges["late"]).all()
    if mix == "loss":
        assert rows["late"][-1] == 0 < rows["lost"][-1] < rows["messages"][-1]
    if mix == "long delay":
        assert rows["late"][-1] > 0 == rows["lost"][-1]
    if mix in ("churn", "joining"):
        assert rows["lost"][-1] > 0


def test_bursts_have_the_length_they_say():
    bursts = Bursts(worsens=0.1, recovers=0.25)
    experiment = described(
        "consensus", links={"loss": {"name": "bursts", "worsens": 0.1, "recovers": 0.25}}, rounds=400
    )
    result = simulate(experiment)
    share = result.network["lost"][-1] / result.network["messages"][-1]
    expected = bursts.worsens / (bursts.worsens + bursts.recovers)
    assert abs(share - expected) < 0.06


def test_a_graph_directed_both_ways_is_the_undirected_one():
    plain, directed = (engine_after(described("proximity", topology=graph)) for graph in (GRAPH, GRAPH.to_directed()))
    np.testing.assert_equal(plain.functions(), directed.functions())
    assert directed.blocks[0].agents[0].tally.traffic is None


def test_late_neighbours_are_not_held_to_what_a_node_has_learned_since():
    """On one common target no neighbour predicts worse, however late its answer is: no tolerance as wide as the noise.

    A node that compared its function of today at samples that it has learned from would find all neighbours worse, by
    what it has learned of the noise.
    """
    topology = {"name": "ring", "nodes": 6}
    stream = {"name": "sine_regression", "noise": 1.0}
    learner = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}}
    for delay in (0, 1, 4):
        changes = {"topology": topology, "stream": stream, "learner": learner, "links": {"delay": delay}}
        edges = simulate(described("proximity", rounds=600, evaluate_every=600, **changes)).edges
        assert edges["tolerance"].mean() < 0.1


def test_edges_too_narrow_for_a_message_are_refused():
    with pytest.raises(InputError, match=r"links.bandwidth = 0.4 .* takes 25 rounds, and max_age = 20 .* to 24"):
        open_network(described("consensus", links={"bandwidth": 0.4}))
    with pytest.raises(InputError, match=r"links.*bandwidth = 0.0 must be positive"):
        described("consensus", links={"bandwidth": 0.0})
    open_network(described("consensus", links={"bandwidth": 0.4, "max_age": 24}))
    open_network(described("isolated", links={"bandwidth": 0.4}))  # sends nothing
