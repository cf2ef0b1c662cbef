"""Matrix products of parts of arrays in compiled code, given the start and the row distance of each part.

numba's own products take whole contiguous arrays. These functions call the same routine of the same library (BLAS
`dgemm`) on any block of a larger matrix, without copying.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES

_codegen: Any = cgutils
_CHAR, _POINTER, _LONG = ir.IntType(8), ir.IntType(8).as_pointer(), ir.IntType(64)
_ROUTINE = ir.FunctionType(
    ir.IntType(32),
    [_CHAR] * 3 + [_LONG] * 3 + [_POINTER] * 2 + [_LONG, _POINTER, _LONG] + [_POINTER] * 2 + [_LONG],
)


def _multiply(
    typing_context: Any,
    target: Any,
    t: Any,
    pitch: Any,
    left: Any,
    a: Any,
    left_pitch: Any,
    turn_left: Any,
    right: Any,
    b: Any,
    right_pitch: Any,
    turn_right: Any,
    rows: Any,
    inner: Any,
    columns: Any,
    factor: Any,
    share: Any,
) -> Any:
    if any(array.layout != "C" for array in (target, left, right)):
        raise TypingError("multiply takes arrays whose rows lie one after the other")
    size, flag = types.intp, types.boolean
    block = [size, size]
    signature = types.void(
        target, *block, left, *block, flag, right, *block, flag, size, size, size, types.float64, types.float64
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def start(place: int) -> Any:
            array = context.make_array(signature.args[place])(context, builder, arguments[place])
            return builder.bitcast(builder.gep(array.data, [arguments[place + 1]]), _POINTER)

        def turned(place: int) -> Any:
            letters = (ir.Constant(_CHAR, ord(letter)) for letter in "tn")
            return builder.select(builder.trunc(arguments[place], ir.IntType(1)), *letters)

        def number(place: int) -> Any:
            return builder.bitcast(_codegen.alloca_once_value(builder, arguments[place]), _POINTER)

        routine = _codegen.get_or_insert_function(builder.module, _ROUTINE, "numba_xxgemm")
        # BLAS stores matrices by columns: for it all three are transposed, so their order is reversed.
        rows, inner, columns = arguments[11:14]
        kind = ir.Constant(_CHAR, ord("d"))
        sizes = turned(10), turned(6), columns, rows, inner
        operands = number(14), start(7), arguments[9], start(3), arguments[5], number(15), start(0), arguments[2]
        builder.call(routine, (kind, *sizes, *operands))
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def _block(array: Array, start: int, pitch: int, rows: int, columns: int) -> Array:
        step = array.itemsize
        return np.lib.stride_tricks.as_strided(
            array.reshape(-1)[start:], (rows, columns), (pitch * step, step), writeable=array.flags.writeable
        )

    def multiply(
        target: Array,
        t: int,
        pitch: int,
        left: Array,
        a: int,
        left_pitch: int,
        turn_left: bool,
        right: Array,
        b: int,
        right_pitch: int,
        turn_right: bool,
        rows: int,
        inner: int,
        columns: int,
        factor: float,
        share: float,
    ) -> None:
        """Write ``factor A B + share C`` to C, (rows, columns), with A (rows, inner) and B (inner, columns).

        Each matrix is given by an array, the index of its first entry, and the distance of its rows; flags mark A and B
        as stored transposed. With a share of 0 the previous content of C is ignored.
        """
        shape = (inner, rows) if turn_left else (rows, inner)
        first = _block(left, a, left_pitch, *shape)
        shape = (columns, inner) if turn_right else (inner, columns)
        second = _block(right, b, right_pitch, *shape)
        found = factor * (first.T if turn_left else first) @ (second.T if turn_right else second)
        into = _block(target, t, pitch, rows, columns)
        into[:] = found if share == 0.0 else found + share * into

else:
    _intrinsic: Any = intrinsic
    multiply = _intrinsic(_multiply)
