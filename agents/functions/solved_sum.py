"""A kernel sum whose weights solve a least-squares problem in the Cholesky features of its dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import WINDOW, Information
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import inline_always
from kernelswarm.protocols.parameters.least_squares import ROWS


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


# Kernel sums in Cholesky features whose samples fade: with what is renewed next, and what recent samples alone say.


class FadingSum(SolvedSum):
    """A solved sum whose samples count less as others come.

    Attributes
    ----------
    cursor : Array
        The coordinate whose ridge is renewed next, (1,).
    """

    __slots__ = ("cursor",)

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.cursor: Array
        super().__init__(kernel, inputs, outputs)

    def snapshot(self) -> dict[str, Array]:
        """Return what a solved sum does, and the ``cursor`` (1,)."""
        return {**super().snapshot(), "cursor": self.cursor.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        self.cursor[:] = arrays["cursor"]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        return [*super()._shapes(capacity), (1,)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.cursor]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:6])
        self.cursor = buffers[6]


class WindowedSum(FadingSum):
    """A solved sum with a second information, of recent samples, in the same features.

    Attributes
    ----------
    recent_root_buffer, recent_moments_buffer : Array
        As `root_buffer` and `moments_buffer`, of recent samples.
    recent_noise : Array
        As `noise`, (3, C).
    window : Array
        The numbers of samples in both, and the evidence between them, (4,).
    """

    __slots__ = ("recent_moments_buffer", "recent_noise", "recent_root_buffer", "window")

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.recent_root_buffer: Array
        self.recent_moments_buffer: Array
        self.recent_noise: Array
        self.window: Array
        super().__init__(kernel, inputs, outputs)

    def snapshot(self) -> dict[str, Array]:
        """Return a fading sum's arrays, with ``recent_...`` of the second information and ``window`` (4,)."""
        root, moments, noise, window = (part.copy() for part in self._recent())
        own = {"recent_root": root, "recent_moments": moments, "recent_noise": noise, "window": window}
        return {**super().snapshot(), **own}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        names = ("recent_root", "recent_moments", "recent_noise", "window")
        for part, name in zip(self._recent(), names, strict=True):
            part[:] = arrays[name]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        outputs = self.outputs
        return [*super()._shapes(capacity), (capacity, capacity), (capacity, outputs), (ROWS, outputs), (WINDOW,)]

    def _recent(self) -> list[Array]:
        order = self.order
        known = self.recent_root_buffer[:order, :order], self.recent_moments_buffer[:order]
        return [*known, self.recent_noise, self.window]

    def _used(self) -> list[Array]:
        return [*super()._used(), *self._recent()]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:7])
        self.recent_root_buffer, self.recent_moments_buffer, self.recent_noise, self.window = buffers[7:]


class Fading(NamedTuple):
    """The forgetting of a sum: the factor of earlier samples, and the further arrays of the sum.

    Where nothing fades the cursor has no rows, and where the share is no number but found, which 0 stands for, there
    are a second information and a window.
    """

    share: float
    cursor: Array  # (1,)
    recent: Information
    window: Array  # (4,)


@inline_always
def fading_in(storage: Array, capacity: int, inputs: int, outputs: int, share: float) -> Fading:
    """Return the arrays behind a solved sum in its storage, by the shapes of such sums."""
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
