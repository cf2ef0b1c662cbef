"""A step at what neighbours ask alone moves the function, and nothing that is made of samples of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.experiment.parts import build
from tests.contracts.specimens import SIZES

TRACKED, SUBSPACE = "center previous_points previous_weights", "points basis gram image recency fits visits"
RESIDUAL = "residual_points residual_weights residual_factor residual_precision"
SMALL = {"budget": {"epsilon": 0.001}}
RISK: dict[str, Any] = {**SMALL, "dispersion_weight": 0.01}
OWN: dict[str, tuple[dict[str, Any], str]] = {
    "colk": (RISK, TRACKED),
    "colk, sliding": ({**RISK, "pairs": "sliding"}, f"{TRACKED} kept_points kept_targets"),
    "policy_evaluation": ({**SMALL, "tracking_budget": {"epsilon": 0.001}, "tracking_rate": 0.2}, RESIDUAL),
    "okfe": ({}, SUBSPACE),
    "okfeb": ({"subspace_update": "parametric", "recency": 0.9, "censoring": "threshold"}, SUBSPACE),
    "multi_kernel": (SMALL, "losses"),
    "newton": (SMALL, "noise"),
    "krls": ({}, "noise"),
    "rls": ({}, "noise"),
}


@pytest.mark.parametrize("name", OWN)
def test_a_step_without_own_samples_leaves_alone_what_they_make(name: str) -> None:
    keys, kept = OWN[name]
    kind = name.partition(",")[0]
    learner: Any = build("learner", {"name": kind, "step_size": 0.1, "batch_size": 2, **SIZES[kind], **keys})
    generator, state = np.random.default_rng(0), learner.init(2, 1)
    for _ in range(15):
        own = learner.evaluate(state, generator.normal(size=(2, 2)))
        targets = generator.normal(size=(2, 1))
        learner.step(state, [own], [learner.gradient(state, own, targets)], None, targets)
    before, values = learner.snapshot(state), own.values.copy()
    neighbors = [learner.evaluate(state, generator.normal(size=(3, 2))) for _ in range(2)]
    learner.step(state, neighbors, [np.ones((3, 1))] * 2, None, np.zeros((0, 1)))
    after = learner.snapshot(state)
    for key in kept.split():
        np.testing.assert_array_equal(after[key], before[key], err_msg=key)
    assert not np.array_equal(learner.evaluate(state, own.points).values, values)
