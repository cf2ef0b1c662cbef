"""Rounds on links and by clocks that are not ideal: nothing changes where nothing happens, and every message counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelswarm.protocols.links.arrivals import Bursts
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.same_bits import engine_after

ROUNDS = 40

PROTOCOLS: dict[str, dict[str, Any]] = {
    "isolated": {"name": "isolated"},
    "consensus": {"name": "consensus", "penalty": 3.0},
    "one-sided": {"name": "consensus", "penalty": 3.0, "form": "one_sided"},
    "published": {"name": "consensus", "penalty": 0.3, "as_published": True},
    "symmetric explicit": {"name": "consensus", "penalty": 0.3, "step": "explicit"},
    "proximity": {"name": "proximity"},
    "published proximity": {"name": "proximity", "gamma": 0.1, "dual_max": 1.0, "as_published": True},
}
VECTORS = ("diffusion", "gradient_tracking", "odkla")
FEATURES = {"name": "random_features", "features": 7}
POLK = {
    "name": "polk",
    "step_size": 0.3,
    "kernel": {"name": "gaussian", "bandwidth": 0.2},
    "budget": {"epsilon": 0.02},
    "batch_size": 2,
}


def described(protocol: str, schedule: Any = None, **tables: Any) -> Experiment:
    found = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": FEATURES if protocol in VECTORS else POLK,
            "protocol": PROTOCOLS.get(protocol, protocol),
            "rounds": ROUNDS,
            "evaluate_every": 10,
            **tables,
        }
    )
    return found if schedule is None else replace(found, schedule=schedule)


def learned(engine: SerialEngine) -> dict[int, dict[str, Any]]:
    found = {}
    for block in engine.blocks:
        for agent in block.agents:
            tally = agent.tally
            found[agent.node] = {
                **agent.function.arrays(),
                "gaps": tally.constraint_values,
                "violation": tally.violation,
                "traffic": tally.traffic,
                "counts": np.array([agent.samples, agent.round, tally.scalars_sent, tally.bytes_sent]),
                "sums": np.array([tally.loss, tally.compression_error]),
                "duals": agent.rule.duals(agent.links),
            }
    return found


def assert_same(left: dict[int, dict[str, Any]], right: dict[int, dict[str, Any]], *but: str) -> None:
    assert left.keys() == right.keys()
    for node in left:
        assert any(len(entry) for entry in left[node].values() if entry is not None)
        for name in left[node].keys() - set(but):
            np.testing.assert_array_equal(left[node][name], right[node][name], f"{name} of node {node}")


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


def test_the_delay_is_as_long_as_it_says():
    """With a constant delay of d rounds an answer comes 2 d rounds after its points, and couples them then."""
    rounds = 12
    experiment = described("consensus", links={"delay": 3}, rounds=rounds)
    engine = SerialEngine([open_network(experiment).plans])
    waiting = []
    for _ in range(rounds):
        engine.run(1)
        agents = engine.blocks[0].agents
        sent = sum(int(agent.tally.traffic[:, 0].sum()) for agent in agents)
        delivered = sum(int(agent.tally.traffic[:, 1].sum()) for agent in agents)
        waiting.append(sent - delivered)
    directed = 2 * GRAPH.number_of_edges()
    assert waiting[5:] == [directed * 4] * (rounds - 5)


@settings(max_examples=12)
@given(
    loss=st.floats(0.0, 1.0),
    delay=st.integers(0, 5),
    bits=st.sampled_from([1, 2, 8, 32, 64]),
    on_missing=st.sampled_from(["skip", "repeat"]),
    trigger=st.sampled_from([0.0, 0.01, 0.5]),
    bandwidth=st.sampled_from([float("inf"), 3.0, 1.0]),
    awake=st.floats(0.05, 1.0),
    clock=st.sampled_from(["bernoulli", "churn", "joining"]),
    protocol=st.sampled_from([*PROTOCOLS, *VECTORS]),
    seed=st.integers(0, 3),
)
def test_any_mix_is_the_same_in_any_blocks(
    loss, delay, bits, on_missing, trigger, bandwidth, awake, clock, protocol, seed
):
    experiment = described(
        protocol,
        seed=seed,
        links={
            "loss": loss,
            "delay": {"name": "between", "shortest": 0, "longest": delay},
            "quantization": {"bits": bits},
            "on_missing": on_missing,
            "trigger": {"threshold": trigger},
            "bandwidth": bandwidth,
        },
        clock={
            "bernoulli": {"name": "bernoulli", "probability": awake},
            "churn": {"name": "churn", "leaves": 1.0 - awake, "returns": 0.3, "memory": False},
            "joining": {"name": "joining", "within": 20},
        }[clock],
        rounds=25,
    )
    whole = learned(engine_after(experiment))
    assert_same(whole, learned(engine_after(experiment, [[0, 2], [1, 3, 4]], plain=True)))


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
    assert_same(learned(plain), learned(directed), "traffic")
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
