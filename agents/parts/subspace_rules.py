"""Rules of an online kernel subspace: how far an update goes, and which samples are left out of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from kernelswarm.agents.arithmetic.abi import CENSOR, SUBSPACE_STEP, CompiledCensoring, CompiledSubspaceStep
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import sole
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.ranges import Range, Ranged


class SubspaceStep(Protocol):
    """The step size mu_n of a subspace's update.

    A step that has ``compiled -> CompiledSubspaceStep`` besides takes part in compiled rounds.
    """

    def at(self, sample: int, length: float) -> float:
        """Return mu of the sample of number n = 1, 2, ..., whose projection has the length ``||q||``."""
        ...


@cached_njit
def _normalized(numbers: ReadOnly, sample: int, length: float) -> float:
    return float(numbers[0] / length) if length > 0.0 else 0.0


@cached_njit
def _power(numbers: Array, sample: int, length: float) -> float:
    return float(numbers[0] / (1.0 + sample / numbers[1]) ** numbers[2])


@cached_njit
def _fixed(numbers: ReadOnly, fits: ReadOnly) -> float:
    return float(numbers[0])


@cached_njit
def _average(numbers: Array, fits: Array) -> float:
    if len(fits) == 0:
        return 0.0
    added = 0.0
    for fit in fits:
        added += fit
    return float(numbers[0] * added / len(fits))


@dataclass(frozen=True)
class Normalized(Ranged):
    """The tracking step ``mu = scale / ||q||``, which never dies out (OKFEB section VII-B).

    Parameters
    ----------
    scale : float
        Positive; the paper takes 1.
    """

    scale: float = 1.0

    ranges: ClassVar = {"scale": Range("(0, inf)", "the paper takes 1")}

    def at(self, sample: int, length: float) -> float:
        """Return ``scale / ||q||``, and 0 for a sample at right angles to the subspace."""
        return self.scale / length if length > 0.0 else 0.0

    @property
    def compiled(self) -> CompiledSubspaceStep:
        """The rule's functions and numbers for compiled steps."""
        return CompiledSubspaceStep(_normalized, np.array([float(self.scale)]))


@dataclass(frozen=True)
class Power(Ranged):
    """A step that falls as a power of the number of samples, ``mu_n = initial / (1 + n / offset)^exponent``.

    For a subspace that does not change the paper takes exponent 1 with the parametric update and 2 with the
    nonparametric one (OKFEB propositions 2 and 3, section VII-A).

    Parameters
    ----------
    initial : float
        mu_0, positive.
    offset : float
        The number of samples at which the step has fallen to ``initial / 2^exponent``, positive.
    exponent : float
        Not negative; 0 keeps the step constant.
    """

    initial: float = 1.0
    offset: float = 10.0
    exponent: float = 1.0

    ranges: ClassVar = {
        "initial": Range("(0, inf)"),
        "offset": Range("(0, inf]", "it counts samples"),
        "exponent": Range("[0, inf)", "steps would grow without end"),
    }

    def at(self, sample: int, length: float) -> float:
        """Return ``initial / (1 + sample / offset)^exponent``, whatever the length."""
        # A power has other last bits in Python than compiled.
        found: float = sole(_power, SUBSPACE_STEP)(self._numbers, sample, length)
        return found

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.initial, self.offset, self.exponent], dtype=np.float64)

    @property
    def compiled(self) -> CompiledSubspaceStep:
        """The rule's functions and numbers for compiled steps."""
        return CompiledSubspaceStep(_power, self._numbers)


class Censoring(Protocol):
    """A threshold on the fit of a sample, below which it is not used to update the subspace.

    One that has ``compiled -> CompiledCensoring`` besides takes part in compiled rounds.
    """

    @property
    def window(self) -> int:
        """The number of past fits that the threshold depends on."""
        ...

    def bound(self, fits: Array) -> float:
        """Return the threshold, given the last fits, at most ``window``, in any order."""
        ...


@dataclass(frozen=True)
class Threshold(Ranged):
    """A fixed threshold: a sample whose fit is below it is left out (OKFEB algorithm 4).

    Parameters
    ----------
    threshold : float
        epsilon, in the unit of kappa(x, x), not negative; 0 leaves no sample out.
    """

    threshold: float = 0.0

    ranges: ClassVar = {"threshold": Range("[0, inf]", "0 leaves no sample out")}

    @property
    def window(self) -> int:
        return 0

    def bound(self, fits: Array) -> float:
        return self.threshold

    @property
    def compiled(self) -> CompiledCensoring:
        """The rule's functions and numbers for compiled steps."""
        return CompiledCensoring(_fixed, np.array([float(self.threshold)]))


@dataclass(frozen=True)
class MovingAverage(Ranged):
    """The mean fit of the last samples, times a factor: about half of the samples are left out (OKFEB section VII-D).

    Parameters
    ----------
    window : int
        The samples that the mean is taken over, at least 1; the paper takes 100.
    factor : float
        Not negative; more leaves out more.
    """

    window: int = 100
    factor: float = 1.0

    ranges: ClassVar = {
        "window": Range("[1, inf)", "the paper takes 100"),
        "factor": Range("[0, inf)", "1 is the mean itself"),
    }

    def bound(self, fits: Array) -> float:
        """Return ``factor`` times the mean of the fits, 0 before the first."""
        found: float = sole(_average, CENSOR)(self._numbers, np.ascontiguousarray(fits))
        return found

    @cached_property
    def _numbers(self) -> Array:
        return np.array([float(self.factor)])

    @property
    def compiled(self) -> CompiledCensoring:
        """The rule's functions and numbers for compiled steps."""
        return CompiledCensoring(_average, self._numbers)
