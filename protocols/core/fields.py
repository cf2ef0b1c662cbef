"""The arrays of a state as parts of one vector, without copies, in compiled code.

A layout is a text with the dimensions of each array, such as ``"LC,d,"``: letters stand for lengths, digits for
themselves, nothing for a number. Lengths are given in the order of `LETTERS`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES

LETTERS = "dLCMnE"

FITS, ENTANGLED, OTHER = range(3)
"""What arrays are to a vector: they may be put into it; one lies in the place of another; one has another shape."""

_codegen: Any = cgutils
_types: Any = types
_bytes = 8


def shapes_in(layout: str, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of a layout's arrays."""
    return [
        tuple(int(each) if each.isdigit() else int(sizes[LETTERS.index(each)]) for each in shape)
        for shape in layout.split(",")
    ]


def _parts(vector: Array, sizes: tuple[int, ...], layout: str) -> Iterator[Array]:
    begin = 0
    for shape in shapes_in(layout, sizes):
        end = begin + int(np.prod(shape, dtype=int))
        yield vector[begin:end].reshape(shape)
        begin = end


if not COMPILES:

    def length(sizes: tuple[int, ...], layout: str) -> int:
        """Return the length of the vector."""
        return sum(int(np.prod(shape, dtype=int)) for shape in shapes_in(layout, sizes))

    def views(vector: Array, sizes: tuple[int, ...], layout: str) -> tuple[Any, ...]:
        """Return the arrays in a vector, and its numbers."""
        return tuple(part if part.ndim else float(part) for part in _parts(vector, sizes, layout))

    def fits(vector: Array, sizes: tuple[int, ...], layout: str, arrays: tuple[Any, ...]) -> int:
        """Return what arrays are to a vector."""
        pairs = list(zip(_parts(vector, sizes, layout), map(np.asarray, arrays), strict=True))
        if any(part.shape != array.shape for part, array in pairs):
            return OTHER
        return ENTANGLED if any(np.shares_memory(vector, array) for _, array in pairs) else FITS

    def put(vector: Array, sizes: tuple[int, ...], layout: str, arrays: tuple[Any, ...]) -> None:
        """Put arrays that fit into a vector."""
        for part, array in zip(_parts(vector, sizes, layout), arrays, strict=True):
            part[...] = array

    def flat(array: Array) -> Array:
        """Return a contiguous array as a vector; it must live as long."""
        return array.reshape(-1)

else:

    class _Field:
        """A field of a layout in code that is being written: its dimensions and its place."""

        def __init__(self, context: Any, builder: Any, shape: str, sizes: Any, begin: Any) -> None:
            constant, intp = context.get_constant, types.intp
            self.shape = [
                constant(intp, int(each)) if each.isdigit() else builder.extract_value(sizes, LETTERS.index(each))
                for each in shape
            ]
            self.begin, self.count, self.strides = begin, constant(intp, 1), list[Any]()
            for each in reversed(self.shape):
                self.strides.insert(0, builder.mul(self.count, constant(intp, _bytes)))
                self.count = builder.mul(self.count, each)
            self.end = builder.add(begin, self.count)

    def _fields(context: Any, builder: Any, layout: str, sizes: Any) -> Iterator[_Field]:
        end = context.get_constant(types.intp, 0)
        for shape in layout.split(","):
            field = _Field(context, builder, shape, sizes, end)
            yield field
            end = field.end

    def _checked(layout: str, arrays: Any) -> list[Any]:
        """Return the types of the returned fields, each an array or a number."""
        shapes = layout.split(",")
        found = list(arrays)
        if len(found) != len(shapes):
            raise TypingError(f"{len(found)} fields were returned where the state has {len(shapes)}")
        for kind, shape in zip(found, shapes, strict=True):
            is_array = isinstance(kind, types.Array) and kind.ndim == len(shape) and kind.dtype == types.float64
            if not (is_array if shape else isinstance(kind, types.Number | types.Boolean)):
                raise TypingError(
                    f"{kind} was returned where the state has {shape or 'a number'!r}: floats belong there"
                )
        return found

    @intrinsic(prefer_literal=True)
    def length(typing_context: Any, sizes: Any, layout: Any) -> Any:
        """Return the length of the vector."""
        text = layout.literal_value

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return list(_fields(context, builder, text, arguments[0]))[-1].end

        return types.intp(sizes, layout), generate

    @intrinsic(prefer_literal=True)
    def views(typing_context: Any, vector: Any, sizes: Any, layout: Any) -> Any:
        """Return the arrays in a vector, and its numbers."""
        text = layout.literal_value
        kinds = [_types.Array(types.float64, len(shape), "C") if shape else types.float64 for shape in text.split(",")]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = context.make_array(signature.args[0])(context, builder, arguments[0])
            found = []
            for field, kind in zip(_fields(context, builder, text, arguments[1]), kinds, strict=True):
                data = builder.gep(whole.data, [field.begin])
                if not field.shape:
                    found.append(builder.load(data))
                    continue
                part = context.make_array(kind)(context, builder)
                size = context.get_constant(types.intp, _bytes)
                context.populate_array(
                    part, data=data, shape=field.shape, strides=field.strides, itemsize=size, meminfo=None
                )
                found.append(part._getvalue())
            return context.make_tuple(builder, signature.return_type, found)

        return _types.Tuple(kinds)(vector, sizes, layout), generate

    @intrinsic(prefer_literal=True)
    def fits(typing_context: Any, vector: Any, sizes: Any, layout: Any, arrays: Any) -> Any:
        """Return what arrays are to a vector."""
        text, kinds = layout.literal_value, _checked(layout.literal_value, arrays)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = context.make_array(signature.args[0])(context, builder, arguments[0])
            pairs = list(zip(_fields(context, builder, text, arguments[1]), kinds, strict=True))
            address = whole.data.type.pointee, types.intp
            begin = builder.ptrtoint(whole.data, context.get_value_type(address[1]))
            end = builder.ptrtoint(builder.gep(whole.data, [pairs[-1][0].end]), begin.type)
            other = entangled = context.get_constant(types.boolean, False)
            for k, (field, kind) in enumerate(pairs):
                if not field.shape:
                    continue
                array = context.make_array(kind)(context, builder, builder.extract_value(arguments[3], k))
                for wanted, found in zip(field.shape, _codegen.unpack_tuple(builder, array.shape), strict=True):
                    other = builder.or_(other, builder.icmp_signed("!=", wanted, found))
                place = builder.ptrtoint(array.data, begin.type)
                inside = builder.and_(builder.icmp_unsigned(">=", place, begin), builder.icmp_unsigned("<", place, end))
                if kind.layout == "C":
                    own = builder.ptrtoint(builder.gep(whole.data, [field.begin]), begin.type)
                    inside = builder.and_(inside, builder.icmp_unsigned("!=", place, own))
                entangled = builder.or_(entangled, inside)
            codes = [context.get_constant(types.intp, code) for code in (FITS, ENTANGLED, OTHER)]
            return builder.select(other, codes[OTHER], builder.select(entangled, codes[ENTANGLED], codes[FITS]))

        return types.intp(vector, sizes, layout, arrays), generate

    @intrinsic(prefer_literal=True)
    def put(typing_context: Any, vector: Any, sizes: Any, layout: Any, arrays: Any) -> Any:
        """Put arrays that fit into a vector."""
        text, kinds = layout.literal_value, _checked(layout.literal_value, arrays)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = context.make_array(signature.args[0])(context, builder, arguments[0])
            for k, (field, kind) in enumerate(zip(_fields(context, builder, text, arguments[1]), kinds, strict=True)):
                data, value = builder.gep(whole.data, [field.begin]), builder.extract_value(arguments[3], k)
                if not field.shape:
                    builder.store(context.cast(builder, value, kind, types.float64), data)
                    continue
                array = context.make_array(kind)(context, builder, value)
                if kind.layout == "C":
                    with builder.if_then(builder.icmp_unsigned("!=", data, array.data)):
                        _codegen.raw_memcpy(builder, data, array.data, field.count, _bytes)
                    continue
                with _codegen.loop_nest(builder, field.shape, field.count.type) as indices:
                    strides = _codegen.unpack_tuple(builder, array.strides)
                    there = _codegen.get_item_pointer2(
                        context, builder, array.data, field.shape, strides, kind.layout, indices
                    )
                    here = _codegen.get_item_pointer2(context, builder, data, field.shape, field.strides, "C", indices)
                    builder.store(builder.load(there), here)
            return context.get_dummy_value()

        return types.void(vector, sizes, layout, arrays), generate

    @intrinsic
    def flat(typing_context: Any, array: Any) -> Any:
        """Return a contiguous array as a vector; it must live as long."""
        kind = _types.Array(array.dtype, 1, "C", readonly=not array.mutable)
        if array.layout != "C":
            raise TypingError(f"{array} is no contiguous array")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole = context.make_array(signature.args[0])(context, builder, arguments[0])
            part, size = context.make_array(kind)(context, builder), context.get_constant(types.intp, _bytes)
            context.populate_array(
                part, data=whole.data, shape=[whole.nitems], strides=[size], itemsize=size, meminfo=None
            )
            return part._getvalue()

        return kind(array), generate
