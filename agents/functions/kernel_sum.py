"""A function in a reproducing kernel Hilbert space as a sum of kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd, dot
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.plain_parts import kernel_rows
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount

# Linear combinations of a function's terms: its values from kernel rows or features.


_codegen: Any = cgutils


def _combine(
    typing_context: Any, rows: Any, r: Any, weights: Any, order: Any, outputs: Any, values: Any, v: Any
) -> Any:
    if any(array.layout != "C" for array in (rows, weights, values)):
        raise TypingError("rows, weights and values must be contiguous")
    size = types.intp
    signature = types.void(rows, size, weights, size, size, values, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        row, order, outputs = simd.pointer(0), arguments[3], arguments[4]
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        zero, one, four = (ir.Constant(order.type, number) for number in (0, 1, 4))
        end = builder.mul(order, outputs)
        total = _codegen.alloca_once_value(builder, simd.equal(0.0))

        def term(place: Any) -> Any:
            factor = simd.spread(builder.load(builder.gep(row, [place])))
            # The entries after the outputs of a term belong to other terms, and are in lanes that are not read.
            return builder.fmul(factor, simd.load_part(array.data, builder.mul(place, outputs), end))

        whole = builder.and_(order, ir.Constant(order.type, -4))
        with _codegen.for_range_slice(builder, zero, whole, four, intp=order.type) as (m, _):
            p, q, r, s = (term(builder.add(m, ir.Constant(order.type, k))) for k in range(4))
            four_terms = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            builder.store(builder.fadd(builder.load(total), four_terms), total)
        with _codegen.for_range_slice(builder, whole, order, one, intp=order.type) as (m, _):
            builder.store(builder.fadd(builder.load(total), term(m)), total)
        simd.store_part(builder.load(total), simd.pointer(5), zero, outputs)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def _combine_few(rows: Array, r: int, weights: Array, order: int, outputs: int, values: Array, v: int) -> None:
        row, found = rows.reshape(-1)[r : r + order], np.zeros(outputs)
        whole = order - order % 4
        for m in range(0, whole, 4):
            p, q, r, s = (row[m + k] * weights[m + k] for k in range(4))
            found += (p + q) + (r + s)
        for m in range(whole, order):
            found += row[m] * weights[m]
        values.reshape(-1)[v : v + outputs] = found

else:
    _intrinsic: Any = intrinsic
    _combine_few = _intrinsic(_combine)


@njit_no_refcount
def combine_into(rows: ReadOnly, weights: ReadOnly, order: int, values: Array) -> None:
    """Evaluate a function from its rows (n, M): ``values[n] = f(x_n) = sum_m W[m] kappa(D[m], x_n)``."""
    outputs, columns = weights.shape[1], rows.shape[1]
    whole = order - order % 4
    for n in range(rows.shape[0]):
        if outputs == 1:
            values[n, 0] = dot(rows, n * columns, weights, order)
            continue
        if outputs <= SIMD_WIDTH:
            _combine_few(rows, n * columns, weights, order, outputs, values, n * outputs)
            continue
        for c in range(outputs):
            values[n, c] = 0.0
        for m in range(0, whole, 4):
            k0, k1, k2, k3 = rows[n, m], rows[n, m + 1], rows[n, m + 2], rows[n, m + 3]
            for c in range(outputs):
                values[n, c] += (k0 * weights[m, c] + k1 * weights[m + 1, c]) + (
                    k2 * weights[m + 2, c] + k3 * weights[m + 3, c]
                )
        for m in range(whole, order):
            for c in range(outputs):
                values[n, c] += rows[n, m] * weights[m, c]


# Values of functions that are linear in features.


def combine(features: Array, coefficients: Array) -> Array:
    """Compute values (n, C) from features (n, L) and their weights (L, C)."""
    values = np.empty((len(features), coefficients.shape[1]))
    combine_into(ready(features), ready(coefficients), len(coefficients), values)
    return values


def ready(array: Array) -> Array:
    """Return an array in the form for compiled code: contiguous and writable, copied if necessary.

    Arrays from memory-mapped files, or from another process, are not writable.
    """
    flags = array.flags  # numpy's ``require`` takes longer than computing the values of a row
    return array if type(array) is np.ndarray and flags.c_contiguous and flags.writeable else np.array(array, order="C")


OWN = 2
"""The number of learner's numbers that precede the function's numbers in the storage, for compiled steps."""


class Dictionary:
    """Dictionary points, and arrays that belong to them, in one vector.

    Parameters
    ----------
    kernel : Kernel
        The kernel kappa.
    inputs : int
        p, the dimension of a point.
    outputs : int
        C, the number of functions that share the dictionary.

    Attributes
    ----------
    order : int
        M, the number of dictionary points.
    points_buffer : Array
        The rows of the points; the first ``order`` are in use.
    storage : Array
        The vector that contains all buffers, after `OWN` numbers of the learner.
    parts : mapping
        The names of the parts of the storage, in order, with their dimensions: M is the order, p the inputs, C the
        outputs. A part with the dimension M is the attribute ``NAME_buffer``, which has spare room; another part is the
        attribute ``NAME``.
    """

    __slots__ = ("inputs", "kernel", "order", "outputs", "points_buffer", "storage")

    points_buffer: Array
    parts: ClassVar[Mapping[str, str]] = {"points": "Mp"}

    def __init__(self, kernel: Kernel, inputs: int, outputs: int) -> None:
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs
        self.order = 0
        self.storage: Array
        self.lay_out(np.zeros(self.length(0)), 0)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy, whose buffers must be views of its own storage."""
        return self.kernel, self.inputs, self.outputs, self.order, len(self.points_buffer), self.storage

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.kernel, self.inputs, self.outputs, self.order, capacity, storage = state
        self.lay_out(ready(storage), capacity)

    @property
    def points(self) -> Array:
        """The dictionary D, (M, p), oldest point first."""
        return self.points_buffer[: self.order]

    def rows(self, points: Array) -> Array:
        """Compute the kernel between ``points`` (n, p) and the dictionary, (n, M)."""
        return kernel_rows(self.kernel, points, self.points_buffer[: self.order])

    def reserve(self, points: int) -> None:
        needed = self.order + points
        if needed > len(self.points_buffer):
            self._grow(needed)

    def _grow(self, needed: int) -> None:
        capacity = max(needed, 16, len(self.points_buffer) * 3 // 2)
        self.move(np.zeros(self.length(capacity)), capacity)

    def move(self, storage: Array, capacity: int) -> None:
        """Move the contents to another vector, of the length for ``capacity`` points."""
        storage[:OWN] = self.storage[:OWN]
        used = self.used()
        self.lay_out(storage, capacity)
        for part, values in zip(self.used(), used, strict=True):
            part[:] = values

    def length(self, capacity: int) -> int:
        """Return the length of the storage with room for ``capacity`` points."""
        return OWN + sum(math.prod(shape) for shape in self._shapes(capacity))

    def _dimensions(self, capacity: int) -> dict[str, int]:
        """Return the sizes for the letters in :attr:`parts`."""
        return {"M": capacity, "p": self.inputs, "C": self.outputs}

    def _shapes(self, capacity: int) -> list[tuple[int, ...]]:
        """Return the shapes of the buffers, in order."""
        of = self._dimensions(capacity)
        return [tuple(of[each] if each in of else int(each) for each in shape) for shape in self.parts.values()]

    def used(self) -> list[Array]:
        """Return the used parts of the buffers."""
        used = {"M": slice(self.order)}
        return [
            getattr(self, _held(name, shape))[tuple(used.get(each, ALL) for each in shape)]
            for name, shape in self.parts.items()
        ]

    def lay_out(self, storage: Array, capacity: int) -> None:
        """Make the buffers views of a vector, which already has their contents unless it is new."""
        self.storage, first = storage, OWN
        found = []
        for shape in self._shapes(capacity):
            size = math.prod(shape)
            found.append(storage[first : first + size].reshape(shape))
            first += size
        self._hold(found)

    def _hold(self, buffers: list[Array]) -> None:
        for (name, shape), buffer in zip(self.parts.items(), buffers, strict=True):
            setattr(self, _held(name, shape), buffer)


class KernelSum(Dictionary):
    """The function ``f(x) = sum_m W[m] kappa(D[m], x)``.

    Attributes
    ----------
    weights_buffer : Array
        The rows of the weights; the first ``order`` are in use.
    """

    __slots__ = ("weights_buffer",)

    weights_buffer: Array
    parts: ClassVar[Mapping[str, str]] = {"points": "Mp", "weights": "MC"}

    def assign(self, points: Array, weights: Array) -> Self:
        """Replace the points, (M, p), and the weights, (M, C)."""
        if len(points) > len(self.points_buffer):
            self._grow(len(points))
        self.order = len(points)
        self.points_buffer[: self.order] = points
        self.weights_buffer[: self.order] = weights
        return self

    @property
    def weights(self) -> Array:
        """The weights W, (M, C)."""
        return self.weights_buffer[: self.order]

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return self.rows_and_values(points)[1]

    def rows_and_values(self, points: Array) -> tuple[Array, Array]:
        """Compute the kernel rows (n, M) of ``points`` (n, p) and from them the values of f, (n, C)."""
        if not self.order:
            # Sent points are read-only, which is another type for the compiler. If agents run only the first round
            # themselves, nothing needs to be compiled for that type.
            return np.zeros((len(points), 0)), np.zeros((len(points), self.outputs))
        rows = kernel_rows(self.kernel, points, self.points_buffer[: self.order])
        return rows, self.combined(rows)

    def combined(self, rows: Array) -> Array:
        """Compute the values of f, (n, C), from kernel rows (n, M)."""
        values = np.empty((len(rows), self.outputs))
        combine_into(rows, self.weights_buffer, self.order, values)
        return values

    def inner(self, other: KernelSum) -> float:
        """Compute the Hilbert inner product ``<f, g>``, summed over the outputs; both must have the same kernel."""
        if self.kernel != other.kernel:
            raise ValueError(f"the functions live in different spaces: {self.kernel} and {other.kernel}")
        return float(np.sum((self.weights.T @ self.rows(other.points).T) * other.weights.T))

    def arrays(self) -> dict[str, Array]:
        """Return the dictionary ``points`` (M, p) and the ``weights`` (M, C), copied."""
        return {"points": self.points.copy(), "weights": self.weights.copy()}

    def snapshot(self) -> dict[str, Array]:
        """Return copies of all parts by their names; recomputed parts would differ in their last bits."""
        return {name: part.copy() for name, part in zip(self.parts, self.used(), strict=True)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the result of :meth:`snapshot`."""
        self.order = 0
        self.assign(arrays["points"], arrays["weights"])
        for name, part in zip(self.parts, self.used(), strict=True):
            part[:] = arrays[name]

    def distance(self, other: object) -> float:
        """Compute the Hilbert distance ``||f - g||``; NaN unless the other function has the same kernel."""
        if not isinstance(other, KernelSum) or self.kernel != other.kernel:
            return math.nan
        return self.apart(other, self.inner(self), other.inner(other))

    def apart(self, other: KernelSum, square: float, its_square: float) -> float:
        """Compute the Hilbert distance ``||f - g||`` from the squared norms of both.

        For many pairs this takes a third of the time of :meth:`distance`.
        """
        squared = square - 2.0 * self.inner(other) + its_square
        return math.sqrt(max(squared, 0.0))

    def averaged(self, others: Sequence[KernelSum], shares: Array) -> KernelSum:
        """Return ``q_0 f + sum_k q_k g_k`` on the concatenated dictionaries, or on the common one if all are equal."""
        whole = (self, *others)
        weights = [share * each.weights for share, each in zip(shares, whole, strict=True)]
        if all(np.array_equal(each.points, self.points) for each in others):  # such as copies of one grid of centers
            return KernelSum(self.kernel, self.inputs, self.outputs).assign(self.points, sum(weights[1:], weights[0]))
        points = np.concatenate([each.points for each in whole])
        return KernelSum(self.kernel, self.inputs, self.outputs).assign(points, np.concatenate(weights))


ALL = slice(None)


def _held(name: str, shape: str) -> str:
    """Return the name of the attribute for a part of a sum."""
    return f"{name}_buffer" if "M" in shape else name


@inline_always
def is_zero(weights: Array, n: int) -> bool:
    """Return whether all weights in row n are 0."""
    zero = True
    for c in range(weights.shape[1]):
        zero = zero and weights[n, c] == 0.0
    return zero


@cached_njit
def find(points: Array, order: int, new_points: Array, n: int) -> int:
    """Return the index of new point n among the first ``order`` points, or ``order`` if it is not among them."""
    for m in range(order):
        same = True
        for i in range(points.shape[1]):
            if points[m, i] != new_points[n, i]:
                same = False
                break
        if same:
            return m
    return order


@cached_njit
def enter(points: Array, weights: Array, order: int, place: int, new_points: Array, new_weights: Array, n: int) -> int:
    """Add new point n at the index found by :func:`find`; returns the new order."""
    if place == order:
        for i in range(points.shape[1]):
            points[order, i] = new_points[n, i]
        for c in range(weights.shape[1]):
            weights[order, c] = new_weights[n, c]
        return order + 1
    for c in range(weights.shape[1]):
        weights[place, c] += new_weights[n, c]
    return order


@inline_always
def squared_length(weights: Array, m: int) -> float:
    """Compute ``||W_m||^2``."""
    total = 0.0
    for c in range(weights.shape[1]):
        total += weights[m, c] * weights[m, c]
    return total
