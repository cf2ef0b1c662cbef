"""What a batch solver reaches on all data of the run: the row that a comparison is held against."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import BatchLimits, Step
from kernelswarm.protocols.isolated import Alone
from kernelswarm.ranges import Range, check_ranges

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Batch(Alone):
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

    step: ClassVar[Step] = "implicit"
    pooled: ClassVar[bool] = True
    averaged: ClassVar[bool] = False
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
