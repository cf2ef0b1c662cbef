"""Nodes with batches of different sizes, of different numbers of rows, and with a rate of replay are in arrays from the
first round to the last, with the bits of parts that are asked by their methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.halves import Halves
from tests.helpers.plain_parts import PlainConsensus, PlainGaussian, PlainSquared
from tests.helpers.same_bits import (
    assert_equal_tables,
    assert_the_same_from_snapshots,
    changed_by,
    engine_in,
    states_after,
)
from tests.simulations.engine.test_data_that_end import BLOCKS, EACH, GRAPH, described, turns

LARGER = [{"nodes": [1, 4], "learner": {"batch_size": 3}}, {"nodes": [2], "learner": {"batch_size": 2}}]
ROWS = (31, 20, 17, 12, 26, 8)
"""As ``LARGER`` has them, in batches of three, of two and one by one, most end in rounds 7 to 12, and two of them
together; three have a last batch that is not whole, and the first node goes on alone."""
ROUNDS = (1, 1, 2, 5, 8, 18)
"""After each of them states are compared; in the last all data have ended."""
RATE = {"replay": 0.4, "replay_buffer": 7}
RULES: dict[str, dict[str, Any]] = {
    "one-sided": {"name": "consensus", "penalty": 2.0, "form": "one_sided"},
    "symmetric": {"name": "consensus", "penalty": 2.0},
    "one-sided, explicit": {"name": "consensus", "penalty": 0.2, "form": "one_sided", "step": "explicit"},
    "symmetric, explicit": {"name": "consensus", "penalty": 0.2, "step": "explicit"},
    "proximity": {"name": "proximity", "gamma": {"name": "adaptive", "scale": 1.5}},
    "proximity, one-sided": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "one_sided"},
    "proximity, explicit": {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "step": "explicit"},
    "robust": {"name": "consensus", "penalty": 2.0, "robust": "trust"},
    "trimmed": {"name": "proximity", "robust": "trimmed"},
    "stacking": {"name": "stacking"},
}
EVERY_RULE = pytest.mark.parametrize("rule", RULES)
CASES: dict[str, dict[str, Any]] = {
    "sizes": {"node": LARGER, "rows": (400,) * 6},
    "ends": {"batch": 3},
    "rate": {"rule": RATE, "batch": 2, "rows": (400,) * 6},
    "all": {"node": LARGER, "rule": RATE},
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)
ENDS_AND_ALL = pytest.mark.parametrize("case", ["ends", "all"])
"""What is alike at all nodes and ends, and all at once; every rule is tried with each case by itself as well."""


def network(rule: str, case: str, learner: str = "polk", **tables: Any) -> Experiment:
    chosen = {**CASES[case], **tables}
    stream = Ending(chosen.pop("rows", ROWS), "sine_regression")
    protocol = {**RULES[rule], **chosen.pop("rule", {})}
    batch = chosen.pop("batch", 1)
    return described("symmetric", batch, learner, **{"stream": stream, "protocol": protocol, **chosen})


def assert_the_same_bits(
    experiment: Experiment, rounds: tuple[int, ...], cuts: Sequence[Any]
) -> dict[tuple[int, str], Any]:
    """Assert that compiled functions have the bits of the methods beside them however nodes are cut into blocks;
    returns what rounds changed in the end."""
    wanted = states_after(experiment, rounds, plain=True)
    for blocks in cuts:
        for one, other in zip(states_after(experiment, rounds, blocks), wanted, strict=True):
            assert same(one, other)
    last: dict[tuple[int, str], Any] = wanted[-1]
    return last


def assert_same_tables(experiment: Experiment, nodes: int) -> None:
    """Assert that a run in threads and blocks has the digest and the tables of its ``nodes`` in one, by methods."""
    wanted = simulate(replace(experiment, backend=Halves(nodes, plain=True)))
    for backend in (Serial(threads=1), Serial(threads=3), Halves(2)):
        assert_equal_tables(simulate(replace(experiment, backend=backend)), wanted)


@EVERY_CASE
@EVERY_RULE
def test_the_same_bits_in_all_blocks_and_by_methods(rule: str, case: str) -> None:
    assert_the_same_bits(network(rule, case), ROUNDS, (None, BLOCKS, EACH))


@pytest.mark.parametrize(("replay", "alone"), [(0.4, -1), (0.4, 9), (1, -1), (3, 9)])
@pytest.mark.parametrize("rule", ["one-sided", "symmetric", "stacking"])
def test_a_node_without_neighbors_replays_nothing(rule: str, replay: float, alone: int) -> None:
    """First or last of the nodes: it has no buffer, and the others have theirs."""
    graph = nx.Graph(GRAPH)
    graph.add_node(alone)
    protocol = {**RULES[rule], "replay": replay, "replay_buffer": 7}
    experiment = described("symmetric", 2, protocol=protocol, topology=graph, stream="sine_regression")
    found = states_after(experiment, (3, 14))
    for blocks, plain in ((None, True), ([[0, 1, 2], [3, 4, 5, 6]], False)):
        assert same(states_after(experiment, (3, 14), blocks, plain), found)


def turns_but_transitions(first: int) -> list[tuple[str, dict[str, Any], str]]:
    """Return every learner and form in turn, but for what learns from pairs of transitions."""
    return [turn for turn in turns(first) if turn[0] != "policy_evaluation"]


@pytest.mark.parametrize(("learner", "keys", "rule"), turns_but_transitions(0), ids=str)
def test_every_learner_keeps_its_bits(learner: str, keys: dict[str, Any], rule: str) -> None:
    sizes = [{"nodes": [1, 4], "learner": {"batch_size": 4}}]  # even, for learners of pairs
    experiment = network(rule, "all", learner, keys=keys, batch=2, node=sizes)
    assert same(states_after(experiment, (22,)), states_after(experiment, (22,), plain=True))


def test_pairs_of_transitions_keep_their_bits_where_data_end() -> None:
    for rule in ("symmetric", "one-sided"):
        experiment = described(rule, 4, "policy_evaluation", rows=ROWS)
        assert same(states_after(experiment, (12,)), states_after(experiment, (12,), plain=True))


@ENDS_AND_ALL
@pytest.mark.parametrize("learner", ["krls", "newton", "rls"])
def test_certainty_keeps_its_bits(learner: str, case: str) -> None:
    experiment = network("symmetric", case, learner)
    certain = replace(experiment, protocol=replace(experiment.protocol, certainty=2.0))
    assert_the_same_bits(certain, (1, 20), (None, BLOCKS))


@ENDS_AND_ALL
def test_plain_python_keeps_its_bits(case: str) -> None:
    own = {"kernel": PlainGaussian(0.3), "loss": PlainSquared()}
    for rule in (RULES["one-sided"], RULES["symmetric"], PlainConsensus(0.3)):
        experiment = network("symmetric", case, keys=own)
        if isinstance(rule, PlainConsensus):
            if case == "all":
                continue  # it knows of no replay
            experiment = replace(experiment, protocol=rule)
        assert same(states_after(experiment, (3, 11)), states_after(experiment, (3, 11), plain=True))


@pytest.mark.parametrize("case", ["ends", "all"])
@pytest.mark.parametrize("rule", ["one-sided, explicit", "symmetric", "isolated"])
def test_learners_in_plain_python_keep_their_bits(rule: str, case: str) -> None:
    if rule == "isolated":
        experiment = described("isolated", 3, "multi_kernel", rows=ROWS)
    else:
        experiment = network(rule, case, "multi_kernel")
    arrays, single = engine_in(experiment), engine_in(experiment, plain=True)
    arrays.run(45)
    single.run(45)
    assert same(changed_by(arrays), changed_by(single))
    if rule == "one-sided, explicit":  # nothing is kept for steps that nodes without data will not take
        asked = [
            node
            for form in {id(form): form for form in arrays.blocks[0]._population._forms}.values()
            for node in form._nodes
        ]
        assert max(len(node.evaluated) for node in asked) < 50


@ENDS_AND_ALL
@pytest.mark.parametrize("rule", ["symmetric", "one-sided, explicit", "proximity", "stacking"])
def test_a_network_goes_on_from_a_checkpoint(rule: str, case: str) -> None:
    experiment = network(rule, case)
    assert_the_same_from_snapshots(experiment, (3, 9), 10, BLOCKS, plain=True)


@ENDS_AND_ALL
@pytest.mark.parametrize("rule", ["symmetric", "one-sided", "stacking"])
def test_the_same_digests_and_tables(rule: str, case: str) -> None:
    experiment = replace(network(rule, case), rounds=33)
    assert_same_tables(experiment, 6)


@ENDS_AND_ALL
@pytest.mark.parametrize("bands", ["conformal", "pooled"])
def test_bands_keep_their_bits(bands: str, case: str) -> None:
    experiment = network("symmetric", case, evaluation={"bands": bands, "local_samples": 20, "global_samples": 20})
    assert_the_same_bits(experiment, (1, 20), (None, BLOCKS))


def test_matrix_products_begin_with_the_step_that_is_on_enough_points() -> None:
    """Steps on eight points and more, with dictionaries of 128 and more, are other arithmetic to newton."""
    sizes = [{"nodes": [0, 2, 4], "learner": {"batch_size": 2}}]
    rule = {"name": "consensus", "penalty": 0.5, "replay": 0.5}
    experiment = described(
        "symmetric",
        3,
        "newton",
        protocol=rule,
        node=sizes,
        stream={"name": "sine_regression", "noise": 0.3},
        keys={"kernel": {"name": "laplacian", "bandwidth": 0.05}, "budget": {"epsilon": 0.0}},
    )
    arrays, single = engine_in(experiment), engine_in(experiment, plain=True)
    for _ in range(6):
        arrays.run(5)
        single.run(5)
        assert same(changed_by(arrays), changed_by(single))
    assert max(agent.function.order for agent in arrays.blocks[0].agents) > 150


def test_the_graph_has_nodes_of_several_degrees() -> None:
    assert {degree for _, degree in GRAPH.degree} == {1, 2, 3}
    assert isinstance(engine_in(network("symmetric", "all")), SerialEngine)
