"""Changes of a step to the weights of a dictionary, (M, C): shrinking, adding, and computing squared norms.

With a dozen elements and a few outputs these passes take as long as the products with the factor. Rows of a few outputs
do not fill the lanes, so eight rows are processed together, one output at a time; masked loads and stores would wait
for earlier ones. All sums keep their order, so the results equal those of plain loops to the bit.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd, add_scaled, dot
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import inline_always, njit_no_refcount

FEW = 2 * SIMD_WIDTH
"""The maximum number of outputs for which eight rows share lanes; with more outputs each row has its own lanes."""

_I32 = ir.IntType(32)
_codegen: Any = cgutils


class _Rows:
    """The code of a loop over eight rows of a matrix at a time, and over the remaining rows."""

    def __init__(self, context: Any, builder: Any, kinds: Any, arguments: Any) -> None:
        self._builder = builder
        self.simd = Simd(context, builder, kinds, arguments)
        arrays = [
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else None
            for kind, value in zip(kinds, arguments, strict=True)
        ]
        self.data = [None if array is None else array.data for array in arrays]
        self._width, self._order = builder.extract_value(arrays[0].shape, 1), arguments[1]  # type: ignore[union-attr]
        self._zero, self._one = (ir.Constant(self._order.type, number) for number in (0, 1))
        self._total = _codegen.alloca_once(builder, self.simd.vector)

    def pointers(self, data: Any, place: Any, width: Any = None) -> list[Any]:
        """Return pointers to eight rows from an index on."""
        builder, last = self._builder, self._builder.sub(self._order, self._one)
        found = []
        for q in range(SIMD_WIDTH):
            i = builder.add(place, ir.Constant(self._order.type, q))
            i = builder.select(builder.icmp_signed("<", i, last), i, last)
            found.append(builder.gep(data, [i if width is None else builder.mul(i, width)]))
        return found

    def gathered(self, pointers: list[Any], place: Any) -> Any:
        """Return the numbers at an offset from each pointer."""
        found = ir.Constant(self.simd.vector, ir.Undefined)
        for q, pointer in enumerate(pointers):
            entry = self._builder.load(self._builder.gep(pointer, [place]))
            found = self._builder.insert_element(found, entry, ir.Constant(_I32, q))
        return found

    def sum_squares(self, norms: Any, prepare: Any) -> None:
        """Write the squared norms of all rows, with entries at output c from ``prepare(place)(rows, c)``."""
        builder, simd = self._builder, self.simd

        def body(place: Any) -> None:
            rows, entries = self.pointers(self.data[0], place, self._width), prepare(place)
            builder.store(simd.equal(0.0), self._total)
            with _codegen.for_range_slice(builder, self._zero, self._width, self._one, intp=self._zero.type) as (c, _):
                found = entries(rows, c)
                builder.store(builder.fadd(builder.load(self._total), builder.fmul(found, found)), self._total)
            simd.store_part(builder.load(self._total), norms, place, self._order)

        simd.each(self._order, body)


def _square_rows(typing_context: Any, weights: Any, order: Any, norms: Any) -> Any:
    signature = types.void(weights, types.intp, norms)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args, arguments)
        rows.sum_squares(rows.data[2], lambda place: rows.gathered)
        return context.get_dummy_value()

    return signature, generate


def _add_to_rows(typing_context: Any, weights: Any, order: Any, shares: Any, new: Any, start: Any, norms: Any) -> Any:
    signature = types.void(weights, types.intp, shares, new, types.intp, norms)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args, arguments)
        weight, zero = builder.gep(rows.data[3], [arguments[4]]), ir.Constant(arguments[4].type, 0)

        def prepare(place: Any) -> Any:
            shares = rows.gathered(rows.pointers(rows.data[2], place), zero)

            def added(pointers: list[Any], c: Any) -> Any:
                change = builder.fmul(shares, rows.simd.spread(builder.load(builder.gep(weight, [c]))))
                found = builder.fadd(rows.gathered(pointers, c), change)
                for q, pointer in enumerate(pointers):
                    entry = builder.extract_element(found, ir.Constant(_I32, q))
                    builder.store(entry, builder.gep(pointer, [c]))
                return found

            return added

        rows.sum_squares(rows.data[5], prepare)
        return context.get_dummy_value()

    return signature, generate


def _scale_simd(typing_context: Any, target: Any, factor: Any, size: Any) -> Any:
    signature = types.void(target, types.float64, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        by = simd.spread(arguments[1])
        simd.each(arguments[2], lambda place: simd.store(builder.fmul(by, simd.load(data, place)), data, place))
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def square_rows(weights: Array, order: int, norms: Array) -> None:
        """Write ``||W_j||^2`` of the first rows, each summed from its first output on."""
        norms[:order] = np.add.accumulate(weights[:order] ** 2, axis=1)[:, -1]

    def add_to_rows(weights: Array, order: int, shares: Array, new: Array, start: int, norms: Array) -> None:
        """Add to the first rows their multiples of the given row, and write their squared norms."""
        weights[:order] += shares[:order, np.newaxis] * new.reshape(-1)[start : start + weights.shape[1]]
        square_rows(weights, order, norms)

    def scale_simd(target: Array, factor: float, size: int) -> None:
        """Multiply the first entries, a whole number of lanes, by a factor."""
        target.reshape(-1)[:size] *= factor

else:
    _intrinsic: Any = intrinsic
    square_rows = _intrinsic(_square_rows)
    add_to_rows = _intrinsic(_add_to_rows)
    scale_simd = _intrinsic(_scale_simd)


@inline_always
def _filled(size: int) -> int:
    return size // SIMD_WIDTH * SIMD_WIDTH


@inline_always
def scale(weights: Array, order: int, factor: float) -> None:
    """Multiply the weights of the first elements by a factor."""
    outputs = weights.shape[1]
    size = order * outputs
    filled = _filled(size)
    scale_simd(weights, factor, filled)
    flat = line(weights, 0, size)
    for k in range(filled, size):
        flat[k] *= factor


@njit_no_refcount
def square(weights: Array, order: int, norms: Array) -> None:
    """Compute ``norms[j] = ||W_j||^2``."""
    if weights.shape[1] == 1:
        for j in range(order):
            norms[j] = weights[j, 0] * weights[j, 0]
    else:
        _square_several(weights, order, norms)


@njit_no_refcount
def _square_several(weights: Array, order: int, norms: Array) -> None:
    outputs = weights.shape[1]
    if outputs <= FEW:
        square_rows(weights, order, norms)
    else:
        for j in range(order):
            norms[j] = dot(weights, j * outputs, weights[j], outputs)


@njit_no_refcount
def add_and_square(weights: Array, order: int, projection: Array, new_weights: Array, n: int, norms: Array) -> None:
    """Transfer the weight of new point n to its projection on the dictionary, ``W += a w'``, and square the weights."""
    if weights.shape[1] == 1:
        weight = new_weights[n, 0]
        for j in range(order):
            weights[j, 0] += projection[j] * weight
            norms[j] = weights[j, 0] * weights[j, 0]
    else:
        _add_several(weights, order, projection, new_weights, n, norms)


@njit_no_refcount
def _add_several(weights: Array, order: int, projection: Array, new_weights: Array, n: int, norms: Array) -> None:
    outputs = weights.shape[1]
    if 2 < outputs <= FEW:
        add_to_rows(weights, order, projection, new_weights, n * outputs, norms)
        return
    if outputs == 2:  # two numbers do not fill the lanes
        for j in range(order):
            first = weights[j, 0] + projection[j] * new_weights[n, 0]
            second = weights[j, 1] + projection[j] * new_weights[n, 1]
            weights[j, 0], weights[j, 1] = first, second
            norms[j] = first * first + second * second
        return
    filled = _filled(outputs)
    for j in range(order):
        add_scaled(weights, j * outputs, new_weights, n * outputs, projection[j], filled)
        for c in range(filled, outputs):
            weights[j, c] += projection[j] * new_weights[n, c]
    _square_several(weights, order, norms)
