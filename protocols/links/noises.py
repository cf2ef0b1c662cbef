"""Noise on what nodes send.

A noise hands over its quantile function, compiled, so that the round knows no noise by name.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from numba import types

from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import Compiled
from kernelswarm.protocols.links.accounting import Spent, gaussian, laplace
from kernelswarm.ranges import Range, check_ranges

QUANTILE = types.float64(types.float64, types.float64)
"""``quantile(u, v)`` turns two independent uniform numbers of [0, 1) into one of the distribution of scale 1."""

On = Literal["values", "points", "both"]


class Noise(Protocol):
    """A noise."""

    @property
    def scale(self) -> float:
        """Its scale, not negative; 0 for none."""
        ...

    @property
    def on(self) -> On:
        """The part of messages that is noisy."""
        ...

    @property
    def quantile(self) -> Compiled:
        """The function of the signature QUANTILE, compiled or in plain Python."""
        ...


@cached_njit
def _gaussian(u: float, v: float) -> float:
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@cached_njit
def _laplace(u: float, v: float) -> float:
    distance = -math.log(1.0 - u)
    return distance if v < 0.5 else -distance


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise is added to every number that is sent.

    Parameters
    ----------
    scale : float
        Its standard deviation, not negative; 0 for none.
    on : {"values", "points", "both"}
        Whether function values, sample points or both are noisy.
    """

    scale: float = 0.0
    on: On = "values"

    ranges: ClassVar = {"scale": Range("[0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def quantile(self) -> Compiled:
        return _gaussian

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return self.scale**2

    def spent(self, magnitudes: float, distance: float) -> Spent:
        """Return the privacy spent on one noisy vector that moves by at most a Euclidean distance."""
        return gaussian(distance, self.scale)


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise is added to every number that is sent.

    Parameters
    ----------
    scale : float
        The mean of its magnitude, not negative; 0 for none.
    on : {"values", "points", "both"}
        Whether function values, sample points or both are noisy.
    """

    scale: float = 0.0
    on: On = "values"

    ranges: ClassVar = {"scale": Range("[0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def quantile(self) -> Compiled:
        return _laplace

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return 2.0 * self.scale**2

    def spent(self, magnitudes: float, distance: float) -> Spent:
        """Return the privacy spent on one noisy vector that moves by at most a sum of magnitudes."""
        return laplace(magnitudes, self.scale)
