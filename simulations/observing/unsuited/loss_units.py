"""Whether targets are in units that suit a loss which is not quadratic: it is not the same in every unit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import Loss, grid_of

SMALL = 0.01
"""A threshold of errors below this share of the targets' deviation leaves hardly any error below it."""

APART = 30.0
"""How many times as large as another one's a target's deviation may be: a step of one size is then larger than all
that the other has."""

LOSS_IN_OTHER_UNITS = "loss_in_other_units"


def loss_units(loss: Loss, targets: npt.NDArray[np.float64]) -> str:
    """Return a clause on why a loss does not suit the units of targets (n, q); empty where it does.

    Where errors are larger than its threshold the derivative of a loss is the same however large they are, for each
    target alike. Steps, and what second-order learners make of a sample, then fit one size of targets.

    Examples
    --------
    >>> from kernelswarm.agents.parts.losses import Absolute, Huber, Squared
    >>> targets = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 1000.0]
    >>> loss_units(Squared(), targets), loss_units(Huber(), targets[:, :1])
    ('', '')
    >>> loss_units(Absolute(), targets)
    'deviations of the targets go from 0.97 to 945, and the loss has steps of one size for all'
    """
    if loss.quadratic or loss.task != "regression" or grid_of(loss) is not None:
        return ""
    deviations = targets.std(axis=0)
    deviations = deviations[deviations > 0.0]
    if not len(deviations):
        return ""
    least, largest = float(deviations.min()), float(deviations.max())
    threshold: float | None = getattr(loss, "threshold", None)
    if threshold is None and largest > APART * least:
        spread = f"{least:.3g} to {largest:.3g}"
        return f"deviations of the targets go from {spread}, and the loss has steps of one size for all"
    if threshold is not None and threshold < SMALL * largest:
        return (
            f"the loss's threshold = {threshold:g} is {threshold / largest:.1g} of the targets' deviation, "
            f"{largest:.3g}, so that nearly every error counts as an outlier's"
        )
    return ""


def in_other_units(loss: Loss, targets: npt.NDArray[np.float64]) -> dict[str, str]:
    """Warn of the nodes' targets, by ``LOSS_IN_OTHER_UNITS``, with the remedy; empty where all is well."""
    words = loss_units(loss, targets)
    return {LOSS_IN_OTHER_UNITS: f"{words}: standardize the targets, or scale each to deviation 1"} if words else {}
