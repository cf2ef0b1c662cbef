"""Whether the regularisation holds functions near 0, far below the targets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.plain.losses import loss_derivatives
from kernelswarm.simulations.observing.constant import best_constant
from kernelswarm.simulations.streams.contract import HeldOut

SHARE = 0.1
"""The pull of the regularisation towards 0, as a share of the loss's, from which on a warning says so."""

USUAL = 1e-6
"""The share that is no matter."""

STRONGLY_REGULARIZED = "strongly_regularized"


def held_down(strength: float, loss: Loss, outputs: int, targets: npt.NDArray[np.float64]) -> tuple[str, float]:
    """Return a clause on a regularisation that holds functions near 0, with one that does not; else empty.

    A step moves f at a sample by eta g and shrinks it by eta lambda f. So a function as large as the targets is
    pulled to 0 by ``lambda s / r`` as much as to them, with s the targets' standard deviation and r the size of the
    loss's derivative at their best constant. Losses that grow more slowly than the squared one have the same r in
    every unit, and an s of its size.

    Parameters
    ----------
    strength : float
        lambda.
    loss : Loss
        The learner's.
    outputs : int
        C.
    targets : array, shape (n, q)
        What is learned from.
    """
    if not strength or loss.task != "regression" or grid_of(loss) is not None:
        return "", strength
    constant = best_constant(loss, outputs, HeldOut(np.zeros((len(targets), 1)), targets))
    slopes = loss_derivatives(loss, np.tile(constant, (len(targets), 1)), np.ascontiguousarray(targets))
    size = float(np.sqrt(np.mean(np.sum((targets - targets.mean(axis=0)) ** 2, axis=1))))
    slope = float(np.sqrt(np.mean(np.sum(slopes**2, axis=1))))
    if not strength * size >= SHARE * slope > 0.0:
        return "", strength
    text = (
        f"regularization = {strength:g} holds functions down: it pulls those of the targets' size, {size:.3g}, "
        f"to 0 by {strength * size / slope:.2g} of what the loss pulls"
    )
    return text, USUAL * slope / size


def strongly_regularized(learner: Learner, outputs: int, targets: npt.NDArray[np.float64]) -> dict[str, str]:
    """Warn of the nodes' targets (n, q), by ``STRONGLY_REGULARIZED``, with the remedy; empty otherwise."""
    strength = float(getattr(learner, "regularization", 0.0))
    text, less = held_down(strength, learner.loss, outputs, targets)
    return {STRONGLY_REGULARIZED: f"learner.{text}: set it to {less:.1g}, or standardize the targets"} if text else {}
