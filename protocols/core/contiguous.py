"""Arrays that compiled functions pass on as a pointer and lengths.

Numba passes an array as all that it keeps of one: whose memory it is, the number and size of its entries, a pointer,
lengths and strides, seven numbers for a vector and nine for a matrix. A step of a learner takes thirteen arrays, so a
call of it wrote a hundred numbers to memory and read them there: three such calls took a fifth of a small step. Of a
contiguous array that somebody else keeps for as long as the call takes, a pointer and the lengths say everything.

A named tuple is passed as its members are, one behind the other, so that the tuple itself costs nothing.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_cast, models, register_model

_types: Any = types
_models: Any = models
_registered: Any = register_model
_cast: Any = lower_cast


class Contiguous(_types.Array):  # type: ignore[misc]
    """The type of a contiguous array of numbers that a function takes, and neither keeps nor returns.

    Inside the function it behaves as a numba array; its slices and copies are numba arrays.
    """

    def __init__(self, dtype: Any, ndim: int, readonly: bool = False) -> None:
        kind = "readonly contiguous" if readonly else "contiguous"
        super().__init__(dtype, ndim, "C", readonly=readonly, name=f"{kind}({dtype}, {ndim}d)")

    def __repr__(self) -> str:
        """Return its name, by which compiled functions are distinguished."""
        return f"Contiguous({self.dtype!r}, {self.ndim}, readonly={not self.mutable})"

    def can_convert_from(self, context: Any, other: Any) -> Any:
        """Return the conversion of an array: writable ones suit a function that writes better."""
        fits = isinstance(other, types.Array) and other.can_convert_to(context, self) is not None
        as_good_as_longer = context.can_convert(types.int32, types.int64)  # numba's name of a conversion without loss
        return as_good_as_longer if fits and other.mutable == self.mutable else None


def passed(kind: Any, readonly: bool) -> Any:
    """Return the type by which arrays of a type are passed."""
    if kind.layout == "C" and kind.aligned and isinstance(kind.dtype, types.Number):
        return Contiguous(kind.dtype, kind.ndim, readonly)
    return kind.copy(readonly=readonly)


class PassedTuple(_types.NamedTuple):  # type: ignore[misc]
    """The type of a named tuple as a parameter, for any kinds of arrays as members in the call."""

    def can_convert_from(self, context: Any, other: Any) -> Any:
        """Return the conversion of a tuple of the same class: the worst of its members'."""
        if not isinstance(other, _types.BaseNamedTuple) or other.instance_class is not self.instance_class:
            return None
        kinds = [context.can_convert(*pair) for pair in zip(map(_types.unliteral, other), self, strict=True)]
        return None if None in kinds else max(kinds)


_registered(PassedTuple)(_models.TupleModel)


@_cast(_types.BaseNamedTuple, PassedTuple)
def _same_members(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    pairs = enumerate(zip(found, wanted, strict=True))
    members = [context.cast(builder, builder.extract_value(value, k), *pair) for k, pair in pairs]
    return context.make_tuple(builder, wanted, members)


@_registered(Contiguous)
class ContiguousModel(_models.ArrayModel):  # type: ignore[misc]
    """The layout of such an array in memory, that of numba's, and its passing."""

    _PASSED = "data", "shape"

    def __init__(self, models: Any, kind: Any) -> None:
        super().__init__(models, kind)
        self._kind = kind
        self._parts = {name: models.lookup(self.get_member_fe_type(name)) for name in (*self._PASSED, "strides")}

    def get_argument_type(self) -> Any:
        """Return the types of the passed members."""
        return tuple(self._parts[name].get_argument_type() for name in self._PASSED)

    def as_argument(self, builder: Any, value: Any) -> Any:
        """Return the passed members of an array."""
        return tuple(self._parts[name].as_argument(builder, self.get(builder, value, name)) for name in self._PASSED)

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Return an array from its passed members, without an owner of its memory."""
        data, shape = (
            self._parts[name].from_argument(builder, part) for name, part in zip(self._PASSED, value, strict=True)
        )
        count = ir.IntType(64)
        items, itemsize = ir.Constant(count, 1), ir.Constant(count, self._kind.dtype.bitwidth // 8)
        strides = ir.Constant(self._parts["strides"].get_value_type(), ir.Undefined)
        for k in reversed(range(self._kind.ndim)):
            strides = builder.insert_value(strides, builder.mul(itemsize, items), k)
            items = builder.mul(items, builder.extract_value(shape, k))
        found = ir.Constant(self.get_value_type(), None)
        parts = {"nitems": items, "itemsize": itemsize, "data": data, "shape": shape, "strides": strides}
        for name, part in parts.items():
            found = self.set(builder, found, part, name)
        return found


@_cast(Contiguous, _types.Array)
@_cast(_types.Array, Contiguous)
@_cast(Contiguous, Contiguous)
def _same(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    """Cast between them, which changes nothing."""
    return value
