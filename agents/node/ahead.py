"""Samples that a node has drawn before it learns from them."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.node import Draws

Array = npt.NDArray[np.float64]


class Ahead:
    """Samples drawn ahead, followed by those of their source."""

    def __init__(self, points: Array, targets: Array, source: Draws) -> None:
        self.source = source
        self._points, self._targets = points, targets

    @property
    def left(self) -> tuple[Array, Array]:
        """The samples drawn ahead that are left: points (n, p) and targets (n, q)."""
        return self._points, self._targets

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) with their targets (b, q); fewer when the data is used up."""
        points, targets = self._points[:count], self._targets[:count]
        self._points, self._targets = self._points[count:], self._targets[count:]
        more = self.source.draw(count - len(points))
        return np.concatenate([points, more[0]]), np.concatenate([targets, more[1]])
