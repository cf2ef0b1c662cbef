"""A kernel sum whose weights solve a least-squares problem in the Cholesky features of its dictionary."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import RECENT, WINDOW, Information
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import inline_always
from kernelswarm.protocols.parameters.least_squares import ROWS


class SolvedSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x) = w' inv(L) kappa(D, x)``, with ``R w = Q``.

    Attributes
    ----------
    lower_buffer : Array
        The storage of L, lower triangular, of which (M, M) is in use: the Cholesky factor of the Gram matrix, ``L L'``.
    root_buffer : Array
        The storage of R, upper triangular, (M, M): ``R'R`` is the curvature of the risk so far.
    moments_buffer : Array
        The storage of Q, (M, C).
    noise : Array
        The estimate of the noise variance, (3, C); see `noise_variance`.
    """

    __slots__ = ("lower_buffer", "moments_buffer", "noise", "root_buffer")

    lower_buffer: Array
    root_buffer: Array
    moments_buffer: Array
    noise: Array
    parts: ClassVar = {**KernelSum.parts, "lower": "MM", "root": "MM", "moments": "MC", "noise": f"{ROWS}C"}


class Solved(NamedTuple):
    """The arrays of such a sum's elements, with spare room."""

    points: Array  # (capacity, p)
    weights: Array  # (capacity, C)
    lower: Array  # (capacity, capacity), L
    root: Array  # (capacity, capacity), R
    moments: Array  # (capacity, C), Q
    noise: Array  # (3, C)


@inline_always
def length_of(capacity: int, inputs: int, outputs: int) -> int:
    """Return the length of the storage of such a sum."""
    return OWN + capacity * (inputs + 2 * outputs + 2 * capacity) + ROWS * outputs


@inline_always
def tables(storage: Array, capacity: int, inputs: int, outputs: int) -> Solved:
    """Return points, weights, L, R, Q and the noise of such a sum in its storage, in the layout of its parts."""
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


# Kernel sums in Cholesky features with fading samples, and with a second information of recent samples.


class FadingSum(SolvedSum):
    """A solved sum with exponential forgetting of samples.

    Attributes
    ----------
    cursor : Array
        The coordinate whose ridge is renewed next, (1,).
    """

    __slots__ = ("cursor",)

    cursor: Array
    parts: ClassVar = {**SolvedSum.parts, "cursor": "1"}


class WindowedSum(FadingSum):
    """A solved sum with a second information, of recent samples, in the same features.

    Attributes
    ----------
    recent_root_buffer, recent_moments_buffer : Array
        The same as `root_buffer` and `moments_buffer`, for recent samples.
    recent_noise : Array
        The same as `noise`, for recent samples, (3, C).
    window : Array
        The numbers of samples in both, and the evidence for the second, (4,).
    """

    __slots__ = ("recent_moments_buffer", "recent_noise", "recent_root_buffer", "window")

    recent_root_buffer: Array
    recent_moments_buffer: Array
    recent_noise: Array
    window: Array
    parts: ClassVar = {**FadingSum.parts, **RECENT}


class Fading(NamedTuple):
    """The forgetting factor of a sum, and the sum's further arrays.

    Without forgetting the cursor has no rows. A factor of 0 means adaptive forgetting, with a second information and a
    window.
    """

    share: float
    cursor: Array  # (1,)
    recent: Information
    window: Array  # (4,)


@inline_always
def fading_in(storage: Array, capacity: int, inputs: int, outputs: int, share: float) -> Fading:
    """Return the arrays after a solved sum in its storage, in the layout of such sums."""
    first = length_of(capacity, inputs, outputs)
    cursor, root = line(storage, first, 1 if share < 1.0 else 0), first + 1
    if share > 0.0:
        nothing = table(storage, 0, 0, 1)
        return Fading(share, cursor, Information(nothing, nothing, nothing), line(storage, 0, 0))
    moments = root + capacity * capacity
    noise = moments + capacity * outputs
    recent = Information(
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, noise, ROWS, outputs),
    )
    return Fading(share, cursor, recent, line(storage, noise + ROWS * outputs, WINDOW))
