"""Mirror maps, which turn the dual function z of a learner into the function ``f = grad psi*(z)`` pointwise.

Steps and compression act on z in the Hilbert space; f need not be in this space. The map determines the range of f, for
example positive values (SPPPOT section III).
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from kernelswarm.agents.arithmetic.abi import MIRROR, CompiledMirrorMap
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import sole
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit


class MirrorMap(Protocol):
    """A strictly increasing function of one number, from dual values to values.

    A map with a property ``compiled -> CompiledMirrorMap`` takes part in compiled rounds.
    """

    @property
    def positive(self) -> bool:
        """Whether all values are positive."""

    @property
    def slope(self) -> float | None:
        """The derivative ``df/dz`` if it is constant, else None."""

    def values(self, duals: Array) -> Array:
        """Compute f from z, (n, C) each."""


@cached_njit
def _identity(numbers: ReadOnly, duals: ReadOnly, values: Array) -> None:
    """Copy z."""
    for n in range(duals.shape[0]):
        for c in range(duals.shape[1]):
            values[n, c] = duals[n, c]


@cached_njit
def _exponential(numbers: Array, duals: Array, values: Array) -> None:
    """Compute exp(z) for each entry of (n, C)."""
    for n in range(duals.shape[0]):
        for c in range(duals.shape[1]):
            values[n, c] = np.exp(duals[n, c])


_NO_NUMBERS: Array = np.zeros(0)


@dataclass(frozen=True)
class SquaredNorm:
    """The map f = z of psi(f) = ||f||^2 / 2: functional gradient descent (SPPPOT eq. 23-24)."""

    positive: ClassVar[bool] = False
    slope: ClassVar[float | None] = 1.0

    def values(self, duals: Array) -> Array:
        """Return z itself."""
        return duals

    @property
    def compiled(self) -> CompiledMirrorMap:
        """The map's functions and numbers for compiled steps."""
        return CompiledMirrorMap(_identity, _NO_NUMBERS)


@dataclass(frozen=True)
class KullbackLeibler:
    """The map f = exp(z) > 0 of psi(f) = <f, log f - 1>, whose divergence is Kullback-Leibler's (SPPPOT eq. 25-26)."""

    positive: ClassVar[bool] = True
    slope: ClassVar[float | None] = None

    def values(self, duals: Array) -> Array:
        """Compute exp(z); an overflow gives infinity, which the evaluating node reports as divergence."""
        values = np.empty(duals.shape)
        sole(_exponential, MIRROR)(_NO_NUMBERS, np.ascontiguousarray(duals), values)
        return values

    @property
    def compiled(self) -> CompiledMirrorMap:
        """The map's functions and numbers for compiled steps."""
        return CompiledMirrorMap(_exponential, _NO_NUMBERS)
