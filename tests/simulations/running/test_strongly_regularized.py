"""A regularisation that holds functions near 0 is said, with one that does not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import STRONGLY_REGULARIZED

X = np.random.default_rng(0).uniform(size=(600, 1))
Y = np.sin(6.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=600)


def learned(unit: float, **learner: Any) -> Result:
    keys: dict[str, Any] = {
        "topology": {"name": "ring", "nodes": 3},
        "protocol": "isolated",
        "rounds": 150,
        "evaluate_every": 150,
    }
    literal = {"standardize": False}
    return simulate(data=(X, unit * Y), stream=literal, learner={"name": "polk", **learner}, **keys)


def error(result: Result) -> float:
    found = result.final["error"]
    assert found is not None
    return found


def test_the_advice_makes_an_absolute_loss_learn_in_every_unit() -> None:
    usual, large = learned(1.0, loss="absolute"), learned(1e6, loss="absolute")
    assert STRONGLY_REGULARIZED not in usual.verdict
    advised = re.search(r"set it to (\S+?),", large.verdict[STRONGLY_REGULARIZED])
    assert advised is not None
    assert error(large) > 3e12 * error(usual)
    mended = learned(1e6, loss="absolute", regularization=float(advised[1]))
    assert STRONGLY_REGULARIZED not in mended.verdict
    assert error(mended) == pytest.approx(1e12 * error(usual), rel=0.02)


@pytest.mark.parametrize(("strength", "is_said"), [(1e-6, False), (0.19, False), (0.21, True)])
def test_of_the_squared_loss_it_is_said_from_a_tenth_of_twice_the_deviation_on(strength: float, is_said: bool) -> None:
    """r = 2 s, so that lambda s / r is half of lambda, in every unit."""
    for unit in (1e-3, 1e4):
        assert (STRONGLY_REGULARIZED in learned(unit, regularization=strength).verdict) == is_said


def test_learners_without_the_key_are_left_in_peace() -> None:
    assert STRONGLY_REGULARIZED not in learned(1e6, name="rls").verdict
