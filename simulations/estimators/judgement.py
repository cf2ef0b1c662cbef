"""Warnings about a learned function of no use, judged on its training data."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.sample import spaced
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.suspicious import far_targets
from kernelswarm.simulations.estimators.rows import Samples, dense, thinned
from kernelswarm.simulations.records.model import evaluated
from kernelswarm.simulations.running.unsuited import ALONE, held_down, loss_units, reach

LOOKED_AT = 1000
"""Samples that are predicted."""

KEPT = 0.95
"""The share of the samples that stands for all of them."""

SMALL = 20
"""So few samples may all be kept without a word."""


def measured_in_units(loss: Loss) -> str:
    """Name the data whose unit can be changed: labels have none."""
    return "X and y" if loss.task == "regression" else "X"


def message(learner: Polk, function: Function, samples: Samples) -> str | None:
    """Return a warning about a function learned from samples, with the remedy, or None for sound functions."""
    order, count = function.order, samples.size
    counted = thinned(samples)
    chosen = counted.taken(spaced(counted.size, LOOKED_AT))
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
    errors, constants = _errors(found, chosen, learner.loss.task != "regression")
    worse = np.flatnonzero(errors > constants)
    unsuited = loss_units(learner.loss, chosen.targets)
    if unsuited:
        return f"{unsuited}: scale y (sklearn.preprocessing.StandardScaler)"
    strength = float(getattr(learner, "regularization", 0.0))  # that of second-order learners is a ridge, without unit
    down, less = held_down(strength, learner.loss, found.shape[1], chosen.targets)
    if down:
        return f"{down}: set it to {less:.1g}, or scale y (sklearn.preprocessing.StandardScaler)"
    columns = ["y"] if len(errors) == 1 else [f"column {place} of y" for place in range(len(errors))]
    if learner.loss.quadratic and learner.loss.task == "regression" and (far := far_targets(columns, chosen.targets)):
        return far.replace("learner.loss", "loss")
    if not len(worse):
        return None
    place = int(worse[np.argmax(errors[worse] / np.maximum(constants[worse], np.finfo(float).tiny))])
    which = "the error" if len(errors) == 1 else f"the error of column {place} of y"
    return (
        f"{which} on the training data, {errors[place]:.3g}, is worse than {constants[place]:.3g}, that of a constant "
        f"prediction: use more epochs, scale {measured_in_units(learner.loss)} (sklearn.preprocessing.StandardScaler), "
        "or lower step_size"
    )


def _errors(found: Array, samples: Samples, classes: bool) -> tuple[Array, Array]:
    """Return the errors of predictions and of the best constant: the share of wrong classes, or mean squares, (q,)."""
    targets, weights = samples.targets, samples.weights
    if classes:
        counts = np.unique(targets, return_inverse=True)[1].ravel()
        shares = np.bincount(counts, weights) / (samples.size if weights is None else weights.sum())
        wrong = np.average((found != targets)[:, :1], axis=0, weights=weights)
        return np.asarray(wrong), np.array([1.0 - float(shares.max())])
    center = np.average(targets, axis=0, weights=weights)
    error, constant = (np.average((values - targets) ** 2, axis=0, weights=weights) for values in (found, center))
    return np.asarray(error), np.asarray(constant)
