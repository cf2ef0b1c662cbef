"""Arithmetic in eight SIMD lanes: as fast as vector registers allow, with the same bits on every machine.

A plain loop adds one product at a time. A compiler may use vector registers for it only if it may reorder sums (numba's
`fastmath`), and the result then depends on the machine and on the surrounding code. Here the order is part of the
definition of :func:`dot`: lane q sums the products q, q + 8, q + 16, ...; then the lanes are added in pairs, and the
remaining products follow one by one.

The other functions process parts of arrays with a whole number of lanes entry by entry. Loops made by a compiler are
for long arrays: they handle dozens of entries at a time and the remainder one by one. For the twenty entries of a small
dictionary they mostly handle the remainder. The functions here have no remainder: the caller rounds lengths up with
:func:`whole`, and keeps room after the used entries.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, inline_always, njit_no_refcount

SIMD_WIDTH = 8

ROWS = 4
"""The number of rows of a matrix that are multiplied at a time."""

_I32 = ir.IntType(32)
_codegen: Any = cgutils


@inline_always
def whole(size: int) -> int:
    """Round a length up to whole lanes."""
    return (size + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH


def _type_and_code(typing_context: Any, left: Any, start: Any, right: Any, size: Any) -> Any:
    signature = types.float64(left, types.intp, right, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 2))
        pointers = [builder.gep(left, [arguments[1]]), right]
        size = arguments[3]
        simd = ir.VectorType(ir.DoubleType(), SIMD_WIDTH)
        zero, one, step = (ir.Constant(size.type, number) for number in (0, 1, SIMD_WIDTH))
        whole = builder.and_(size, ir.Constant(size.type, -SIMD_WIDTH))
        sums = cgutils.alloca_once_value(builder, ir.Constant(simd, [0.0] * SIMD_WIDTH))
        with cgutils.for_range_slice(builder, zero, whole, step, intp=size.type) as (i, _):
            places = [builder.bitcast(builder.gep(pointer, [i]), simd.as_pointer()) for pointer in pointers]
            x, y = (builder.load(place, align=8) for place in places)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(x, y)), sums)
        found = builder.load(sums)
        parts = [builder.extract_element(found, ir.Constant(ir.IntType(32), q)) for q in range(SIMD_WIDTH)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[q], parts[q + half]) for q in range(half)]
        total = cgutils.alloca_once_value(builder, parts[0])
        with cgutils.for_range_slice(builder, whole, size, one, intp=size.type) as (i, _):
            x, y = (builder.load(builder.gep(pointer, [i])) for pointer in pointers)
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)
        return builder.load(total)

    return signature, generate


class Simd:
    """The code of a loop over parts of arrays, each given by an array and the index of its first entry."""

    def __init__(self, context: Any, builder: Any, kinds: Any, arguments: Any) -> None:
        self._context, self._builder, self._kinds, self._arguments = context, builder, kinds, arguments
        self.vector = ir.VectorType(ir.DoubleType(), SIMD_WIDTH)
        self._mask_type = ir.VectorType(ir.IntType(1), SIMD_WIDTH)

    def pointer(self, place: int) -> Any:
        """Return the start of a part: its array is the argument at an index, its first entry the next argument."""
        array = self._context.make_array(self._kinds[place])(self._context, self._builder, self._arguments[place])
        return self._builder.gep(array.data, [self._arguments[place + 1]])

    def spread(self, number: Any) -> Any:
        """Return a vector of equal numbers."""
        one = self._builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(_I32, 0))
        pattern = ir.Constant(ir.VectorType(_I32, SIMD_WIDTH), [0] * SIMD_WIDTH)
        return self._builder.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), pattern)

    def of(self, entries: list[Any]) -> Any:
        """Return a vector of eight given numbers."""
        found = ir.Constant(self.vector, ir.Undefined)
        for lane, entry in enumerate(entries):
            found = self._builder.insert_element(found, entry, ir.Constant(_I32, lane))
        return found

    def equal(self, number: float) -> Any:
        """Return a vector of equal constants."""
        return ir.Constant(self.vector, [number] * SIMD_WIDTH)

    def shuffled(self, left: Any, right: Any, places: list[int]) -> Any:
        """Return the entries of two vectors at given indices, which continue from the first vector to the second."""
        pattern = ir.Constant(ir.VectorType(_I32, len(places)), places)
        return self._builder.shuffle_vector(left, right, pattern)

    def load(self, pointer: Any, place: Any) -> Any:
        """Return the entries of a part from an index on."""
        return self._builder.load(self._simd_at(pointer, place), align=8)

    def store(self, found: Any, pointer: Any, place: Any) -> None:
        """Write entries to a part from an index on."""
        self._builder.store(found, self._simd_at(pointer, place), align=8)

    def load_part(self, pointer: Any, place: Any, end: Any) -> Any:
        """Return the entries of a part from an index on; entries from ``end`` on are 0 and not read."""
        kind = ir.FunctionType(self.vector, [self.vector.as_pointer(), _I32, self._mask_type, self.vector])
        load = _codegen.get_or_insert_function(self._builder.module, kind, "llvm.masked.load.v8f64.p0v8f64")
        arguments = [self._simd_at(pointer, place), ir.Constant(_I32, 8), self.mask(place, end), self.equal(0.0)]
        return self._builder.call(load, arguments)

    def store_part(self, found: Any, pointer: Any, place: Any, end: Any) -> None:
        """Write entries to a part from an index on, except entries from ``end`` on."""
        kind = ir.FunctionType(ir.VoidType(), [self.vector, self.vector.as_pointer(), _I32, self._mask_type])
        store = _codegen.get_or_insert_function(self._builder.module, kind, "llvm.masked.store.v8f64.p0v8f64")
        arguments = [found, self._simd_at(pointer, place), ir.Constant(_I32, 8), self.mask(place, end)]
        self._builder.call(store, arguments)

    def numbered(self, place: Any) -> Any:
        """Return the indices of eight entries from an index on."""
        numbers = ir.Constant(ir.VectorType(place.type, SIMD_WIDTH), list(range(SIMD_WIDTH)))
        return self._builder.add(self.everywhere(place), numbers)

    def everywhere(self, place: Any) -> Any:
        """Return a vector of equal integers."""
        whole = ir.VectorType(place.type, SIMD_WIDTH)
        one = self._builder.insert_element(ir.Constant(whole, ir.Undefined), place, ir.Constant(_I32, 0))
        return self.shuffled(one, one, [0] * SIMD_WIDTH)

    def mask(self, place: Any, end: Any) -> Any:
        """Return for eight entries from an index on whether each is before ``end``."""
        return self._builder.icmp_signed("<", self.numbered(place), self.everywhere(end))

    def root(self, number: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
        return self._builder.call(
            _codegen.get_or_insert_function(self._builder.module, kind, "llvm.sqrt.f64"), [number]
        )

    def _simd_at(self, pointer: Any, place: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(pointer, [place]), self.vector.as_pointer())

    def each(self, size: Any, body: Callable[[Any], None]) -> None:
        """Call ``body`` with the index of each group of lanes."""
        zero, step = ir.Constant(size.type, 0), ir.Constant(size.type, SIMD_WIDTH)
        with _codegen.for_range_slice(self._builder, zero, size, step, intp=size.type) as (place, _):
            body(place)


def _add_scaled(typing_context: Any, target: Any, t: Any, source: Any, s: Any, factor: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, source, types.intp, types.float64, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, out_of, by = simd.pointer(0), simd.pointer(2), simd.spread(arguments[4])

        def body(place: Any) -> None:
            product = builder.fmul(by, simd.load(out_of, place))
            simd.store(builder.fadd(simd.load(into, place), product), into, place)

        simd.each(arguments[5], body)
        return context.get_dummy_value()

    return signature, generate


def _sum_rows(
    typing_context: Any,
    target: Any,
    t: Any,
    target_pitch: Any,
    factors: Any,
    f: Any,
    factor_pitch: Any,
    step: Any,
    rows: Any,
    r: Any,
    pitch: Any,
    wanted: Any,
    count: Any,
    size: Any,
) -> Any:
    signature = types.void(target, *[types.intp] * 2, factors, *[types.intp] * 3, rows, *[types.intp] * 5)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, by, out_of = simd.pointer(0), simd.pointer(3), simd.pointer(7)
        target_pitch, factor_pitch, step, pitch, wanted, count, size = (arguments[k] for k in (2, 5, 6, 9, 10, 11, 12))
        zero, one = ir.Constant(count.type, 0), ir.Constant(count.type, 1)
        last = builder.sub(wanted, one)
        factors, targets = [], []
        for i in range(ROWS):  # beyond ``wanted`` the last row is computed again
            row = ir.Constant(count.type, i)
            wanted_row = builder.select(builder.icmp_signed("<", row, last), row, last)
            factors.append(builder.gep(by, [builder.mul(wanted_row, factor_pitch)]))
            targets.append(builder.gep(into, [builder.mul(row, target_pitch)]))
        totals = [_codegen.alloca_once(builder, simd.vector) for _ in range(ROWS)]

        def body(place: Any) -> None:
            for total in totals:
                builder.store(simd.equal(0.0), total)
            with _codegen.for_range_slice(builder, zero, count, one, intp=count.type) as (k, _):
                row = simd.load_part(builder.gep(out_of, [builder.mul(k, pitch)]), place, size)
                for total, factor in zip(totals, factors, strict=True):
                    entry = simd.spread(builder.load(builder.gep(factor, [builder.mul(k, step)])))
                    builder.store(builder.fadd(builder.load(total), builder.fmul(entry, row)), total)
            for total, target in zip(totals, targets, strict=True):
                simd.store(builder.load(total), target, place)

        simd.each(size, body)
        return context.get_dummy_value()

    return signature, generate


def _any_within(typing_context: Any, left: Any, right: Any, root: Any, a: Any, b: Any, begin: Any, end: Any) -> Any:
    signature = types.boolean(left, right, root, types.float64, types.float64, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        first, second, third = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in range(3)
        )
        by, times = simd.spread(arguments[3]), simd.spread(arguments[4])
        begin, end = arguments[5:]
        none = ir.Constant(ir.VectorType(ir.IntType(1), SIMD_WIDTH), [0] * SIMD_WIDTH)
        found = _codegen.alloca_once_value(builder, none)

        def body(place: Any) -> None:
            x, y, z = (simd.load_part(pointer, place, end) for pointer in (first, second, third))
            bound = builder.fadd(builder.fmul(by, y), builder.fmul(times, builder.fmul(z, z)))
            inside = builder.and_(builder.not_(simd.mask(place, begin)), simd.mask(place, end))
            within = builder.and_(inside, builder.fcmp_ordered("<=", x, bound))
            builder.store(builder.or_(builder.load(found), within), found)

        simd.each(end, body)
        any_of = builder.bitcast(builder.load(found), ir.IntType(SIMD_WIDTH))
        return builder.icmp_unsigned("!=", any_of, ir.Constant(any_of.type, 0))

    return signature, generate


_dot_simd: Any = intrinsic(_type_and_code)

if not COMPILES:

    def dot(left: Array, start: int, right: Array, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        left, right = left.reshape(-1)[start : start + size], right.reshape(-1)[:size]
        whole = size - size % SIMD_WIDTH
        sums = np.zeros(SIMD_WIDTH)
        for first in range(0, whole, SIMD_WIDTH):
            sums += left[first : first + SIMD_WIDTH] * right[first : first + SIMD_WIDTH]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = sums[:half] + sums[half:]
        total = float(sums[0])
        for i in range(whole, size):
            total += left[i] * right[i]
        return total

    def _stretch(array: Array, start: int, size: int) -> Array:
        return array.reshape(-1)[start : start + size]

    def add_scaled(target: Array, t: int, source: Array, s: int, factor: float, size: int) -> None:
        """Add ``factor`` times ``size`` entries of the source, from ``s`` on, to the target's from ``t`` on."""
        _stretch(target, t, size)[:] += factor * _stretch(source, s, size)

    def sum_rows(
        target: Array,
        t: int,
        target_pitch: int,
        factors: Array,
        f: int,
        factor_pitch: int,
        step: int,
        rows: Array,
        r: int,
        pitch: int,
        wanted: int,
        count: int,
        size: int,
    ) -> None:
        """Write ``sum_k factors[f + i factor_pitch + k step] rows[r + k pitch + j]`` over ``count`` rows to the target
        at ``t + i target_pitch + j``, for each j below the size and each of the ``wanted`` i, from one to ``ROWS``.

        Rows of the target are written in whole lanes, padded with zeros. There are always ``ROWS`` of them: unused ones
        are copies of the last one.
        """
        for i in range(ROWS):
            found = np.zeros(whole(size))
            for k in range(count):
                factor = factors.reshape(-1)[f + min(i, wanted - 1) * factor_pitch + k * step]
                found[:size] += factor * _stretch(rows, r + k * pitch, size)
            _stretch(target, t + i * target_pitch, len(found))[:] = found

    def any_within(left: Array, right: Array, root: Array, a: float, b: float, begin: int, end: int) -> bool:
        """Return whether ``left[j] <= a right[j] + b root[j]^2`` for any j from ``begin`` on and before ``end``."""
        part = slice(begin, end)
        return bool(np.any(left[part] <= a * right[part] + b * (root[part] * root[part])))

else:

    @njit_no_refcount
    def dot(left: ReadOnly, start: int, right: ReadOnly, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        # With an offset in place of a view of a row: a view costs more than the product of a short row.
        total: float = _dot_simd(left, start, right, size)
        return total

    _intrinsic: Any = intrinsic
    any_within = _intrinsic(_any_within)
    add_scaled = _intrinsic(_add_scaled)
    sum_rows = _intrinsic(_sum_rows)
