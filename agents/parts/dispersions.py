"""Measures of the dispersion of the loss u = l(f(x), y), which risk-aware learners add to its mean.

A dispersion is a mean over samples, ``D = E[d(u, g)]``, with one center g for all samples. g is either the mean loss,
which must be tracked because it is an expectation inside another expectation (COLK example 1), or a threshold that is
learned together with the function.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, Protocol

import numpy as np

from kernelswarm.agents.arithmetic.abi import DESCEND, SLOPES, CompiledDispersion
from kernelswarm.agents.parts.schedules import Constant, Schedule, step_sizes
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import Compiled, sole
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import Range, Ranged
from kernelswarm.refused_key import RefusedKey

_NO_NUMBERS: Array = np.zeros(0)


class Dispersion(Protocol):
    """A dispersion ``E[d(u, g)]`` of the loss u about a center g.

    A dispersion with a property ``compiled -> CompiledDispersion`` takes part in compiled rounds.
    """

    @property
    def centered(self) -> bool:
        """Whether g is the mean loss E[u] and d a function of u - g; otherwise g is a learned threshold."""
        ...

    def values(self, losses: Array, center: float) -> Array:
        """Evaluate d at losses u, (n,): (n,)."""
        ...

    def slopes(self, losses: Array, center: float) -> Array:
        """Differentiate d with respect to the loss u, (n,): (n,). If ``centered``, dd/dg is minus the result."""
        ...

    def descend(self, losses: Array, center: float, step: int) -> float:
        """Return the threshold after gradient step number ``step``; if ``centered``, return g unchanged."""
        ...


@cached_njit
def _variance_slopes(numbers: Array, losses: Array, center: float, slopes: Array) -> None:
    """Evaluate 2 (u - g)."""
    for n in range(len(losses)):
        slopes[n] = 2.0 * (losses[n] - center)


@cached_njit
def _moments(losses: Array, center: float, shares: Array) -> Array:
    values = np.empty(len(losses))
    for n in range(len(losses)):
        d = losses[n] - center
        values[n] = d * d * (shares[0] + d * (shares[1] + d * shares[2]))
    return values


@cached_njit
def _moment_slopes(shares: Array, losses: Array, center: float, slopes: Array) -> None:
    """Evaluate sum_q q (u - g)^(q - 1) over q = 2, 3, 4, each with its share, 0 or 1."""
    for n in range(len(losses)):
        d = losses[n] - center
        slopes[n] = d * (2.0 * shares[0] + d * (3.0 * shares[1] + d * 4.0 * shares[2]))


@inline_always
def _softplus(d: float, smoothing: float) -> float:
    return max(d, 0.0) + smoothing * math.log1p(math.exp(-abs(d) / smoothing))


@cached_njit
def _softplus_squares(losses: Array, center: float, smoothing: float) -> Array:
    values = np.empty(len(losses))
    for n in range(len(losses)):
        values[n] = _softplus(losses[n] - center, smoothing) ** 2
    return values


@cached_njit
def _softplus_slopes(numbers: Array, losses: Array, center: float, slopes: Array) -> None:
    """Evaluate twice the softplus times its derivative 1 / (1 + exp(-(u - g) / s))."""
    smoothing = numbers[0]
    for n in range(len(losses)):
        d = losses[n] - center
        small = math.exp(-abs(d) / smoothing)
        slopes[n] = 2.0 * _softplus(d, smoothing) * (1.0 if d >= 0.0 else small) / (1.0 + small)


@cached_njit
def _shortfall_slopes(numbers: Array, losses: Array, center: float, slopes: Array) -> None:
    """Evaluate 1 / (1 - level) if u > g, else 0."""
    for n in range(len(losses)):
        slopes[n] = 1.0 / (1.0 - numbers[0]) if losses[n] > center else 0.0


@cached_njit
def _lower_threshold(numbers: Array, losses: Array, center: float, step_size: float) -> float:
    """Take a step down the threshold's own gradient."""
    above = 0
    for n in range(len(losses)):
        above += losses[n] > center
    return float(center - step_size * (1.0 - above / len(losses) / (1.0 - numbers[0])))


class _Compiled(ABC):
    """A dispersion whose slopes are compiled."""

    _slopes: ClassVar[Compiled]

    @property
    @abstractmethod
    def _numbers(self) -> Array:
        """The dispersion's own numbers."""

    def slopes(self, losses: Array, center: float) -> Array:
        """Differentiate d with respect to the loss u, (n,): (n,)."""
        slopes = np.empty(len(losses))
        sole(self._slopes, SLOPES)(self._numbers, np.ascontiguousarray(losses), center, slopes)
        return slopes


class _Centered(_Compiled):
    """The common part of dispersions about the mean loss."""

    centered: ClassVar[bool] = True

    def descend(self, losses: Array, center: float, step: int) -> float:
        """Return the center unchanged, because the mean is tracked by the learner."""
        return center


@dataclass(frozen=True)
class Variance(_Centered):
    """The variance of the loss, E[(u - E u)^2] (COLK eq. 9)."""

    _slopes = staticmethod(_variance_slopes)

    @property
    def _numbers(self) -> Array:
        return _NO_NUMBERS

    def values(self, losses: Array, center: float) -> Array:
        """Evaluate (u - g)^2: (n,)."""
        return (losses - center) ** 2

    @property
    def compiled(self) -> CompiledDispersion:
        """The dispersion's functions and numbers for compiled steps."""
        return CompiledDispersion(self._slopes, self._numbers)


@dataclass(frozen=True)
class CentralMoments(_Centered):
    """The sum of central moments of the loss, sum_q E[(u - E u)^q] (COLK eq. 46; SURVEY eq. 14).

    The third moment makes the sum nonconvex and unbounded from below. With the fourth moment and the squared loss,
    gradients grow as the seventh power of the residual.

    Parameters
    ----------
    orders : tuple of int
        The orders q, each from 2 to 4.
    """

    orders: tuple[int, ...] = (2, 3, 4)

    def __post_init__(self) -> None:
        if not self.orders or len(set(self.orders)) < len(self.orders) or not set(self.orders) <= {2, 3, 4}:
            raise RefusedKey("orders", f"= {list(self.orders)!r} must be different numbers from 2 to 4, at least one")

    _slopes = staticmethod(_moment_slopes)

    @cached_property
    def _numbers(self) -> Array:
        """1 or 0 for each of the orders 2, 3 and 4, by whether it is included."""
        return np.array([float(order in self.orders) for order in (2, 3, 4)])

    def values(self, losses: Array, center: float) -> Array:
        """Evaluate sum_q (u - g)^q: (n,)."""
        values: Array = _moments(losses, center, self._numbers)
        return values

    @property
    def compiled(self) -> CompiledDispersion:
        """The dispersion's functions and numbers for compiled steps."""
        return CompiledDispersion(self._slopes, self._numbers)


@dataclass(frozen=True)
class Semivariance(_Centered, Ranged):
    """The semivariance of the loss, E[(u - E u)_+^2]: only losses above the mean count (COLK eq. 8; SURVEY II-B).

    The positive part (d)_+ is smoothed to the softplus s log(1 + exp(d / s)), which is s log 2 at d = 0.

    Parameters
    ----------
    smoothing : float
        s, positive, in the unit of the loss; the positive part itself as s tends to 0.
    """

    smoothing: float = 0.1

    ranges: ClassVar = {"smoothing": Range("(0, inf)", "use a tenth of an ordinary loss")}

    _slopes = staticmethod(_softplus_slopes)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.smoothing])

    def values(self, losses: Array, center: float) -> Array:
        """Evaluate (s log(1 + exp((u - g) / s)))^2: (n,)."""
        values: Array = _softplus_squares(losses, center, self.smoothing)
        return values

    @property
    def compiled(self) -> CompiledDispersion:
        """The dispersion's functions and numbers for compiled steps."""
        return CompiledDispersion(self._slopes, self._numbers)


@dataclass(frozen=True)
class ConditionalValueAtRisk(_Compiled, Ranged):
    """The conditional value at risk, the mean of the loss where it is above its quantile at ``level``.

    It equals ``min_g g + E[(u - g)_+] / (1 - level)``, and the minimising threshold g is the quantile (Rockafellar and
    Uryasev, J. Risk 2, 2000). g is learned by stochastic subgradient descent,
    ``g <- g - s (1 - p / (1 - level))``, with the fraction p of losses above g.

    Parameters
    ----------
    level : float
        Between 0 and 1: 0.9 is the mean of the largest tenth of the losses.
    threshold_step : Schedule
        s, positive, in the unit of the loss; a number or a schedule. With a constant s the threshold keeps fluctuating
        around the quantile by about s.
    """

    level: float = 0.9
    threshold_step: Schedule = field(default=Constant(0.01), metadata={"part": "schedule", "scalar": "constant"})
    centered: ClassVar[bool] = False

    ranges: ClassVar = {"level": Range("(0, 1)", "0.9 averages the largest tenth of losses")}

    _slopes = staticmethod(_shortfall_slopes)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.level])

    def values(self, losses: Array, center: float) -> Array:
        """Evaluate g + (u - g)_+ / (1 - level): (n,)."""
        return center + np.maximum(losses - center, 0.0) / (1.0 - self.level)

    def descend(self, losses: Array, center: float, step: int) -> float:
        step_size = self.threshold_step.at(step)
        lowered: float = sole(_lower_threshold, DESCEND)(self._numbers, np.ascontiguousarray(losses), center, step_size)
        return lowered

    @property
    def compiled(self) -> CompiledDispersion:
        """The dispersion's functions and numbers for compiled steps."""
        sizes = partial(step_sizes, self.threshold_step)
        return CompiledDispersion(self._slopes, self._numbers, _lower_threshold, sizes)
