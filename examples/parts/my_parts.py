"""A kernel of your own, and the same one for compiled rounds."""

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
import numpy.typing as npt

from kernelswarm import RefusedKey
from kernelswarm.agents.arithmetic.abi import CompiledKernel

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RationalQuadratic:
    """Rational quadratic kernel 1 / (1 + ||x - y||^2 / (2 bandwidth^2))."""

    bandwidth: float = 1.0
    supremum: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if not self.bandwidth > 0.0:
            raise RefusedKey("bandwidth", f"= {self.bandwidth!r} must be positive: use the length scale of the inputs")

    def cross(self, points: Array, centers: Array) -> Array:
        squares = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        return 1.0 / (1.0 + squares / (2.0 * self.bandwidth**2))

    def diagonal(self, points: Array) -> Array:
        return np.ones(len(points))


@numba.njit(cache=True)
def rational_quadratic(numbers, points, centers, values):
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            square = 0.0
            for k in range(points.shape[1]):
                square += (points[i, k] - centers[j, k]) ** 2
            values[i, j] = 1.0 / (1.0 + square / numbers[0])


@dataclass(frozen=True)
class FastRationalQuadratic(RationalQuadratic):
    """The same kernel, in compiled rounds."""

    def cross(self, points: Array, centers: Array) -> Array:
        values = np.empty((len(points), len(centers)))
        rational_quadratic(self.compiled.numbers, points, centers, values)
        return values

    @property
    def compiled(self) -> CompiledKernel:
        return CompiledKernel(rational_quadratic, np.array([2.0 * self.bandwidth**2]), unit=True)
