"""Nodes that leave, come back without memory, or join late."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
ROUNDS = 40
FORGETFUL = {"name": "churn", "leaves": 0.1, "returns": 0.3, "memory": False}
DIMINISHING = {"name": "diminishing", "initial": 0.3, "offset": 10.0}


def described(protocol: Any, learner: dict[str, Any] | None = None, **tables: Any) -> Experiment:
    own = {
        "name": "polk",
        "step_size": DIMINISHING,
        "kernel": {"name": "gaussian", "bandwidth": 0.2},
        "budget": {"epsilon": 0.02},
    }
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": learner or own,
            "protocol": protocol,
            "rounds": ROUNDS,
            "evaluate_every": ROUNDS,
            **tables,
        }
    )


def test_nodes_join_when_they_say() -> None:
    clock = {"name": "joining", "within": 30, "nodes": [0, 7], "rounds": [0, 12]}
    result = simulate(described("consensus", clock=clock, evaluate_every=1))
    nodes, first = result.nodes, {}
    for node in GRAPH:
        own = nodes["node"] == node
        first[node] = int(nodes["round"][own][nodes["samples"][own] > 0][0]) - 1
        assert nodes["samples"][own][-1] == ROUNDS - first[node]
    assert (first[0], first[7]) == (0, 12)
    assert max(first.values()) <= 30 and len(set(first.values())) > 3
    mine = result.edges["source"] == 7
    assert not result.edges["sent"][mine & (result.edges["round"] <= 12)].any()
    assert result.edges["sent"][mine][-1] == ROUNDS - 12


def test_joining_at_once_is_no_clock() -> None:
    at_once = described("consensus", clock={"name": "joining", "within": 0})
    assert at_once.clock.ideal
    assert simulate(at_once).summary["digest"] == simulate(described("consensus")).summary["digest"]


def test_a_clock_names_nodes_of_the_network() -> None:
    with pytest.raises(InputError, match=r"clock.nodes: there is no node 3: use one of"):
        open_network(described("consensus", clock={"name": "joining", "nodes": [3, 5], "rounds": [1, 2]}))
    for clock, message in (
        ({"nodes": [3]}, "give one round for each"),
        ({"nodes": [3, 3], "rounds": [1, 2]}, "names a node twice"),
        ({"nodes": [3], "rounds": [-1]}, "rounds holds -1"),
        ({"within": -1}, "within = -1"),
    ):
        with pytest.raises(InputError, match=message):
            described("consensus", clock={"name": "joining", **clock})


def test_check_says_who_joins_and_who_forgets() -> None:
    def line(**clock: Any) -> str:
        sections = examine(described("consensus", clock=clock))
        return next(dict(one.lines)["clock"] for one in sections if one.title == "links and clock")

    assert line(**FORGETFUL) == "nodes there in 0.75 of the rounds; who comes back has forgotten what it learned"
    late = line(name="joining", within=0, nodes=[7], rounds=[20])
    assert late == "nodes there in 0.9 of the rounds: they join up to round 20 and stay"
