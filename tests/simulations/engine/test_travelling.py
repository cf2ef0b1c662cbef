"""Samples that are lost or late on their way to the centralized learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import passes
from kernelswarm.protocols.links.realization import LOST, Realization
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.pooled import links_of
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.testing.networks import plain_plans
from tests.helpers.same_bits import assert_the_same_from_snapshots

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
EVERYTHING = {
    "loss": 0.2,
    "delay": {"name": "between", "longest": 3},
    "max_age": 2,
    "quantization": {"bits": 9},
    "noise": {"scale": 0.1, "on": "both"},
    "clip": {"values": 0.8},
    "bandwidth": 2.0,
}


def described(links: Any, batch: int = 2, **tables: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "rounds": 40,
            "evaluate_every": 10,
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "split": "patches"},
            "learner": {
                "name": "polk",
                "step_size": {"name": "diminishing", "initial": 0.3, "offset": 20.0},
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 0.2},
                "budget": {"epsilon": 0.02},
            },
            "protocol": {"name": "centralized", "as_published": True},
            "links": links,
            **tables,
        }
    )


def test_it_is_a_pass_over_the_samples_that_arrive() -> None:
    """In each round those of the round ``delay`` ago, node by node, that are not lost."""
    experiment = described({"loss": 0.4, "delay": 3})
    network = open_network(experiment)
    pool = network.plans[0].source
    realization = Realization(pool.conditions, np.array(sorted(GRAPH)), links_of(sorted(GRAPH)))
    sources = open_network(experiment).source.nodes
    drawn = [[source.draw(2) for source in sources] for _ in range(37)]
    assert realization.look(36) == 36  # all these rounds are in sight
    arrive = [drawn[now][i] for now in range(37) for i in range(4) if realization.deliveries[i, now] != LOST]
    assert 0.4 < len(arrive) / (4 * 37) < 0.8
    state = experiment.learner.init(1, 1)
    passes.learn(experiment.learner, state, *map(np.concatenate, zip(*arrive, strict=True)))
    found = simulate(experiment)
    np.testing.assert_array_equal(found.models["weights_0"], state.function.weights)
    last = {name: column[-1] for name, column in found.network.items()}
    assert last["messages"] == 160 and last["delivered"] == len(arrive) and last["late"] == 0
    assert last["lost"] + last["waiting"] == 160 - len(arrive) and 0 < last["waiting"] <= 12
    assert last["bytes_sent"] == 160 * 2 * 2 * 8


@pytest.mark.parametrize("clock", [{}, {"name": "churn", "leaves": 0.2, "returns": 0.4}], ids=["awake", "churn"])
@pytest.mark.parametrize("averaged", [True, False])
def test_restored_it_goes_on_with_the_same_bits(averaged: bool, clock: dict[str, Any]) -> None:
    protocol = {"name": "centralized", "averaged": averaged}
    experiment = described(EVERYTHING, protocol=protocol, **({"clock": clock} if clock else {}))
    assert_the_same_from_snapshots(experiment, (17,), 23)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("split", ["patches", "ends"])
def test_compiled_functions_have_the_bits_of_methods(averaged: bool, split: str, tmp_path: Path) -> None:
    """Where samples come unevenly, and where a node's data end."""
    tables: dict[str, Any] = {"protocol": {"name": "centralized", "averaged": averaged}}
    if split == "ends":
        table = np.random.default_rng(0).normal(size=(200, 2))
        nodes = np.repeat(sorted(GRAPH), [40, 70, 60, 30])
        np.savez(tmp_path / "rows.npz", x=table[:, :1], y=table[:, 1:], node=nodes)
        tables["stream"] = {"name": "file", "path": str(tmp_path / "rows.npz"), "node_column": "node"}
    links, clock = {**EVERYTHING, "bandwidth": 4.0}, {"name": "churn", "leaves": 0.2, "returns": 0.4}
    experiment = described(links, clock=clock, **tables)
    found = []
    for plain in (False, True):
        network = open_network(experiment)
        block = Block(plain_plans(network.plans) if plain else network.plans)
        for rounds in (1, 1, 9, 14, 15):
            block.run(rounds)
        report = block.report(network.source.nodes[0].held_out(0))
        found.append((block.functions()[0].arrays, report.figures))
    assert found[0][0]["weights"].any()
    np.testing.assert_equal(found[0], found[1])


@pytest.mark.parametrize("links", [EVERYTHING, {"loss": 1.0}, {"bandwidth": 1.0}], ids=["all", "lost", "narrow"])
def test_every_message_is_accounted_for(links: dict[str, Any]) -> None:
    result = simulate(described(links))
    rows, samples = result.network, result.nodes["samples"]
    assert (rows["messages"] == rows["delivered"] + rows["lost"] + rows["late"] + rows["waiting"]).all()
    assert rows["messages"][-1] > 0
    # A mini-batch that arrives beside another waits for its turn.
    assert samples.reshape(-1, 4).sum(axis=1)[-1] <= 2 * rows["delivered"][-1]
    if links == {"loss": 1.0}:
        assert samples[-1] == 0 and rows["lost"][-1] == 160
    if links == {"bandwidth": 1.0}:  # 4 scalars: one message in four rounds
        assert rows["messages"][-1] == pytest.approx(40, abs=4) and rows["lost"][-1] == 0


def test_links_that_need_places_are_refused() -> None:
    for loss in ("distance", "edge"):
        with pytest.raises(InputError, match=r"the one learner has no location"):
            open_network(described({"loss": loss}))
    with pytest.raises(InputError, match=r"bandwidth = 0.1 .* raise it to 39"):
        open_network(described({"bandwidth": 0.1}))


def test_check_says_what_comes() -> None:
    links = {"loss": 0.25, "quantization": {"bits": 8}}
    lines = {one.title: dict(one.lines) for one in examine(described(links, clock={"name": "cyclic", "period": 2}))}
    text = "0.25 of the messages to the one learner lost, 0 rounds late on average, 8 bytes each instead of 32"
    assert lines["links and clock"] == {"links": text, "clock": "nodes awake in 0.5 of the rounds"}
    assert lines["experiment"]["execution"] == "compiled rounds"
    assert simulate(described(links)).network["bytes_sent"][-1] == 160 * 8
