"""Which samples second-order steps offer to the dictionary as points: a loss may say so."""

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import Loss
from kernelswarm.protocols.core.fulfilling import fulfils

Array = npt.NDArray[np.float64]


@runtime_checkable
class OfferingLoss(Protocol):
    """A loss that says which samples are worth a point of their own."""

    def offers(self, predictions: Array, targets: Array) -> Array:
        """Return 1 for a sample that is offered to the dictionary and 0 for one that is not, (n,).

        A sample that is not offered counts in all else: it moves the weights of the points that there are. One with a
        derivative of 0 is never offered.
        """


def offers_of(loss: Loss, predictions: Array, targets: Array) -> Array | None:
    """Return 1 for each sample that is offered and 0 for the others, (n,); None where the loss offers all."""
    return loss.offers(predictions, targets) if fulfils(loss, OfferingLoss) else None
