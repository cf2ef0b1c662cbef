"""Kernels kappa(x, y), which determine the space of functions that a node can learn.

A kernel is a frozen dataclass whose fields are the keys of the experiment file. Each call runs one compiled function
with one small array of numbers, because a round evaluates a kernel between one sample and some twenty dictionary
points: there the call itself costs more than the arithmetic.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import ClassVar, Literal, Protocol, Self

import numpy as np

from kernelswarm.agents.arithmetic import kernel_formulas
from kernelswarm.agents.arithmetic.abi import DIAGONAL, KERNEL, CompiledKernel
from kernelswarm.agents.parts import bandwidths, trends
from kernelswarm.agents.parts.bandwidths import Bandwidth
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import Compiled, fill, sole
from kernelswarm.ranges import resolved_value
from kernelswarm.refused_key import RefusedKey

LARGEST_DEGREE = 100
"""The largest degree of a polynomial kernel."""


class Kernel(Protocol):
    """A positive semidefinite function of two points, evaluated for all pairs of two sets of points.

    A kernel with a property ``compiled -> CompiledKernel`` runs in compiled rounds; others are called in Python.
    """

    @property
    def supremum(self) -> float | None:
        """The supremum of kappa(x, x) over all x, or None if it is unbounded."""

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate kappa(points[i], centers[j]) for all pairs: (n, p) and (m, p) give (n, m)."""

    def diagonal(self, points: Array) -> Array:
        """Evaluate kappa(points[i], points[i]): (n, p) gives (n,)."""


class _Compiled(ABC):
    """A kernel whose arithmetic is one of `kernel_formulas`."""

    _formula: ClassVar[Compiled]

    @property
    @abstractmethod
    def _numbers(self) -> Array:
        """The kernel's own numbers."""

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values = np.empty((len(points), len(centers)))
        fill(self._formula, KERNEL, self._numbers, points, centers, values)
        return values


class _Scaled(_Compiled):
    """A kernel of the distance between its points, with one length scale, or one for each input.

    Each subclass defines ``compiled`` itself. An inherited property does not count (`hands_over`), because a class may
    compute something different from its base class.
    """

    bandwidth: Bandwidth
    supremum: ClassVar[float | None] = 1.0
    absolute: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", bandwidths.checked(self.bandwidth))

    @cached_property
    def _numbers(self) -> Array:
        return bandwidths.numbers(self.bandwidth)

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that still have to be resolved from data."""
        return ("bandwidth",) if isinstance(self.bandwidth, str) else ()

    @property
    def inputs(self) -> int | None:
        """The number of inputs that it needs; None for any number."""
        return len(self.bandwidth) if isinstance(self.bandwidth, tuple) else None

    def resolved(self, sample: Sample) -> Self:
        """Return the kernel with its bandwidth resolved from a sample of the data."""
        return replace(self, bandwidth=bandwidths.resolved(self, sample))  # type: ignore[type-var]

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        if isinstance(self.bandwidth, tuple) and points.shape[1] != len(self.bandwidth):
            raise RefusedKey(
                "bandwidth",
                f"= {list(self.bandwidth)} has {len(self.bandwidth)} entries, and points have "
                f"{points.shape[1]} inputs: give one length for each input, or one number for all",
            )
        return super().cross(points, centers)

    def diagonal(self, points: Array) -> Array:
        return np.ones(points.shape[0])


@dataclass(frozen=True)
class Gaussian(_Scaled):
    """Gaussian kernel exp(-||x - y||^2 / (2 bandwidth^2)), with values in [0, 1] (POLK section 5).

    Parameters
    ----------
    bandwidth
        Length scale s > 0 in the unit of the inputs (the papers quote s^2), or a list with a length for each input,
        which measures distances between the scaled inputs ``x_k / s_k``. "median" is 0.4 times the median distance of
        training points. "relevance" is a length for each input, which is shorter if the targets depend more on the
        input. "auto", the default, is "median", unless a multiple of it, or lengths for each input, have a clearly
        smaller error on held-out samples.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(bandwidth=2.0).cross(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    bandwidth: Bandwidth = "auto"

    _formula = staticmethod(kernel_formulas.gaussian)

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, unit=True)


@dataclass(frozen=True)
class Laplacian(_Scaled):
    """Laplacian kernel exp(-||x - y||_1 / bandwidth), with values in [0, 1]; its functions may have kinks.

    Parameters
    ----------
    bandwidth
        Length scale > 0 in the unit of the inputs, a list of lengths, "auto", "median" or "relevance"; as of the
        gaussian kernel.
    """

    bandwidth: Bandwidth = "auto"
    absolute: ClassVar[bool] = True

    _formula = staticmethod(kernel_formulas.laplacian)

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, unit=True)


@dataclass(frozen=True)
class Matern(_Scaled):
    """Matern kernel of half-integer smoothness, with values in [0, 1].

    With r = ||x - y|| / bandwidth it is (1 + sqrt(3) r) exp(-sqrt(3) r) for smoothness 1.5 and
    (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r) for 2.5 (Rasmussen and Williams, Gaussian Processes for Machine
    Learning, eq. 4.17). Its functions are once, respectively twice, differentiable in the mean-square sense.

    Parameters
    ----------
    bandwidth
        Length scale > 0 in the unit of the inputs, a list of lengths, "auto", "median" or "relevance"; as of the
        gaussian kernel.
    smoothness
        1.5 or 2.5.
    """

    bandwidth: Bandwidth = "auto"
    smoothness: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothness not in (1.5, 2.5):
            raise RefusedKey(
                "smoothness",
                f"= {self.smoothness!r} must be 1.5 or 2.5: take a gaussian kernel for smoother functions, "
                "a laplacian one for rougher ones",
            )
        object.__setattr__(self, "smoothness", float(self.smoothness))

    _formula = staticmethod(kernel_formulas.matern)

    @cached_property
    def _numbers(self) -> Array:
        return bandwidths.numbers(self.bandwidth, self.smoothness)

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, unit=True)


@dataclass(frozen=True)
class StudentT(_Scaled):
    """Student-t kernel (1 + r^2 / degrees)^(-(degrees + 1) / 2) with r = ||x - y|| / bandwidth, with values in [0, 1].

    It is a mixture of gaussian kernels of many lengths; its power-law tail correlates distant points. It is the
    rational quadratic kernel with alpha = (degrees + 1) / 2 (Rasmussen and Williams, eq. 4.19), and tends to the
    gaussian kernel as ``degrees`` grows. It is named in SPPPOT section III.

    Parameters
    ----------
    bandwidth
        Length scale > 0 in the unit of the inputs, a list of lengths, "auto", "median" or "relevance"; as of the
        gaussian kernel.
    degrees
        Degrees of freedom, positive; 1 gives the Cauchy kernel 1 / (1 + r^2).
    """

    bandwidth: Bandwidth = "auto"
    degrees: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degrees", _factor("degrees", self.degrees))

    _formula = staticmethod(kernel_formulas.student_t)

    @cached_property
    def _numbers(self) -> Array:
        return bandwidths.numbers(self.bandwidth, self.degrees)

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, unit=True)


@dataclass(frozen=True)
class Trended(_Scaled):
    """Gaussian kernel plus a linear one: exp(-||x - y||^2 / (2 bandwidth^2)) + trend (1 + u.v) / (1 + p).

    u and v are the points minus ``center``, divided by ``unit``. Its functions are sums of an affine function and a
    smooth remainder; far from all samples only the affine function remains.

    Parameters
    ----------
    bandwidth
        As for the gaussian kernel.
    trend
        The variance of the affine function divided by that of the remainder, nonnegative. "auto", the default, is the
        value of largest Gaussian process likelihood among a few candidates on a sample of the data; 0 if none increases
        the likelihood.
    center, unit
        A number for each input; empty stands for 0 and 1. With ``trend = "auto"`` the defaults are the sample's means
        and standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> Trended(bandwidth=1.0, trend=3.0).cross(np.array([[2.0, 0.0]]), np.array([[2.0, 0.0]]))
    array([[6.]])
    """

    bandwidth: Bandwidth = "auto"
    trend: float | Literal["auto"] = "auto"
    center: tuple[float, ...] = ()
    unit: tuple[float, ...] = ()
    supremum: ClassVar[float | None] = None
    remainder: ClassVar[float] = 1.0  # kappa(x, x) without the trend

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trend != "auto":
            object.__setattr__(self, "trend", _nonnegative("trend", self.trend))
        center = tuple(_entry(f"center[{place}]", value) for place, value in enumerate(self.center))
        unit = tuple(_factor(f"unit[{place}]", value) for place, value in enumerate(self.unit))
        if len(center) != len(unit):
            raise RefusedKey(
                "unit", f"has {len(unit)} entries, and center has {len(center)}: give both for each input, or none"
            )
        if center and isinstance(self.bandwidth, tuple) and len(self.bandwidth) != len(center):
            raise RefusedKey(
                "center", f"has {len(center)} entries, and bandwidth has {len(self.bandwidth)}: give one for each input"
            )
        object.__setattr__(self, "center", center)
        object.__setattr__(self, "unit", unit)

    _formula = staticmethod(kernel_formulas.trended)

    @cached_property
    def _numbers(self) -> Array:
        trend = resolved_value("trend", self.trend, "kernel")
        known = (float(trend), float(len(self.center)), *self.center, *(1.0 / width for width in self.unit))
        return bandwidths.numbers(self.bandwidth, *known)

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that still have to be resolved from data."""
        return (*super().automatic, *(("trend",) if self.trend == "auto" else ()))

    @property
    def inputs(self) -> int | None:
        """The number of inputs that it needs; None for any number."""
        return len(self.center) or super().inputs

    def resolved(self, sample: Sample) -> Self:
        """Return the kernel with numbers for its words, from a sample of the data."""
        if self.trend != "auto":
            return super().resolved(sample)
        plain = Gaussian(self.bandwidth)
        return self.with_trend(trends.found(sample, plain.resolved))

    def with_trend(self, found: trends.Found) -> Self:
        """Return the kernel with its words replaced by the numbers found; numbers that were given do not change."""
        known = (self.center, self.unit) if self.center else (found.center, found.unit)
        return replace(self, bandwidth=found.bandwidth, trend=found.trend, center=known[0], unit=known[1])

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        if self.center and points.shape[1] != len(self.center):
            raise RefusedKey(
                "center",
                f"has {len(self.center)} entries, and points have {points.shape[1]} inputs: give one for each input",
            )
        return super().cross(points, centers)

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, diagonal=kernel_formulas.trended_diagonal)

    def diagonal(self, points: Array) -> Array:
        """Evaluate 1 + trend (1 + ||u||^2) / (1 + p): (n, p) gives (n,)."""
        values = np.empty(len(points))
        sole(kernel_formulas.trended_diagonal, DIAGONAL)(self._numbers, np.ascontiguousarray(points), values)
        return values


@dataclass(frozen=True)
class Polynomial(_Compiled):
    """Polynomial kernel (scale x.y + offset)^degree, unbounded.

    Parameters
    ----------
    degree
        Integer of at least 1.
    offset
        Nonnegative; 0 keeps only the monomials of exactly this degree.
    scale
        Factor > 0 on the inner product; 1 / p keeps values near 1 for standardised inputs.
    """

    degree: int = 2
    offset: float = 1.0
    scale: float = 1.0
    supremum: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        degree: object = self.degree
        if isinstance(degree, bool) or not isinstance(degree, Integral) or int(degree) < 1:
            raise RefusedKey("degree", f"= {degree!r} must be an integer of at least 1")
        if int(degree) > LARGEST_DEGREE:
            raise RefusedKey(
                "degree",
                f"= {degree!r} must be at most {LARGEST_DEGREE}: values above 1 grow beyond any number, and the "
                "others vanish",
            )
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "offset", _nonnegative("offset", self.offset))
        object.__setattr__(self, "scale", _factor("scale", self.scale))

    _formula = staticmethod(kernel_formulas.polynomial)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.scale, self.offset, float(self.degree)])

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, diagonal=kernel_formulas.polynomial_diagonal)

    def diagonal(self, points: Array) -> Array:
        """Evaluate (scale ||x||^2 + offset)^degree: (n, p) gives (n,)."""
        return _polynomial_diagonal(self._numbers, points)


@dataclass(frozen=True)
class Linear(_Compiled):
    """Linear kernel x.y + offset, unbounded; its functions are affine, w.x + v, with v = 0 when offset = 0.

    Parameters
    ----------
    offset
        Nonnegative. 0 (the default) gives functions through the origin.
    """

    offset: float = 0.0
    supremum: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", _nonnegative("offset", self.offset))

    _formula = staticmethod(kernel_formulas.polynomial)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([1.0, self.offset, 1.0])

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(self._formula, self._numbers, diagonal=kernel_formulas.polynomial_diagonal)

    def diagonal(self, points: Array) -> Array:
        """Evaluate ||x||^2 + offset: (n, p) gives (n,)."""
        return _polynomial_diagonal(self._numbers, points)


def _polynomial_diagonal(numbers: Array, points: Array) -> Array:
    values = np.empty(len(points))
    sole(kernel_formulas.polynomial_diagonal, DIAGONAL)(numbers, np.ascontiguousarray(points), values)
    return values


def _factor(name: str, value: object) -> float:
    # Beyond 1e+-100 powers over- or underflow.
    if isinstance(value, bool) or not isinstance(value, Real) or not 1e-100 <= float(value) <= 1e100:
        raise RefusedKey(name, f"= {value!r} must be positive, within 1e-100 to 1e100: use a factor such as 1 / inputs")
    return float(value)  # an int or a numpy scalar would make numba compile a second version


def _entry(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not -1e100 <= float(value) <= 1e100:
        raise RefusedKey(name, f"= {value!r} must be within -1e100 to 1e100: use the mean of the input")
    return float(value)


def _nonnegative(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
        raise RefusedKey(name, f"= {value!r} must be a finite number >= 0: below 0 the kernel is not positive")
    return float(value)
