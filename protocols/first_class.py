"""Compiled functions that parts hand over, called by their addresses.

A round is compiled once, whatever parts it runs: it holds no part's code, only the signatures by which it calls them.
An address is a plain integer, so that parts stand in arrays by node. A call costs about 3 ns more than a direct one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils, config
from numba.core.errors import NumbaError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Compiled = Callable[..., Any]
"""A function compiled with ``numba.njit``, best with ``cache=True`` so that the next process loads it."""

# What is only read may be read-only: arrays of either kind then call the same compiled function.
NUMBERS = types.Array(types.float64, 1, "C", readonly=True)
MATRIX = types.Array(types.float64, 2, "C", readonly=True)
CUBE = types.Array(types.float64, 3, "C", readonly=True)
TOOLS = types.Array(types.int64, 1, "C", readonly=True)
VECTOR_OUT = types.Array(types.float64, 1, "C")
MATRIX_OUT = types.Array(types.float64, 2, "C")
CUBE_OUT = types.Array(types.float64, 3, "C")
COUNTS_OUT = types.Array(types.int64, 1, "C")

NONE = -1
"""In place of the address of a function that a part does not have."""

_numba_structs: Any = cgutils

_uncompiled: list[Compiled] = []
"""What addresses stand for where compilation is switched off: places in this list."""


_addresses: dict[tuple[Compiled, int], tuple[int, Signature]] = {}
"""By function and signature; by the latter's place in memory, since the hash of one takes microseconds."""

_restricted: set[Compiled] = set()
"""The functions that take only what their signature takes."""


def ready(function: Compiled, signature: Signature) -> Compiled:
    """Compile a function with a signature.

    Raises
    ------
    ValueError
        When the function has not been compiled with numba, or cannot have this signature.
    """
    if vars(config)["DISABLE_JIT"]:
        return function
    if not hasattr(function, "get_compile_result"):
        name = getattr(function, "__name__", function)
        raise ValueError(f"{name} is not a compiled function: decorate it with numba.njit(cache=True)")
    compiled: Any = function
    if signature.args not in compiled.overloads:
        try:
            compiled.compile(signature)
        except (NumbaError, TypeError) as cause:
            raise ValueError(f"{compiled.__name__} does not compile as {signature}: {cause}") from cause
    return function


def sole(function: Compiled, signature: Signature) -> Compiled:
    """Compile a function with a signature, and let it be called with no other.

    Called from Python with other types of arrays, such as read-only ones, numba would compile it again for each. After
    this it takes what the signature can take, and refuses the rest with a TypeError.
    """
    if function not in _restricted:
        compiled: Any = ready(function, signature)
        if not vars(config)["DISABLE_JIT"]:
            compiled.disable_compile()
        _restricted.add(function)
    return function


def fill(function: Compiled, signature: Signature, numbers: Array, left: Array, right: Array, found: Array) -> None:
    """Call a function of two matrices that fills an array; the matrices may have any strides."""
    try:
        sole(function, signature)(numbers, left, right, found)
    except TypeError:  # rare, so that asking each time would cost more
        function(numbers, np.ascontiguousarray(left), np.ascontiguousarray(right), found)


def address(function: Compiled, signature: Signature) -> int:
    """Return where compiled code finds a function; raises as :func:`ready`."""
    key = function, id(signature)
    if key not in _addresses:
        ready(function, signature)
        if vars(config)["DISABLE_JIT"]:
            _uncompiled.append(function)
            place = len(_uncompiled) - 1
        else:
            result = function.overloads[signature.args]  # type: ignore[attr-defined]
            place = int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
        _addresses[key] = place, signature  # which so keeps its place
    return _addresses[key][0]


def at(signature: Signature) -> Any:
    """Return what turns the address of a function with a signature into that function, in compiled code."""
    if vars(config)["DISABLE_JIT"]:
        return _uncompiled.__getitem__
    kind = types.FunctionType(signature)

    def type_and_code(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = _numba_structs.create_struct_proxy(kind)(context, builder)
            pointer = builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))
            # By this one errors come back; the others serve what is not used here.
            function.jit_addr = function.c_addr = function.py_addr = pointer
            return function._getvalue()

        return kind(types.int64), generate

    return intrinsic(type_and_code)
