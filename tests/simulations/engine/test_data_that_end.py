"""Nodes whose data have ended go on in arrays, with the bits of parts that are asked by their methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import pytest

from kernelswarm.agents.nodes.population import Population
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.contracts.specimens import SIZES
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.pairs import in_pairs
from tests.helpers.same_bits import assert_the_same_from_snapshots, assert_the_same_tables, changed_by, engine_in

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5)])
ROWS = (31, 12, 17, 12, 24, 8)
"""Two nodes end together, and whole batches of three in some: with them partial ones are run too."""
BLOCKS = [[0, 2, 5], [1, 3, 4]]
EACH = [[place] for place in range(6)]
RULES: dict[str, dict[str, Any]] = {
    "one-sided": {"name": "consensus", "penalty": 2.0, "form": "one_sided"},
    "symmetric": {"name": "consensus", "penalty": 2.0},
    "one-sided, explicit": {"name": "consensus", "penalty": 0.2, "form": "one_sided", "step": "explicit"},
    "symmetric, explicit": {"name": "consensus", "penalty": 0.2, "step": "explicit"},
    "adaptive": {"name": "proximity", "gamma": {"name": "adaptive", "scale": 1.5}},
    "adaptive, one-sided": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "one_sided"},
    "proximity, explicit": {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "step": "explicit"},
    "isolated": {"name": "isolated"},
}
IN_TURN = pytest.mark.parametrize(("rule", "batch"), [(rule, (1, 3)[place % 2]) for place, rule in enumerate(RULES)])
POLK = {"step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.3}, "budget": {"epsilon": 0.01}}


def described(rule: str, batch: int = 1, learner: str = "polk", rows: Any = ROWS, **tables: Any) -> Experiment:
    keys = {"step_size": 0.1, **SIZES[learner], **(POLK if learner == "polk" else {}), "batch_size": batch}
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": Ending(rows, "markov_reward" if learner == "policy_evaluation" else "sine_regression"),
            "learner": {"name": learner, **keys, **tables.pop("keys", {})},
            "protocol": RULES[rule],
            "rounds": 100,
            "evaluate_every": 7,
            **tables,
        }
    )


def rounds_of(experiment: Experiment) -> int:
    return -(-max(ROWS) // experiment.learner.batch_size)


def stages(experiment: Experiment, *engines: SerialEngine) -> Iterator[None]:
    """Live through an experiment's rounds, with a stop after each few."""
    for _ in range(0, rounds_of(experiment), 4):
        for engine in engines:
            engine.run(4)
        yield


@pytest.mark.parametrize(("rule", "batch"), [*((rule, 1) for rule in RULES), ("isolated", 3)])
def test_the_same_bits_in_all_blocks_and_by_methods(rule: str, batch: int) -> None:
    """The other rules with batches of three: test_counts_of_points.py."""
    experiment = described(rule, batch)
    single = engine_in(experiment, plain=True)
    cuts = [engine_in(experiment, blocks) for blocks in (None, BLOCKS, EACH)]
    for _ in stages(experiment, single, *cuts):
        wanted = changed_by(single)
        assert all(same(changed_by(arrays), wanted) for arrays in cuts)


@IN_TURN
def test_the_same_digests_and_tables(rule: str, batch: int) -> None:
    assert_the_same_tables(described(rule, batch))


FORMS = ("symmetric", "one-sided")
LEARNERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in SIZES),
    ("colk", {"pairs": "sliding"}),
    ("colk", {"tracking": "average"}),
]


def turns(first: int) -> list[tuple[str, dict[str, Any], str]]:
    """Return every learner with its keys and one of two forms in turn: with the other one where something differs."""
    return [(*learner, FORMS[(place + first) % 2]) for place, learner in enumerate(LEARNERS)]


@pytest.mark.parametrize(("learner", "keys", "rule"), turns(1), ids=str)
def test_every_learner_keeps_its_bits(learner: str, keys: dict[str, Any], rule: str) -> None:
    """In the other form with replayed points and batches of two sizes: test_counts_of_points.py."""
    experiment = described(rule, 2, learner, keys=keys)
    arrays, single = engine_in(experiment), engine_in(experiment, plain=True)
    for _ in stages(experiment, arrays, single):
        pass
    assert same(changed_by(arrays), changed_by(single))


def test_the_same_arrays_last_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    begin = Population.__init__
    monkeypatch.setattr(Population, "__init__", lambda new, agents: (found.append(len(agents)), begin(new, agents))[1])
    experiment = described("symmetric")
    engine_in(experiment).run(rounds_of(experiment))
    assert found == [6]


@in_pairs(rule=["symmetric", "one-sided", "adaptive"], batch=[1, 3], at=[3, 5, 9])
def test_a_network_goes_on_from_a_checkpoint(rule: str, batch: int, at: int) -> None:
    """Before a node's data end, between two ends, and while batches in flight are not whole."""
    experiment = described(rule, batch)
    assert_the_same_from_snapshots(experiment, (at,), rounds_of(experiment) - at, BLOCKS, EACH, plain=True)


@IN_TURN
def test_data_may_end_before_the_network_is_primed(rule: str, batch: int) -> None:
    experiment = described(rule, batch, rows=(30, 1, 16, 3, 1, 8))
    single = engine_in(experiment, plain=True)
    engines = [engine_in(experiment, blocks) for blocks in (None, BLOCKS, EACH)]
    for rounds in (2, 3, 5):
        single.run(rounds)
        for engine in engines:
            engine.run(rounds)
            assert same(changed_by(engine), changed_by(single))


def test_samples_that_are_put_back_do_not_pile_up() -> None:
    experiment = described("symmetric")
    engine = engine_in(experiment)
    for _ in stages(experiment, engine):
        for agent in engine.blocks[0].agents:
            source: Any = agent.source
            depth = 0
            while hasattr(source, "left"):
                source, depth = source.source, depth + 1
            assert depth <= 1
