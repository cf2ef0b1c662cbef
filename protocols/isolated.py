"""No cooperation: every node learns from its own stream alone."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Form, LinkRecord, Neighborhood, Pull, Step, nothing_of, take_published

Array = npt.NDArray[np.float64]


class Alone:
    """What protocols without messages have in common: no links, and no pull."""

    form: ClassVar[Form] = "one_sided"
    communicates: ClassVar[bool] = False
    sends_duals: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False

    def init(self, neighborhood: Neighborhood) -> None:
        """Return no state."""

    def coupling_gradient(self, links: None, own: Array, answers: Array) -> Pull:
        return Pull(np.zeros_like(answers), np.zeros(answers.shape[:2]))

    def coupling_gradient_at_neighbor(
        self, links: None, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Pull:
        return Pull(np.zeros_like(mine), np.zeros(len(mine)))

    def advance(self, links: None, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> None:
        """Return no state."""

    def duals(self, links: None) -> None:
        """Return no dual variables."""

    def record(self, links: None, degree: int) -> LinkRecord:
        """Return NaN for every edge."""
        return nothing_of(degree)


@dataclass(frozen=True)
class Isolated(Alone):
    """Each node minimises its own risk and sends nothing: the control at penalty c = 0.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss that has a second derivative is taken at the new function or at the old one, as published.
    as_published : bool
        The papers' explicit step in one key; it goes before ``step``.
    """

    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    as_published: bool = False

    pooled: ClassVar[bool] = False
    offline: ClassVar[None] = None

    def __post_init__(self) -> None:
        take_published(self)

    @property
    def averaged(self) -> bool:
        """Never: every node has a learner of its own."""
        return False
