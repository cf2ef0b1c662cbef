"""The projections of a batch's points on the span of a dictionary, by matrix products in one pass over its factor."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

TILE, STRIP = 32, 128
"""Rows and columns of the factor that are multiplied together, and stay in the cache between two products."""


def offered(factor: Array, cross: Array, gram: Array, new_weights: Array) -> tuple[Indices, Array, Array]:
    """Return the points whose weights are not 0, and what :func:`split` says of them."""
    entering = np.flatnonzero(new_weights.any(axis=1))
    if len(entering) == len(new_weights):
        return entering, *split(factor, cross, gram)
    return entering, *split(factor, cross[entering], gram[np.ix_(entering, entering)])


def split(factor: Array, cross: Array, gram: Array) -> tuple[Array, Array]:
    """Project points on the span of a dictionary of M.

    Parameters
    ----------
    factor : Array
        The storage of the factor U.
    cross : Array
        B', the kernel between the points and the dictionary, (n, M).
    gram : Array
        G, that between the points, (n, n).

    Returns
    -------
    projections : Array
        ``A' = B'U'U``, (n, M).
    rest : Array
        The Schur complement ``G - B'U'UB``, (n, n).
    """
    images, projections = np.empty(cross.shape), np.zeros(cross.shape)
    _project(factor, np.require(cross, requirements=["C", "W"]), images, projections)
    return projections, gram - images @ images.T


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
