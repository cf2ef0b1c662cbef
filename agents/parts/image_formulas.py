"""The arithmetic of the kernel of images, compiled: images seen through windows, and the kernel of what is seen.

Eight images are looked at together, pixel beside pixel, so that all loops go into vector registers whatever the size of
an image. No sum is over several images: each looks the same whichever others are in the call.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import transpose
from kernelswarm.agents.arithmetic.kernel_formulas import gaussian
from kernelswarm.agents.arithmetic.lanes import LANES
from kernelswarm.agents.arithmetic.tables import line, read_only, table
from kernelswarm.protocols.compiling import ReadOnly, jitted, uncounted

Array = npt.NDArray[np.float64]

LEADING = 5
"""Numbers before the windows: bandwidth, rows and columns of the images, rows and columns of windows."""


@jitted
def seen(numbers: ReadOnly, images: ReadOnly) -> Array:
    """Return what the windows see of images (n, rows columns), each scaled to norm 1: (n, windows); of a dark one 0."""
    pixels, windows = images.shape[1], int(numbers[3]) * int(numbers[4])
    found: Array = np.empty((images.shape[0], windows))
    beside: Array = np.empty(pixels * LANES)
    sights: Array = np.empty(windows * LANES)
    strip: Array = np.empty(int(numbers[2]) * LANES)
    squares: Array = np.empty(LANES)
    for first in range(0, images.shape[0], LANES):
        count = min(LANES, images.shape[0] - first)
        transpose(beside, 0, LANES, images, first * pixels, pixels, count, pixels, 1.0)
        _look(numbers, beside, strip, sights)
        for q in range(LANES):
            squares[q] = 0.0
        for k in range(windows):
            for q in range(LANES):
                squares[q] += sights[k * LANES + q] * sights[k * LANES + q]
        for q in range(count):
            factor = 1.0 / math.sqrt(squares[q]) if squares[q] > 0.0 else 0.0
            for k in range(windows):
                found[first + q, k] = sights[k * LANES + q] * factor
    return found


@uncounted
def _look(numbers: ReadOnly, beside: Array, strip: Array, sights: Array) -> None:
    """Put what the windows see of eight images beside each other (pixels, 8) into ``sights`` (windows, 8)."""
    rows, columns, above, across = int(numbers[1]), int(numbers[2]), int(numbers[3]), int(numbers[4])
    down = table(numbers, LEADING, above, rows)
    along = table(numbers, LEADING + above * rows, across, columns)
    for a in range(above):
        for k in range(columns * LANES):
            strip[k] = 0.0
        for i in range(rows):
            weight = down[a, i]
            if weight > 0.0:
                row = line(beside, i * columns * LANES, columns * LANES)
                for k in range(columns * LANES):
                    strip[k] += weight * row[k]
        for b in range(across):
            sight = line(sights, (a * across + b) * LANES, LANES)
            for q in range(LANES):
                sight[q] = 0.0
            for j in range(columns):
                weight = along[b, j]
                if weight > 0.0:
                    pixel = line(strip, j * LANES, LANES)
                    for q in range(LANES):
                        sight[q] += weight * pixel[q]


@jitted
def images(numbers: ReadOnly, points: ReadOnly, centers: ReadOnly, values: Array) -> None:
    """Evaluate exp(-||u(x) - u(y)||^2 / (2 bandwidth^2)), u what the windows see."""
    left, right = seen(numbers, points), seen(numbers, centers)
    gaussian(read_only(line(numbers, 0, 1)), read_only(left), read_only(right), values)
