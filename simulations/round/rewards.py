"""Whether data suit a learner of a value function, whose targets are rewards."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.streams.contract import Source


def refuse_other_rewards(learner: Learner, source: Source, label: int) -> None:
    """Refuse rewards with another discount than the learner's, or with their mean subtracted.

    Raises
    ------
    InputError
        Starting with the key at fault.
    """
    if not fulfils(learner, ValueLearner):
        return
    if source.discount is not None and source.discount != learner.discount:
        raise InputError(
            f"learner.discount = {learner.discount:g} of node {label} must be stream.discount = {source.discount:g}: "
            "the values that it is measured against are of that discount: make them the same"
        )
    mean = source.description.targets.mean
    if mean is not None and np.any(mean):
        raise InputError(
            f'stream.standardize_targets moves rewards by their mean, and learner.name = "{part_name(learner)}" (node '
            f"{label}) learns discounted sums of rewards, which move by more: set stream.standardize_targets = false"
        )
