"""The loss of the events of an inhomogeneous Poisson process, whose intensity or density the function is."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import LOSS_DERIVATIVES, LOSS_VALUES, CompiledLoss
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.losses import Task
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import fill
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import Range, check_ranges


@cached_njit
def _values(numbers: Array, predictions: Array, targets: Array, values: Array) -> None:
    floor = numbers[0]
    for n in range(predictions.shape[0]):
        value, events = predictions[n, 0], targets[n, 0]
        if value >= floor:
            values[n] = -events * math.log(value)
        else:
            values[n] = events * ((floor - value) / floor - math.log(floor))


@cached_njit
def _derivatives(numbers: Array, predictions: Array, targets: Array, slopes: Array) -> None:
    for n in range(predictions.shape[0]):
        slopes[n, 0] = -targets[n, 0] / max(predictions[n, 0], numbers[0])


@dataclass(frozen=True)
class PoissonProcess:
    """Negative log-likelihood of a Poisson process, -log f(x) plus the integral of f over the box (SPPPOT eq. 27).

    The part of a sample is ``-e log f(x)``; the target e is the number of events at the sample, usually 1. The integral
    is the same for all samples. It is part of the measured risk and, estimated on the grid, of the steps of learners
    that integrate (`spppot`). The minimiser of the mean over the samples is the density, which integrates to one.

    Parameters
    ----------
    low, high : tuple of float
        The corners of the box that contains all points, one entry for each input.
    cells : tuple of int
        The number of cells of the integral's grid along each input.
    floor : float
        A small positive number. For f below it the logarithm is replaced by its tangent, with the derivative
        ``-e / floor``, so that the loss is finite for zero or negative f. It is not part of the published method.

    Attributes
    ----------
    curvature : float
        0, so that this loss stays explicit in implicit steps: its second derivative e / f^2 has no useful bound.
    """

    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)
    cells: tuple[int, ...] = (100,)
    floor: float = 1e-6
    task: ClassVar[Task] = "regression"
    curvature: ClassVar[float] = 0.0
    quadratic: ClassVar[bool] = False

    ranges: ClassVar = {"floor": Range("(0, inf)", "use a value far below any intensity of interest")}

    def __post_init__(self) -> None:
        check_ranges(self)
        grid = Grid(self.low, self.high, self.cells)
        for name in ("low", "high", "cells"):
            object.__setattr__(self, name, getattr(grid, name))

    @cached_property
    def grid(self) -> Grid:
        """The grid that the integral over the box is estimated on."""
        return Grid(self.low, self.high, self.cells)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([float(self.floor)])

    def outputs(self, targets: int, classes: int | None) -> int:
        """Return 1; ValueError unless the targets are one column of numbers of events."""
        if classes is not None or targets != 1:
            found = f"{targets} columns" if classes is None else f"{classes} classes"
            raise ValueError(
                f"loss poisson_process needs one target for each point, the number of events there, and finds {found}: "
                'use a stream of events, such as gaussian_density, or a file with task = "events"'
            )
        return 1

    def values(self, predictions: Array, targets: Array) -> Array:
        """Evaluate the samples' part -e log f: (n, 1) and (n, 1) give (n,)."""
        values = np.empty(len(predictions))
        fill(_values, LOSS_VALUES, self._numbers, predictions, targets, values)
        return values

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        """Differentiate the samples' part, -e / f: (n, 1) and (n, 1) give (n, 1)."""
        slopes = np.empty(predictions.shape)
        fill(_derivatives, LOSS_DERIVATIVES, self._numbers, predictions, targets, slopes)
        return slopes

    @property
    def compiled(self) -> CompiledLoss:
        """The loss's functions and numbers for compiled rounds."""
        return CompiledLoss(_values, _derivatives, self._numbers)

    def decide(self, predictions: Array) -> Array:
        """Return the intensities themselves, (n, 1)."""
        return predictions

    def constant(self, targets: Array, outputs: int) -> Array:
        """Return the mean number of events over the volume of the box, (1,)."""
        return np.array([targets.mean() / (self.grid.volume * len(self.grid.points))])
