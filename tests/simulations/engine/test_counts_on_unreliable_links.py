"""On links and by clocks that are not ideal, nodes are in arrays from the first round after priming to the last: with
batches of any size, data that end, gaps and a rate of replay, with the bits of parts that are asked by methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.same_bits import assert_the_same_from_snapshots, changed_by, engine_in
from tests.simulations.engine.test_counts_of_points import (
    ENDS_AND_ALL,
    RATE,
    RULES,
    assert_same_tables,
    assert_the_same_bits,
)
from tests.simulations.engine.test_data_that_end import described
from tests.simulations.engine.test_rounds_without_samples import described as described_with_gaps
from tests.simulations.engine.test_rounds_without_samples import table

BLOCKS = [[0, 3], [1], [2, 4]]
LARGER = [{"nodes": [1, 7], "learner": {"batch_size": 3}}, {"nodes": [2], "learner": {"batch_size": 2}}]
ROWS = (28, 22, 17, 12, 8)
"""Of the nodes with batches of three the first has a last batch of one sample, and the other's end first, with two."""
ROUNDS = (1, 1, 2, 5, 8, 13)
"""After each of them states are compared; in the last all data have ended."""
CASES: dict[str, dict[str, Any]] = {
    "sizes": {"node": LARGER, "rows": (400,) * 5},
    "ends": {"batch": 3},
    "rate": {"rule": RATE, "batch": 2, "rows": (400,) * 5},
    "all": {"node": LARGER, "rule": RATE},
}


def network(rule: str, case: str, mix: str, learner: str = "polk", **tables: Any) -> Experiment:
    chosen = {"topology": GRAPH, **CASES[case], **MIXES[mix], **tables}
    schedule, batch = chosen.pop("schedule", None), chosen.pop("batch", 1)
    stream = Ending(chosen.pop("rows", ROWS), "sine_regression")
    protocol = {**RULES[rule], **chosen.pop("rule", {})}
    found = described("symmetric", batch, learner, **{"stream": stream, "protocol": protocol, **chosen})
    return found if schedule is None else replace(found, schedule=schedule)


def assert_same_everywhere(experiment: Experiment, rounds: tuple[int, ...] = ROUNDS) -> dict[tuple[int, str], Any]:
    """In one block and in three, and only priming is agent by agent; returns the last state."""
    return assert_the_same_bits(experiment, rounds, (None, BLOCKS))


@pytest.mark.parametrize("mix", MIXES)
def test_the_same_bits_whatever_links_do(mix: str) -> None:
    """With sizes that differ and a rate of replay as well: test_pooled_bands_keep_their_bits."""
    assert_same_everywhere(network("symmetric", "ends", mix))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", RULES)
def test_the_same_bits_under_every_protocol(rule: str, case: str) -> None:
    """Each protocol and each case on links of both kinds, in turn; ensembles where messages may be late."""
    place = list(RULES).index(rule) + list(CASES).index(case)
    mixes = ("bursts kept", "faulty") if rule == "stacking" else ("churn without memory", "everything")
    assert_same_everywhere(network(rule, case, mixes[place % 2]))


@pytest.mark.parametrize("mix", ["bursts kept", "long delay", "rounded", "churn", "failures", "faulty"])
def test_ensembles_have_the_same_bits(mix: str) -> None:
    """With sizes that differ and a rate of replay as well: test_pooled_bands_keep_their_bits."""
    assert_same_everywhere(network("stacking", "ends", mix))


def test_ensembles_that_begin_anew_have_the_same_bits() -> None:
    clock = {"name": "churn", "leaves": 0.2, "returns": 0.3, "memory": False}
    links = {"delay": {"name": "between", "longest": 3}, "on_missing": "repeat"}
    for case in ("ends", "all"):
        assert_same_everywhere(network("stacking", case, "loss", clock=clock, links=links))


@pytest.mark.parametrize("rule", ["one-sided", "symmetric", "proximity"])
def test_data_may_end_before_the_network_is_primed(rule: str) -> None:
    for rows in ((30, 1, 16, 3, 1), (1, 30, 1, 2, 9)):
        for case in ("ends", "all"):
            assert_same_everywhere(network(rule, case, "delay", rows=rows), (1, 2, 6, 6))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rule", ["isolated", "one-sided", "symmetric", "proximity", "stacking"])
def test_rounds_without_samples_have_the_same_bits(rule: str, batch: int) -> None:
    protocol = {"name": "isolated"} if rule == "isolated" else {**RULES[rule], **RATE}
    learner = {"name": "polk", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.3}, "batch_size": batch}
    links = {"loss": 0.2, "delay": {"name": "between", "longest": 2}}
    experiment = described_with_gaps(table(), protocol, learner, links=links)
    assert_the_same_bits(experiment, (5, 20, 20), (None, [[0, 2], [1, 3]]))


@ENDS_AND_ALL
@pytest.mark.parametrize("rule", ["one-sided, explicit", "symmetric"])
def test_learners_in_plain_python_keep_their_bits(rule: str, case: str) -> None:
    experiment = network(rule, case, "churn without memory", "multi_kernel")
    arrays, single = engine_in(experiment), engine_in(experiment, plain=True)
    arrays.run(25)
    single.run(25)
    assert same(changed_by(arrays), changed_by(single))


@ENDS_AND_ALL
@pytest.mark.parametrize("rule", ["symmetric", "one-sided, explicit", "proximity", "stacking"])
def test_a_network_goes_on_from_a_checkpoint(rule: str, case: str) -> None:
    experiment = network(rule, case, "rounded" if rule == "stacking" else "everything")
    assert_the_same_from_snapshots(experiment, (3, 10), 10, BLOCKS, plain=True)


@ENDS_AND_ALL
@pytest.mark.parametrize("rule", ["symmetric", "one-sided", "stacking"])
def test_the_same_digests_and_tables(rule: str, case: str) -> None:
    experiment = replace(network(rule, case, "long delay"), rounds=29)
    assert_same_tables(experiment, 5)


@ENDS_AND_ALL
@pytest.mark.parametrize("mix", ["delay", "asleep", "churn without memory", "everything"])
def test_conformal_bands_keep_their_bits(mix: str, case: str) -> None:
    evaluation = {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20}
    experiment = network("symmetric", case, mix, evaluation=evaluation)
    wanted = assert_same_everywhere(experiment)
    assert any(name == "band" and array.any() for (_, name), array in wanted.items())


POOLED = {"level": 0.9, "bands": "pooled", "local_samples": 20, "global_samples": 20}


OF_VALUES_ALONE = {"noise", "clip", "trigger", "bandwidth"}
"""What ensembles refuse of links."""
OF_ENSEMBLES = [mix for mix, tables in MIXES.items() if not OF_VALUES_ALONE & set(tables.get("links", ()))]


@pytest.mark.parametrize(
    ("rule", "mix"), [("symmetric", mix) for mix in MIXES] + [("stacking", mix) for mix in OF_ENSEMBLES]
)
def test_pooled_bands_keep_their_bits(rule: str, mix: str) -> None:
    experiment = network(rule, "all", mix, evaluation=POOLED)
    wanted = assert_same_everywhere(experiment)
    used = [array for (_, name), array in wanted.items() if name == "pooled.used"]
    assert len(used) == 5 and any((array >= 0).any() for array in used)


@pytest.mark.parametrize("rule", ["symmetric", "stacking"])
def test_pooled_bands_go_on_from_a_checkpoint(rule: str) -> None:
    experiment = network(rule, "all", "rounded" if rule == "stacking" else "everything", evaluation=POOLED)
    assert_the_same_from_snapshots(experiment, (3, 10), 10, BLOCKS, plain=True)


@pytest.mark.parametrize("replay", [0.4, 2])
@pytest.mark.parametrize("rule", ["one-sided", "symmetric"])
def test_a_node_without_neighbors_replays_nothing(rule: str, replay: float) -> None:
    graph = nx.Graph(GRAPH)
    graph.add_node(9)
    protocol = {**RULES[rule], "replay": replay, "replay_buffer": 7}
    experiment = network(rule, "sizes", "delay", topology=graph, rows=(60,) * 6)
    experiment = replace(experiment, protocol=build("protocol", protocol))
    assert_the_same_bits(experiment, (3, 14), (None, [[0, 1, 2], [3, 4, 5]]))


def test_steps_on_many_points_with_large_functions_are_matrix_products() -> None:
    """A message that comes after all makes a step one on eight points and more, which are other arithmetic to newton:
    whoever was on fewer before must not be in arrays then."""
    experiment = described(
        "symmetric",
        4,
        "newton",
        topology=GRAPH,
        protocol={"name": "consensus", "penalty": 0.5},
        links={"loss": 0.85},
        stream={"name": "sine_regression", "noise": 0.3},
        keys={"kernel": {"name": "laplacian", "bandwidth": 0.05}, "budget": {"epsilon": 0.0}},
        seed=5,
    )
    arrays, single = engine_in(experiment), engine_in(experiment, plain=True)
    for rounds in (20, 8, 1, 1, 5):
        arrays.run(rounds)
        single.run(rounds)
        assert same(changed_by(arrays), changed_by(single))
    assert max(agent.function.order for agent in arrays.blocks[0].agents) > 128
