"""A kernel sum that knows the products of its elements, and which of the others is nearest to each."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, close_up, close_up_numbers, squared_length
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import cached_njit, inline_always

Array = npt.NDArray[np.float64]

DEPENDENT = 1e-10
"""Two elements whose Gram matrix has so small a determinant, relative to its diagonal, count as one."""


class NearestSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)`` of at most ``most`` elements.

    Attributes
    ----------
    gram_buffer : Array
        The Gram matrix of the dictionary, (most, most).
    near_buffer : Array
        The place of each element's nearest neighbour, (most,), -1 without another.
    """

    __slots__ = ("gram_buffer", "most", "near_buffer")

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, most: int) -> None:
        self.gram_buffer: Array
        self.near_buffer: Array
        self.most = most
        super().__init__(kernel, inputs, outputs)
        self.near_buffer[:] = -1.0

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.most

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.most = state[-1]
        super().__setstate__(state[:-1])

    def snapshot(self) -> dict[str, Array]:
        """Return ``points``, ``weights``, ``gram`` and ``near``, copied."""
        return {**self.arrays(), "gram": self.gram_buffer.copy(), "near": self.near_buffer.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        near = arrays["near"]
        if not np.all((near >= -1) & (near < self.most)):  # compiled code follows it
            raise ValueError(f"near names points beyond the {self.most} that there can be")
        if len(arrays["points"]) > self.most:
            raise ValueError(f"there are {len(arrays['points'])} points, and there can be {self.most}")
        super().restore(arrays)
        self.gram_buffer[:] = arrays["gram"]
        self.near_buffer[:] = near

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        return [*super()._shapes(capacity), (self.most, self.most), (self.most,)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.gram_buffer, self.near_buffer]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:2])
        self.gram_buffer, self.near_buffer = buffers[2:]


@inline_always
def products_of(storage: Array, capacity: int, inputs: int, outputs: int, most: int) -> tuple[Array, Array]:
    """Return the Gram matrix and the neighbours of such a sum in its storage, as its shapes lay them out."""
    first = OWN + capacity * (inputs + outputs)
    return table(storage, first, most, most), line(storage, first + most * most, most)


@inline_always
def with_nearest(
    gram: Array, near: Array, weights: Array, row: Array, itself: float, order: int
) -> tuple[int, int, float, float, float]:
    """Find the element r that loses least when projected on kappa(x, .) and its own nearest neighbour n.

    Returns r, n (-1 where x and n are the same to rounding), the shares of x and of n, and the squared loss.
    """
    best, partner, mine, theirs, least = 0, -1, 0.0, 0.0, math.inf
    for r in range(order):
        n = int(near[r])
        a, b, theirself = row[r], gram[r, n], gram[n, n]
        determinant = itself * theirself - row[n] * row[n]
        if determinant > DEPENDENT * itself * theirself:
            first = (theirself * a - row[n] * b) / determinant
            second = (itself * b - row[n] * a) / determinant
            found = n
        else:
            first, second, found = a / itself, 0.0, -1
        squared = squared_length(weights, r) * max(gram[r, r] - first * a - second * b, 0.0)
        if squared < least:
            best, partner, mine, theirs, least = r, found, first, second, squared
    return best, partner, mine, theirs, least


@inline_always
def _nearest(gram: Array, order: int, r: int) -> int:
    """Find the element nearest to r in the Hilbert norm, the oldest of equal ones; -1 without another."""
    near, least = -1, math.inf
    for j in range(order):
        distance = gram[j, j] - 2.0 * gram[r, j]
        if j != r and distance < least:
            near, least = j, distance
    return near


@cached_njit
def come(gram: Array, near: Array, order: int, row: Array, itself: float) -> None:
    """Append an element with its kernel row (M,)."""
    for r in range(order):
        gram[order, r] = row[r]
        gram[r, order] = row[r]
    gram[order, order] = itself
    near[order] = _nearest(gram, order, order)
    for r in range(order):
        j = int(near[r])
        if j < 0 or itself - 2.0 * row[r] < gram[j, j] - 2.0 * gram[r, j]:
            near[r] = order


@inline_always
def leave(gram: Array, near: Array, order: int, place: int) -> None:
    """Take the element at ``place`` out."""
    close_up(gram, order, place, 1)
    for r in range(order - 1):
        close_up_numbers(gram[r], order, place)
    close_up_numbers(near, order, place)
    for r in range(order - 1):
        if near[r] == place:
            near[r] = _nearest(gram, order - 1, r)
        elif near[r] > place:
            near[r] -= 1
