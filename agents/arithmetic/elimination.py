"""Elimination of two columns at a time: for the system of a step, and for the augmented matrix of screening.

Entries equal those of single steps to the bit: a row first changes by a multiple of the first pivot's row, then by a
multiple of the second's. But both are done while the row is in registers, so it is read and written half as often; the
second pivot is computed before the first pivot's column is eliminated from all rows.
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
    """Return pointers to four rows from an index on; beyond the last row the last row is repeated, which is allowed
    since all rows are read before any is written."""
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
    """Return, over all lanes, the multiples of the pivots' rows that eliminate the pivots' columns, one after the
    other, from each of four rows."""
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
    """Return two pivots, the second after elimination of the first pivot's column from its row, and the multiple of
    the first row in this elimination."""
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


class _Steps:
    """The code of one or two elimination steps, on an augmented matrix in a vector of numbers."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> None:
        self.augmented, self.pitch, _, place, count, self.kept, self.sums = arguments[1:]
        self.builder, self.simd = builder, Simd(context, builder, signature.args, arguments)
        self.data, self.order = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 3)
        )
        self.nothing, self.unity = self.simd.equal(0.0), self.simd.equal(1.0)
        turns = [builder.add(place, self.whole(k)) for k in range(number)]
        self.after, self.count = builder.add(turns[-1], self.whole(1)), count
        self.columns = [builder.load(builder.gep(self.order, [turn])) for turn in turns]
        self.rows = [builder.gep(self.data, [self.start(turn)]) for turn in turns]
        self.everywhere = list(map(self.simd.everywhere, self.columns))

    def whole(self, number: int) -> Any:
        return ir.Constant(self.pitch.type, number)

    def start(self, place: Any) -> Any:
        """Return the start of the row of the point at a place in the order."""
        builder = self.builder
        return builder.add(self.augmented, builder.mul(builder.load(builder.gep(self.order, [place])), self.pitch))

    def at(self, place: Any, k: int) -> Any:
        return self.builder.icmp_signed("==", self.simd.numbered(place), self.everywhere[k])

    def changed(self, entry: Any, place: Any, k: int, ratio: Any, pivot: Any, selects: bool = True) -> Any:
        """Add a multiple of a pivot's entries to a row's entries, of which the one in the pivot's column is cleared."""
        entry = self.builder.select(self.at(place, k), self.nothing, entry) if selects else entry
        return self.builder.fadd(entry, self.builder.fmul(ratio, pivot))

    def pivot_of(self, place: Any, k: int) -> Any:
        return self.builder.select(self.at(place, k), self.unity, self.simd.load(self.rows[k], place))

    def schurs(self) -> list[Any]:
        """Return the pivots; the second pivot's row is updated from the first one's."""
        if len(self.rows) == 1:
            return [self.builder.load(self.builder.gep(self.rows[0], self.columns))]
        *schurs, ratio = _second(self.builder, self.rows, self.columns)
        share = self.simd.spread(ratio)

        def follow(place: Any) -> None:
            before = self.simd.load(self.rows[1], place)
            self.simd.store(self.changed(before, place, 0, share, self.pivot_of(place, 0)), self.rows[1], place)

        self.simd.each(self.pitch, follow)
        return schurs

    def eliminate(self, schurs: list[Any]) -> None:
        """Eliminate the pivots' columns from the rows of the points after them."""
        builder, simd = self.builder, self.simd
        four, eight = self.whole(ROWS), self.whole(SIMD_WIDTH)
        # Lanes from here on belong to the dictionary, after all columns of points, and need no selection.
        wide = builder.and_(builder.add(self.count, self.whole(SIMD_WIDTH - 1)), self.whole(-SIMD_WIDTH))
        last = builder.sub(self.count, self.whole(1))
        with _codegen.for_range_slice(builder, self.after, self.count, four, intp=self.pitch.type) as (i, _):
            others = _four_rows(builder, self.data, self.start, i, last)
            shares = _ratios(builder, simd, others, self.rows, self.columns, schurs)

            def change(place: Any, selects: bool = True) -> None:
                found = [simd.load(other, place) for other in others]
                for k, ratios in enumerate(shares):
                    pivot = self.pivot_of(place, k) if selects else simd.load(self.rows[k], place)
                    found = [
                        self.changed(entry, place, k, ratio, pivot, selects)
                        for entry, ratio in zip(found, ratios, strict=True)
                    ]
                for other, entry in zip(others, found, strict=True):
                    simd.store(entry, other, place)

            simd.each(wide, change)
            with _codegen.for_range_slice(builder, wide, self.pitch, eight, intp=self.pitch.type) as (place, _):
                change(place, selects=False)

    def finish(self, schurs: list[Any]) -> None:
        """Scale the pivots' rows to rows of the factor, and add their squares to the sums."""
        builder, simd = self.builder, self.simd
        roots = [builder.fdiv(ir.Constant(_DOUBLE, 1.0), simd.root(schur)) for schur in schurs]
        scales = list(map(simd.spread, roots))

        def scale_lanes(place: Any) -> None:
            before = builder.add(self.sums, place)
            known = builder.fcmp_ordered("!=", simd.load(self.data, builder.add(self.kept, place)), self.nothing)
            squares = simd.load(self.data, before)
            for k, (row, scale) in enumerate(zip(self.rows, scales, strict=True)):
                entry = builder.select(known, simd.load(row, place), self.nothing)
                found = builder.fmul(scale, builder.select(self.at(place, k), self.unity, entry))
                simd.store(found, row, place)
                squares, before = builder.fadd(squares, builder.fmul(found, found)), builder.add(before, self.pitch)
                simd.store(squares, self.data, before)
                known = builder.or_(known, self.at(place, k))

        simd.each(self.pitch, scale_lanes)


def _pivots(number: int) -> Callable[..., Any]:
    """Return the type and code of one or two elimination steps."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        steps = _Steps(context, builder, signature, arguments, number)
        schurs = steps.schurs()
        steps.eliminate(schurs)
        steps.finish(schurs)
        return schurs[-1]

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
        return types.float64(memory, *[types.intp] * 2, turn, *[types.intp] * 4), generate

    return take


if not COMPILES:

    def eliminate_two(augmented: Array, pivot: int) -> None:
        """Eliminate the columns of a pivot, with even index, and of the next one from all rows below each, in whole
        lanes from the lanes of the column on."""
        first = pivot - pivot % SIMD_WIDTH
        for k in (pivot, pivot + 1):
            for i in range(k + 1, len(augmented)):
                augmented[i, first:] += -(augmented[i, k] / augmented[k, k]) * augmented[k, first:]

    def take_pivot(
        memory: Array, augmented: int, pitch: int, turn: Integers, place: int, count: int, kept: int, sums: int
    ) -> float:
        """Eliminate the column of the point at a place in the order from the rows of the points after it.

        The column contained the Schur complement of the Gram matrix; now it contains entries of the factor's rows, like
        other columns for which ``kept`` is not 0. The point's own row is scaled to a row of the factor, with zeros in
        all other columns, and the sums plus its squares are written ``pitch`` entries further on. Returns the Schur
        complement at the point.
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
