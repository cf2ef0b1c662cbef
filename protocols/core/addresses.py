"""Functions that parts hand over, called by their addresses.

A round is compiled once, whatever parts it runs: it holds no part's code, only the signatures by which it calls them.
An address is a plain integer, so that parts stand in arrays by node. A call costs about 3 ns more than a direct one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError, TypingError, UnsupportedBytecodeError
from numba.extending import intrinsic, lower_builtin, models, register_model

from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES, Signature, call_at, finds, place_of
from kernelswarm.kept_code import keep
from kernelswarm.protocols.core.callbacks import Address
from kernelswarm.protocols.core.contiguous import Contiguous

Compiled = Callable[..., Any]
"""A function compiled with ``numba.njit``, best with ``cache=True`` so that the next process loads it."""

# Parameters that are only read are read-only: both kinds of arrays then call the same compiled function.
NUMBERS = Contiguous(types.float64, 1, readonly=True)
MATRIX = Contiguous(types.float64, 2, readonly=True)
CUBE = Contiguous(types.float64, 3, readonly=True)
TOOLS = Contiguous(types.int64, 1, readonly=True)
VECTOR_OUT = Contiguous(types.float64, 1)
MATRIX_OUT = Contiguous(types.float64, 2)
CUBE_OUT = Contiguous(types.float64, 3)
COUNTS_OUT = Contiguous(types.int64, 1)

SAFE = {"exact", "promote", "safe"}
"""Numba's name of a conversion without loss."""

REFUSALS = NumbaError, UnsupportedBytecodeError, TypeError, AssertionError, NotImplementedError
"""What numba raises where a function cannot be compiled."""

NONE = -1
"""In place of the address of a missing function."""

_types: Any = types
_signature: Any = Signature
_lowered: Any = lower_builtin

_uncompiled: list[Compiled] = []
"""With compilation switched off, addresses are places in this list."""


_addresses: dict[tuple[Compiled, int], tuple[int, Signature]] = {}
"""By function, and by signature's place in memory, since its hash takes microseconds."""

_restricted: set[Compiled] = set()
"""The functions that take the types of their signature alone."""


def ready(function: Compiled, signature: Signature) -> Compiled:
    """Compile a function with a signature.

    Raises
    ------
    ValueError
        The function has not been compiled with numba, or cannot have this signature.
    """
    if not COMPILES:
        return function
    if not hasattr(function, "get_compile_result"):
        name = getattr(function, "__name__", function)
        raise ValueError(f"{name} is not a compiled function: decorate it with numba.njit(cache=True)")
    compiled: Any = function
    if signature.args not in compiled.overloads:
        keep(function)
        try:
            compiled.compile(signature)
        except REFUSALS as cause:
            raise ValueError(f"{compiled.__name__} does not compile as {signature}: {cause}") from cause
    return function


def sole(function: Compiled, signature: Signature) -> Compiled:
    """Compile a function with a signature, and let it be called with no other.

    Called from Python with other types of arrays, such as read-only ones, numba would compile it again for each. The
    restricted function takes arguments that convert to the signature, and raises TypeError for others.
    """
    if function not in _restricted:
        compiled: Any = ready(function, signature)
        if COMPILES and _find_from_python(compiled, signature):
            compiled.disable_compile()
        _restricted.add(function)
    return function


def _find_from_python(compiled: Any, signature: Signature) -> bool:
    """Register a compiled signature for direct calls from Python; return False if this numba does not support it.

    Two kinds of calls are direct: with arrays as the signature states them, and with arrays that may all be written to.
    Other calls go through numba's type conversion, which fails if two overloads match equally well.
    """
    known = {*compiled.overloads, *getattr(compiled, "aliases", ())}
    for writable in (False, True):
        kinds = tuple(
            kind.copy(readonly=not (kind.mutable or writable)) if isinstance(kind, Contiguous) else kind
            for kind in signature.args
        )
        if kinds not in known:  # twice the same would be two overloads as well
            known.add(kinds)
            if not finds(compiled, kinds, compiled.overloads[signature.args].entry_point):
                return False
    return True


def fill(function: Compiled, signature: Signature, numbers: Array, left: Array, right: Array, found: Array) -> None:
    """Call a function of two matrices that fills an array; the matrices may have any strides, and whole numbers.

    Raises
    ------
    ValueError
        One of the two is not a matrix.
    """
    try:
        sole(function, signature)(numbers, left, right, found)
    except TypeError:  # rare, so that asking each time would cost more
        if np.ndim(left) != 2 or np.ndim(right) != 2:
            raise ValueError(
                f"two matrices are asked for, with a row for each sample, and their shapes are {np.shape(left)} and "
                f"{np.shape(right)}: give column k of a table as table[:, [k]], and numbers y as y[:, None]"
            ) from None
        floats = (np.ascontiguousarray(each).astype(np.float64, casting="same_kind") for each in (left, right))
        function(numbers, *floats, found)


def address(function: Callable[..., Any], signature: Signature) -> int:
    """Return where compiled code finds a function; raises as :func:`ready`.

    A function in plain Python stands there as long as the number that is returned, an `Address`: keep that, or an
    ``array_of`` such numbers. The arrays that it is given to fill are there while it is called.
    """
    if not hasattr(function, "get_compile_result") and COMPILES:
        return Address.of(function, signature)
    key = function, id(signature)
    if key not in _addresses:
        ready(function, signature)
        if not COMPILES:
            _uncompiled.append(function)
            place = len(_uncompiled) - 1
        else:
            place = place_of(function.overloads[signature.args])  # type: ignore[attr-defined]
        _addresses[key] = place, signature  # which so keeps its place
    return _addresses[key][0]


class Pointed(types.Callable):
    """The type of a compiled function with a signature, called by its address.

    Numba's own function type also serves functions of plain Python, and emits code for them at each call: a fourteenth
    of the compiled round of evaluations.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature: Signature = _signature(signature.return_type, signature.args, recvr=self)
        super().__init__(f"Pointed({signature})")

    def get_call_type(self, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Signature:
        """Return the signature, whose types the arguments are turned into."""
        wanted = self.signature.args
        fits = [context.can_convert(*pair) for pair in zip(map(_types.unliteral, args), wanted, strict=False)]
        safe = all(found is not None and found.name in SAFE for found in fits)
        if kws or len(args) != len(wanted) or not safe:
            raise TypingError(f"{self.name} does not take {args} {kws}")
        return self.signature

    def get_call_signatures(self) -> tuple[list[Signature], bool]:
        """Return all signatures, and that there are no others."""
        return [self.signature], False

    def get_impl_key(self, sig: Signature) -> Any:
        """Return the key under which the code of the call is registered."""
        return Pointed


register_model(Pointed)(models.OpaqueModel)


@_lowered(Pointed, Pointed, _types.VarArg(types.Any))
def _call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pointer, *values = arguments
    return call_at(context, builder, pointer, signature, values)


def at(signature: Signature) -> Any:
    """Return what turns the address of a function with a signature into that function, in compiled code."""
    if not COMPILES:
        return _uncompiled.__getitem__
    kind = Pointed(signature)

    def type_and_code(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return intrinsic(type_and_code)


# Memory at an address as an array, for compiled code that gets an address from Python.

if not COMPILES:

    def numbers_at(address: int, size: int) -> Array:
        """Return the (size,) numbers at an address, which must stay there as long as the array is used."""
        return np.ctypeslib.as_array((ctypes.c_double * int(size)).from_address(int(address)))

else:

    @intrinsic
    def numbers_at(typing_context: Any, address: Any, size: Any) -> Any:
        """Return the (size,) numbers at an address, which must stay there as long as the array is used."""
        kind = types.Array(types.float64, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            part, eight = context.make_array(kind)(context, builder), context.get_constant(types.intp, 8)
            data = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
            context.populate_array(part, data=data, shape=[arguments[1]], strides=[eight], itemsize=eight, meminfo=None)
            return part._getvalue()

        return kind(types.intp, types.intp), generate
