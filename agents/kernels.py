"""Kernels kappa(x, y), the similarity that decides which functions a node can learn.

A kernel is a frozen dataclass whose fields are the keys of the experiment file. Each call runs one compiled function
with a few plain float arguments, because a round evaluates a kernel between one sample and some twenty dictionary
points: there the call itself costs more than the arithmetic (0.9 microseconds for 1 x 2 against 20 x 2).

With at most `NARROW` inputs an entry is computed by plain loops over its own two rows, so it has the same bits
whichever other rows are in the call; a node may therefore be evaluated alone or among others.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.float64]

#: Up to this many inputs distances and inner products are plain loops, above it one matrix product.
NARROW = 32

#: A pair whose squared distance is below this share of its squared norms loses too many digits in the difference
#: ||x||^2 - 2 x.c + ||c||^2 and is computed again by a plain loop. Equal rows so have distance exactly 0.
CANCELLATION = 1e-4


class Kernel(Protocol):
    """A positive semidefinite function of two points, evaluated for all pairs of two sets of points."""

    @property
    def supremum(self) -> float | None:
        """Smallest bound on kappa(x, x) over all x, None when there is none."""

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate kappa(points[i], centers[j]) for all pairs: (n, p) and (m, p) give (n, m)."""

    def diagonal(self, points: Array) -> Array:
        """Evaluate kappa(points[i], points[i]): (n, p) gives (n,)."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian kernel exp(-||x - y||^2 / (2 bandwidth^2)), with values in [0, 1] (POLK section 5).

    Parameters
    ----------
    bandwidth
        Length scale s > 0 in the unit of the inputs. The papers quote s^2.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(bandwidth=2.0).cross(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 2.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    bandwidth: float = 1.0
    supremum: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", _length("bandwidth", self.bandwidth))

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values: Array = _gaussian(points, centers, self.bandwidth)
        return values

    def diagonal(self, points: Array) -> Array:
        """Return ones, one for each of the n points."""
        return np.ones(points.shape[0])


@dataclass(frozen=True)
class Laplacian:
    """Laplacian kernel exp(-||x - y||_1 / bandwidth), with values in [0, 1]; its functions may have kinks.

    Parameters
    ----------
    bandwidth
        Length scale > 0 in the unit of the inputs.
    """

    bandwidth: float = 1.0
    supremum: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", _length("bandwidth", self.bandwidth))

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values: Array = _laplacian(points, centers, self.bandwidth)
        return values

    def diagonal(self, points: Array) -> Array:
        """Return ones, one for each of the n points."""
        return np.ones(points.shape[0])


@dataclass(frozen=True)
class Matern:
    """Matern kernel of half-integer smoothness, with values in [0, 1].

    With r = ||x - y|| / bandwidth it is (1 + sqrt(3) r) exp(-sqrt(3) r) for smoothness 1.5 and
    (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r) for 2.5 (Rasmussen and Williams, Gaussian Processes for Machine
    Learning, eq. 4.17). Its functions are once, respectively twice, differentiable in the mean-square sense.

    Parameters
    ----------
    bandwidth
        Length scale > 0 in the unit of the inputs.
    smoothness
        1.5 or 2.5.
    """

    bandwidth: float = 1.0
    smoothness: float = 1.5
    supremum: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", _length("bandwidth", self.bandwidth))
        if self.smoothness not in (1.5, 2.5):
            raise ValueError(
                f"smoothness = {self.smoothness!r} must be 1.5 or 2.5: take a gaussian kernel for smoother functions, "
                "a laplacian one for rougher ones"
            )
        object.__setattr__(self, "smoothness", float(self.smoothness))

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values: Array = _matern(points, centers, self.bandwidth, self.smoothness)
        return values

    def diagonal(self, points: Array) -> Array:
        """Return ones, one for each of the n points."""
        return np.ones(points.shape[0])


@dataclass(frozen=True)
class Polynomial:
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
            raise ValueError(f"degree = {degree!r} must be an integer of at least 1")
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "offset", _nonnegative("offset", self.offset))
        object.__setattr__(self, "scale", _length("scale", self.scale))

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values: Array = _polynomial(points, centers, self.scale, self.offset, self.degree)
        return values

    def diagonal(self, points: Array) -> Array:
        """Evaluate (scale ||x||^2 + offset)^degree: (n, p) gives (n,)."""
        values: Array = _polynomial_diagonal(points, self.scale, self.offset, self.degree)
        return values


@dataclass(frozen=True)
class Linear:
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

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        values: Array = _polynomial(points, centers, 1.0, self.offset, 1)
        return values

    def diagonal(self, points: Array) -> Array:
        """Evaluate ||x||^2 + offset: (n, p) gives (n,)."""
        values: Array = _polynomial_diagonal(points, 1.0, self.offset, 1)
        return values


def _length(name: str, value: object) -> float:
    # Beyond 1e+-100 the square over- or underflows, and 0 * inf would put a NaN on the diagonal.
    if isinstance(value, bool) or not isinstance(value, Real) or not 1e-100 <= float(value) <= 1e100:
        remedy = "a factor such as 1 / inputs" if name == "scale" else "the length scale of the inputs"
        raise ValueError(f"{name} = {value!r} must be positive, within 1e-100 to 1e100: use {remedy}")
    return float(value)  # an int or a numpy scalar would make numba compile a second version


def _nonnegative(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
        raise ValueError(f"{name} = {value!r} must be a finite number >= 0: below 0 the kernel is not positive")
    return float(value)


@njit(cache=True)
def _squared_norms(rows: Array) -> Array:
    norms: Array = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        total = 0.0
        for k in range(rows.shape[1]):
            total += rows[i, k] * rows[i, k]
        norms[i] = total
    return norms


@njit(cache=True)
def _squared_distance(points: Array, i: int, centers: Array, j: int) -> float:
    total = 0.0
    for k in range(points.shape[1]):
        difference = points[i, k] - centers[j, k]
        total += difference * difference
    return total


@njit(cache=True)
def _squared_distances(points: Array, centers: Array) -> Array:
    n, m = points.shape[0], centers.shape[0]
    if points.shape[1] <= NARROW:
        squares: Array = np.empty((n, m))
        for i in range(n):
            for j in range(m):
                squares[i, j] = _squared_distance(points, i, centers, j)
        return squares
    squares = np.dot(points, centers.T)
    point_norms = _squared_norms(points)
    center_norms = _squared_norms(centers)
    for i in range(n):
        for j in range(m):
            norms = point_norms[i] + center_norms[j]
            square = norms - 2.0 * squares[i, j]
            if not square > CANCELLATION * norms:  # also where squared norms overflow
                square = _squared_distance(points, i, centers, j)
            squares[i, j] = max(square, 0.0)
    return squares


@njit(cache=True)
def _gaussian(points: Array, centers: Array, bandwidth: float) -> Array:
    values = _squared_distances(points, centers)
    rate = 0.5 / (bandwidth * bandwidth)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = math.exp(-rate * values[i, j])
    return values


@njit(cache=True)
def _laplacian(points: Array, centers: Array, bandwidth: float) -> Array:
    n, m = points.shape[0], centers.shape[0]
    values = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for k in range(points.shape[1]):
                total += abs(points[i, k] - centers[j, k])
            values[i, j] = math.exp(-total / bandwidth)
    return values


@njit(cache=True)
def _matern(points: Array, centers: Array, bandwidth: float, smoothness: float) -> Array:
    values = _squared_distances(points, centers)
    twice = 2.0 * smoothness  # 3 or 5
    curved = 1.0 / 3.0 if smoothness == 2.5 else 0.0
    rate = math.sqrt(twice) / bandwidth
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            distance = rate * math.sqrt(values[i, j])
            # Far away the polynomial may be infinite while the exponential is 0.
            if distance > 750.0:
                values[i, j] = 0.0
            else:
                values[i, j] = (1.0 + distance * (1.0 + curved * distance)) * math.exp(-distance)
    return values


@njit(cache=True)
def _power(base: float, degree: int) -> float:
    # Repeated multiplication gives the same bits compiled and not; the ** operator does not.
    value = base
    for _ in range(degree - 1):
        value *= base
    return value


@njit(cache=True)
def _polynomial(points: Array, centers: Array, scale: float, offset: float, degree: int) -> Array:
    n, m = points.shape[0], centers.shape[0]
    if points.shape[1] <= NARROW:
        values = np.empty((n, m))
        for i in range(n):
            for j in range(m):
                product = 0.0
                for k in range(points.shape[1]):
                    product += points[i, k] * centers[j, k]
                values[i, j] = product
    else:
        values = np.dot(points, centers.T)
    for i in range(n):
        for j in range(m):
            values[i, j] = _power(scale * values[i, j] + offset, degree)
    return values


@njit(cache=True)
def _polynomial_diagonal(points: Array, scale: float, offset: float, degree: int) -> Array:
    norms: Array = _squared_norms(points)
    for i in range(norms.shape[0]):
        norms[i] = _power(scale * norms[i] + offset, degree)
    return norms
