"""Nodes with copies of their learner live in arrays: in blocks, from snapshots, to the end of their data."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import node, population, stacked_population
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.simulations.data.contract import HeldOut, Source
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.same_bits import assert_the_same_from_snapshots, assert_the_same_however_cut, states_after
from tests.helpers.stacked_network import StackedNetwork, assert_as_the_formulas_say

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
ONE, TWO = [[0, 1, 2, 3, 4]], [[0, 3], [1, 2, 4]]
GAUSSIAN = {"name": "gaussian", "bandwidth": 0.4}
POLK = {"name": "polk", "batch_size": 2, "kernel": GAUSSIAN, "budget": {"epsilon": 0.05}}
NUMBERS = {"stream": {"name": "sine_regression", "noise": 0.3}}
CLASSES = {
    "stream": {"name": "gaussian_mixture", "classes": 3},
    "learner": {"name": "random_features", "loss": "multiclass_logistic", "features": 12, "kernel": GAUSSIAN},
}

REPLAY = {"protocol": {"name": "stacking", "replay": 2}}
LATE = {
    "loss": 0.2,
    "delay": {"name": "between", "longest": 4},
    "max_age": 3,
    "damping": 0.3,
    "quantization": {"bits": 8},
    "on_missing": "repeat",
}
ASLEEP = {"name": "bernoulli", "probability": 0.6}
LOSSY = {
    "loss": {"links": {"loss": 0.3}},
    "late": {"links": LATE},
    "asleep": {"links": {"delay": 1}, "clock": ASLEEP},
    "churn without memory": {
        "links": {"delay": {"name": "between", "longest": 3}, "on_missing": "repeat"},
        "clock": {"name": "churn", "leaves": 0.2, "returns": 0.4, "memory": False},
    },
    "directed": {"topology": nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 5), (0, 2)])},
}
EVERY_LINK = pytest.mark.parametrize("links", [{}, LATE], ids=["ideal", "lossy"])
ROBUST = [{"protocol": {"name": "stacking", "robust": robust}} for robust in ("trust", "median")]


def experiment(**tables):
    evaluation = {"local_samples": 20, "global_samples": 20}
    keys = {"topology": GRAPH, "protocol": {"name": "stacking"}, "learner": POLK, "evaluation": evaluation}
    return Experiment.from_dict({**keys, **NUMBERS, **tables, "rounds": 40, "evaluate_every": 40})


def assert_the_same(description, rounds, rests=False):
    """Hold two blocks to one, and both, where they rest, to one that never does."""
    assert_the_same_however_cut(description, rounds, TWO)
    if rests:
        assert_the_same_from_snapshots(description, (rounds[0], sum(rounds[:2])), rounds[-1], TWO)


@pytest.mark.parametrize(
    "tables",
    [NUMBERS, CLASSES, REPLAY, *ROBUST],
    ids=["numbers", "classes", "replay", "trust", "median"],
)
def test_blocks_have_the_bits_of_one(tables):
    assert_the_same(experiment(**tables), (1, 7, 20))


@pytest.mark.parametrize("rule", [{}, {"replay": 2}], ids=str)
@pytest.mark.parametrize("mix", LOSSY)
def test_blocks_have_the_bits_of_one_on_unreliable_links(mix, rule):
    assert_the_same(experiment(protocol={"name": "stacking", **rule}, **LOSSY[mix]), (1, 7, 20))


@pytest.mark.parametrize("tables", ROBUST, ids=["trust", "median"])
def test_copies_that_defend_themselves_are_mixed_as_the_formulas_say(tables):
    assert_as_the_formulas_say(experiment(**tables), (20,))


@pytest.mark.parametrize("tables", [{}, {**REPLAY, "links": LATE}, LOSSY["churn without memory"]], ids=str)
def test_same_bits_between_rests(tables):
    assert_the_same(experiment(**tables), (3, 8, 5), rests=True)


@dataclass(frozen=True)
class Rows:
    """A sine in noise, so many rows at each node."""

    def open(self, nodes, seed, held_out, locations):
        random, rows = np.random.default_rng(seed), (17, 15, 18, 16, 17)
        sources = []
        for count in rows:
            x = random.uniform(size=(count + 5, 1))
            y = np.sin(6 * x)
            sources.append(FiniteSource(x[:count], y[:count], HeldOut(x[count:], y[count:]), 1))
        return Source(1, 1, None, sources, lengths=list(rows))


@EVERY_LINK
@pytest.mark.parametrize("replay", [0, 1])
def test_nodes_that_run_dry(replay, links):
    described = experiment(stream=Rows(), protocol={"name": "stacking", "replay": replay}, links=links)
    assert_as_the_formulas_say(described, (5, 6, 10))
    assert_the_same(described, (5, 6))


@pytest.mark.parametrize("tables", [{}, {"links": LATE, "clock": ASLEEP}], ids=["ideal", "lossy"])
@pytest.mark.parametrize("largest", [0.15, 0.2, 0.25, 0.3, 0.4])
def test_what_grows_without_bound_is_found_at_the_node_and_in_the_round_that_the_formulas_say(
    largest, tables, monkeypatch
):
    for module in (node, population, stacked_population):
        monkeypatch.setattr(module, "DIVERGED", largest)
    wanted = StackedNetwork(experiment(**tables))
    wanted.diverged = largest
    expected = wanted.first_to_grow(40)
    for blocks in (ONE, TWO) if not tables else (ONE,):
        with pytest.raises(node.DivergenceError) as caught:
            states_after(experiment(**tables), (40,), blocks)
        assert str(caught.value).split(": lower")[0] == expected.split(": lower")[0]


class Others(Stacking):
    """A user's own, which may weigh copies in another way."""


def test_what_is_not_handed_over_is_named():
    assert in_python([], Stacking(0.1, 1.0)) is None
    assert in_python([], Others(0.1, 1.0)) == "the protocol Others"
