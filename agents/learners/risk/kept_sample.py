"""The sample that is kept from one step for the next, where every sample is a pair with the one before."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class KeptSample:
    """The last sample of the batch before, in one vector as compiled steps want it: its point, then its target.

    Parameters
    ----------
    inputs, outputs : int
        p, the dimension of a point, and C, which no target exceeds in length.

    Attributes
    ----------
    numbers : Array
        The vector, (p + C,).
    width : int
        q, the length of the target; 0 before there is a sample.
    """

    __slots__ = ("inputs", "numbers", "width")

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.numbers = np.zeros(inputs + outputs)
        self.width = 0

    @property
    def points(self) -> Array:
        """The point, (1, p); (0, p) before there is one."""
        return self.numbers[: self.inputs].reshape(1, -1)[: min(self.width, 1)].copy()

    @property
    def targets(self) -> Array:
        """Its target, (1, q)."""
        return self.numbers[self.inputs : self.inputs + self.width].reshape(-1, max(self.width, 1)).copy()

    def keep(self, points: Array, targets: Array) -> None:
        """Keep the last of samples (n, p) and (n, q), if there are any."""
        if len(points):
            self.width = targets.shape[1]
            self.numbers[: self.inputs] = points[-1]
            self.numbers[self.inputs : self.inputs + self.width] = targets[-1]

    def move(self, numbers: Array) -> None:
        numbers[:] = self.numbers
        self.numbers = numbers
