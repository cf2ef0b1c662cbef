"""A kernel sum whose weights solve a least-squares problem in the Cholesky features of its dictionary."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import inline_always
from kernelswarm.protocols.solving.noise_variance import ROWS

Array = npt.NDArray[np.float64]


class SolvedSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x) = w' inv(L) kappa(D, x)``, where ``R w = Q``.

    Attributes
    ----------
    lower_buffer : Array
        The storage of L, lower triangular, (M, M) of it in use: the Cholesky factor of the Gram matrix, ``L L'``.
    root_buffer : Array
        That of R, upper triangular, (M, M): ``R'R`` is the curvature of the risk so far.
    moments_buffer : Array
        That of Q, (M, C).
    noise : Array
        What is known of the noise's variance, (3, C), as `noise_variance` carries it.
    """

    __slots__ = ("lower_buffer", "moments_buffer", "noise", "root_buffer")

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.lower_buffer: Array
        self.root_buffer: Array
        self.moments_buffer: Array
        self.noise: Array
        super().__init__(kernel, inputs, outputs)

    def snapshot(self) -> dict[str, Array]:
        """Return ``points``, ``weights``, ``lower``, ``root``, ``moments`` and ``noise`` (3, C), copied."""
        lower, root, moments, noise = (part.copy() for part in self._used()[2:6])
        return {**self.arrays(), "lower": lower, "root": root, "moments": moments, "noise": noise}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        for part, name in zip(self._used()[2:6], ("lower", "root", "moments", "noise"), strict=True):
            part[:] = arrays[name]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        square = (capacity, capacity)
        return [*super()._shapes(capacity), square, square, (capacity, self.outputs), (ROWS, self.outputs)]

    def _used(self) -> list[Array]:
        order = self.order
        square = [buffer[:order, :order] for buffer in (self.lower_buffer, self.root_buffer)]
        return [*super()._used(), *square, self.moments_buffer[:order], self.noise]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:2])
        self.lower_buffer, self.root_buffer, self.moments_buffer, self.noise = buffers[2:]


class Solved(NamedTuple):
    """The arrays of such a sum's elements, with room for some more."""

    points: Array  # (capacity, p)
    weights: Array  # (capacity, C)
    lower: Array  # (capacity, capacity), L
    root: Array  # (capacity, capacity), R
    moments: Array  # (capacity, C), Q
    noise: Array  # (3, C)


@inline_always
def length_of(capacity: int, inputs: int, outputs: int) -> int:
    """Return how long the storage of such a sum is."""
    return OWN + capacity * (inputs + 2 * outputs + 2 * capacity) + ROWS * outputs


@inline_always
def tables(storage: Array, capacity: int, inputs: int, outputs: int) -> Solved:
    """Return points, weights, L, R, Q and the noise of such a sum in its storage, as its shapes lay them out."""
    weights = OWN + capacity * inputs
    lower = weights + capacity * outputs
    root = lower + capacity * capacity
    moments = root + capacity * capacity
    return Solved(
        table(storage, OWN, capacity, inputs),
        table(storage, weights, capacity, outputs),
        table(storage, lower, capacity, capacity),
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, moments + capacity * outputs, ROWS, outputs),
    )
