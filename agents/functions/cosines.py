"""Functions that are linear in cosines (random Fourier features), and the computation of the features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.derived import combined
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, combine
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

LONG_LOOPS = True

FEW = 4
"""Maximum number of inputs for adding one input to all angles at a time, instead of all inputs to one angle: features
then take .55 of the time for one input, .85 for four."""


class CosineFunction:
    """The function ``f(x) = sum_l W[l] sqrt(2 / L) cos(w_l . x + b_l)``.

    Parameters
    ----------
    frequencies : Array
        The rows w_l, (L, p).
    phases : Array
        The b_l, (L,).
    coefficients : Array
        The weights W, (L, C).
    """

    __slots__ = ("coefficients", "frequencies", "inputs", "outputs", "phases")

    def __init__(self, frequencies: Array, phases: Array, coefficients: Array) -> None:
        self.frequencies = frequencies
        self.phases = phases
        self.coefficients = coefficients
        self.inputs = int(frequencies.shape[1])
        self.outputs = int(coefficients.shape[1])

    @property
    def order(self) -> int:
        """The number L of features."""
        return len(self.coefficients)

    @property
    def shrunk(self) -> int:
        """All features are regularised."""
        return len(self.coefficients)

    @property
    def weights(self) -> Array:
        """The weights W, (L, C)."""
        return self.coefficients

    def features(self, points: Array) -> Array:
        """Compute ``sqrt(2 / L) cos(w_l . x_n + b_l)`` at ``points`` (n, p): (n, L)."""
        features = np.empty((len(points), len(self.phases)))
        _fill(points, self.frequencies, self.phases, features)
        return features

    def shares_features(self, other: object) -> bool:
        """Return whether another function has the same frequencies and phases."""
        return isinstance(other, CosineFunction) and all(
            mine is theirs or np.array_equal(mine, theirs)
            for mine, theirs in ((self.phases, other.phases), (self.frequencies, other.frequencies))
        )

    def combined(self, features: Array) -> Array:
        """Compute the values (n, C) of points with these features, (n, L)."""
        values: Array = combine(features, self.coefficients)
        return values

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return self.combined(self.features(points))

    def averaged(self, others: Sequence[CosineFunction], shares: Array) -> CosineFunction:
        """Return ``q_0 f + sum_k q_k g_k`` of functions of the same features."""
        weights = combined([each.coefficients for each in (self, *others)], shares)
        return CosineFunction(self.frequencies, self.phases, weights)

    def arrays(self) -> dict[str, Array]:
        """Return ``frequencies`` (L, p), ``phases`` (L,) and ``weights`` (L, C)."""
        return {"frequencies": self.frequencies, "phases": self.phases, "weights": self.coefficients.copy()}

    def distance(self, other: object) -> float:
        """Compute ``||V - W||``, which tends to the Hilbert distance as L grows; NaN unless the features are equal."""
        if isinstance(other, CosineFunction) and self.shares_features(other):
            return float(np.linalg.norm(self.coefficients - other.coefficients))
        return math.nan


# The Taylor series of sin(2 pi r) in r^3, r^5, ...; on |r| <= 1/4 its remainder is below 1e-17.
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7, _S8, _S9, _S10 = (
    (-1) ** k * (2.0 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(11)
)
_TURNS = 0.5 / math.pi


@cached_njit
def cosines(numbers: ReadOnly, points: ReadOnly, rows: Array) -> None:
    """Fill the rows with features, given the phases followed by the frequencies as ``numbers``."""
    inputs = points.shape[1]
    count = len(numbers) // (1 + inputs)
    _fill(points, table(numbers, count, count, inputs), line(numbers, 0, count), rows)


@inline_always
def _fill(points: ReadOnly, frequencies: ReadOnly, phases: ReadOnly, rows: Array) -> None:
    count, inputs = frequencies.shape
    scale = math.sqrt(2.0 / count)
    wide, few = inputs > NARROW, inputs <= FEW
    if wide:
        copy_matrix(np.dot(points, frequencies.T), rows)
    for i in range(points.shape[0]):
        row = rows[i]
        for j in range(count):
            angle = phases[j]
            if wide:
                angle += row[j]
            elif not few:
                for k in range(inputs):
                    angle += points[i, k] * frequencies[j, k]
            row[j] = angle
        if few:
            for k in range(inputs):
                for j in range(count):
                    row[j] += points[i, k] * frequencies[j, k]
        # cos(2 pi t) = sin(2 pi (1/4 - |t - [t]|)). Without function calls the loop uses vector registers, which makes
        # it four times faster than `math.cos`, and its bits are the formula's on every machine.
        for j in range(count):
            turns = row[j] * _TURNS
            r = 0.25 - abs(turns - math.floor(turns + 0.5))
            q = r * r
            high = _S5 + q * (_S6 + q * (_S7 + q * (_S8 + q * (_S9 + q * _S10))))
            row[j] = scale * r * (_S0 + q * (_S1 + q * (_S2 + q * (_S3 + q * (_S4 + q * high)))))


# A kernel sum plus a sum of random features, to which removed elements of the kernel sum are transferred.


class DualSum(KernelSum):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x) + V' z(x)``.

    Parameters
    ----------
    kernel, inputs, outputs
        See :class:`~kernelswarm.agents.functions.kernel_sum.KernelSum`.
    frequencies : Array
        The rows w_l of the features ``z_l(x) = sqrt(2 / L) cos(w_l . x + b_l)``, (L, p).
    phases : Array
        The b_l, (L,).

    Attributes
    ----------
    beyond : CosineFunction
        ``V' z``; its coefficients V, (L, C), follow the weights in the storage.
    """

    __slots__ = ("beyond",)

    parts: ClassVar = {**KernelSum.parts, "coefficients": "LC"}

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, frequencies: Array, phases: Array) -> None:
        self.beyond = CosineFunction(frequencies, phases, np.zeros((len(phases), outputs)))
        super().__init__(kernel, inputs, outputs)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.beyond

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
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
        if self.order:  # else no element has been transferred
            add_combination(self.beyond.features(points), self.beyond.coefficients, self.beyond.order, values)
        return rows, values

    def arrays(self) -> dict[str, Array]:
        """Return ``points`` (M, p), ``weights`` (M, C), ``frequencies`` (L, p), ``phases`` (L,) and V as
        ``coefficients`` (L, C)."""
        beyond = self.beyond.arrays()
        return {**super().arrays(), **beyond, "weights": self.weights.copy(), "coefficients": beyond["weights"]}

    def distance(self, other: object) -> float:
        """Compute ``||f - g||``, with the inner products kappa(x, y) of kernels, v'w of features and z(x)'v of both.

        It tends to the Hilbert distance as L grows; NaN unless the kernels and features are equal.
        """
        between = super().distance(other)
        if not isinstance(other, DualSum) or math.isnan(between + self.beyond.distance(other.beyond)):
            return math.nan
        change = self.beyond.coefficients - other.beyond.coefficients
        mixed = np.sum(self.weights * (self.beyond.features(self.points) @ change))
        mixed -= np.sum(other.weights * (self.beyond.features(other.points) @ change))
        return math.sqrt(max(between**2 + 2.0 * float(mixed) + float(np.sum(change**2)), 0.0))

    def averaged(self, others: Sequence[KernelSum], shares: Array) -> DualSum:
        """Return ``q_0 f + sum_k q_k g_k`` of functions of the same features."""
        whole = super().averaged(others, shares)
        found = DualSum(self.kernel, self.inputs, self.outputs, self.beyond.frequencies, self.beyond.phases)
        found.assign(whole.points, whole.weights)
        members = (self, *(each for each in others if isinstance(each, DualSum)))
        found.beyond.coefficients[:] = combined([each.beyond.coefficients for each in members], shares)
        return found

    @property
    def coefficients(self) -> Array:
        """V, (L, C)."""
        return self.beyond.coefficients

    @coefficients.setter
    def coefficients(self, found: Array) -> None:
        self.beyond.coefficients = found

    def _dimensions(self, capacity: int) -> dict[str, int]:
        return {**super()._dimensions(capacity), "L": self.beyond.order}


@inline_always
def coefficients_of(storage: Array, capacity: int, inputs: int, outputs: int, count: int) -> Array:
    """Return V (L, C) of such a function in its storage, in the layout of its parts."""
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
