"""Many samples rotated into a triangular factor at once, by matrix products."""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.agents.arithmetic.simd import add_scaled, dot, whole
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.learners.second_order.information import NOTHING
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

PANEL = 24
"""Columns that are reduced together, before all others follow in one product."""

LEAF = 8
"""Columns of a panel that are reduced one after the other, before the panel's others follow."""

STRIP = 128
"""Columns that follow together: few enough for the fast caches."""


@cached_njit
def absorb(root: Array, moments: Array, rows: Array, aims: Array) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle; both are used up.

    Panels of columns are reduced one after the other, and the reflections ``I - Y T Y'`` of each applied to all that
    lies to the right in products (compact WY form, Schreiber and Van Loan, 1989).
    """
    (size, order), outputs = rows.shape, aims.shape[1]
    vectors = np.zeros((PANEL, whole(size)))  # a panel's columns, each in one piece
    gram, reflector = np.empty((PANEL, PANEL)), np.zeros((PANEL, PANEL))
    work = np.empty((2, PANEL * STRIP))
    for start in range(0, order, PANEL):
        count = min(PANEL, order - start)
        end = start + count
        for n in range(size):
            for i in range(count):
                vectors[i, n] = rows[n, start + i]
        for first in range(0, count, LEAF):
            last = min(first + LEAF, count)
            _reduce(root, start, vectors, first, last)
            if last < count:
                _join(vectors, first, last, gram, reflector)
                upper = (start + first) * root.shape[1] + start + last
                _reflect(root, upper, vectors, last, True, vectors, first, last, count - last, size, reflector, work)
        _join(vectors, 0, count, gram, reflector)
        for left in range(end, order, STRIP):
            strip = min(STRIP, order - left)
            upper = start * root.shape[1] + left
            _reflect(root, upper, rows, left, False, vectors, 0, count, strip, size, reflector, work)
        _reflect(moments, start * outputs, aims, 0, False, vectors, 0, count, outputs, size, reflector, work)


@cached_njit
def _reduce(root: Array, start: int, vectors: Array, first: int, last: int) -> None:
    """Reduce some columns of what lies below the triangle; in its place comes Y, below the identity."""
    size = vectors.shape[1]
    for i in range(first, last):
        vector, upper = vectors[i], root[start + i]
        sigma = dot(vectors, i * size, vector, size)
        if sigma <= NOTHING:
            vector[:] = 0.0
            continue
        alpha = upper[start + i]
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta)
        scale = 2.0 / (head * head + sigma)
        upper[start + i] = beta
        for k in range(i + 1, last):
            change = scale * (head * upper[start + k] + dot(vectors, k * size, vector, size))
            upper[start + k] -= head * change
            add_scaled(vectors, k * size, vector, 0, -change, size)
        for n in range(size):
            vector[n] /= head


@cached_njit
def _join(vectors: Array, first: int, last: int, gram: Array, reflector: Array) -> None:
    """Fill in T, lower triangular, of reflections that come one after the other."""
    size, count = vectors.shape[1], last - first
    place = first * size
    multiply(gram, 0, PANEL, vectors, place, size, False, vectors, place, size, True, count, size, count, 1.0, 0.0)
    for i in range(count):
        row = reflector[i]
        row[:] = 0.0
        scale = 2.0 / (1.0 + gram[i, i]) if gram[i, i] > 0.0 else 0.0
        for k in range(i):
            add_scaled(row, 0, reflector, k * PANEL, -scale * gram[i, k], whole(k + 1))
        row[i] = scale


@cached_njit
def _reflect(
    upper: Array,
    place: int,
    rest: Array,
    begin: int,
    turned: bool,
    vectors: Array,
    first: int,
    last: int,
    columns: int,
    size: int,
    reflector: Array,
    work: Array,
) -> None:
    """Apply the reflections ``first`` to ``last`` of a panel to other columns.

    These lie in ``upper`` from a ``place`` on, and in ``rest`` from the column ``begin`` on, or the row where it is
    ``turned``.
    """
    pitch, step, count = vectors.shape[1], upper.shape[1], last - first
    y, below, wide = first * pitch, begin * rest.shape[1] if turned else begin, rest.shape[1]
    sums, change = work[0], work[1]
    # T (upper + Y' rest) comes off above, Y times that below.
    multiply(sums, 0, columns, vectors, y, pitch, False, rest, below, wide, turned, count, size, columns, 1.0, 0.0)
    for i in range(count):
        row, into = line(upper, place + i * step, columns), line(sums, i * columns, columns)
        for k in range(columns):
            into[k] += row[k]
    multiply(change, 0, columns, reflector, 0, PANEL, False, sums, 0, columns, False, count, count, columns, 1.0, 0.0)
    for i in range(count):
        row, out_of = line(upper, place + i * step, columns), line(change, i * columns, columns)
        for k in range(columns):
            row[k] -= out_of[k]
    if turned:
        multiply(rest, below, wide, change, 0, columns, True, vectors, y, pitch, False, columns, count, size, -1.0, 1.0)
    else:
        multiply(rest, below, wide, vectors, y, pitch, True, change, 0, columns, False, size, count, columns, -1.0, 1.0)
