"""The weights of samples: what is given for them, and what a learner measured without them makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.estimators.rows import Samples, refuse_masked
from kernelswarm.simulations.streams.rows.rows import LARGEST

Array = npt.NDArray[np.float64]

FARTHEST = 1e30
"""How many times as heavy as a typical row one may be, so that squares of slopes times it are numbers. The lightest
count as this part of it."""

NO_WEIGHT = "all weights in sample_weight are zero: there is nothing to learn from"


def weights_of(sample_weight: Any, count: int) -> Array | None:
    """Return the weight of each of ``count`` rows; None where each is 1.

    Raises
    ------
    InputError
        When they are not as many as rows, or one is negative or no number.
    """
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:  # TypeError: of pandas.NA
        raise InputError(f"sample_weight holds something else than numbers ({error}): give one for each row") from error
    if weights.ndim == 0:
        weights = np.full(count, float(weights))
    if weights.shape != (count,):
        raise InputError(f"sample_weight has shape {weights.shape}: X has {count} rows, and each has one weight")
    wrong = ~((weights >= 0.0) & (weights <= LARGEST))
    if wrong.any():
        place = int(wrong.argmax())
        raise InputError(
            f"sample_weight[{place}] = {weights[place]:g} must be from 0 to {LARGEST:g}: 0 leaves a row out, 2 counts "
            "it as two"
        )
    return None if np.all(weights == 1.0) else weights


def unit_of(weights: Array | None) -> float:
    """Return the weight of a typical row, ``sum w^2 / sum w``: the mean, where each counts as often as it weighs.

    So rows that weigh next to nothing change it as little as rows that are not there.
    """
    if weights is None:
        return 1.0
    largest = float(weights.max())
    shares = weights / largest  # squares of the weights themselves may leave the range of numbers
    return largest * float(np.sum(shares**2) / np.sum(shares))


def in_units(samples: Samples, unit: float) -> Samples:
    """Return rows with their weights, which are positive, as multiples of a typical one; the lightest weigh 10^-30.

    Raises
    ------
    InputError
        When one is more than 10^30 times as heavy.
    """
    if unit == 1.0 and samples.weights is None:
        return samples
    weights = np.ones(samples.size) if samples.weights is None else samples.weights
    with np.errstate(over="ignore"):
        found = np.maximum(weights / unit, 1.0 / FARTHEST)  # second-order steps divide by it
    if found.max() > FARTHEST:
        raise InputError(
            f"sample_weight = {weights.max():g} is more than {FARTHEST:g} times {unit:g}, the weight of a typical row: "
            "give all weights on one scale"
        )
    return samples._replace(weights=None if np.all(found == 1.0) else found)


def thinned(samples: Samples) -> Samples:
    """Return the rows that defaults are measured on: of those lighter than a typical one so few as their weights say.

    Such a row is there as often as its weight is a part of the typical one, and has that weight then. So rows of next
    to no weight say as little of lengths, noise and the targets' spread as rows that are not there.
    """
    if samples.weights is None:
        return samples
    unit = unit_of(samples.weights)
    # Rounded, so that what the unit of the weights changes in the last digit leaves no other rows.
    counted = np.floor(np.cumsum(np.round(np.minimum(samples.weights / unit, 1.0), 12)) + 0.5)
    places = np.flatnonzero(np.diff(counted, prepend=0.0))
    return samples.taken(places)._replace(weights=np.maximum(samples.weights[places], unit))


def eased(learner: Polk, measured: list[str], weights: Array) -> Polk:
    """Return a learner whose step size, where it was measured, suits the heaviest sample, and its budget all of them.

    The step size is divided by the largest weight, so that a sample moves f by at most as much as one of weight 1 did;
    the slope that the budget counts in is multiplied by the root of the mean square of the weights.
    """
    changes: dict[str, Any] = {}
    if "step_size" in measured:
        eta: Any = learner.step_size
        heaviest = float(weights.max())
        field = "initial" if isinstance(eta, Diminishing) else "value"
        changes["step_size"] = replace(eta, **{field: getattr(eta, field) / heaviest})
    if "budget.slope" in measured:
        budget: Any = learner.budget
        changes["budget"] = replace(budget, slope=budget.slope * float(np.sqrt(np.mean(weights**2))))
    return replace(learner, **changes)
