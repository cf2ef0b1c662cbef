"""A loss for compiled rounds, whether it is compiled or not."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import CompiledLoss
from kernelswarm.agents.parts.losses import CurvedLoss, Loss
from kernelswarm.agents.parts.offers import OfferingLoss
from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.compiled import NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.first_class import Compiled

Array = npt.NDArray[np.float64]


def loss_form(loss: Loss) -> CompiledLoss:
    """Return a loss's functions for compiled rounds, or functions that call its methods."""
    try:
        found: CompiledLoss = handed_over(loss, "loss")
    except NotCompiledError:
        return CompiledLoss(
            _filling(loss, "values"),
            _filling(loss, "derivatives"),
            np.zeros(0),
            _filling(loss, "curvatures") if fulfils(loss, CurvedLoss) else None,
            _filling(loss, "offers") if fulfils(loss, OfferingLoss) else None,
        )
    return found


def _filling(loss: Any, method: str) -> Compiled:
    """Return a function with the signature of a loss's that calls a method and copies its result."""
    asked, name = getattr(loss, method), f"{type(loss).__name__}.{method}"

    def function(_numbers: Array, predictions: Array, targets: Array, found: Array) -> None:
        fill(found, asked(predictions, targets), name)

    return function


def loss_values(loss: Loss, predictions: Array, targets: Array) -> Array:
    """Return l of predictions (n, C) and targets (n, q), (n,), of whatever layout and type a loss in Python returns.

    It is given copies.

    Raises
    ------
    ValueError
        It returned another shape.
    """
    found = np.empty(len(predictions))
    fill(found, loss.values(*_handed(loss, predictions, targets)), f"{type(loss).__name__}.values")
    return found


def loss_derivatives(loss: Loss, predictions: Array, targets: Array) -> Array:
    """Return l' by the predictions (n, C), (n, C), in the same way.

    Raises
    ------
    ValueError
        As of :func:`loss_values`.
    """
    found = np.empty(predictions.shape)
    fill(found, loss.derivatives(*_handed(loss, predictions, targets)), f"{type(loss).__name__}.derivatives")
    return found


def _handed(loss: Loss, *arrays: Array) -> list[Array]:
    """Return what a loss is given: copies where it is in plain Python, and might write to them."""
    return [array if hands_over(loss) else array.copy() for array in arrays]
