"""One learner that sees every node's samples: the clairvoyant control."""

from dataclasses import dataclass
from typing import ClassVar

from kernelswarm.protocols.isolated import Isolated


@dataclass(frozen=True)
class Centralized(Isolated):
    """A single learner sees the samples of all nodes: what a node could know if everything were sent to one place.

    In a round it takes V steps, one on each node's mini-batch of b samples, as the nodes would, in their order. Once a
    node's data is used up the others' fills its place, so that every sample weighs the same. With the same step size as
    the nodes it follows the latest samples and keeps their noise: the step size "auto" is V^(3/4) times smaller for it.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss that has a second derivative is taken at the new function or at the old one, as published.
    as_published : bool
        The papers' explicit step in one key; it goes before ``step``.
    averaged : bool
        Take one step a round, on all V b samples together, each of weight eta / (V b): 1 / V of its weight at a node.
    """

    averaged: bool = False

    pooled: ClassVar[bool] = True
