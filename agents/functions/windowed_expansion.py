"""A kernel expansion whose learner knows beside all samples of its memory what the recent ones alone would say."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import length_of
from kernelswarm.agents.functions.informed_expansion import Information, InformedExpansion
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.solving.noise_variance import ROWS

Array = npt.NDArray[np.float64]

WINDOW = 4
"""The numbers of a window, as `adaptive_memory` names them."""


class WindowedExpansion(InformedExpansion):
    """An informed expansion with a second information, of recent samples, on the same dictionary.

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

    @property
    def recent_root(self) -> Array:
        """R of recent samples, (M, M) upper triangular."""
        return self.recent_root_buffer[: self.order, : self.order]

    @property
    def recent_moments(self) -> Array:
        """Q of recent samples, (M, C)."""
        return self.recent_moments_buffer[: self.order]

    def snapshot(self) -> dict[str, Array]:
        """Return an informed expansion's arrays, with ``recent_...`` of the second information and ``window`` (4,)."""
        own = {name: getattr(self, name).copy() for name in ("recent_root", "recent_moments", "recent_noise", "window")}
        return {**super().snapshot(), **own}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        self.recent_root[:] = arrays["recent_root"]
        self.recent_moments[:] = arrays["recent_moments"]
        self.recent_noise[:] = arrays["recent_noise"]
        self.window[:] = arrays["window"]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        outputs = self.outputs
        return [*super()._shapes(capacity), (capacity, capacity), (capacity, outputs), (ROWS, outputs), (WINDOW,)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.recent_root, self.recent_moments, self.recent_noise, self.window]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:7])
        self.recent_root_buffer, self.recent_moments_buffer, self.recent_noise, self.window = buffers[7:]


@cached_njit
def recent_and_window(
    storage: ReadOnly, capacity: int, inputs: int, outputs: int, windowed: bool
) -> tuple[Information, Array]:
    """Return the information of recent samples, and the window, in a storage; without rows if it has none."""
    if not windowed:
        nothing = table(storage, 0, 0, 1)
        return Information(nothing, nothing, nothing), line(storage, 0, 0)
    information = capacity * (capacity + outputs) + ROWS * outputs
    root = length_of(capacity, inputs, outputs) + information
    moments = root + capacity * capacity
    noise = moments + capacity * outputs
    recent = Information(
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, noise, ROWS, outputs),
    )
    return recent, line(storage, noise + ROWS * outputs, WINDOW)
