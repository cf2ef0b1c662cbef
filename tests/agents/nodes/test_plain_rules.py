"""Protocols of vectors in plain Python: compiled rounds ask them where the formulas do, on all links."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import Experiment, SimulationError, simulate
from kernelswarm.agents.learners.linear import Linear
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.running.network import open_network
from tests.helpers.failures import assert_interrupted, raised_alike
from tests.helpers.halves import Halves
from tests.helpers.plain_parts import Marked, PlainPowers
from tests.helpers.plain_rules import (
    Momentum,
    PlainDiffusion,
    PlainDkla,
    PlainDomkl,
    PlainGradientTracking,
    PlainMomentum,
)
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
)
from tests.helpers.unreliable_vectors import GrownError
from tests.helpers.unreliable_vectors import Network as Reference
from tests.simulations.engine import test_counts_of_vectors as counted
from tests.simulations.engine.test_counts_of_points import ROUNDS
from tests.simulations.engine.test_data_that_end import BLOCKS, EACH, GRAPH
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table

RULES = {
    "own": PlainMomentum(),
    "own, explicit": PlainMomentum(step="explicit"),
    "own, early": PlainMomentum(early=True),
    "diffusion": PlainDiffusion(combination="adaptive"),
    "diffusion, averages first": PlainDiffusion(order="combine_then_adapt"),
    "gradient tracking": PlainGradientTracking(),
    "dkla": PlainDkla(penalty=0.01),
    "domkl": PlainDomkl(),
}
OWN = pytest.mark.parametrize("rule", ["own", "own, early", "gradient tracking"])


def network(rule: str, case: str = "both", links: str = "ideal", **tables: Any) -> Experiment:
    with_features = rule if rule in ("dkla", "domkl") else "diffusion"
    return replace(counted.network({"name": with_features}, case, links, **tables), protocol=RULES[rule])


@pytest.mark.parametrize(("rule", "case", "links"), counted.in_turn(RULES))
def test_they_are_asked_where_the_formulas_say(rule: str, case: str, links: str) -> None:
    experiment = network(rule, case, links)
    counted.held(experiment, ROUNDS)
    assert_the_same_however_cut(experiment, ROUNDS, BLOCKS, *([EACH] if rule == "own" else []))


@counted.ON_ALL_LINKS
@OWN
def test_a_network_goes_on_from_a_checkpoint(rule: str, links: str) -> None:
    if rule == "own, early":
        rule = "own, explicit"  # what moves before it speaks is evaluated anew where a network goes on
    assert_the_same_from_snapshots(network(rule, "both", links), (3, 10), 14, BLOCKS)


@counted.ON_ALL_LINKS
@OWN
def test_the_same_tables_where_nodes_have_names(rule: str, links: str) -> None:
    names = dict(zip(GRAPH, ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"), strict=True))
    graph = nx.relabel_nodes(nx.cycle_graph(6), names)
    node = [{"nodes": ["Ben", "Eve"], "learner": {"batch_size": 3}}]
    assert_the_same_tables(network(rule, "both", links, topology=graph, node=node))


@pytest.mark.parametrize(("bands", "links"), counted.BANDS)
@OWN
def test_bands_follow_what_was_said_before_each_step(rule: str, bands: str, links: str) -> None:
    evaluation = {"level": 0.9, "bands": bands, "local_samples": 20, "global_samples": 20}
    experiment = network(rule, "both", links, evaluation=evaluation)
    if bands == "conformal":
        counted.held(experiment, (1, 12, 20))
    wanted = assert_the_same_however_cut(experiment, (1, 12, 20), BLOCKS)
    assert sum("band" in name for _, name in wanted) == len(GRAPH)


@pytest.mark.parametrize("batch", [1, 3])
@OWN
def test_rows_without_a_target_are_rounds_in_which_a_node_sleeps(rule: str, batch: int) -> None:
    counted.held(of_rows(table(), RULES[rule], {"name": "linear", "batch_size": batch, "step_size": 0.1}), (7, 60))


@counted.ON_ALL_LINKS
@OWN
def test_a_learner_in_plain_python_as_well(rule: str, links: str) -> None:
    powers = PlainPowers(step_size=Constant(0.05), regularization=0.01, batch_size=2)
    experiment = replace(network(rule, "ends", links), learner=powers)
    counted.held(experiment, (1, 2, 5, 12))
    assert_the_same_however_cut(experiment, (1, 2, 5, 12), BLOCKS)


def failing(method: str, way: str, links: str) -> Experiment:
    learner = {"kernel": {"name": "gaussian", "bandwidth": 0.3}}  # "auto" would look at the samples before
    tables = {"stream": Marked(), "evaluate_every": 10, "rounds": 40, "node": [], "learner": learner}
    experiment = network("own", "sizes", links, **tables)
    return replace(experiment, protocol=PlainMomentum(failing=(method, way)))


@pytest.mark.parametrize("links", ["ideal", "lossy"])
@pytest.mark.parametrize("method", ["adapt", "receive"])
def test_what_a_protocol_raises_is_raised_with_the_node_and_the_round(method: str, links: str) -> None:
    message = raised_alike(failing(method, "raises", links), Halves(6), Halves(2))
    round = 11 if method == "receive" else 10  # the samples are seen when the round before ends
    assert message.startswith(f"node 2 failed in round {round}: LookupError: there is no such key (plain_parts.py")


@pytest.mark.parametrize("links", ["ideal", "lossy"])
@pytest.mark.parametrize("method", ["adapt", "receive"])
def test_an_interrupted_protocol_ends_the_round_and_the_engine_can_be_closed(method: str, links: str) -> None:
    assert_interrupted(lambda: failing(method, "interrupts", links), 9)  # the mark is of round 11


@dataclass(frozen=True)
class Growing(PlainMomentum):
    """A protocol whose vectors grow."""

    def send(self, state: Momentum) -> Any:
        sent = super().send(state)
        return sent if state.rounds < 5 else np.append(sent, 1.0)


def test_a_vector_of_another_length_is_refused_with_the_node_and_the_round() -> None:
    with pytest.raises(SimulationError) as failure:
        simulate(replace(network("own"), protocol=Growing()))
    size = RULES["own"].begin(open_network(network("own")).plans[0].neighborhood, np.zeros((5, 1))).sent.size
    words = f"Growing.send returned an array of shape ({size + 1},), and ({size},) is asked for"
    assert "failed in round 5" in str(failure.value) and words in str(failure.value)


def test_divergence_is_said_of_the_node_and_the_round_that_the_formulas_say() -> None:
    linear = Linear(step_size=Constant(3.0), regularization=0.0)
    experiment = replace(network("own, explicit", "sizes", node=[]), learner=linear)
    with pytest.raises(GrownError) as wanted:
        Reference(experiment).run(2000)
    with pytest.raises(DivergenceError) as caught:
        Block(open_network(experiment).plans).run(2000)
    assert str(caught.value).startswith(f"{wanted.value}: lower learner.step_size = 3")


def test_what_stands_at_addresses_goes_with_the_population() -> None:
    block = Block(open_network(network("own", "sizes")).plans)
    block.run(9)
    gone = weakref.ref(block._population)
    del block
    gc.collect()
    assert gone() is None


def digest() -> str:
    """What nodes learn in a few rounds."""
    experiment = replace(network("own", "both", "lossy"), rounds=6, evaluate_every=6)
    return str(simulate(experiment).summary["digest"])


def test_a_protocol_where_nothing_is_compiled(uncompiled: Callable[[str], str]) -> None:
    assert uncompiled(f"from {__name__} import digest; print(digest())").strip() == digest()


def test_protocols_that_rounds_call_are_named() -> None:
    assert in_python([], PlainMomentum()) == "the protocol PlainMomentum"
    assert in_python([], PlainDomkl()) == "the protocol PlainDomkl"
