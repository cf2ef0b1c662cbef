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


def _entries(builder: Any, rows: list[Any], column: Any) -> Any:
    """Return the entries of four rows in a column."""
    entries = ir.Constant(ir.VectorType(_DOUBLE, ROWS), ir.Undefined)
    for r, row in enumerate(rows):
        entries = builder.insert_element(entries, builder.load(builder.gep(row, [column])), ir.Constant(_I32, r))
    return entries


def _ratios(builder: Any, lanes: Lanes, rows: list[Any], pivots: list[Any], columns: list[Any], schurs: list[Any]) -> Any:
    """Return, over all lanes, by how much of each pivot's row each of four rows is changed so that it loses that
    pivot's column, one pivot after the other."""
    found: list[Any] = []
    for place, column in enumerate(columns):
        entries = _entries(builder, rows, column)
        for pivot, ratios in zip(pivots[:place], found, strict=True):
            entries = builder.fadd(entries, builder.fmul(ratios, _four(builder, lanes, pivot, column)))
        by = lanes.spread(schurs[place])
        found.append(builder.fneg(builder.fdiv(entries, lanes.shuffled(by, by, [0] * ROWS))))
    return [[lanes.shuffled(ratios, ratios, [r] * LANES) for r in range(ROWS)] for ratios in found]


def _four(builder: Any, lanes: Lanes, row: Any, column: Any) -> Any:
    whole = lanes.spread(builder.load(builder.gep(row, [column])))
    return lanes.shuffled(whole, whole, [0] * ROWS)


def _second(builder: Any, rows: list[Any], columns: list[Any]) -> tuple[Any, Any, Any]:
    """Return what two pivots are, the second one after its row has lost the column of the first, and by how much of
    the first row it does so."""
    first, entry, before = (
        builder.load(builder.gep(rows[r], [columns[c]])) for r, c in ((0, 0), (1, 0), (1, 1))
    )
    ratio = builder.fneg(builder.fdiv(entry, first))
    change = builder.fmul(ratio, builder.load(builder.gep(rows[0], [columns[1]])))
    return first, builder.fadd(before, change), ratio


def _eliminate_below(typing_context: Any, board: Any, pivot: Any) -> Any:
    signature = types.void(board, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, pivot = Lanes(context, builder, signature.args, arguments), arguments[1]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size, pitch = (builder.extract_value(array.shape, k) for k in (0, 1))
        four, one = (ir.Constant(size.type, number) for number in (ROWS, 1))
        columns, last = [pivot, builder.add(pivot, one)], builder.sub(size, one)
        rows = [builder.gep(array.data, [builder.mul(column, pitch)]) for column in columns]
        first = builder.and_(pivot, ir.Constant(size.type, -LANES))
        rest, (*schurs, ratio) = builder.sub(pitch, first), _second(builder, rows, columns)
        share = lanes.spread(ratio)

        def follow(place: Any) -> None:
            place = builder.add(place, first)
            change = builder.fmul(share, lanes.load(rows[0], place))
            lanes.store(builder.fadd(lanes.load(rows[1], place), change), rows[1], place)

        lanes.each(rest, follow)
        with _codegen.for_range_slice(
            builder, builder.add(columns[1], one), size, four, intp=size.type
        ) as (i, _):
            others = _four_rows(builder, array.data, lambda place: builder.mul(place, pitch), i, last)
            shares = _ratios(builder, lanes, others, rows, columns, schurs)

            def eliminate(place: Any) -> None:
                place = builder.add(place, first)
                found = [lanes.load(other, place) for other in others]
                for row, ratios in zip(rows, shares, strict=True):
                    of = lanes.load(row, place)
                    found = [
                        builder.fadd(entry, builder.fmul(ratio, of))
                        for entry, ratio in zip(found, ratios, strict=True)
                    ]
                for other, entry in zip(others, found, strict=True):
                    lanes.store(entry, other, place)

            lanes.each(rest, eliminate)
        return context.get_dummy_value()

    return signature, generate


def _pivots(number: int) -> Callable[..., Any]:
    """Return the type and the code of one or two steps of elimination."""

    def take(
        typing_context: Any,
        memory: Any,
        board: Any,
        pitch: Any,
        turn: Any,
        place: Any,
        count: Any,
        kept: Any,
        sums: Any,
    ) -> Any:
        whole = types.intp
        signature = types.float64(memory, *[whole] * 2, turn, *[whole] * 4)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            board, pitch, _, place, count, kept, sums = arguments[1:]
            lanes = Lanes(context, builder, signature.args, arguments)
            data, order = (
                context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 3)
            )
            nothing, unity = lanes.equal(0.0), lanes.equal(1.0)
            four, one = (ir.Constant(pitch.type, number) for number in (ROWS, 1))

            def start(place: Any) -> Any:
                return builder.add(board, builder.mul(builder.load(builder.gep(order, [place])), pitch))

            turns = [builder.add(place, ir.Constant(pitch.type, k)) for k in range(number)]
            columns = [builder.load(builder.gep(order, [turn])) for turn in turns]
            rows, everywhere = [builder.gep(data, [start(turn)]) for turn in turns], list(map(lanes.everywhere, columns))

            def at(place: Any, k: int) -> Any:
                return builder.icmp_signed("==", lanes.numbered(place), everywhere[k])

            def changed(entry: Any, place: Any, k: int, ratio: Any, pivot: Any) -> Any:
                """Change a row's entries by those of a pivot's, in whose column there was what is lost now."""
                entry = builder.select(at(place, k), nothing, entry)
                return builder.fadd(entry, builder.fmul(ratio, pivot))

            def pivot_of(place: Any, k: int) -> Any:
                return builder.select(at(place, k), unity, lanes.load(rows[k], place))

            if number == 1:
                schurs = [builder.load(builder.gep(rows[0], columns))]
            else:
                *schurs, ratio = _second(builder, rows, columns)
                share = lanes.spread(ratio)

                def follow(place: Any) -> None:
                    entry = changed(lanes.load(rows[1], place), place, 0, share, pivot_of(place, 0))
                    lanes.store(entry, rows[1], place)

                lanes.each(pitch, follow)
            first, last = builder.add(turns[-1], one), builder.sub(count, one)
            with _codegen.for_range_slice(builder, first, count, four, intp=pitch.type) as (k, _):
                others = _four_rows(builder, data, start, k, last)
                shares = _ratios(builder, lanes, others, rows, columns, schurs)

                def eliminate(place: Any) -> None:
                    found = [lanes.load(other, place) for other in others]
                    for k, ratios in enumerate(shares):
                        pivot = pivot_of(place, k)
                        found = [
                            changed(entry, place, k, ratio, pivot)
                            for entry, ratio in zip(found, ratios, strict=True)
                        ]
                    for other, entry in zip(others, found, strict=True):
                        lanes.store(entry, other, place)

                lanes.each(pitch, eliminate)

            roots = [builder.fdiv(ir.Constant(_DOUBLE, 1.0), lanes.root(schur)) for schur in schurs]
            scales = list(map(lanes.spread, roots))

            def finish(place: Any) -> None:
                before = builder.add(sums, place)
                known = builder.fcmp_ordered("!=", lanes.load(data, builder.add(kept, place)), nothing)
                squares = lanes.load(data, before)
                for k, (row, scale) in enumerate(zip(rows, scales, strict=True)):
                    entry = builder.select(known, lanes.load(row, place), nothing)
                    found = builder.fmul(scale, builder.select(at(place, k), unity, entry))
                    lanes.store(found, row, place)
                    squares, before = builder.fadd(squares, builder.fmul(found, found)), builder.add(before, pitch)
                    lanes.store(squares, data, before)
                    known = builder.or_(known, at(place, k))

            lanes.each(pitch, finish)
            return schurs[-1]

        return signature, generate

    return take


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
        """Take multiples of the rows of a pivot and of the one after it from all rows below each so that they lose its
        column, in whole lanes from that of the first column on."""
        first = pivot - pivot % LANES
        for k in (pivot, pivot + 1):
            for i in range(k + 1, len(board)):
                board[i, first:] += -(board[i, k] / board[k, k]) * board[k, first:]

    def take_pivot(
        memory: Array, board: int, pitch: int, turn: Integers, place: int, count: int, kept: int, sums: int
    ) -> float:
        """Eliminate the column of the point whose turn it is from the rows of those whose turn comes after it.

        The column held what was left of the Gram matrix; from now on it holds entries of the rows of the factor, as
        those do where ``kept`` is not 0. The point's own row is scaled to be one of the factor, with zeros in all other
        columns, and its squares are added to the sums, ``pitch`` entries further on. Returns what was left of the Gram
        matrix at the point.
        """
        column = turn[place]
        row = memory[board + column * pitch :][:pitch]
        schur = float(row[column])
        row[column] = 1.0
        for q in turn[place + 1 : count]:
            other = memory[board + q * pitch :][:pitch]
            ratio = -(other[column] / schur)
            other[column] = 0.0
            other += ratio * row
        known = memory[kept : kept + pitch] != 0.0
        known[column] = True
        with np.errstate(invalid="ignore", divide="ignore"):
            row[:] = 1.0 / np.sqrt(schur) * np.where(known, row, 0.0)
        memory[sums + pitch : sums + 2 * pitch] = memory[sums : sums + pitch] + row * row
        return schur

    def take_two(
        memory: Array, board: int, pitch: int, turn: Integers, place: int, count: int, kept: int, sums: int
    ) -> float:
        """Do the same for a point and the next one, of which it returns what was left."""
        before = memory[kept : kept + pitch].copy()
        take_pivot(memory, board, pitch, turn, place, count, kept, sums)
        memory[kept + turn[place]] = 1.0
        schur = take_pivot(memory, board, pitch, turn, place + 1, count, kept, sums + pitch)
        memory[kept : kept + pitch] = before
        return schur

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
    take_pivot = _intrinsic(_pivots(1))
    take_two = _intrinsic(_pivots(2))
