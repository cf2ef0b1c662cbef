"""Arithmetic in eight lanes: as fast as vector registers allow, with the same bits on every machine.

A plain loop adds one product at a time, and a compiler may only use vector registers for it where it is allowed to
reorder sums (numba's `fastmath`), which then differ with the machine and with the surrounding code. Here the order is
part of the definition of :func:`dot`: lane q sums the products q, q + 8, q + 16, ...; the lanes are then added in
pairs, and what does not fill eight lanes follows one by one.

The other functions work entry by entry on stretches of arrays that are a whole number of lanes long. A compiler makes
loops for long arrays, which handle dozens of entries at a time and the rest one by one; at the twenty entries of a
small dictionary they do little else than the rest. These leave nothing over: whoever calls rounds lengths up, as
:func:`whole` does, and keeps room behind what it uses.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from kernelswarm.protocols.compiling import ReadOnly, inlined, jitted

Array = npt.NDArray[np.float64]

LANES = 8

_I32 = ir.IntType(32)
_codegen: Any = cgutils


@inlined
def whole(size: int) -> int:
    """Round a length up to whole lanes."""
    return (size + LANES - 1) // LANES * LANES


def _type_and_code(typing_context: Any, left: Any, start: Any, right: Any, size: Any) -> Any:
    signature = types.float64(left, types.intp, right, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 2))
        pointers = [builder.gep(left, [arguments[1]]), right]
        size = arguments[3]
        lanes = ir.VectorType(ir.DoubleType(), LANES)
        zero, one, step = (ir.Constant(size.type, number) for number in (0, 1, LANES))
        whole = builder.and_(size, ir.Constant(size.type, -LANES))
        sums = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * LANES))
        with cgutils.for_range_slice(builder, zero, whole, step, intp=size.type) as (i, _):
            places = [builder.bitcast(builder.gep(pointer, [i]), lanes.as_pointer()) for pointer in pointers]
            x, y = (builder.load(place, align=8) for place in places)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(x, y)), sums)
        found = builder.load(sums)
        parts = [builder.extract_element(found, ir.Constant(ir.IntType(32), q)) for q in range(LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[q], parts[q + half]) for q in range(half)]
        total = cgutils.alloca_once_value(builder, parts[0])
        with cgutils.for_range_slice(builder, whole, size, one, intp=size.type) as (i, _):
            x, y = (builder.load(builder.gep(pointer, [i])) for pointer in pointers)
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)
        return builder.load(total)

    return signature, generate


class Lanes:
    """The code of a loop over some stretches, each an array and its first entry, and of what is done in it."""

    def __init__(self, context: Any, builder: Any, kinds: Any, arguments: Any) -> None:
        self._context, self._builder, self._kinds, self._arguments = context, builder, kinds, arguments
        self.vector = ir.VectorType(ir.DoubleType(), LANES)

    def pointer(self, place: int) -> Any:
        """Return where the stretch begins whose array is the argument in a place, and its first entry the next one."""
        array = self._context.make_array(self._kinds[place])(self._context, self._builder, self._arguments[place])
        return self._builder.gep(array.data, [self._arguments[place + 1]])

    def spread(self, number: Any) -> Any:
        """Return a vector of equal numbers."""
        one = self._builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(_I32, 0))
        pattern = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
        return self._builder.shuffle_vector(one, ir.Constant(self.vector, ir.Undefined), pattern)

    def load(self, pointer: Any, place: Any) -> Any:
        """Return the entries from a place in a stretch on."""
        return self._builder.load(self._lanes_at(pointer, place), align=8)

    def store(self, found: Any, pointer: Any, place: Any) -> None:
        """Write entries from a place in a stretch on."""
        self._builder.store(found, self._lanes_at(pointer, place), align=8)

    def _lanes_at(self, pointer: Any, place: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(pointer, [place]), self.vector.as_pointer())

    def each(self, size: Any, body: Callable[[Any], None]) -> None:
        """Do something from every place on at which lanes begin."""
        zero, step = ir.Constant(size.type, 0), ir.Constant(size.type, LANES)
        with _codegen.for_range_slice(self._builder, zero, size, step, intp=size.type) as (place, _):
            body(place)


def _add_scaled(typing_context: Any, target: Any, t: Any, source: Any, s: Any, factor: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, source, types.intp, types.float64, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        into, out_of, by = lanes.pointer(0), lanes.pointer(2), lanes.spread(arguments[4])

        def body(place: Any) -> None:
            product = builder.fmul(by, lanes.load(out_of, place))
            lanes.store(builder.fadd(lanes.load(into, place), product), into, place)

        lanes.each(arguments[5], body)
        return context.get_dummy_value()

    return signature, generate


def _add_squares(typing_context: Any, target: Any, t: Any, base: Any, b: Any, source: Any, s: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, base, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        into, onto, out_of = lanes.pointer(0), lanes.pointer(2), lanes.pointer(4)

        def body(place: Any) -> None:
            entry = lanes.load(out_of, place)
            lanes.store(builder.fadd(lanes.load(onto, place), builder.fmul(entry, entry)), into, place)

        lanes.each(arguments[6], body)
        return context.get_dummy_value()

    return signature, generate


def _rotate(typing_context: Any, upper: Any, u: Any, lower: Any, w: Any, cosine: Any, sine: Any, size: Any) -> Any:
    signature = types.void(upper, types.intp, lower, types.intp, types.float64, types.float64, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        first, second = lanes.pointer(0), lanes.pointer(2)
        cosines, sines = lanes.spread(arguments[4]), lanes.spread(arguments[5])

        def body(place: Any) -> None:
            x, y = lanes.load(first, place), lanes.load(second, place)
            lanes.store(builder.fadd(builder.fmul(cosines, x), builder.fmul(sines, y)), first, place)
            lanes.store(builder.fsub(builder.fmul(cosines, y), builder.fmul(sines, x)), second, place)

        lanes.each(arguments[6], body)
        return context.get_dummy_value()

    return signature, generate


def _sum_rows(
    typing_context: Any,
    target: Any,
    t: Any,
    factors: Any,
    f: Any,
    step: Any,
    rows: Any,
    r: Any,
    pitch: Any,
    count: Any,
    size: Any,
) -> Any:
    size_type = types.intp
    signature = types.void(target, size_type, factors, size_type, size_type, rows, *[size_type] * 4)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        into, by, out_of = lanes.pointer(0), lanes.pointer(2), lanes.pointer(5)
        step, pitch, count = arguments[4], arguments[7], arguments[8]
        zero, one = ir.Constant(count.type, 0), ir.Constant(count.type, 1)
        total = _codegen.alloca_once(builder, lanes.vector)

        def body(place: Any) -> None:
            builder.store(ir.Constant(lanes.vector, [0.0] * LANES), total)
            with _codegen.for_range_slice(builder, zero, count, one, intp=count.type) as (k, _):
                factor = lanes.spread(builder.load(builder.gep(by, [builder.mul(k, step)])))
                row = lanes.load(out_of, builder.add(builder.mul(k, pitch), place))
                builder.store(builder.fadd(builder.load(total), builder.fmul(factor, row)), total)
            lanes.store(builder.load(total), into, place)

        lanes.each(arguments[9], body)
        return context.get_dummy_value()

    return signature, generate


_dot_in_lanes: Any = intrinsic(_type_and_code)

if vars(config)["DISABLE_JIT"]:

    def dot(left: Array, start: int, right: Array, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        left, right = left.reshape(-1)[start : start + size], right.reshape(-1)[:size]
        whole = size - size % LANES
        sums = np.zeros(LANES)
        for first in range(0, whole, LANES):
            sums += left[first : first + LANES] * right[first : first + LANES]
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
        """Add ``factor`` times ``size`` entries of the source, from ``s`` on, to those of the target from ``t`` on."""
        _stretch(target, t, size)[:] += factor * _stretch(source, s, size)

    def add_squares(target: Array, t: int, base: Array, b: int, source: Array, s: int, size: int) -> None:
        """Write the sum of entries of the base and squared ones of the source to the target."""
        _stretch(target, t, size)[:] = _stretch(base, b, size) + _stretch(source, s, size) ** 2

    def rotate(upper: Array, u: int, lower: Array, w: int, cosine: float, sine: float, size: int) -> None:
        """Rotate entries of two stretches: ``(x, y) -> (cosine x + sine y, cosine y - sine x)``."""
        first, second = _stretch(upper, u, size), _stretch(lower, w, size)
        first[:], second[:] = cosine * first + sine * second, cosine * second - sine * first

    def sum_rows(
        target: Array,
        t: int,
        factors: Array,
        f: int,
        step: int,
        rows: Array,
        r: int,
        pitch: int,
        count: int,
        size: int,
    ) -> None:
        """Write ``sum_k factors[f + k step] rows[r + k pitch + i]`` of ``count`` rows to the target, for each i."""
        found = np.zeros(size)
        for k in range(count):
            found += factors.reshape(-1)[f + k * step] * _stretch(rows, r + k * pitch, size)
        _stretch(target, t, size)[:] = found

else:

    @jitted
    def dot(left: ReadOnly, start: int, right: ReadOnly, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        # An offset in place of a view of a row: a view costs more than the product of a short row.
        total: float = _dot_in_lanes(left, start, right, size)
        return total

    _intrinsic: Any = intrinsic
    add_scaled = _intrinsic(_add_scaled)
    add_squares = _intrinsic(_add_squares)
    rotate = _intrinsic(_rotate)
    sum_rows = _intrinsic(_sum_rows)
