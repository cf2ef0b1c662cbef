"""Nodes that leave, come back without memory, or join late."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import passes
from kernelswarm.protocols.links.realization import Realization
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.same_bits import assert_the_same_from_snapshots

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


def engine_of(experiment: Experiment) -> SerialEngine:
    return SerialEngine([open_network(experiment).plans])


def returns(agent: Any, now: int) -> bool:
    """Tell whether a node was away in the round before."""
    realization = Realization(agent.conditions, np.array([agent.node]), agent.inbox.facts)

    def awake(round: int) -> bool:
        place = realization.look(round)
        return bool(realization.awake[0, place])

    return now > 0 and awake(now) and not awake(now - 1)


def test_who_comes_back_without_memory_has_learned_only_since() -> None:
    """An isolated node knows a pass of its learner, from the first step on, over the samples since it came back."""
    experiment = described({"name": "isolated", "as_published": True}, clock=FORGETFUL, rounds=60)
    engine, anew = engine_of(experiment), dict.fromkeys(GRAPH, 0)
    for now in range(experiment.rounds):
        before = {agent.node: agent.samples for agent in engine.blocks[0].agents}
        engine.run(1)
        anew |= {agent.node: before[agent.node] for agent in engine.blocks[0].agents if returns(agent, now)}
    assert len(set(anew.values())) > 2
    sources = open_network(experiment).source.nodes
    for agent, source in zip(engine.blocks[0].agents, sources, strict=True):
        points, targets = source.draw(agent.samples)
        state = agent.learner.init(1, 1)
        passes.learn(agent.learner, state, points[anew[agent.node] :], targets[anew[agent.node] :])
        np.testing.assert_array_equal(agent.function.arrays()["weights"], state.function.weights)


@pytest.mark.parametrize("protocol", ["consensus", "proximity"])
def test_who_comes_back_keeps_neither_messages_nor_duals(protocol: str) -> None:
    experiment = described({"name": protocol, "form": "one_sided"}, clock=FORGETFUL, links={"on_missing": "repeat"})
    engine, seen = engine_of(experiment), 0
    for now in range(ROUNDS):
        engine.run(1)
        engine.snapshot()  # so that the agents have what is kept of them
        for agent in engine.blocks[0].agents:
            if returns(agent, now):
                seen += 1
                assert len(agent.memory["lossy.drawn"]) <= 3  # two drawn before it left, and one that follows
                assert agent.function.order <= 1 + len(agent.neighbors)  # a late answer adds a point
                assert (agent.inbox.arrays["inbox.heads"][:, 2] >= agent.now - 1).all()
                duals = agent.duals()
                assert duals is None or (duals <= 0.3 * agent.tally.constraint_values.max(initial=1.0)).all()
    assert seen > 5


def test_vectors_begin_anew_too() -> None:
    learner = {"name": "random_features", "features": 16, "step_size": DIMINISHING}
    experiment = described("diffusion", learner=learner, clock=FORGETFUL, links={"loss": 0.3})
    engine, seen = engine_of(experiment), 0
    for now in range(ROUNDS):
        engine.run(1)
        for agent in engine.blocks[0].agents:
            if returns(agent, now):
                seen += 1
                assert agent.learner.eta(agent.state) == pytest.approx(DIMINISHING["initial"] / (1 + 1 / 10.0))
    assert seen > 5


@pytest.mark.parametrize("protocol", ["diffusion", "gradient_tracking"])
def test_vectors_begin_anew_with_the_same_bits_in_blocks_and_resumed(protocol: str) -> None:
    learner = {"name": "random_features", "features": 16, "step_size": DIMINISHING}
    links = {"delay": {"name": "between", "longest": 2}, "on_missing": "repeat", "trigger": {"threshold": 0.01}}
    experiment = described(protocol, learner=learner, clock=FORGETFUL, links=links)
    assert_the_same_from_snapshots(experiment, (17,), 23, [[0, 1], [2, 3, 4]])


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
