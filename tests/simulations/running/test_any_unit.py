"""Own data with names alone: the result is the same in whatever unit, and better than a constant."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate

random = np.random.default_rng(0)
# Eighths stay what they are when 2^30 is added to them, and many of them are equally far apart, or equal.
X = np.round(random.normal(size=(240, 2)) * 8) / 8
Y = np.round((np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]) * 8) / 8
FAR = 2.0**30
UNITS: dict[str, tuple[Any, Any, float, float]] = {
    "as they are": (1.0, 0.0, 1.0, 0.0),
    "1e-9": (1e-9, 0.0, 1e-9, 0.0),
    "1e9": (1e9, 0.0, 1e9, 0.0),
    "far from 0": (1.0, [FAR, -FAR], 1.0, FAR),
    "inputs of units 1e6 apart, targets in pascal": ([1e-3, 1e3], 0.0, 300.0, 101_325.0),
    "fahrenheit": (1.8, 32.0, 1.8, 32.0),
    "last bits": (1.0, 0.0, 1.0, 0.0),
}
"""What inputs and targets are multiplied by, and what is added; "last bits" moves a third of the numbers by one."""

STRANGEST = {"far from 0", "inputs of units 1e6 apart, targets in pascal", "last bits"}
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


def ran(unit: str, learner: Any, protocol: Any = "consensus", **keys: Any) -> Result:
    inputs, added, targets, moved = UNITS[unit]
    x, y = X * inputs + added, Y * targets + moved
    if unit == "last bits":
        x, y = (np.where(np.arange(z.size).reshape(z.shape) % 3, z, np.nextafter(z, np.inf)) for z in (x, y))
    usual = {"topology": {"name": "ring", "nodes": 3}, "rounds": 64, "evaluate_every": 64}
    return simulate(
        data=(x, y),
        learner=learner,
        protocol=protocol,
        **{**usual, "evaluation": {"rkhs_distance": False}, **keys},
    )


def check_every_unit(learner: Any, protocol: Any, units: Set[str] = UNITS.keys(), **keys: Any) -> None:
    first = ran("as they are", learner, protocol, **keys).final
    assert (first["risk"] or np.inf) < 0.995 * (first["constant_risk"] or 0.0)
    for unit in units - {"as they are"}:
        found = ran(unit, learner, protocol, **keys).final
        exact = 1e-12
        if unit == "far from 0":
            exact = 1e-4  # 2^30 leaves the numbers some 7 digits beside their own scale; least squares lose a few more
            assert found["risk"] == pytest.approx(first["risk"], rel=exact)
        else:
            for name in ("risk", "disagreement", "model_order"):
                assert found[name] == first[name], (unit, name)
        assert found["rmse"] == pytest.approx((first["rmse"] or 0.0) * UNITS[unit][2], rel=exact)


@pytest.mark.parametrize("learner", [name for name in PARTS["learner"] if name != "policy_evaluation"])
def test_every_learner_by_its_name_errs_the_same_in_every_unit(learner: str) -> None:
    check_every_unit(learner, "consensus", STRANGEST)


@pytest.mark.parametrize("protocol", PARTS["protocol"])
def test_every_protocol_by_its_name_errs_the_same_in_every_unit(protocol: str) -> None:
    check_every_unit(
        "raker" if protocol == "domkl" else "random_features" if protocol in FEATURES else "polk", protocol, STRANGEST
    )


REPLAY = {"name": "consensus", "replay": 1}
LOSSY = {"links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}}}
CHURN = {"clock": {"name": "churn", "leaves": 0.2, "returns": 0.3, "memory": False}, "links": {"on_missing": "repeat"}}
PATCHES = {"stream": {"split": "patches"}}
NETWORKS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "replay": ("polk", REPLAY, {}),
    "replay at a rate, lossy links": ("newton", {**REPLAY, "replay": 0.4}, LOSSY),
    "certainty, churn": ("krls", {**REPLAY, "certainty": 4.0, "penalty": 10.0}, CHURN),
    "proximity, replay, mini-batches": ({"name": "polk", "batch_size": 4}, {"name": "proximity", "replay": 2}, LOSSY),
    "patches, budget": ("bsgd", REPLAY, PATCHES),
    "nearest places": ("polk", "consensus", {"topology": {"name": "nearest_neighbors", "nodes": 9}, **PATCHES}),
    "sorted, seen again": ("qklms", REPLAY, {"stream": {"split": "sorted", "epochs": 3}}),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_what_nodes_keep_of_each_other_is_the_same_in_every_unit(network: str) -> None:
    learner, protocol, keys = NETWORKS[network]
    # Far from 0 all bits of a point differ, and so does its rank.
    check_every_unit(learner, protocol, UNITS.keys() - {"far from 0"}, **keys)


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
