"""What a batch solver reaches on all data of the run: the row that a comparison is held against."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import BatchLimits, Form, LinkRecord, Neighborhood, Pull, Step, nothing_of
from kernelswarm.ranges import Range, check_ranges

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """No rounds: when the run's samples have come in, one solver fits a single function to those of all nodes.

    It minimises ``mean_n l(f(x_n), y_n) + lambda / 2 ||f||^2`` over the kernel expansions on the landmarks, with the
    experiment's loss and kernel, and chooses lambda by cross-validation on those samples. With no more samples than
    landmarks every sample is one, and the solution is exact.

    Parameters
    ----------
    rows : int
        The largest number of samples that are fitted: of more, an even, seeded choice from all nodes. At least 2.
    landmarks : int
        The largest number of points of the expansion, chosen among those samples. At least 1; seconds grow with its
        square.
    """

    rows: int = 20_000
    landmarks: int = 1_000

    form: ClassVar[Form] = "one_sided"
    step: ClassVar[Step] = "implicit"
    communicates: ClassVar[bool] = False
    pooled: ClassVar[bool] = True
    averaged: ClassVar[bool] = False
    sends_duals: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {
        "rows": Range("[2, inf)", "some are left out to choose the regularization"),
        "landmarks": Range("[1, inf)", "200 to 2,000 are usual"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def offline(self) -> BatchLimits:
        return BatchLimits(self.rows, self.landmarks)

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
