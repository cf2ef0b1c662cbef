"""Targets in units that a loss does not suit: said, and true of what is learned; not said elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelswarm import KernelRegressor, PolkRegressor
from kernelswarm.agents.parts.losses import Absolute, Huber, Logistic, Loss, Squared
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import LOSS_IN_OTHER_UNITS, loss_units

X = np.random.default_rng(0).uniform(size=(450, 1))
Y = np.column_stack([np.sin(6.0 * X[:, 0]), np.cos(6.0 * X[:, 0])])


def learned(targets: Any, learner: dict[str, Any], **stream: Any) -> Result:
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 3}, "protocol": "isolated", "rounds": 100}
    return simulate(data=(X, targets), stream=stream, learner=learner, evaluate_every=100, **keys)


def test_one_step_for_targets_of_two_sizes_drowns_the_smaller() -> None:
    units, learner = np.array([1.0, 1e-3]), {"name": "polk", "loss": "absolute"}
    literal, scaled = learned(Y * units, learner, standardize=False), learned(Y * units, learner)
    assert LOSS_IN_OTHER_UNITS in literal.verdict
    assert LOSS_IN_OTHER_UNITS not in scaled.verdict
    errors = [np.mean((run.model(0).predict(X) / units - Y) ** 2, axis=0)[1] for run in (literal, scaled)]
    assert errors[0] > 1.0 > 0.5 > errors[1]


@pytest.mark.parametrize(
    ("loss", "units", "is_said"),
    [
        (Squared(), (1.0, 1e6), False),
        (Absolute(), (1.0, 20.0), False),
        (Absolute(), (1e6, 1e6), False),
        (Absolute(), (1.0, 0.0), False),
        (Absolute(), (1.0, 50.0), True),
        (Huber(), (1.0, 1.0), False),
        (Huber(), (1e3, 1e3), True),
        (Huber(1e3), (1e3, 1e3), False),
        (Huber(), (1.0, 1e-6), False),  # quadratic where errors are below the threshold
        (Logistic(), (1.0, 1e6), False),
    ],
)
def test_it_is_said_of_losses_that_have_a_unit(loss: Loss, units: tuple[float, float], is_said: bool) -> None:
    assert bool(loss_units(loss, Y * np.array(units))) == is_said


def test_estimators_say_it_too_and_which_column_is_worse_than_its_mean() -> None:
    with pytest.warns(ConvergenceWarning, match="deviations of the targets go from .* scale y"):
        PolkRegressor(loss="absolute").fit(X, Y * [1.0, 1e-3])
    with pytest.warns(ConvergenceWarning, match="threshold = 1 is .* of the targets' deviation"):
        KernelRegressor(loss="huber").fit(X, 1e6 * Y[:, 0])
    with pytest.warns(ConvergenceWarning, match=r"regularization = 1e-06 holds functions down.*: set it to"):
        PolkRegressor(loss="absolute").fit(X, 1e6 * Y[:, 0])
    outliers = np.where(np.arange(450) % 50 == 0, 100.0, Y[:, 0])
    with pytest.warns(ConvergenceWarning, match=r'2\.0% of the values of "y" are far .*, loss = "absolute"'):
        KernelRegressor().fit(X, outliers)
    noise = np.random.default_rng(1).normal(size=450)
    with pytest.warns(ConvergenceWarning, match="the error of column 1 of y on the training data"):
        PolkRegressor(step_size=0.9, bandwidth=0.05, budget=0.01).fit(X, np.column_stack([10.0 * Y[:, 0], noise]))
