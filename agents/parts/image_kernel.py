"""A kernel for images: the Gaussian kernel of their averages in overlapping windows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import KERNEL, CompiledKernel
from kernelswarm.agents.arithmetic.copying import transpose
from kernelswarm.agents.arithmetic.kernel_formulas import gaussian
from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH
from kernelswarm.agents.arithmetic.views import line, read_only, table
from kernelswarm.agents.parts import bandwidths
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import fill
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.refused_key import RefusedKey

# The arithmetic of the kernel of images, compiled: averages in windows, and their kernel.
#
# Eight images are processed together, with their pixels interleaved, so that all loops use vector registers for images
# of any size. No sum runs over several images, so that the result for an image does not depend on the others.


LEADING = 5
"""The count of numbers before the windows: bandwidth, rows and columns of the images, rows and columns of windows."""


@cached_njit
def seen(numbers: ReadOnly, images: ReadOnly) -> Array:
    """Return the window values of images (n, rows columns), each of norm 1: (n, windows); 0 for a dark image."""
    pixels, windows = images.shape[1], int(numbers[3]) * int(numbers[4])
    found: Array = np.empty((images.shape[0], windows))
    beside: Array = np.empty(pixels * SIMD_WIDTH)
    sights: Array = np.empty(windows * SIMD_WIDTH)
    strip: Array = np.empty(int(numbers[2]) * SIMD_WIDTH)
    squares: Array = np.empty(SIMD_WIDTH)
    for first in range(0, images.shape[0], SIMD_WIDTH):
        count = min(SIMD_WIDTH, images.shape[0] - first)
        transpose(beside, 0, SIMD_WIDTH, images, first * pixels, pixels, count, pixels, 1.0)
        _look(numbers, beside, strip, sights)
        for q in range(SIMD_WIDTH):
            squares[q] = 0.0
        for k in range(windows):
            for q in range(SIMD_WIDTH):
                squares[q] += sights[k * SIMD_WIDTH + q] * sights[k * SIMD_WIDTH + q]
        for q in range(count):
            factor = 1.0 / math.sqrt(squares[q]) if squares[q] > 0.0 else 0.0
            for k in range(windows):
                found[first + q, k] = sights[k * SIMD_WIDTH + q] * factor
    return found


@njit_no_refcount
def _look(numbers: ReadOnly, beside: Array, strip: Array, sights: Array) -> None:
    """Fill ``sights`` (windows, 8) with the window values of eight images beside each other (pixels, 8)."""
    rows, columns, above, across = int(numbers[1]), int(numbers[2]), int(numbers[3]), int(numbers[4])
    down = table(numbers, LEADING, above, rows)
    along = table(numbers, LEADING + above * rows, across, columns)
    for a in range(above):
        for k in range(columns * SIMD_WIDTH):
            strip[k] = 0.0
        for i in range(rows):
            weight = down[a, i]
            if weight > 0.0:
                row = line(beside, i * columns * SIMD_WIDTH, columns * SIMD_WIDTH)
                for k in range(columns * SIMD_WIDTH):
                    strip[k] += weight * row[k]
        for b in range(across):
            sight = line(sights, (a * across + b) * SIMD_WIDTH, SIMD_WIDTH)
            for q in range(SIMD_WIDTH):
                sight[q] = 0.0
            for j in range(columns):
                weight = along[b, j]
                if weight > 0.0:
                    pixel = line(strip, j * SIMD_WIDTH, SIMD_WIDTH)
                    for q in range(SIMD_WIDTH):
                        sight[q] += weight * pixel[q]


@cached_njit
def images(numbers: ReadOnly, points: ReadOnly, centers: ReadOnly, values: Array) -> None:
    """Evaluate exp(-||u(x) - u(y)||^2 / (2 bandwidth^2)), u the values in the windows."""
    left, right = seen(numbers, points), seen(numbers, centers)
    gaussian(read_only(line(numbers, 0, 1)), read_only(left), read_only(right), values)


ACROSS = 14
"""The number of windows along the shorter side, if it has as many pixels. For MNIST, with 28 pixels, windows are then
two pixels apart (docs/mnist.md)."""

REACH = 4.0
"""The number of standard deviations beyond which a window's weights are 0."""


@dataclass(frozen=True)
class Images:
    """Gaussian kernel of the averages of two grey images in overlapping windows, with values in [0, 1].

    u(x) are the image's means under Gaussian windows whose centers are ``spacing`` pixels apart, scaled to norm 1. The
    kernel is exp(-||u(x) - u(y)||^2 / (2 bandwidth^2)). Windows have a standard deviation of half the spacing.
    Therefore strokes that are one pixel apart are close to each other, whereas as pixel vectors they would be
    orthogonal, and brightness has no effect. This is the image Euclidean distance (Wang, Zhang and Feng 2005) on a
    coarser grid. An image of zeros has u = 0. The kernel is positive semidefinite, as a Gaussian kernel of u(x).

    Parameters
    ----------
    shape
        Rows and columns of the images; the inputs are the pixels, row by row.
    spacing
        Pixels from one window's center to the next, at least 1. "auto", the default, gives 14 windows along the shorter
        side, or one per pixel if it has fewer pixels.
    bandwidth
        Length scale s > 0 of u. Two values of u are at most 2 apart, or sqrt(2) if no pixel is negative. "median", the
        default, is 0.4 times the median distance of training images.

    Examples
    --------
    >>> import numpy as np
    >>> strokes = np.zeros((3, 8, 8))
    >>> strokes[0, :, 2] = strokes[1, :, 3] = strokes[2, :, 6] = 1.0
    >>> pixels = strokes.reshape(3, -1)
    >>> Images(shape=(8, 8), spacing=2.0, bandwidth=0.5).cross(pixels[:1], pixels).round(2)
    array([[1.  , 0.7 , 0.02]])
    """

    shape: tuple[int, int] = field(metadata={"example": (28, 28)})
    spacing: float | Literal["auto"] = "auto"
    bandwidth: float | Literal["median"] = "median"
    supremum: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        object.__setattr__(self, "spacing", _spacing(self.spacing, self.shape))
        bandwidth = bandwidths.checked(self.bandwidth)
        if isinstance(bandwidth, tuple) or bandwidth == "relevance":
            raise RefusedKey(
                "bandwidth", f'= {self.bandwidth!r} must be one number for all windows, or "median": they all see alike'
            )
        object.__setattr__(self, "bandwidth", bandwidth)

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that still have to be resolved from data."""
        return ("bandwidth",) if isinstance(self.bandwidth, str) else ()

    @property
    def inputs(self) -> int:
        return self.shape[0] * self.shape[1]

    def resolved(self, sample: Sample) -> Self:
        """Return the kernel with its bandwidth resolved from a sample of the data."""
        if not self.automatic:
            return self
        return replace(self, bandwidth=bandwidths.SHARE * bandwidths.median_distance(self.seen(sample.points)))

    def seen(self, points: Array) -> Array:
        """Return u of images (n, p), (n, windows)."""
        self._check(points)
        found: Array = seen(replace(self, bandwidth=1.0)._numbers, np.ascontiguousarray(points))
        return found

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""
        self._check(points)
        values = np.empty((len(points), len(centers)))
        fill(images, KERNEL, self._numbers, points, centers, values)
        return values

    def diagonal(self, points: Array) -> Array:
        return np.ones(points.shape[0])

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel's functions and numbers for compiled steps."""
        return CompiledKernel(images, self._numbers, unit=True)

    @cached_property
    def _numbers(self) -> Array:
        """The bandwidth, the sizes, the windows over rows, and those over columns."""
        down, along = (_windows(length, float(self.spacing)) for length in self.shape)
        sizes = [*self.shape, len(down), len(along)]
        return np.concatenate([bandwidths.numbers(self.bandwidth), sizes, down.ravel(), along.ravel()])

    def _check(self, points: Array) -> None:
        if points.shape[1] != self.inputs:
            rows, columns = self.shape
            raise RefusedKey(
                "shape",
                f"= [{rows}, {columns}] takes {self.inputs} pixels, and points have {points.shape[1]} inputs: give the "
                "rows and columns of the images",
            )


def _windows(length: int, spacing: float) -> Array:
    """Return the weights of Gaussian windows over a row of pixels, (windows, length); each sums to 1 or, cut off, less.

    Their centers are spaced evenly about the middle.
    """
    count = max(math.floor(length / spacing + 1e-9), 1)
    centers = 0.5 * (length - 1) + spacing * (np.arange(count) - 0.5 * (count - 1))
    offsets = (np.arange(length) - centers[:, None]) / (0.5 * spacing)
    weights = np.where(np.abs(offsets) <= REACH, np.exp(-0.5 * offsets**2), 0.0)
    found: Array = weights / weights.sum(axis=1).max()
    return found


def _shape(value: object) -> tuple[int, int]:
    sides: tuple[object, ...] = tuple(value) if isinstance(value, list | tuple) else ()
    whole = [int(side) for side in sides if isinstance(side, Integral) and int(side) >= 1]
    if len(sides) != 2 or len(whole) != 2:
        raise RefusedKey("shape", f"= {value!r} must be two whole numbers, the rows and columns of the images")
    return whole[0], whole[1]


def _spacing(value: object, shape: tuple[int, int]) -> float:
    if isinstance(value, str) and value == "auto":
        return max(1.0, min(shape) / ACROSS)
    if isinstance(value, bool) or not isinstance(value, Real) or not 1.0 <= float(value) <= max(shape):
        raise RefusedKey(
            "spacing",
            f'= {value!r} must be between 1 pixel and {max(shape)}, the longer side of the images, or "auto"',
        )
    return float(value)
