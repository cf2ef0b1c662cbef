"""Conformal bands in arrays follow what each node's function said of its samples before it learned from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.nodes.conformal_band import BANDED, follow
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.ending import Ending
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.same_bits import engine_in

POLK = {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.3}}
LATE = {"links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}}}
LEVEL, ROUNDS = 0.9, 40
CASES: dict[str, dict[str, Any]] = {
    "ideal": {},
    "lossy": LATE,
    "asleep": {**LATE, "clock": {"name": "bernoulli", "probability": 0.6}},
    "forgetful": MIXES["churn without memory"],
}


@pytest.mark.parametrize("replay", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_bands_follow_what_was_said_before_each_step(case: str, replay: int) -> None:
    experiment = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": Ending((31, 90, 17, 90, 40), "sine_regression"),
            "learner": POLK,
            "node": [{"nodes": [1, 5], "learner": {"batch_size": 2}}],
            "protocol": {"name": "consensus", "replay": replay},
            "evaluation": {"level": LEVEL, "bands": "conformal"},
            "rounds": ROUNDS,
            "evaluate_every": ROUNDS,
            **CASES[case],
        }
    )
    whole, watched = engine_in(experiment), engine_in(experiment)
    watched.run(1)
    before, bands = {}, {agent.node: agent.band.copy() for agent in watched.blocks[0].agents}
    for _ in range(ROUNDS - 1):
        watched.snapshot()  # which gives nodes what they learn from next
        for agent in watched.blocks[0].agents:
            values = agent.function.values(agent.points)
            if case == "forgetful" and agent.sent_at[1] != agent.now - 1:  # it begins anew when it wakes
                values = np.zeros_like(values)
            before[agent.node] = agent.round, values, agent.targets.copy()
        watched.run(1)
        for agent in watched.blocks[0].agents:
            rounds, values, targets = before[agent.node]
            if agent.round > rounds and len(targets):
                follow(bands[agent.node], values[: len(targets)], targets, LEVEL, agent.distinct, 1)
    whole.run(ROUNDS)
    assert all(band[0, BANDED] > 5 for band in bands.values())
    for agent in whole.blocks[0].agents:
        np.testing.assert_allclose(agent.band, bands[agent.node], rtol=1e-9)
