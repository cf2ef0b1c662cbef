"""Views of parts of contiguous arrays in compiled code.

`reshape` and slices check at every call whether the request fits, and count the references to the array's memory, which
together costs as much as the arithmetic of a short row. These functions do neither: the part must be inside the array,
and the array must live as long as the part.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kernelswarm.arrays import AnyArray
from kernelswarm.inside_numba import COMPILES

_codegen: Any = cgutils


def _view(array: Any, sizes: int, units: int = 0, whole_rows: bool = False) -> Any:
    """Return the signature and code of a view with ``sizes`` dimensions, plus the array's row length with
    ``whole_rows``. Its start is counted in entries of the last ``units`` axes. The array has no gaps."""
    if array.layout != "C":
        raise TypingError(f"{array} has gaps between its rows: a view of it would lie elsewhere")
    kind = types.Array(array.dtype, sizes + whole_rows, "C")
    signature = kind(array, *[types.intp] * (1 + sizes))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.make_array(signature.args[0])(context, builder, arguments[0])
        part = context.make_array(kind)(context, builder)
        size = context.get_constant(types.intp, 8)
        lengths = _codegen.unpack_tuple(builder, whole.shape, array.ndim)
        place, shape, stride = arguments[1], [*arguments[2:], *lengths[-1:] * whole_rows], size
        for length in lengths[array.ndim - units :]:
            place = builder.mul(place, length)
        strides: list[Any] = []
        for length in reversed(shape):
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        data = builder.gep(whole.data, [place])
        context.populate_array(part, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return part._getvalue()

    return signature, generate


if not COMPILES:

    def fetch(array: AnyArray, start: int, size: int) -> None:
        """Prefetch numbers of the array, from an index on, into the processor's cache."""

    def nearby(kind: Any, size: int) -> AnyArray:
        """Return ``size`` uninitialised numbers on the stack of the calling function, for a few kilobytes, since array
        memory is allocated slowly. The array must not leave the function; the size is a constant of the module."""
        return np.empty(size, kind)

    def line(array: AnyArray, start: int, size: int) -> AnyArray:
        """Return the (size,) numbers of the array from an index on."""
        return array.reshape(-1)[start : start + size]

    def table(array: AnyArray, start: int, rows: int, columns: int) -> AnyArray:
        """Return the (rows, columns) numbers of the array from an index on."""
        return array.reshape(-1)[start : start + rows * columns].reshape(rows, columns)

    def cube(array: AnyArray, start: int, count: int, rows: int, columns: int) -> AnyArray:
        """Return the (count, rows, columns) numbers of the array from an index on."""
        return array.reshape(-1)[start : start + count * rows * columns].reshape(count, rows, columns)

    def line_of(array: AnyArray, place: int, size: int) -> AnyArray:
        """Return the first (size,) numbers of a row, given its index among all rows of the array."""
        return line(array, place * array.shape[-1], size)

    def rows_of(array: AnyArray, place: int, count: int) -> AnyArray:
        """Return ``count`` rows from a row on, given its index among all rows of the array."""
        return table(array, place * array.shape[-1], count, array.shape[-1])

    def table_of(array: AnyArray, place: int, count: int) -> AnyArray:
        """Return the first ``count`` rows of a matrix, given its index among all matrices of the array."""
        return rows_of(array, place * array.shape[-2], count)

    def read_only(array: AnyArray) -> AnyArray:
        return array

else:

    @intrinsic
    def fetch(typing_context: Any, array: Any, start: Any, size: Any) -> Any:
        """Prefetch numbers of the array, from an index on, into the processor's cache."""
        signature = types.void(array, types.intp, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            prefetch = _codegen.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            first, end, line = arguments[1], builder.add(arguments[1], arguments[2]), ir.Constant(arguments[1].type, 8)
            with _codegen.for_range_slice(builder, first, end, line, intp=first.type) as (place, _):
                pointer = builder.bitcast(builder.gep(data, [place]), byte)
                builder.call(prefetch, [pointer, word(0), word(3), word(1)])
            return context.get_dummy_value()

        return signature, generate

    @intrinsic(prefer_literal=True)
    def nearby(typing_context: Any, kind: Any, size: Any) -> Any:
        """Return ``size`` uninitialised numbers on the stack of the calling function."""
        length, array = size.literal_value, types.Array(kind.dtype, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            part, count = context.make_array(array)(context, builder), context.get_constant(types.intp, length)
            data = _codegen.alloca_once(builder, context.get_data_type(array.dtype), count)
            data.align = 64  # so that each group of lanes is in one cache line
            eight = context.get_constant(types.intp, 8)
            context.populate_array(part, data=data, shape=[count], strides=[eight], itemsize=eight, meminfo=None)
            return part._getvalue()

        return array(kind, size), generate

    @intrinsic
    def line(typing_context: Any, array: Any, start: Any, size: Any) -> Any:
        """Return the (size,) numbers of the array from an index on."""
        return _view(array, 1)

    @intrinsic
    def table(typing_context: Any, array: Any, start: Any, rows: Any, columns: Any) -> Any:
        """Return the (rows, columns) numbers of the array from an index on."""
        return _view(array, 2)

    @intrinsic
    def cube(typing_context: Any, array: Any, start: Any, count: Any, rows: Any, columns: Any) -> Any:
        """Return the (count, rows, columns) numbers of the array from an index on."""
        return _view(array, 3)

    @intrinsic
    def line_of(typing_context: Any, array: Any, place: Any, size: Any) -> Any:
        """Return the first (size,) numbers of a row, given its index among all rows of the array."""
        return _view(array, 1, units=1)

    @intrinsic
    def rows_of(typing_context: Any, array: Any, place: Any, count: Any) -> Any:
        """Return ``count`` rows from a row on, given its index among all rows of the array."""
        return _view(array, 1, units=1, whole_rows=True)

    @intrinsic
    def table_of(typing_context: Any, array: Any, place: Any, count: Any) -> Any:
        """Return the first ``count`` rows of a matrix, given its index among all matrices of the array."""
        return _view(array, 1, units=2, whole_rows=True)

    @intrinsic
    def read_only(typing_context: Any, array: Any) -> Any:
        """Return a read-only view of an array, which has another type for numba."""
        signature = array.copy(readonly=True)(array)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if context.enable_nrt:  # the result is one more reference
                context.nrt.incref(builder, signature.return_type, arguments[0])
            return arguments[0]

        return signature, generate
