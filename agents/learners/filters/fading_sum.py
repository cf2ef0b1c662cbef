"""Kernel sums in Cholesky features whose samples fade: with what is renewed next, and what recent samples alone say."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.informed_expansion import Information
from kernelswarm.agents.functions.solved_sum import SolvedSum, length_of
from kernelswarm.agents.functions.windowed_expansion import WINDOW
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import inline_always
from kernelswarm.protocols.solving.noise_variance import ROWS

Array = npt.NDArray[np.float64]


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
