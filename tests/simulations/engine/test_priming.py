"""The two rounds that prime a network fill its links: nobody learns in them, and nothing is counted."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.halves import plans_of
from tests.helpers.same_bits import assert_the_same_from_snapshots, engine_in

GRAPH = nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1))
BLOCKS = [[0, 2], [1, 3, 4]]
KERNEL = {"name": "gaussian", "bandwidth": 0.3}
FEATURES = {"name": "random_features", "features": 6, "kernel": KERNEL, "batch_size": 2}
LATE = {"links": {"loss": 0.3, "delay": 2}, "clock": {"name": "bernoulli", "probability": 0.7}}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consensus": {"protocol": {"name": "consensus", "replay": 0.5}},
    "proximity": {"protocol": "proximity"},
    "stacking": {"protocol": "stacking"},
    "dkla": {"protocol": "dkla", "learner": FEATURES},
    "gradient_tracking": {"protocol": "gradient_tracking", "learner": FEATURES},
}
EVERY_PROTOCOL = pytest.mark.parametrize("protocol", PROTOCOLS)
BOTH_LINKS = pytest.mark.parametrize("links", [{}, LATE], ids=["ideal", "late"])


def described(protocol: str, links: dict[str, Any]) -> Experiment:
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": "sine_regression",
            "learner": {"name": "polk", "step_size": 0.2, "kernel": KERNEL, "batch_size": 2},
            "rounds": 30,
            **PROTOCOLS[protocol],
            **links,
        }
    )


@BOTH_LINKS
@EVERY_PROTOCOL
def test_nobody_learns_and_nothing_is_counted(protocol: str, links: dict[str, Any]) -> None:
    plans = plans_of(described(protocol, links))
    block, fresh = Block(plans), [plan.build() for plan in plans]
    block.run(PRIMING)
    points = np.linspace(-1.0, 1.0, 7)[:, np.newaxis]
    for agent, new in zip(block.agents, fresh, strict=True):
        assert np.array_equal(agent.function.values(points), new.function.values(points))
        assert agent.round == agent.samples == agent.largest_target == 0
        sums = [getattr(agent.tally, name) for name in agent.tally.__slots__]
        assert not any(np.any(each) for each in sums if each is not None)


@BOTH_LINKS
@EVERY_PROTOCOL
def test_the_first_samples_are_learned_from_first(protocol: str, links: dict[str, Any]) -> None:
    plans = plans_of(described(protocol, links))
    block = Block(plans)
    block.run(PRIMING)
    taken = block.snapshot()
    for plan in plans_of(described(protocol, links)):
        first, second = (plan.source.draw(plan.learner.batch_size) for _ in range(2))
        arrays = taken[plan.neighborhood.node].arrays
        for name, drawn in (("points", first[0]), ("targets", first[1]), ("following_targets", second[1])):
            assert np.array_equal(arrays[name][: len(drawn)], drawn)


@BOTH_LINKS
@EVERY_PROTOCOL
def test_a_network_goes_on_from_what_primed_it(protocol: str, links: dict[str, Any]) -> None:
    """In one block, in several, and by methods."""
    assert_the_same_from_snapshots(described(protocol, links), (0,), 9, BLOCKS, plain=True)


@EVERY_PROTOCOL
def test_no_function_is_evaluated_for_a_snapshot(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_in(described(protocol, {}), plain=True)
    engine.run(3)
    asked: list[Any] = []
    learner = type(engine.blocks[0].agents[0].learner)
    monkeypatch.setattr(learner, "evaluate", lambda *given: asked.append(given))
    assert engine.snapshot().keys() == set(GRAPH) and not asked
