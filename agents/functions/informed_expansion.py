"""A kernel expansion with all that its learner has learned of how certain each of its weights is."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.expansion import Expansion, length_of
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]


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
    """

    __slots__ = ("moments_buffer", "root_buffer")

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.root_buffer: Array
        self.moments_buffer: Array
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
        """Return what an expansion does, with ``root`` (M, M) and ``moments`` (M, C), copied."""
        return {**super().snapshot(), "root": self.root.copy(), "moments": self.moments.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what :meth:`snapshot` was taken of."""
        super().restore(arrays)
        self.root_buffer[: self.order, : self.order] = arrays["root"]
        self.moments_buffer[: self.order] = arrays["moments"]

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        return [*super()._shapes(capacity), (capacity, capacity), (capacity, self.outputs)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.root, self.moments]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:4])
        self.root_buffer, self.moments_buffer = buffers[4:]


@cached_njit
def root_and_moments(storage: ReadOnly, capacity: int, inputs: int, outputs: int) -> tuple[Array, Array]:
    """Return R and Q in the storage of an expansion, behind what `expansion.tables` finds there."""
    root = length_of(capacity, inputs, outputs)
    return table(storage, root, capacity, capacity), table(storage, root + capacity * capacity, capacity, outputs)
