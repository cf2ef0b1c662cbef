"""One learner that sees every node's samples: the clairvoyant control."""

from dataclasses import dataclass
from typing import ClassVar

from kernelswarm.protocols.isolated import Isolated


@dataclass(frozen=True)
class Centralized(Isolated):
    """A single learner takes one step a round on the samples of all nodes, b from each, averaged.

    Parameters
    ----------
    step : {"explicit", "implicit"}
        Whether a quadratic loss is evaluated at the old function or at the new one.
    """

    pooled: ClassVar[bool] = True
