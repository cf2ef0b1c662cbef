"""The projections of a batch's points on the span of a dictionary, by matrix products in one pass over its factor."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.agents.arithmetic.blocks.routines import inner_products
from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

TILE, STRIP = 32, 128
"""Rows and columns of the factor that are multiplied together, and stay in the cache between two products."""


@cached_njit
def offered(
    factor: Array, order: int, cross: ReadOnly, gram: ReadOnly, new_weights: Array
) -> tuple[Indices, Array, Array]:
    """Return the points whose weights are not 0, and project these on the span of a dictionary of M.

    Parameters
    ----------
    factor : Array
        The storage of the factor U.
    order : int
        M.
    cross : Array
        B', the kernel between the points and the dictionary, (N, M or more).
    gram : Array
        G, that between the points, (N, N).
    new_weights : Array
        (N, C).

    Returns
    -------
    entering : Array
        The places of these points among all, (n,).
    projections : Array
        ``A' = B'U'U``, (n, M).
    rest : Array
        The Schur complement ``G - B'U'UB``, (n, n).
    """
    places, size = np.empty(len(new_weights), np.int64), 0
    for n in range(len(new_weights)):
        for c in range(new_weights.shape[1]):
            if new_weights[n, c] != 0.0:
                places[size] = n
                size += 1
                break
    entering, rows = places[:size], np.empty((size, order))
    for i in range(size):
        for k in range(order):
            rows[i, k] = cross[entering[i], k]
    images, projections, rest = np.empty((size, order)), np.zeros((size, order)), np.empty((size, size))
    if not size:
        return entering, projections, rest
    _project(factor, rows, images, projections)
    known = inner_products(images)
    for i in range(size):
        for k in range(size):
            rest[i, k] = gram[entering[i], entering[k]] - known[i, k]
    return entering, projections, rest


@cached_njit
def _project(factor: Array, cross: Array, images: Array, projections: Array) -> None:
    """Fill in ``B'U'`` and ``B'U'U``, in one pass over the factor; the latter's place holds zeros."""
    (size, order), pitch = cross.shape, factor.shape[1]
    for start in range(0, order, TILE):
        rows = min(TILE, order - start)
        for left in range(0, start + rows, STRIP):
            width, share = min(STRIP, start + rows - left), 0.0 if left == 0 else 1.0
            tile = start * pitch + left
            multiply(
                images,
                start,
                order,
                cross,
                left,
                order,
                False,
                factor,
                tile,
                pitch,
                True,
                size,
                width,
                rows,
                1.0,
                share,
            )
        for left in range(0, start + rows, STRIP):
            width = min(STRIP, start + rows - left)
            tile = start * pitch + left
            multiply(
                projections,
                left,
                order,
                images,
                start,
                order,
                False,
                factor,
                tile,
                pitch,
                False,
                size,
                rows,
                width,
                1.0,
                1.0,
            )
