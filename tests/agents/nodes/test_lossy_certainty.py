"""Variances on unreliable links travel alike in one block and in several, compiled and by methods, to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import pytest

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.link_mixes import GRAPH, NOTHING
from tests.helpers.plain_parts import shaken
from tests.helpers.same_bits import assert_the_same_from_snapshots, states_after
from tests.simulations.engine.test_certainty_on_unreliable_links import BLOCKS, KINDS, LEARNERS, described
from tests.simulations.engine.test_counts_of_points import (
    assert_same_tables,
)

EACH = [[place] for place in range(5)]
STOPS = 1, 1, 3, 25
LATE = {"loss": 0.2, "delay": {"name": "between", "longest": 3}}
MIXES: dict[str, dict[str, Any]] = {
    "late, kept, forgotten": {
        "links": {**LATE, "on_missing": "repeat", "damping": 0.1, "trigger": {"threshold": 0.02}},
        "clock": {"name": "churn", "leaves": 0.2, "returns": 0.4, "memory": False},
    },
    "late, asleep": {"links": LATE, "clock": {"name": "bernoulli", "probability": 0.7}},
}
ALONE = nx.Graph(GRAPH)
ALONE.add_node(9)
SHAPES: dict[str, dict[str, Any]] = {
    "a rate of replay": {"replay": 0.4},
    "sizes that differ": {"node": [{"nodes": [0, 2], "learner": {"batch_size": 3}}]},
    "a node alone": {"topology": ALONE},
    "data that end": {"stream": Ending((9, 4, 40, 17, 26), "sine_regression"), "replay": 0},
    "nodes without data": {"node": [{"nodes": [1, 5], "data": False}]},
    "three outputs": {
        "stream": {"name": "gaussian_mixture", "classes": 3, "split": "label_skew"},
        "learner": {"name": "newton", "loss": "multiclass_logistic", "kernel": {"name": "gaussian"}, "batch_size": 2},
    },
    "replayed points in buffers that overflow": {"replay": 2, "replay_buffer": 5},
}


def network(kind: str, shape: str = "", **tables: Any) -> Experiment:
    """Return a network on links of a kind with points of a shape."""
    asked = {"learner": LEARNERS["newton"], **SHAPES.get(shape, {}), **tables}
    keys = {key: asked.pop(key) for key in ("replay", "replay_buffer") if key in asked}
    rule = {"name": "consensus", "penalty": 5.0, "replay": 1, "certainty": 3.0, **keys}
    return described(**{"protocol": rule, **({**KINDS, **MIXES}[kind]), **asked})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_bits_in_all_blocks_and_by_methods(learner: str, kind: str) -> None:
    experiment = network(kind, learner=LEARNERS[learner])
    wanted = states_after(experiment, STOPS, plain=True)
    for blocks in (None, BLOCKS, EACH):
        assert same(states_after(experiment, STOPS, blocks), wanted)


@pytest.mark.parametrize("kind", MIXES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_whatever_is_sent(shape: str, kind: str) -> None:
    experiment = network(kind, shape)
    wanted = states_after(experiment, STOPS, plain=True)
    alone = [[5]] if shape == "a node alone" else []
    for blocks in (None, BLOCKS + alone):
        assert same(states_after(experiment, STOPS, blocks), wanted)


@pytest.mark.parametrize("kind", ["late and lost", *MIXES])
def test_it_goes_on_from_snapshots(kind: str) -> None:
    """Messages on their way keep their variances, from arrays to arrays."""
    assert_the_same_from_snapshots(network(kind, "sizes that differ"), (2, 7, 15), 11, BLOCKS, plain=True)


def test_runs_in_threads_and_blocks_have_one_table() -> None:
    assert_same_tables(network("late, asleep"), 5)


@dataclass(frozen=True)
class PlainRls(Rls):
    """Least squares in plain Python, whose last bits depend on how many points are in a call."""

    def evaluate(self, state: Any, points: Array) -> Evaluated:
        found = super().evaluate(state, points)
        return found._replace(values=shaken(found.values))

    def inner(self, state: Any, at: Evaluated) -> Array:
        return shaken(super().inner(state, at))


@pytest.mark.parametrize("links", [{}, NOTHING, {**LATE, "on_missing": "repeat"}], ids=["ideal", "lossless", "late"])
def test_a_learner_in_plain_python_is_taught(links: dict[str, Any]) -> None:
    own = PlainRls(kernel=Gaussian(0.15), features=30, batch_size=2)
    experiment = described(20, own, links=links)
    wanted = states_after(experiment, STOPS, plain=True)
    for blocks in (None, BLOCKS):
        assert same(states_after(experiment, STOPS, blocks), wanted)
    untaught = described(20, own, 0.0, links=links)
    assert not same(states_after(untaught, STOPS), wanted)
