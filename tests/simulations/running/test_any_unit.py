"""Own data with names alone: the result is the same in whatever unit, and better than a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.records.target_units import amount
from kernelswarm.simulations.running.simulation import simulate

random = np.random.default_rng(0)
# Whole numbers over 1024 stay what they are when 2^30 is added to them.
X = np.round(random.normal(size=(240, 2)) * 1024) / 1024
Y = np.round((np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]) * 1024) / 1024
FAR = 2.0**30
UNITS: dict[str, tuple[Any, Any, float, float]] = {
    "as they are": (1.0, 0.0, 1.0, 0.0),
    "1e-9": (1e-9, 0.0, 1e-9, 0.0),
    "1e9": (1e9, 0.0, 1e9, 0.0),
    "far from 0": (1.0, [FAR, -FAR], 1.0, FAR),
    "inputs of units 1e6 apart, targets in pascal": ([1e-3, 1e3], 0.0, 300.0, 101_325.0),
}
"""What inputs and targets are multiplied by, and what is added."""

FEATURES = {
    "diffusion",
    "gradient_tracking",
    "diffusion_rls",
    "statistics",
    "drfgp",
    "dkla",
    "odkla",
    "multitask",
    "mocha",
    "ditto",
}
"""Protocols that send weights of shared features."""


def ran(unit: str, learner: str, protocol: str = "consensus", **keys: Any) -> Result:
    inputs, added, targets, moved = UNITS[unit]
    return simulate(
        data=(X * inputs + added, Y * targets + moved),
        topology={"name": "ring", "nodes": 3},
        learner=learner,
        protocol=protocol,
        **{"rounds": 64, "evaluate_every": 64, "evaluation": {"rkhs_distance": False}, **keys},
    )


def check_every_unit(learner: str, protocol: str) -> None:
    known = {unit: ran(unit, learner, protocol) for unit in UNITS}
    risks = {unit: result.final["risk"] or np.inf for unit, result in known.items()}
    first = known["as they are"].final
    assert risks["as they are"] < 0.995 * (first["constant_risk"] or 0.0)
    # 2^30 leaves the numbers some 7 digits beside their own scale; a solver of least squares loses a few more.
    assert risks == pytest.approx(dict.fromkeys(UNITS, risks["as they are"]), rel=1e-4)
    for unit, result in known.items():
        assert result.final["rmse"] == pytest.approx((first["rmse"] or 0.0) * UNITS[unit][2], rel=1e-4)


@pytest.mark.parametrize("learner", [name for name in PARTS["learner"] if name != "policy_evaluation"])
def test_every_learner_by_its_name_errs_the_same_in_every_unit(learner: str) -> None:
    check_every_unit(learner, "consensus")


@pytest.mark.parametrize("protocol", PARTS["protocol"])
def test_every_protocol_by_its_name_errs_the_same_in_every_unit(protocol: str) -> None:
    check_every_unit(
        "raker" if protocol == "domkl" else "random_features" if protocol in FEATURES else "polk", protocol
    )


def test_rewards_are_not_moved_without_a_word() -> None:
    with pytest.raises(InputError, match=r"set stream.standardize_targets = false"):
        ran("as they are", "policy_evaluation")
    assert not ran("as they are", "policy_evaluation", stream={"standardize_targets": False}).failed


def test_the_error_in_the_targets_own_unit_is_that_of_the_models() -> None:
    pascal = "inputs of units 1e6 apart, targets in pascal"
    inputs, added, targets, moved = UNITS[pascal]
    x, y = random.normal(size=(30, 2)), random.normal(size=30)
    tested = {"x": X, "y": Y, "node": np.arange(240) % 3, "x_test": x, "y_test": y, "node_test": np.arange(30) % 3}
    for key in ("x", "x_test"):
        tested[key] = tested[key] * inputs + added
    for key in ("y", "y_test"):
        tested[key] = tested[key] * targets + moved
    result = simulate(
        data=tested, topology={"name": "ring", "nodes": 3}, learner="polk", protocol="consensus", rounds=64
    )
    squares = [
        (result.model(node).predict(tested["x_test"][node::3]) - tested["y_test"][node::3]) ** 2 for node in range(3)
    ]
    assert result.final["rmse"] == pytest.approx(np.sqrt(np.mean(squares)))
    deviation, found = amount(float(np.std(tested["y"]))), amount(result.final["rmse"] or 0.0)
    for text in (repr(result), as_text(result)):
        assert "risk and error are shares of the variance of y" in text
        assert found in text and deviation in text


def test_literal_numbers_say_no_other_unit() -> None:
    result = ran("as they are", "polk", stream={"standardize": False})
    assert result.final["rmse"] == pytest.approx(np.sqrt(result.final["error"] or 0.0))
    assert "variance" not in repr(result) and "rmse" in repr(result)


def test_generated_data_have_no_unit_beside_their_own() -> None:
    result = simulate(
        topology={"name": "ring", "nodes": 3}, stream="sine_regression", learner="polk", protocol="isolated"
    )
    assert "rmse" not in result.final and "variance" not in as_text(result)


@pytest.mark.parametrize("learner", ["polk", "perceptron"])
@pytest.mark.parametrize("protocol", ["consensus", "proximity", "stacking"])
def test_literal_targets_as_small_as_they_come_are_learned(learner: str, protocol: str) -> None:
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 3}, "stream": {"standardize": False}, "rounds": 64}
    for unit in (1.0, 1e-150):  # whose dual step, by the absolute loss, would be the square of a number near 1e150
        result = simulate(data=(X, unit * Y), learner=learner, protocol=protocol, **keys)
        assert np.mean((result.model(0).predict(X) / unit - Y) ** 2) < 0.3 * Y.var()
