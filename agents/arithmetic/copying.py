"""Copies into parts of arrays, in compiled code."""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, uncounted

Array = npt.NDArray[np.float64]


@uncounted
def copy_vector(source: ReadOnly, target: Array) -> None:
    """Copy (n,) into the first n entries of ``target``.

    ``target[:n] = source`` does the same, and has numba compile what writes the text of an error about shapes, which
    takes seconds and is kept in no cache.
    """
    for i in range(source.shape[0]):
        target[i] = source[i]


@uncounted
def copy_matrix(source: Array, target: Array) -> None:
    """Copy (n, m) into the first n rows and m columns of ``target``; as :func:`copy_vector`."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]
