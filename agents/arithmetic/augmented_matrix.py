"""Elimination on an augmented matrix, and removal of a step's points from their rows of the inverse Cholesky factor.

The augmented matrix has one row of the factor for each point, padded to whole lanes: first the entries at the points,
then the entries at the dictionary. The matrix and its related arrays are stretches of one vector; their offsets are
arguments. An entry that must be exactly 0 or 1 is written together with the lanes around it: a single write would stall
the next load of those lanes.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES

_I32 = ir.IntType(32)
_DOUBLE = ir.DoubleType()
_codegen: Any = cgutils
_types: Any = types


def _subtract_from(typing_context: Any, target: Any, t: Any, source: Any, s: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, out_of, end = simd.pointer(0), simd.pointer(2), arguments[4]

        def body(place: Any) -> None:
            entry = simd.load(into, place)
            rest = builder.fsub(simd.load_part(out_of, place, end), entry)
            simd.store(builder.select(simd.mask(place, end), rest, entry), into, place)

        simd.each(end, body)
        return context.get_dummy_value()

    return signature, generate


def _count_above(typing_context: Any, keys: Any, k: Any, place: Any, count: Any) -> Any:
    signature = types.intp(keys, *[types.intp] * 3)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        keys, own, count = simd.pointer(0), arguments[2], arguments[3]
        key = simd.spread(builder.load(builder.gep(keys, [own])))
        total = _codegen.alloca_once_value(builder, ir.Constant(count.type, 0))

        def body(place: Any) -> None:
            entry = simd.load(keys, place)
            older = builder.and_(builder.fcmp_ordered("==", entry, key), simd.mask(place, own))
            above = builder.and_(builder.or_(builder.fcmp_ordered(">", entry, key), older), simd.mask(place, count))
            found = builder.ctpop(builder.bitcast(above, ir.IntType(SIMD_WIDTH)))
            builder.store(builder.add(builder.load(total), builder.zext(found, count.type)), total)

        simd.each(count, body)
        return builder.load(total)

    return signature, generate


def _cheapest(
    typing_context: Any, memory: Any, values: Any, pitch: Any, outputs: Any, sums: Any, begin: Any, end: Any
) -> Any:
    found: Any = _types.Tuple((types.intp, types.float64))
    signature = found(memory, *[types.intp] * 6)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        values, pitch, outputs, sums, begin, end = arguments[1:]
        above, below = builder.gep(data, [values]), builder.gep(data, [sums])
        whole, one = ir.VectorType(end.type, SIMD_WIDTH), ir.Constant(end.type, 1)
        least = _codegen.alloca_once_value(builder, simd.equal(math.inf))
        found = _codegen.alloca_once_value(builder, ir.Constant(whole, [-1] * SIMD_WIDTH))
        norms = _codegen.alloca_once(builder, simd.vector)

        def body(place: Any) -> None:
            weight = simd.load(above, place)
            builder.store(builder.fmul(weight, weight), norms)
            with _codegen.for_range_slice(builder, one, outputs, one, intp=end.type) as (c, _):
                weight = simd.load(above, builder.add(place, builder.mul(c, pitch)))
                builder.store(builder.fadd(builder.load(norms), builder.fmul(weight, weight)), norms)
            entry = builder.fdiv(builder.load(norms), simd.load(below, place))
            inside = builder.and_(builder.not_(simd.mask(place, begin)), simd.mask(place, end))
            places = simd.numbered(place)
            better = builder.and_(inside, builder.fcmp_ordered("<", entry, builder.load(least)))
            builder.store(builder.select(better, entry, builder.load(least)), least)
            builder.store(builder.select(better, places, builder.load(found)), found)

        simd.each(end, body)
        entries, places = builder.load(least), builder.load(found)
        half = SIMD_WIDTH
        while half > 1:
            half //= 2
            low, high = list(range(half)), list(range(half, 2 * half))
            x, y = (simd.shuffled(entries, entries, side) for side in (low, high))
            i, j = (simd.shuffled(places, places, side) for side in (low, high))
            older = builder.and_(builder.fcmp_ordered("==", y, x), builder.icmp_signed("<", j, i))
            better = builder.or_(builder.fcmp_ordered("<", y, x), older)
            entries, places = builder.select(better, y, x), builder.select(better, j, i)
        parts = [builder.extract_element(part, ir.Constant(_I32, 0)) for part in (places, entries)]
        return context.make_tuple(builder, signature.return_type, parts)

    return signature, generate


def _rotate(typing_context: Any, memory: Any, upper: Any, lower: Any, column: Any, sums: Any, size: Any) -> Any:
    signature = types.void(memory, *[types.intp] * 5)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        upper, lower, column, sums, size = arguments[1:]
        simd = Simd(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        first, second, before = (builder.gep(data, [place]) for place in (upper, lower, sums))
        columns = simd.everywhere(column)
        x, y = (builder.load(builder.gep(pointer, [column])) for pointer in (first, second))
        radius = simd.root(builder.fadd(builder.fmul(x, x), builder.fmul(y, y)))
        cosines, sines = (simd.spread(builder.fdiv(entry, radius)) for entry in (x, y))

        def body(place: Any) -> None:
            x, y = simd.load(first, place), simd.load(second, place)
            simd.store(builder.fadd(builder.fmul(cosines, x), builder.fmul(sines, y)), first, place)
            rest = builder.fsub(builder.fmul(cosines, y), builder.fmul(sines, x))
            here = builder.icmp_signed("==", simd.numbered(place), columns)
            rest = builder.select(here, simd.equal(0.0), rest)
            simd.store(rest, second, place)
            squares = builder.fadd(simd.load(before, place), builder.fmul(rest, rest))
            simd.store(squares, before, builder.add(place, size))

        simd.each(size, body)
        return context.get_dummy_value()

    return signature, generate


def _take_out(typing_context: Any, memory: Any, values: Any, outputs: Any, row: Any, column: Any, size: Any) -> Any:
    signature = types.float64(memory, *[types.intp] * 5)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, outputs, row, column, size = arguments[1:]
        simd = Simd(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        row, columns = builder.gep(data, [row]), simd.everywhere(column)
        pivot = builder.load(builder.gep(row, [column]))
        zero, one = (ir.Constant(size.type, number) for number in (0, 1))
        total = _codegen.alloca_once_value(builder, ir.Constant(_DOUBLE, 0.0))
        with _codegen.for_range_slice(builder, zero, outputs, one, intp=size.type) as (c, _):
            of = builder.gep(data, [builder.add(values, builder.mul(c, size))])
            share = builder.fdiv(builder.load(builder.gep(of, [column])), pivot)
            builder.store(builder.fadd(builder.load(total), builder.fmul(share, share)), total)
            by = simd.spread(builder.fneg(share))

            def body(place: Any) -> None:
                here = builder.icmp_signed("==", simd.numbered(place), columns)
                entry = builder.fadd(simd.load(of, place), builder.fmul(by, simd.load(row, place)))
                simd.store(builder.select(here, simd.equal(0.0), entry), of, place)

            simd.each(size, body)
        return builder.load(total)

    return signature, generate


if not COMPILES:

    def subtract_from(memory: Array, place: int, source: Array, s: int, size: int) -> None:
        """Replace ``size`` entries of the memory, from an index on, by the source's entries minus them."""
        memory[place : place + size] = source.reshape(-1)[s : s + size] - memory[place : place + size]

    def count_above(memory: Array, keys: int, place: int, count: int) -> int:
        """Count the keys among ``count`` that rank before the key at an index: larger ones, and earlier equal ones."""
        found, key = memory[keys : keys + count], memory[keys + place]
        return int(np.sum(found > key) + np.sum(found[:place] == key))

    def cheapest(
        memory: Array, values: int, pitch: int, outputs: int, sums: int, begin: int, end: int
    ) -> tuple[int, float]:
        """Return the minimum of ``sum_c values[c pitch + k]^2 / sums[k]`` over k from ``begin`` to ``end - 1``, and the
        first k at which it is attained.

        NaN and infinity are ignored; returns (-1, infinity) if there are no other values.
        """
        norms = memory[values : values + end] ** 2
        for c in range(1, outputs):
            norms += memory[values + c * pitch :][:end] ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            quotients = norms / memory[sums : sums + end]
        quotients[:begin] = np.inf
        quotients[np.isnan(quotients)] = np.inf
        found = int(np.argmin(quotients)) if end else -1
        return (found, float(quotients[found])) if end and quotients[found] < np.inf else (-1, math.inf)

    def rotate(memory: Array, upper: int, lower: int, column: int, sums: int, size: int) -> None:
        """Rotate two rows so that the lower one is zero in a column, ``(x, y) -> (cosine x + sine y, cosine y - sine
        x)``, and write the sums plus its squares to the sums, ``size`` entries further on."""
        first, second = memory[upper : upper + size], memory[lower : lower + size]
        x, y = float(first[column]), float(second[column])
        radius = math.sqrt(x * x + y * y)
        cosine, sine = x / radius, y / radius
        first[:], second[:] = cosine * first + sine * second, cosine * second - sine * first
        second[column] = 0.0
        memory[sums + size : sums + 2 * size] = memory[sums : sums + size] + second * second

    def take_out(memory: Array, values: int, outputs: int, row: int, column: int, size: int) -> float:
        """Subtract a multiple of a row from the values of each output so that they are zero in a column.

        Returns the sum of the multiples' squares.
        """
        entries, total = memory[row : row + size], 0.0
        for c in range(outputs):
            own = memory[values + c * size :][:size]
            share = float(own[column]) / float(entries[column])
            total += share * share
            own += -share * entries
            own[column] = 0.0
        return total

else:
    _intrinsic: Any = intrinsic
    cheapest = _intrinsic(_cheapest)
    count_above = _intrinsic(_count_above)
    rotate = _intrinsic(_rotate)
    subtract_from = _intrinsic(_subtract_from)
    take_out = _intrinsic(_take_out)
