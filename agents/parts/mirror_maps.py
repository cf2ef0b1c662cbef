"""Mirror maps: how a function f is had from the dual function z that a learner moves, ``f = grad psi*(z)`` pointwise.

z lies in the Hilbert space, where steps are taken and compressed; f need not. What f may be, positive for one, is
decided by the map (SPPPOT section III).
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class MirrorMap(Protocol):
    """A strictly increasing function of one number, from dual values to values."""

    @property
    def positive(self) -> bool:
        """Whether all values are positive."""

    @property
    def slope(self) -> float | None:
        """The derivative ``df/dz`` where it is the same everywhere, None where it is not."""

    def values(self, duals: Array) -> Array:
        """Compute f from z, (n, C) each."""


@dataclass(frozen=True)
class SquaredNorm:
    """The map f = z of psi(f) = ||f||^2 / 2: functional gradient descent (SPPPOT eq. 23-24)."""

    positive: ClassVar[bool] = False
    slope: ClassVar[float | None] = 1.0

    def values(self, duals: Array) -> Array:
        """Return z itself."""
        return duals


@dataclass(frozen=True)
class KullbackLeibler:
    """The map f = exp(z) > 0 of psi(f) = <f, log f - 1>, whose divergence is Kullback-Leibler's (SPPPOT eq. 25-26)."""

    positive: ClassVar[bool] = True
    slope: ClassVar[float | None] = None

    def values(self, duals: Array) -> Array:
        """Compute exp(z); infinite where that overflows, which the node that evaluates takes for divergence."""
        values: Array = exponential(duals)
        return values


@numba.njit(cache=True)
def exponential(duals: Array) -> Array:
    """Compute exp(z) for each entry of (n, C)."""
    values = np.empty(duals.shape)
    for n in range(duals.shape[0]):
        for c in range(duals.shape[1]):
            values[n, c] = np.exp(duals[n, c])
    return values
