"""A kernel for compiled steps, whether it is compiled or not."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import CompiledKernel
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.compiled import NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.first_class import Compiled

Array = npt.NDArray[np.float64]


def kernel_form(kernel: Kernel) -> CompiledKernel:
    """Return a kernel's functions for compiled steps; those that it lacks call its methods."""
    try:
        found: CompiledKernel = handed_over(kernel, "kernel")
    except NotCompiledError:
        return CompiledKernel(_cross(kernel), np.zeros(0), diagonal=_diagonal(kernel))
    return found if found.unit or found.diagonal is not None else found._replace(diagonal=_diagonal(kernel))


def kernel_rows(kernel: Kernel, points: Array, centers: Array) -> Array:
    """Return kappa(points[i], centers[j]) for all pairs, as compiled code takes it: (n, p) and (m, p) give (n, m).

    A kernel in plain Python may return any layout and type of numbers, such as the transpose of another array. It is
    given copies.

    Raises
    ------
    ValueError
        It returned another shape.
    """
    if not hands_over(kernel):  # one in plain Python may write to what it is given, which is the state of a learner
        points, centers = points.copy(), centers.copy()
    answer = kernel.cross(points, centers)
    size = len(points), len(centers)
    if type(answer) is np.ndarray and answer.shape == size and answer.dtype == np.float64 and answer.flags.c_contiguous:
        return answer
    found = np.empty(size)
    fill(found, answer, f"{type(kernel).__name__}.cross")
    return found


def kernel_diagonal(kernel: Kernel, points: Array) -> Array:
    """Return kappa(points[i], points[i]) in the same way: (n, p) gives (n,).

    Raises
    ------
    ValueError
        The kernel returned another shape.
    """
    found = np.empty(len(points))
    fill(found, kernel.diagonal(points if hands_over(kernel) else points.copy()), f"{type(kernel).__name__}.diagonal")
    return found


def compares_alike(learner: Any) -> bool:
    """Tell whether entries have the same bits whichever others are computed with them, as compiled kernels' do."""
    return not hasattr(learner, "kernel") or hands_over(learner.kernel)


def _cross(kernel: Kernel) -> Compiled:
    name = f"{type(kernel).__name__}.cross"

    def cross(_numbers: Array, points: Array, centers: Array, values: Array) -> None:
        if len(points) and len(centers):  # methods are not called without points
            fill(values[:, : len(centers)], kernel.cross(points.copy(), centers.copy()), name)

    return cross


def _diagonal(kernel: Kernel) -> Compiled:
    name = f"{type(kernel).__name__}.diagonal"

    def diagonal(_numbers: Array, points: Array, values: Array) -> None:
        fill(values, kernel.diagonal(points.copy()), name)

    return diagonal
