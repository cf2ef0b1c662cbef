"""Elimination on a board, and what removes the points of a step again from their rows of the inverse Cholesky factor.

Of such rows a board has one for each point, of a whole number of lanes: entries at the points, a column for each, then
entries at the dictionary. It lies in one vector with all that belongs to it, on stretches of it that begin where the
numbers in the arguments say. An entry that is to be exactly 0 or 1 becomes so together with the lanes around it:
written by itself it would have the next one who takes those lanes wait until it has left the processor.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.lanes import LANES, ROWS, Lanes

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_I32 = ir.IntType(32)
_DOUBLE = ir.DoubleType()
_codegen: Any = cgutils
_types: Any = types


def _subtract_from(typing_context: Any, target: Any, t: Any, source: Any, s: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, source, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        into, out_of, end = lanes.pointer(0), lanes.pointer(2), arguments[4]

        def body(place: Any) -> None:
            rest = builder.fsub(lanes.load_part(out_of, place, end), lanes.load(into, place))
            lanes.store(rest, into, place)

        lanes.each(end, body)
        return context.get_dummy_value()

    return signature, generate


def _count_above(typing_context: Any, keys: Any, k: Any, place: Any, count: Any) -> Any:
    signature = types.intp(keys, *[types.intp] * 3)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        keys, own, count = lanes.pointer(0), arguments[2], arguments[3]
        key = lanes.spread(builder.load(builder.gep(keys, [own])))
        total = _codegen.alloca_once_value(builder, ir.Constant(count.type, 0))

        def body(place: Any) -> None:
            entry = lanes.load(keys, place)
            older = builder.and_(builder.fcmp_ordered("==", entry, key), lanes.mask(place, own))
            above = builder.and_(builder.or_(builder.fcmp_ordered(">", entry, key), older), lanes.mask(place, count))
            found = builder.ctpop(builder.bitcast(above, ir.IntType(LANES)))
            builder.store(builder.add(builder.load(total), builder.zext(found, count.type)), total)

        lanes.each(count, body)
        return builder.load(total)

    return signature, generate


def _four_rows(builder: Any, data: Any, start: Callable[[Any], Any], place: Any, last: Any) -> list[Any]:
    """Return where the rows from a place on begin; in that of those beyond the last one the last one itself, which may
    be taken more than once where all are read before any is written."""
    found = []
    for r in range(ROWS):
        other = builder.add(place, ir.Constant(place.type, r))
        other = builder.select(builder.icmp_signed("<", other, last), other, last)
        found.append(builder.gep(data, [start(other)]))
    return found


def _ratios(builder: Any, lanes: Lanes, rows: list[Any], column: Any, pivot: Any) -> list[Any]:
    """Return, over all lanes, by how much of the pivot's row each row is changed so that it loses a column."""
    entries = ir.Constant(ir.VectorType(_DOUBLE, ROWS), ir.Undefined)
    for r, row in enumerate(rows):
        entries = builder.insert_element(entries, builder.load(builder.gep(row, [column])), ir.Constant(_I32, r))
    by = lanes.shuffled(lanes.spread(pivot), lanes.spread(pivot), [0] * ROWS)
    found = builder.fneg(builder.fdiv(entries, by))
    return [lanes.shuffled(found, found, [r] * LANES) for r in range(ROWS)]


def _eliminate_below(typing_context: Any, board: Any, pivot: Any) -> Any:
    signature = types.void(board, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, pivot = Lanes(context, builder, signature.args, arguments), arguments[1]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size, pitch = (builder.extract_value(array.shape, k) for k in (0, 1))
        four, one = (ir.Constant(size.type, number) for number in (ROWS, 1))
        row, last = builder.gep(array.data, [builder.mul(pivot, pitch)]), builder.sub(size, one)
        first = builder.and_(pivot, ir.Constant(size.type, -LANES))
        rest, entry = builder.sub(pitch, first), builder.load(builder.gep(row, [pivot]))
        with _codegen.for_range_slice(builder, builder.add(pivot, one), size, four, intp=size.type) as (i, _):
            others = _four_rows(builder, array.data, lambda place: builder.mul(place, pitch), i, last)
            ratios = _ratios(builder, lanes, others, pivot, entry)

            def eliminate(place: Any) -> None:
                place = builder.add(place, first)
                entries, of = [lanes.load(other, place) for other in others], lanes.load(row, place)
                for other, entry, ratio in zip(others, entries, ratios, strict=True):
                    lanes.store(builder.fadd(entry, builder.fmul(ratio, of)), other, place)

            lanes.each(rest, eliminate)
        return context.get_dummy_value()

    return signature, generate


def _take_pivot(
    typing_context: Any,
    memory: Any,
    column: Any,
    board: Any,
    pitch: Any,
    turn: Any,
    first: Any,
    count: Any,
    kept: Any,
    sums: Any,
) -> Any:
    whole = types.intp
    signature = types.void(memory, *[whole] * 3, turn, *[whole] * 4)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        column, board, pitch, _, first, count, kept, sums = arguments[1:]
        lanes = Lanes(context, builder, signature.args, arguments)
        data, order = (context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 4))
        nothing, unity = lanes.equal(0.0), lanes.equal(1.0)
        four, one = (ir.Constant(pitch.type, number) for number in (ROWS, 1))
        row = builder.gep(data, [builder.add(board, builder.mul(column, pitch))])
        schur, last = builder.load(builder.gep(row, [column])), builder.sub(count, one)
        columns = lanes.everywhere(column)

        def start(place: Any) -> Any:
            return builder.add(board, builder.mul(builder.load(builder.gep(order, [place])), pitch))

        with _codegen.for_range_slice(builder, first, count, four, intp=pitch.type) as (k, _):
            others = _four_rows(builder, data, start, k, last)
            spread = _ratios(builder, lanes, others, column, schur)

            def eliminate(place: Any) -> None:
                here = builder.icmp_signed("==", lanes.numbered(place), columns)
                pivot = builder.select(here, unity, lanes.load(row, place))
                found = [builder.select(here, nothing, lanes.load(other, place)) for other in others]
                for other, entry, ratio in zip(others, found, spread, strict=True):
                    lanes.store(builder.fadd(entry, builder.fmul(ratio, pivot)), other, place)

            lanes.each(pitch, eliminate)

        scale = lanes.spread(builder.fdiv(ir.Constant(_DOUBLE, 1.0), lanes.root(schur)))

        def finish(place: Any) -> None:
            here = builder.icmp_signed("==", lanes.numbered(place), columns)
            known = builder.fcmp_ordered("!=", lanes.load(data, builder.add(kept, place)), nothing)
            entry = builder.select(here, unity, builder.select(known, lanes.load(row, place), nothing))
            found = builder.fmul(scale, entry)
            lanes.store(found, row, place)
            before = builder.add(sums, place)
            squares = builder.fadd(lanes.load(data, before), builder.fmul(found, found))
            lanes.store(squares, data, builder.add(before, pitch))

        lanes.each(pitch, finish)
        return context.get_dummy_value()

    return signature, generate


def _cheapest(
    typing_context: Any, memory: Any, values: Any, pitch: Any, outputs: Any, sums: Any, begin: Any, end: Any
) -> Any:
    found: Any = _types.Tuple((types.intp, types.float64))
    signature = found(memory, *[types.intp] * 6)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        values, pitch, outputs, sums, begin, end = arguments[1:]
        above, below = builder.gep(data, [values]), builder.gep(data, [sums])
        whole, one = ir.VectorType(end.type, LANES), ir.Constant(end.type, 1)
        least = _codegen.alloca_once_value(builder, lanes.equal(math.inf))
        found = _codegen.alloca_once_value(builder, ir.Constant(whole, [-1] * LANES))
        norms = _codegen.alloca_once(builder, lanes.vector)

        def body(place: Any) -> None:
            weight = lanes.load(above, place)
            builder.store(builder.fmul(weight, weight), norms)
            with _codegen.for_range_slice(builder, one, outputs, one, intp=end.type) as (c, _):
                weight = lanes.load(above, builder.add(place, builder.mul(c, pitch)))
                builder.store(builder.fadd(builder.load(norms), builder.fmul(weight, weight)), norms)
            entry = builder.fdiv(builder.load(norms), lanes.load(below, place))
            inside = builder.and_(builder.not_(lanes.mask(place, begin)), lanes.mask(place, end))
            places = lanes.numbered(place)
            better = builder.and_(inside, builder.fcmp_ordered("<", entry, builder.load(least)))
            builder.store(builder.select(better, entry, builder.load(least)), least)
            builder.store(builder.select(better, places, builder.load(found)), found)

        lanes.each(end, body)
        entries, places = builder.load(least), builder.load(found)
        half = LANES
        while half > 1:
            half //= 2
            low, high = list(range(half)), list(range(half, 2 * half))
            x, y = (lanes.shuffled(entries, entries, side) for side in (low, high))
            i, j = (lanes.shuffled(places, places, side) for side in (low, high))
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
        lanes = Lanes(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        first, second, before = (builder.gep(data, [place]) for place in (upper, lower, sums))
        columns = lanes.everywhere(column)
        x, y = (builder.load(builder.gep(pointer, [column])) for pointer in (first, second))
        radius = lanes.root(builder.fadd(builder.fmul(x, x), builder.fmul(y, y)))
        cosines, sines = (lanes.spread(builder.fdiv(entry, radius)) for entry in (x, y))

        def body(place: Any) -> None:
            x, y = lanes.load(first, place), lanes.load(second, place)
            lanes.store(builder.fadd(builder.fmul(cosines, x), builder.fmul(sines, y)), first, place)
            rest = builder.fsub(builder.fmul(cosines, y), builder.fmul(sines, x))
            here = builder.icmp_signed("==", lanes.numbered(place), columns)
            rest = builder.select(here, lanes.equal(0.0), rest)
            lanes.store(rest, second, place)
            squares = builder.fadd(lanes.load(before, place), builder.fmul(rest, rest))
            lanes.store(squares, before, builder.add(place, size))

        lanes.each(size, body)
        return context.get_dummy_value()

    return signature, generate


def _take_out(typing_context: Any, memory: Any, values: Any, outputs: Any, row: Any, column: Any, size: Any) -> Any:
    signature = types.float64(memory, *[types.intp] * 5)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, outputs, row, column, size = arguments[1:]
        lanes = Lanes(context, builder, signature.args, arguments)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        row, columns = builder.gep(data, [row]), lanes.everywhere(column)
        pivot = builder.load(builder.gep(row, [column]))
        zero, one = (ir.Constant(size.type, number) for number in (0, 1))
        total = _codegen.alloca_once_value(builder, ir.Constant(_DOUBLE, 0.0))
        with _codegen.for_range_slice(builder, zero, outputs, one, intp=size.type) as (c, _):
            of = builder.gep(data, [builder.add(values, builder.mul(c, size))])
            share = builder.fdiv(builder.load(builder.gep(of, [column])), pivot)
            builder.store(builder.fadd(builder.load(total), builder.fmul(share, share)), total)
            by = lanes.spread(builder.fneg(share))

            def body(place: Any) -> None:
                here = builder.icmp_signed("==", lanes.numbered(place), columns)
                entry = builder.fadd(lanes.load(of, place), builder.fmul(by, lanes.load(row, place)))
                lanes.store(builder.select(here, lanes.equal(0.0), entry), of, place)

            lanes.each(size, body)
        return builder.load(total)

    return signature, generate


if vars(config)["DISABLE_JIT"]:

    def subtract_from(memory: Array, place: int, source: Array, s: int, size: int) -> None:
        """Put the differences of ``size`` entries of the source and those from a place on there, zeros behind them."""
        wide = (size + LANES - 1) // LANES * LANES
        entries = np.zeros(wide)
        entries[:size] = source.reshape(-1)[s : s + size]
        entries[:size] -= memory[place : place + size]
        memory[place : place + wide] = entries

    def count_above(memory: Array, keys: int, place: int, count: int) -> int:
        """Count which of ``count`` keys come before that in a place: larger ones, and equal ones before it."""
        found, key = memory[keys : keys + count], memory[keys + place]
        return int(np.sum(found > key) + np.sum(found[:place] == key))

    def eliminate_below(board: Array, pivot: int) -> None:
        """Take multiples of the pivot's row from all rows below so that they lose its column, in whole lanes from that
        of the column on."""
        first = pivot - pivot % LANES
        for i in range(pivot + 1, len(board)):
            board[i, first:] += -(board[i, pivot] / board[pivot, pivot]) * board[pivot, first:]

    def take_pivot(
        memory: Array,
        column: int,
        board: int,
        pitch: int,
        turn: Integers,
        first: int,
        count: int,
        kept: int,
        sums: int,
    ) -> None:
        """Eliminate the column of a point from the rows of those whose turn comes after it, from ``first`` on.

        The column held what was left of the Gram matrix; from now on it holds entries of the rows of the factor, as
        those do where ``kept`` is not 0. The point's own row is scaled to be one of the factor, with zeros in all other
        columns, and its squares are added to the sums, ``pitch`` entries further on.
        """
        row = memory[board + column * pitch :][:pitch]
        schur = float(row[column])
        row[column] = 1.0
        for q in turn[first:count]:
            other = memory[board + q * pitch :][:pitch]
            ratio = -(other[column] / schur)
            other[column] = 0.0
            other += ratio * row
        known = memory[kept : kept + pitch] != 0.0
        known[column] = True
        row[:] = 1.0 / math.sqrt(schur) * np.where(known, row, 0.0)
        memory[sums + pitch : sums + 2 * pitch] = memory[sums : sums + pitch] + row * row

    def cheapest(
        memory: Array, values: int, pitch: int, outputs: int, sums: int, begin: int, end: int
    ) -> tuple[int, float]:
        """Find the least of ``sum_c values[c pitch + k]^2 / sums[k]`` among k from ``begin`` on and before ``end``, and
        where it is first.

        Those that are no numbers, or infinite, do not count; (-1, infinity) where none does.
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
        """Rotate two rows so that the lower one has a zero in a column, ``(x, y) -> (cosine x + sine y, cosine y - sine
        x)``, and write its squares and the sums to the sums, ``size`` entries further on."""
        first, second = memory[upper : upper + size], memory[lower : lower + size]
        x, y = float(first[column]), float(second[column])
        radius = math.sqrt(x * x + y * y)
        cosine, sine = x / radius, y / radius
        first[:], second[:] = cosine * first + sine * second, cosine * second - sine * first
        second[column] = 0.0
        memory[sums + size : sums + 2 * size] = memory[sums : sums + size] + second * second

    def take_out(memory: Array, values: int, outputs: int, row: int, column: int, size: int) -> float:
        """Take a multiple of a row from the values of each output so that they are zero in a column.

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
    eliminate_below = _intrinsic(_eliminate_below)
    rotate = _intrinsic(_rotate)
    subtract_from = _intrinsic(_subtract_from)
    take_out = _intrinsic(_take_out)
    take_pivot = _intrinsic(_take_pivot)
