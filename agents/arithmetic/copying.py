"""Copies into parts of arrays, in compiled code."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, njit_no_refcount

_codegen: Any = cgutils


def _transpose(
    typing_context: Any,
    target: Any,
    t: Any,
    target_pitch: Any,
    source: Any,
    s: Any,
    pitch: Any,
    rows: Any,
    columns: Any,
    factor: Any,
) -> Any:
    size = types.intp
    signature = types.void(target, size, size, source, size, size, size, size, types.float64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, out_of = simd.pointer(0), simd.pointer(3)
        target_pitch, pitch, rows, columns = (arguments[k] for k in (2, 5, 6, 7))
        zero, eight = ir.Constant(rows.type, 0), ir.Constant(rows.type, SIMD_WIDTH)
        by = simd.spread(arguments[8])

        def turn(q: Any, j: Any) -> None:
            """Transpose eight rows from row q on, for their entries from j on."""
            found = []
            for r in range(SIMD_WIDTH):
                row = builder.add(q, ir.Constant(rows.type, r))
                inside = builder.icmp_signed("<", row, rows)
                end = builder.select(inside, columns, zero)  # rows beyond the last are not read
                place = builder.mul(builder.select(inside, row, zero), pitch)
                found.append(builder.fmul(by, simd.load_part(builder.gep(out_of, [place]), j, end)))
            for half in (4, 2, 1):  # exchange off-diagonal blocks
                for r in range(SIMD_WIDTH):
                    if not r & half:
                        x, y = found[r], found[r + half]
                        upper = [SIMD_WIDTH + i - half if i & half else i for i in range(SIMD_WIDTH)]
                        lower = [SIMD_WIDTH + i if i & half else i + half for i in range(SIMD_WIDTH)]
                        found[r], found[r + half] = simd.shuffled(x, y, upper), simd.shuffled(x, y, lower)
            for r, entries in enumerate(found):
                column = builder.add(j, ir.Constant(rows.type, r))
                with builder.if_then(builder.icmp_signed("<", column, columns)):
                    simd.store(entries, builder.gep(into, [builder.mul(column, target_pitch)]), q)

        def each(end: Any) -> Any:
            return _codegen.for_range_slice(builder, zero, end, eight, intp=rows.type)

        with each(rows) as (q, _), each(columns) as (j, _):
            turn(q, j)
        return context.get_dummy_value()

    return signature, generate


def _copy_stretch(typing_context: Any, target: Any, t: Any, source: Any, s: Any, count: Any, size: Any) -> Any:
    signature = types.void(target, types.intp, source, *[types.intp] * 3)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, out_of, count, size = simd.pointer(0), simd.pointer(2), arguments[4], arguments[5]
        simd.each(size, lambda place: simd.store_part(simd.load_part(out_of, place, count), into, place, size))
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def transpose(
        target: Array,
        t: int,
        target_pitch: int,
        source: Array,
        s: int,
        pitch: int,
        rows: int,
        columns: int,
        factor: float,
    ) -> None:
        """Write ``factor source[s + q pitch + j]`` to ``target[t + j target_pitch + q]`` for q < rows, j < columns.

        Rows of the target are written in whole lanes, with zeros after the last entry.
        """
        into, out_of = target.reshape(-1), source.reshape(-1)
        wide = (rows + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
        for j in range(columns):
            line = into[t + j * target_pitch : t + j * target_pitch + wide]
            line[rows:] = 0.0
            line[:rows] = [factor * out_of[s + q * pitch + j] for q in range(rows)]

    def copy_stretch(target: Array, t: int, source: Array, s: int, count: int, size: int) -> None:
        """Copy ``count`` numbers of the source from ``s`` on to the target from ``t`` on, padded with zeros to ``size``
        numbers."""
        into = target.reshape(-1)[t : t + size]
        into[:count], into[count:] = source.reshape(-1)[s : s + count], 0.0

else:
    _intrinsic: Any = intrinsic
    copy_stretch = _intrinsic(_copy_stretch)
    transpose = _intrinsic(_transpose)


@njit_no_refcount
def copy_vector(source: ReadOnly, target: Array) -> None:
    """Copy (n,) into the first n entries of ``target``.

    ``target[:n] = source`` is equivalent, but numba then compiles the text of an error about shapes, which takes
    seconds and is not cached.
    """
    for i in range(source.shape[0]):
        target[i] = source[i]


@njit_no_refcount
def copy_matrix(source: Array, target: Array) -> None:
    """Copy (n, m) into the first n rows and m columns of ``target``; see :func:`copy_vector`."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]
