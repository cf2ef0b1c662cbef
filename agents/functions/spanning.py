"""Which of many points span all of them in a reproducing kernel Hilbert space."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.plain.kernels import kernel_diagonal, kernel_rows

Array = npt.NDArray[np.float64]


def spanning(kernel: Kernel, points: Array, threshold: float) -> npt.NDArray[np.intp]:
    """Choose points that span the others to working precision: a Cholesky decomposition with complete pivoting.

    The point farthest from the span of those chosen is next, until the squared distance of every other is at most
    ``threshold`` of the largest kappa(x, x).

    Parameters
    ----------
    kernel : Kernel
        The kernel of the space.
    points : Array
        (n, p).
    threshold : float
        Share in [0, 1) of the largest kappa(x, x).

    Returns
    -------
    Array
        The indices of the chosen points in increasing order, (r,).
    """
    left = kernel_diagonal(kernel, points).copy()
    least = threshold * float(left.max())
    lower = np.empty((0, len(points)))
    chosen: list[int] = []
    while len(chosen) < len(points):
        best = int(np.argmax(left))
        if not left[best] > least:
            break
        chosen.append(best)
        row = kernel_rows(kernel, points[best : best + 1], points)[0] - lower[:, best] @ lower
        row /= np.sqrt(left[best])
        left -= row * row
        left[chosen] = 0.0
        lower = np.concatenate([lower, row[np.newaxis]])
    return np.sort(np.array(chosen, dtype=np.intp))
