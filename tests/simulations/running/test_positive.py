"""Targets below all functions of a learner: said with the remedy that fits the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import TARGETS_BELOW_ZERO

X = np.random.default_rng(0).uniform(size=(300, 1))
WAVE = np.sin(6.0 * X[:, 0])


def learned(y: Any, learner: Any = "spppot", **stream: Any) -> Result:
    topology = {"name": "ring", "nodes": 3}
    return simulate(
        topology=topology,
        data=(X, y),
        stream=stream,
        learner=learner,
        protocol="isolated",
        rounds=40,
        evaluate_every=40,
    )


def test_positive_targets_that_were_centred_are_to_keep_their_values() -> None:
    text = learned(2.0 + WAVE).verdict[TARGETS_BELOW_ZERO]
    assert "where no function of this learner is: set stream.standardize_targets = false" in text
    assert TARGETS_BELOW_ZERO not in learned(2.0 + WAVE, standardize_targets=False).verdict


def test_targets_on_both_sides_ask_for_another_learner() -> None:
    for standardize in (True, False):
        text = learned(WAVE, standardize=standardize).verdict[TARGETS_BELOW_ZERO]
        assert "take a learner whose functions may be negative" in text


@pytest.mark.parametrize("learner", ["polk", {"name": "spppot", "mirror_map": "squared_norm"}])
def test_learners_of_any_sign_are_left_in_peace(learner: Any) -> None:
    assert TARGETS_BELOW_ZERO not in learned(WAVE, learner).verdict


def test_a_function_that_begins_at_one_has_not_grown_beside_small_targets() -> None:
    """f = exp(0) = 1 errs by a million million times the variance of targets of a millionth."""
    result = learned(1e-6 * (2.0 + WAVE), standardize=False)
    assert not result.failed
    assert "worse_than_constant" in result.verdict
