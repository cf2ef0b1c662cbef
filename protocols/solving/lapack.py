"""Decompositions of symmetric matrices by LAPACK, in compiled code.

`np.linalg` has numba compile its checks and their messages, which takes seconds; here are the functions behind it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core import types

from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]

_pointer: Any = types.CPointer
_eigenvectors: Any = types.ExternalFunction(
    "numba_ez_xxxevd",
    types.intc(
        types.char, types.char, types.char, types.intp, _pointer(types.float64), types.intp, _pointer(types.float64)
    ),
)
"""The function that numba's `np.linalg.eigh` calls: it takes the kind of numbers, the job, the half that is
read, the size, the matrix by columns, its pitch, and room for the eigenvalues."""

_cholesky: Any = types.ExternalFunction(
    "numba_xxpotrf", types.intc(types.char, types.char, types.intp, _pointer(types.float64), types.intp)
)
"""That of `np.linalg.cholesky`: the kind of numbers, the half that is read and written, the size, the matrix by
columns, its pitch."""

if not COMPILES:

    def decompose(matrix: Array, values: Array) -> None:
        """Replace the rows of a symmetric matrix by its eigenvectors, and fill in the eigenvalues."""
        found, vectors = np.linalg.eigh(matrix, UPLO="U")
        values[:], matrix[:] = found, vectors.T

    def factor(matrix: Array) -> bool:
        """Turn the upper triangle of A into that of R, with A = R'R; False where A is not positive definite."""
        try:
            lower = np.linalg.cholesky(np.triu(matrix) + np.triu(matrix, 1).T)
        except np.linalg.LinAlgError:
            return False
        matrix[np.triu_indices_from(matrix)] = lower.T[np.triu_indices_from(matrix)]
        return True

else:

    @cached_njit
    def decompose(matrix: Array, values: Array) -> None:
        """Replace the rows of a symmetric matrix (m, m) by its eigenvectors, and fill in the eigenvalues.

        Its upper triangle is read: by columns, as LAPACK has matrices, that is the lower one.
        """
        size = len(matrix)
        if size == 1:
            values[0], matrix[0, 0] = matrix[0, 0], 1.0
            return
        if _eigenvectors(ord("d"), ord("V"), ord("L"), size, matrix.ctypes, size, values.ctypes):
            raise np.linalg.LinAlgError("the eigenvalues of a node's matrix did not converge")

    @cached_njit
    def factor(matrix: Array) -> bool:
        """Turn the upper triangle of A (m, m) into that of R, with A = R'R; False where A is not positive definite.

        The lower triangle is neither read nor written.
        """
        size = len(matrix)
        return bool(_cholesky(ord("d"), ord("L"), size, matrix.ctypes, size) == 0)
