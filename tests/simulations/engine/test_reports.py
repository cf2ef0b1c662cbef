"""A report changes nothing: who measures twice reads the same twice, and the rounds after it are summed anew."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

LOSSY = {"links": {"loss": 0.3, "delay": 1}, "clock": {"name": "bernoulli", "probability": 0.7}}
FEATURES = {"name": "random_features", "features": 5, "batch_size": 2}
KINDS: dict[str, dict[str, Any]] = {
    "evaluations": {"protocol": "proximity"},
    "evaluations on unreliable links": {"protocol": "proximity", **LOSSY},
    "vectors": {"protocol": "diffusion", "learner": FEATURES},
    "vectors on unreliable links": {"protocol": "diffusion", "learner": FEATURES, **LOSSY},
    "vectors with duals": {"protocol": "dkla", "learner": FEATURES},
    "copies": {"protocol": "stacking"},
    "copies on unreliable links": {"protocol": "stacking", **LOSSY},
}
ROUNDS = 6


def engine_of(kind: str, blocks: Sequence[Sequence[int]] = ((0, 1), (2, 3))) -> tuple[SerialEngine, Any]:
    tables = {"topology": {"name": "ring", "nodes": 4}, "stream": "sine_regression", **KINDS[kind]}
    network = open_network(Experiment.from_dict({"learner": {"name": "polk", "batch_size": 2}, **tables}))
    parts = [[network.plans[place] for place in block] for block in blocks]
    return SerialEngine(parts), network.source.nodes[0].held_out(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_says_the_same_twice_and_is_of_the_rounds_since_the_one_before(kind: str) -> None:
    often, held_out = engine_of(kind)
    once, _ = engine_of(kind)
    for _ in range(2):
        often.run(ROUNDS)
        once.run(ROUNDS)
        wanted = vars(once.report(held_out))
        first = vars(often.report(held_out))
        learned = often.functions()
        np.testing.assert_equal(first, wanted)
        np.testing.assert_equal(vars(often.report(held_out)), wanted)
        kept = copy.deepcopy(learned)
        often.run(1)
        once.run(1)
        np.testing.assert_equal(learned, kept)  # of nodes that went on
    assert np.isfinite(wanted["figures"]["progressive_risk"]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_progressive_risks_of_parts_make_up_that_of_the_whole(kind: str) -> None:
    whole, held_out = engine_of(kind)
    whole.run(2 * ROUNDS)
    parts, losses, samples = engine_of(kind)[0], np.zeros(4), np.zeros(4)
    for _ in range(2):
        parts.run(ROUNDS)
        for _ in range(2):
            figures = parts.report(held_out).figures
        fresh = figures["samples"] - samples
        losses += fresh * np.nan_to_num(figures["progressive_risk"])
        samples += fresh
    wanted = whole.report(held_out).figures["progressive_risk"]
    np.testing.assert_allclose(losses / samples, wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_blocks_is_that_of_the_whole(kind: str) -> None:
    whole, held_out = engine_of(kind, ((0, 1, 2, 3),))
    whole.run(ROUNDS)
    wanted = whole.report(held_out)
    assert wanted.nodes.tolist() == [0, 1, 2, 3]
    assert wanted.edges["target"].tolist() == [1, 3, 0, 2, 1, 3, 0, 2]  # of a ring
    for blocks in (((2, 0), (3, 1)), ((3,), (0, 2), (1,))):
        parts, _ = engine_of(kind, blocks)
        parts.run(ROUNDS)
        np.testing.assert_equal(vars(parts.report(held_out)), vars(wanted))
