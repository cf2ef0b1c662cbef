"""Whether a learner whose functions are all above 0 was given targets below it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.simulations.core.data_description import Variables

Array = npt.NDArray[np.float64]

SHARE = 0.01
"""The share of targets below 0 from which on a warning says so."""

ROUNDED = 1e-6
"""Targets that are 0 by themselves are rounded by less than this share of their deviation."""

TARGETS_BELOW_ZERO = "targets_below_zero"


def unreachable(learner: Learner, targets: Array, scaling: Variables) -> dict[str, str]:
    """Warn, by ``TARGETS_BELOW_ZERO``, that targets are below all functions; empty where none are.

    Parameters
    ----------
    learner : Learner
        The experiment's.
    targets : Array
        What is learned from, (n, q).
    scaling : Variables
        What they stand for in the user's data.
    """
    if not getattr(learner, "positive", False) or learner.loss.task != "regression":
        return {}
    below = float(np.mean(targets < 0.0))
    if below < SHARE:
        return {}
    remedy = "take a learner whose functions may be negative, or add a constant to the targets"
    if scaling.mean is not None and (scaling.raw(targets) > -ROUNDED * scaling.scale).all():
        remedy = "set stream.standardize_targets = false, by which they keep their own values, none below 0"
    return {
        TARGETS_BELOW_ZERO: f"{below:.0%} of the targets are below 0, where no function of this learner is: {remedy}"
    }
