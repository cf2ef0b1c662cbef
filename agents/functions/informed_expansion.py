"""A kernel expansion with all that its learner has learned of how certain each of its weights is."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.expansion import Expansion, length_of
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.solving.noise_variance import ROWS

Array = npt.NDArray[np.float64]


class Information(NamedTuple):
    """The information of the samples: R and Q of the weights, and the noise."""

    root: Array  # (M, M) or larger, R
    moments: Array  # (M, C) or larger, Q
    noise: Array  # (3, C), as `noise_variance` has it


class InformedExpansion(Expansion):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)`` whose weights solve ``R W = Q``.

    R and Q follow the dictionary only by the steps of their learner, so that of the methods of an expansion those that
    change the dictionary do not serve here.

    Attributes
    ----------
    root_buffer : Array
        The storage of R, upper triangular, (M, M) of it in use: ``R'R`` is the curvature of the risk so far.
    moments_buffer : Array
        That of Q, (M, C).
    noise : Array
        What is known of the noise's variance, (3, C), as `noise_variance` carries it.
    """

    __slots__ = ("moments_buffer", "noise", "root_buffer")

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.root_buffer: Array
        self.moments_buffer: Array
        self.noise: Array
        super().__init__(kernel, inputs, outputs)

    @property
    def root(self) -> Array:
        """R, (M, M) upper triangular."""
        return self.root_buffer[: self.order, : self.order]

    @property
    def moments(self) -> Array:
        """Q, (M, C)."""
        return self.moments_buffer[: self.order]

    def snapshot(self) -> dict[str, Array]:
        """Return an expansion's arrays, with ``root`` (M, M), ``moments`` (M, C) and ``noise`` (3, C), copied."""
        own = {"root": self.root.copy(), "moments": self.moments.copy(), "noise": self.noise.copy()}
        return {**super().snapshot(), **own}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        self.root_buffer[: self.order, : self.order] = arrays["root"]
        self.moments_buffer[: self.order] = arrays["moments"]
        self.noise[:] = arrays["noise"]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        return [*super()._shapes(capacity), (capacity, capacity), (capacity, self.outputs), (ROWS, self.outputs)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.root, self.moments, self.noise]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:4])
        self.root_buffer, self.moments_buffer, self.noise = buffers[4:]


@cached_njit
def information_in(storage: ReadOnly, capacity: int, inputs: int, outputs: int) -> Information:
    """Return R, Q and the noise in the storage of an expansion, behind what `expansion.tables` finds there."""
    root = length_of(capacity, inputs, outputs)
    moments = root + capacity * capacity
    return Information(
        table(storage, root, capacity, capacity),
        table(storage, moments, capacity, outputs),
        table(storage, moments + capacity * outputs, ROWS, outputs),
    )
