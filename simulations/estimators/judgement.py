"""What is to be said of a learned function that is of no use, as seen on the training data itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.sample import spaced
from kernelswarm.simulations.estimators.rows import Samples, dense
from kernelswarm.simulations.models.model import evaluated
from kernelswarm.simulations.observing.kernel_reach import ALONE, reach

Array = npt.NDArray[np.float64]

LOOKED_AT = 1000
"""Samples that are predicted."""

KEPT = 0.95
"""The share of the samples that stands for all of them."""

SMALL = 20
"""So few samples may all be kept without a word."""


def message(learner: Polk, function: Function, samples: Samples) -> str | None:
    """Say what is wrong with a function that was learned from samples, and what to do; None where nothing is."""
    order, count = function.order, samples.size
    chosen = samples.taken(spaced(count, LOOKED_AT))
    points = dense(chosen.points)
    reached = reach(learner.kernel, points)
    if not np.ptp(samples.targets, axis=0).any():
        return None  # of targets that are all alike there is nothing to learn
    if order == 0 and reached is None:
        epsilon = learner.budget.bound(learner.step_size.at(0), learner.budget.start(), learner.batch_size)
        return (
            f"nothing was learned: every step was smaller than the budget, eps = {epsilon:.3g} at first: lower "
            "budget, or raise step_size"
        )
    if order >= KEPT * count and count > SMALL:
        kept = f"all {count}" if order == count else f"{order} of {count}"
        return (
            f"{kept} samples were kept: the kernel is too narrow for them to tell of each other, or the "
            "budget too small: widen bandwidth, scale X (sklearn.preprocessing.StandardScaler), or raise budget"
        )
    if reached is not None:
        kind, automatic_keys = reached
        remedy = "widen" if kind == ALONE else "shorten"
        return f"{automatic_keys}: {remedy} bandwidth, or leave it at its default, which looks at the data"
    found = learner.loss.decide(evaluated(function, points))
    error, constant = _errors(found, chosen, learner.loss.task != "regression")
    if error <= constant:
        return None
    return (
        f"the error on the training data, {error:.3g}, is worse than {constant:.3g}, that of a constant "
        "prediction: use more epochs, scale X and y (sklearn.preprocessing.StandardScaler), or lower step_size"
    )


def _errors(found: Array, samples: Samples, classes: bool) -> tuple[float, float]:
    """Return the error of predictions and that of the best constant: the share of wrong classes, or the mean square."""
    targets, weights = samples.targets, samples.weights
    if classes:
        counts = np.unique(targets, return_inverse=True)[1].ravel()
        shares = np.bincount(counts, weights) / (samples.size if weights is None else weights.sum())
        return float(np.average((found != targets)[:, 0], weights=weights)), 1.0 - float(shares.max())
    center = np.average(targets, axis=0, weights=weights)
    squares = (np.mean((values - targets) ** 2, axis=1) for values in (found, center))
    error, constant = (float(np.average(square, weights=weights)) for square in squares)
    return error, constant
