"""The weights of samples: what is given for them, and what a learner measured without them makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.streams.rows.rows import LARGEST

Array = npt.NDArray[np.float64]

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
    weights = np.asarray(sample_weight, dtype=np.float64)
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
