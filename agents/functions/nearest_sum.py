"""A kernel sum that knows the products of its elements, and which of the others is nearest to each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, close_up, close_up_numbers, squared_length
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import cached_njit, inline_always

DEPENDENT = 1e-10
"""Two elements whose Gram matrix has so small a determinant, relative to its diagonal, count as one."""


class NearestSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)`` of at most ``most`` elements.

    Attributes
    ----------
    gram : Array
        The Gram matrix of the dictionary, (most, most).
    near : Array
        The place of each element's nearest neighbour, (most,), -1 without another.
    """

    __slots__ = ("gram", "most", "near")

    gram: Array
    near: Array
    parts: ClassVar = {**KernelSum.parts, "gram": "BB", "near": "B"}

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, most: int) -> None:
        self.most = most
        super().__init__(kernel, inputs, outputs)
        self.near[:] = -1.0

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.most

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.most = state[-1]
        super().__setstate__(state[:-1])

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        near = arrays["near"]
        if not np.all((near >= -1) & (near < self.most)):  # compiled code follows it
            raise ValueError(f"near names points beyond the {self.most} that there can be")
        if len(arrays["points"]) > self.most:
            raise ValueError(f"there are {len(arrays['points'])} points, and there can be {self.most}")
        super().restore(arrays)

    def _dimensions(self, capacity: int) -> dict[str, int]:
        return {**super()._dimensions(capacity), "B": self.most}


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


# Merging two elements of a Gaussian kernel sum into the one point that stands best for both.

LONG_LOOPS = True

SHARE = (math.sqrt(5.0) - 1.0) / 2.0
STEPS = 16
"""Steps of the golden section search: the place of the new point is then known to 5e-4 of the way between the two."""


@cached_njit
def best_partner(weights: Array, order: int, place: int, row: Array) -> tuple[int, float, float]:
    """Find the element that merges best with the one at ``place``.

    Element m and n become one at z = h x_m + (1 - h) x_n with the weight a_z = k^((1-h)^2) a_m + k^(h^2) a_n,
    k = kappa(x_m, x_n), by which a_z kappa(z, .) is the projection of both; h in [0, 1] makes ||a_z|| largest. What is
    lost is, squared, ||a_m||^2 + ||a_n||^2 + 2 k a_m.a_n - ||a_z||^2.

    Parameters
    ----------
    weights : Array
        (capacity, C).
    order, place : int
        M, and m.
    row : Array
        The kernel between x_m and all elements, (M,).

    Returns
    -------
    tuple of int, float and float
        n, h and the squared loss.

    Notes
    -----
    One of k^((1-h)^2) and k^(h^2) is at most k^(1/4), and their product at most k^(1/2), so

        ||a_z||^2 <= max(||a_m||^2, ||a_n||^2) + k^(1/2) (min(||a_m||^2, ||a_n||^2) + 2 max(a_m.a_n, 0))

    and only partners that by this bound may lose less than the best so far are searched. The first is the one whose
    bound is least, so that few remain.
    """
    mine = 0.0
    for c in range(weights.shape[1]):
        mine += weights[place, c] * weights[place, c]
    bounds = np.empty(order)
    first = -1
    for n in range(order):
        other, both = _products(weights, place, n)
        bounds[n] = mine + other + 2.0 * row[n] * both - max(mine, other)
        bounds[n] -= math.sqrt(row[n]) * (min(mine, other) + 2.0 * max(both, 0.0))
        if n != place and (first < 0 or bounds[n] < bounds[first]):
            first = n
    best = first
    best_share, least = _loss(weights, place, first, mine, row[first])
    for n in range(order):
        if n in (place, first) or bounds[n] >= least:
            continue
        share, loss = _loss(weights, place, n, mine, row[n])
        if loss < least:
            best, best_share, least = n, share, loss
    return best, best_share, max(least, 0.0)


@inline_always
def _products(weights: Array, place: int, n: int) -> tuple[float, float]:
    """Return ``||a_n||^2`` and ``a_m.a_n``."""
    other, both = 0.0, 0.0
    for c in range(weights.shape[1]):
        other += weights[n, c] * weights[n, c]
        both += weights[place, c] * weights[n, c]
    return other, both


@cached_njit
def _loss(weights: Array, place: int, n: int, mine: float, kernel: float) -> tuple[float, float]:
    """Return the best h for the elements at ``place`` and n, and what is then lost, squared."""
    other, both = _products(weights, place, n)
    if kernel <= 0.0:  # so far apart that the kernel has underflowed
        share, kept = (1.0, mine) if mine > other else (0.0, other)
    else:
        share, kept = _largest(math.log(kernel), mine, other, both)
    return share, mine + other + 2.0 * kernel * both - kept


@inline_always
def _largest(logarithm: float, mine: float, other: float, both: float) -> tuple[float, float]:
    """Maximise ``||a_z||^2`` over h by golden section search, the ends included."""
    low, high = 0.0, 1.0
    left, right = high - SHARE, SHARE
    at_left, at_right = _norm(left, logarithm, mine, other, both), _norm(right, logarithm, mine, other, both)
    for _ in range(STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - SHARE * (high - low)
            at_left = _norm(left, logarithm, mine, other, both)
        else:
            low, left, at_left = left, right, at_right
            right = low + SHARE * (high - low)
            at_right = _norm(right, logarithm, mine, other, both)
    share, kept = (left, at_left) if at_left >= at_right else (right, at_right)
    for end in (0.0, 1.0):
        at_end = _norm(end, logarithm, mine, other, both)
        if at_end > kept:
            share, kept = end, at_end
    return share, kept


@inline_always
def _norm(share: float, logarithm: float, mine: float, other: float, both: float) -> float:
    first = math.exp(logarithm * (1.0 - share) * (1.0 - share))
    second = math.exp(logarithm * share * share)
    return mine * first * first + other * second * second + 2.0 * both * first * second


@inline_always
def merge(points: Array, weights: Array, place: int, partner: int, share: float, kernel: float) -> None:
    """Merge both elements at ``place``; the caller removes the partner."""
    if kernel > 0.0:
        first, second = kernel ** ((1.0 - share) ** 2), kernel ** (share**2)
    else:
        first, second = share, 1.0 - share
    for i in range(points.shape[1]):
        points[place, i] = share * points[place, i] + (1.0 - share) * points[partner, i]
    for c in range(weights.shape[1]):
        weights[place, c] = first * weights[place, c] + second * weights[partner, c]
