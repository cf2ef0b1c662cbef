"""Elimination, two columns at a time: of the system of a step, and on the augmented matrix of screening.

Entries are what single steps would leave, to the bit: a row first changes by a multiple of the first pivot's row, then
by one of the second's. But both are done where the row is in the processor, so that it is read and written half as
often, and the second pivot is known before the first one's column is gone from all rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import ROWS, SIMD_WIDTH, Simd
from kernelswarm.arrays import Array, Integers
from kernelswarm.inside_numba import COMPILES

_I32 = ir.IntType(32)
_DOUBLE = ir.DoubleType()
_codegen: Any = cgutils


def _four_rows(builder: Any, data: Any, start: Callable[[Any], Any], place: Any, last: Any) -> list[Any]:
    """Return the begins of four rows from a place on; beyond the last row that of the last, which may be used more than
    once since all are read before any is written."""
    found = []
    for r in range(ROWS):
        other = builder.add(place, ir.Constant(place.type, r))
        other = builder.select(builder.icmp_signed("<", other, last), other, last)
        found.append(builder.gep(data, [start(other)]))
    return found


def _entries(builder: Any, rows: list[Any], column: Any) -> Any:
    entries = ir.Constant(ir.VectorType(_DOUBLE, ROWS), ir.Undefined)
    for r, row in enumerate(rows):
        entries = builder.insert_element(entries, builder.load(builder.gep(row, [column])), ir.Constant(_I32, r))
    return entries


def _ratios(builder: Any, simd: Simd, rows: list[Any], pivots: list[Any], columns: list[Any], schurs: list[Any]) -> Any:
    """Return, over all lanes, the multiples of the pivots' rows that eliminate the pivots' columns, one after
    the other, from each of four rows."""
    found: list[Any] = []
    for place, column in enumerate(columns):
        entries = _entries(builder, rows, column)
        for pivot, ratios in zip(pivots[:place], found, strict=True):
            entries = builder.fadd(entries, builder.fmul(ratios, _four(builder, simd, pivot, column)))
        by = simd.spread(schurs[place])
        found.append(builder.fneg(builder.fdiv(entries, simd.shuffled(by, by, [0] * ROWS))))
    return [[simd.shuffled(ratios, ratios, [r] * SIMD_WIDTH) for r in range(ROWS)] for ratios in found]


def _four(builder: Any, simd: Simd, row: Any, column: Any) -> Any:
    whole = simd.spread(builder.load(builder.gep(row, [column])))
    return simd.shuffled(whole, whole, [0] * ROWS)


def _second(builder: Any, rows: list[Any], columns: list[Any]) -> tuple[Any, Any, Any]:
    """Return two pivots, the second after elimination of the first one's column from its row, and the multiple of the
    first row for that."""
    first, entry, before = (builder.load(builder.gep(rows[r], [columns[c]])) for r, c in ((0, 0), (1, 0), (1, 1)))
    ratio = builder.fneg(builder.fdiv(entry, first))
    change = builder.fmul(ratio, builder.load(builder.gep(rows[0], [columns[1]])))
    return first, builder.fadd(before, change), ratio


def _eliminate_two(typing_context: Any, augmented: Any, pivot: Any) -> Any:
    signature = types.void(augmented, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd, pivot = Simd(context, builder, signature.args, arguments), arguments[1]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size, pitch = (builder.extract_value(array.shape, k) for k in (0, 1))
        four, one = (ir.Constant(size.type, number) for number in (ROWS, 1))
        columns, last = [pivot, builder.add(pivot, one)], builder.sub(size, one)
        rows = [builder.gep(array.data, [builder.mul(column, pitch)]) for column in columns]
        first = builder.and_(pivot, ir.Constant(size.type, -SIMD_WIDTH))
        rest, (*schurs, ratio) = builder.sub(pitch, first), _second(builder, rows, columns)
        share = simd.spread(ratio)

        def follow(place: Any) -> None:
            place = builder.add(place, first)
            change = builder.fmul(share, simd.load(rows[0], place))
            simd.store(builder.fadd(simd.load(rows[1], place), change), rows[1], place)

        simd.each(rest, follow)
        with _codegen.for_range_slice(builder, builder.add(columns[1], one), size, four, intp=size.type) as (i, _):
            others = _four_rows(builder, array.data, lambda place: builder.mul(place, pitch), i, last)
            shares = _ratios(builder, simd, others, rows, columns, schurs)

            def eliminate(place: Any) -> None:
                place = builder.add(place, first)
                found = [simd.load(other, place) for other in others]
                for row, ratios in zip(rows, shares, strict=True):
                    of = simd.load(row, place)
                    found = [
                        builder.fadd(entry, builder.fmul(ratio, of)) for entry, ratio in zip(found, ratios, strict=True)
                    ]
                for other, entry in zip(others, found, strict=True):
                    simd.store(entry, other, place)

            simd.each(rest, eliminate)
        return context.get_dummy_value()

    return signature, generate


def _pivots(number: int) -> Callable[..., Any]:
    """Return the type and the code of one or two steps of elimination."""

    def take(
        typing_context: Any,
        memory: Any,
        augmented: Any,
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
            augmented, pitch, _, place, count, kept, sums = arguments[1:]
            simd = Simd(context, builder, signature.args, arguments)
            data, order = (context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 3))
            nothing, unity = simd.equal(0.0), simd.equal(1.0)
            four, one, eight = (ir.Constant(pitch.type, number) for number in (ROWS, 1, SIMD_WIDTH))
            # Lanes from here on are at the dictionary, behind all columns of points, and need no selection.
            wide = builder.and_(
                builder.add(count, ir.Constant(pitch.type, SIMD_WIDTH - 1)), ir.Constant(pitch.type, -SIMD_WIDTH)
            )

            def start(place: Any) -> Any:
                return builder.add(augmented, builder.mul(builder.load(builder.gep(order, [place])), pitch))

            turns = [builder.add(place, ir.Constant(pitch.type, k)) for k in range(number)]
            columns = [builder.load(builder.gep(order, [turn])) for turn in turns]
            rows, everywhere = (
                [builder.gep(data, [start(turn)]) for turn in turns],
                list(map(simd.everywhere, columns)),
            )

            def at(place: Any, k: int) -> Any:
                return builder.icmp_signed("==", simd.numbered(place), everywhere[k])

            def changed(entry: Any, place: Any, k: int, ratio: Any, pivot: Any, selects: bool = True) -> Any:
                """Add a multiple of a pivot's entries to a row's, whose entry in the pivot's column is gone."""
                entry = builder.select(at(place, k), nothing, entry) if selects else entry
                return builder.fadd(entry, builder.fmul(ratio, pivot))

            def pivot_of(place: Any, k: int) -> Any:
                return builder.select(at(place, k), unity, simd.load(rows[k], place))

            if number == 1:
                schurs = [builder.load(builder.gep(rows[0], columns))]
            else:
                *schurs, ratio = _second(builder, rows, columns)
                share = simd.spread(ratio)

                def follow(place: Any) -> None:
                    entry = changed(simd.load(rows[1], place), place, 0, share, pivot_of(place, 0))
                    simd.store(entry, rows[1], place)

                simd.each(pitch, follow)
            first, last = builder.add(turns[-1], one), builder.sub(count, one)
            with _codegen.for_range_slice(builder, first, count, four, intp=pitch.type) as (k, _):
                others = _four_rows(builder, data, start, k, last)
                shares = _ratios(builder, simd, others, rows, columns, schurs)

                def eliminate(place: Any, selects: bool = True) -> None:
                    found = [simd.load(other, place) for other in others]
                    for k, ratios in enumerate(shares):
                        pivot = pivot_of(place, k) if selects else simd.load(rows[k], place)
                        found = [
                            changed(entry, place, k, ratio, pivot, selects)
                            for entry, ratio in zip(found, ratios, strict=True)
                        ]
                    for other, entry in zip(others, found, strict=True):
                        simd.store(entry, other, place)

                simd.each(wide, eliminate)
                with _codegen.for_range_slice(builder, wide, pitch, eight, intp=pitch.type) as (place, _):
                    eliminate(place, selects=False)

            roots = [builder.fdiv(ir.Constant(_DOUBLE, 1.0), simd.root(schur)) for schur in schurs]
            scales = list(map(simd.spread, roots))

            def finish(place: Any) -> None:
                before = builder.add(sums, place)
                known = builder.fcmp_ordered("!=", simd.load(data, builder.add(kept, place)), nothing)
                squares = simd.load(data, before)
                for k, (row, scale) in enumerate(zip(rows, scales, strict=True)):
                    entry = builder.select(known, simd.load(row, place), nothing)
                    found = builder.fmul(scale, builder.select(at(place, k), unity, entry))
                    simd.store(found, row, place)
                    squares, before = builder.fadd(squares, builder.fmul(found, found)), builder.add(before, pitch)
                    simd.store(squares, data, before)
                    known = builder.or_(known, at(place, k))

            simd.each(pitch, finish)
            return schurs[-1]

        return signature, generate

    return take


if not COMPILES:

    def eliminate_two(augmented: Array, pivot: int) -> None:
        """Eliminate the columns of a pivot, in an even place, and of the next one from all rows below each, in whole
        lanes from the column's on."""
        first = pivot - pivot % SIMD_WIDTH
        for k in (pivot, pivot + 1):
            for i in range(k + 1, len(augmented)):
                augmented[i, first:] += -(augmented[i, k] / augmented[k, k]) * augmented[k, first:]

    def take_pivot(
        memory: Array, augmented: int, pitch: int, turn: Integers, place: int, count: int, kept: int, sums: int
    ) -> float:
        """Eliminate the column of the point at its turn from the rows of the points after it.

        The column held the Schur complement of the Gram matrix; now it holds entries of the factor's rows, as those
        columns do where ``kept`` is not 0. The point's own row is scaled to be one of the factor, with zeros in all
        other columns, and its squares are added to the sums, ``pitch`` entries further on. Returns the Schur complement
        at the point.
        """
        column = turn[place]
        row = memory[augmented + column * pitch :][:pitch]
        schur = float(row[column])
        row[column] = 1.0
        for q in turn[place + 1 : count]:
            other = memory[augmented + q * pitch :][:pitch]
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
        memory: Array, augmented: int, pitch: int, turn: Integers, place: int, count: int, kept: int, sums: int
    ) -> float:
        """Do the same for a point and the next one; returns the Schur complement of the latter."""
        before = memory[kept : kept + pitch].copy()
        take_pivot(memory, augmented, pitch, turn, place, count, kept, sums)
        memory[kept + turn[place]] = 1.0
        schur = take_pivot(memory, augmented, pitch, turn, place + 1, count, kept, sums + pitch)
        memory[kept : kept + pitch] = before
        return schur

else:
    _intrinsic: Any = intrinsic
    eliminate_two = _intrinsic(_eliminate_two)
    take_pivot = _intrinsic(_pivots(1))
    take_two = _intrinsic(_pivots(2))
