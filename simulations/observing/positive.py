"""Whether a learner whose functions are all above 0 was given targets below it."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.simulations.observing.training_rows import TrainingRows
from kernelswarm.simulations.streams.contract import Source
from kernelswarm.simulations.streams.pooled import members

NODES = 20
"""Nodes whose rows are looked at, at most."""

SHARE = 0.01
"""The share of targets below 0 from which on it is said."""

TARGETS_BELOW_ZERO = "targets_below_zero"


def unreachable(learner: Learner, source: Source, rows: TrainingRows) -> dict[str, str]:
    """Say in a sentence, by ``TARGETS_BELOW_ZERO``, that targets are below all functions; empty where none are.

    Parameters
    ----------
    learner : Learner
        The experiment's.
    source : Source
        Its opened stream.
    rows : TrainingRows
        What the nodes learned from.
    """
    if not getattr(learner, "positive", False) or learner.loss.task != "regression":
        return {}
    targets = np.concatenate([rows.of(place, 0).targets for place in members(len(source.nodes), NODES)])
    below = float(np.mean(targets < 0.0))
    if below < SHARE:
        return {}
    scaling = source.description.targets
    remedy = "take a learner whose functions may be negative, or add a constant to the targets"
    if scaling.mean is not None and (scaling.raw(targets) >= 0.0).all():
        remedy = "set stream.standardize_targets = false, by which they keep their own values, none below 0"
    return {
        TARGETS_BELOW_ZERO: f"{below:.0%} of the targets are below 0, where no function of this learner is: {remedy}"
    }
