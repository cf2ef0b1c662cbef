"""A kernel sum beside a sum of random features: what has left the first goes on in the second."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.functions.mixed import combined
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always

Array = npt.NDArray[np.float64]


class DualSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x) + V' z(x)``.

    Parameters
    ----------
    kernel, inputs, outputs
        As of :class:`~kernelswarm.agents.functions.kernel_sum.KernelSum`.
    frequencies : Array
        The rows w_l of the features ``z_l(x) = sqrt(2 / L) cos(w_l . x + b_l)``, (L, p).
    phases : Array
        The b_l, (L,).

    Attributes
    ----------
    beyond : CosineFunction
        ``V' z``; its coefficients V, (L, C), lie behind the weights in the storage.
    """

    __slots__ = ("beyond",)

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, frequencies: Array, phases: Array) -> None:
        self.beyond = CosineFunction(frequencies, phases, np.zeros((len(phases), outputs)))
        super().__init__(kernel, inputs, outputs)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.beyond

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.beyond = state[-1]
        super().__setstate__(state[:-1])

    @classmethod
    def from_arrays(cls, kernel: Kernel, arrays: Mapping[str, Array]) -> Self:
        """Rebuild a function in a kernel from its :meth:`arrays`."""
        weights = arrays["weights"]
        found = cls(kernel, arrays["points"].shape[1], weights.shape[1], arrays["frequencies"], arrays["phases"])
        found.assign(arrays["points"], weights)
        found.beyond.coefficients[:] = arrays["coefficients"]
        return found

    def rows_and_values(self, points: Array) -> tuple[Array, Array]:
        """Compute the kernel rows (n, M) of ``points`` (n, p), and the values of f, (n, C)."""
        rows, values = super().rows_and_values(points)
        if self.order:  # else nothing has left either
            add_combination(self.beyond.features(points), self.beyond.coefficients, self.beyond.order, values)
        return rows, values

    def arrays(self) -> dict[str, Array]:
        """Return ``points`` (M, p), ``weights`` (M, C), ``frequencies`` (L, p), ``phases`` (L,) and V as
        ``coefficients`` (L, C)."""
        beyond = self.beyond.arrays()
        return {**super().arrays(), **beyond, "weights": self.weights.copy(), "coefficients": beyond["weights"]}

    def snapshot(self) -> dict[str, Array]:
        """Return ``points``, ``weights`` and ``coefficients``, copied; the features do not change."""
        return {**super().arrays(), "coefficients": self.beyond.coefficients.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        super().restore(arrays)
        self.beyond.coefficients[:] = arrays["coefficients"]

    def distance(self, other: object) -> float:
        """Compute ``||f - g||``, with the inner products kappa(x, y) of kernels, v'w of features and z(x)'v of both.

        It tends to the Hilbert distance as L grows; NaN unless the kernel and the features are the same.
        """
        between = super().distance(other)
        if not isinstance(other, DualSum) or math.isnan(between + self.beyond.distance(other.beyond)):
            return math.nan
        change = self.beyond.coefficients - other.beyond.coefficients
        mixed = np.sum(self.weights * (self.beyond.features(self.points) @ change))
        mixed -= np.sum(other.weights * (self.beyond.features(other.points) @ change))
        return math.sqrt(max(between**2 + 2.0 * float(mixed) + float(np.sum(change**2)), 0.0))

    def averaged(self, others: "Sequence[KernelSum]", shares: Array) -> "DualSum":
        """Return ``q_0 f + sum_k q_k g_k`` of functions of the same features."""
        whole = super().averaged(others, shares)
        found = DualSum(self.kernel, self.inputs, self.outputs, self.beyond.frequencies, self.beyond.phases)
        found.assign(whole.points, whole.weights)
        members = (self, *(each for each in others if isinstance(each, DualSum)))
        found.beyond.coefficients[:] = combined([each.beyond.coefficients for each in members], shares)
        return found

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        return [*super()._shapes(capacity), (self.beyond.order, self.outputs)]

    def _used(self) -> list[Array]:
        return [*super()._used(), self.beyond.coefficients]

    def _hold(self, buffers: list[Array]) -> None:
        super()._hold(buffers[:2])
        self.beyond.coefficients = buffers[2]


@inline_always
def coefficients_of(storage: Array, capacity: int, inputs: int, outputs: int, count: int) -> Array:
    """Return V (L, C) of such a function in its storage, as its shapes lay it out."""
    return table(storage, OWN + capacity * (inputs + outputs), count, outputs)


@cached_njit
def add_combination(rows: Array, weights: ReadOnly, count: int, values: Array) -> None:
    """Add ``sum_l rows[n, l] weights[l]`` to the values (n, C)."""
    outputs = weights.shape[1]
    for n in range(rows.shape[0]):
        if outputs == 1:
            values[n, 0] += dot(rows, n * rows.shape[1], weights, count)
            continue
        for m in range(count):
            for c in range(outputs):
                values[n, c] += rows[n, m] * weights[m, c]
