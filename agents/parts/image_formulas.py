"""The arithmetic of the kernel of images, compiled: images seen through windows, and the kernel of what is seen.

Eight images are looked at together, pixel beside pixel, so that all loops go into vector registers whatever the size of
an image. No sum is over several images: each looks the same whichever others are in the call.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import transpose
from kernelswarm.agents.arithmetic.kernel_formulas import gaussian
from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH
from kernelswarm.agents.arithmetic.views import line, read_only, table
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, njit_no_refcount

Array = npt.NDArray[np.float64]

LEADING = 5
"""Numbers before the windows: bandwidth, rows and columns of the images, rows and columns of windows."""


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
    """Evaluate exp(-||u(x) - u(y)||^2 / (2 bandwidth^2)), u what the windows see."""
    left, right = seen(numbers, points), seen(numbers, centers)
    gaussian(read_only(line(numbers, 0, 1)), read_only(left), read_only(right), values)
