"""BLAS routines for compiled code that numba does not provide, or that numpy uses but numba does not.

They are from the BLAS that scipy links to, like numba's products. Numpy uses the same routines: `dsyrk` for the inner
products of rows, `ddot` for one row, and `dgemv` for a matrix times a vector.
"""

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address, intrinsic

from kernelswarm.agents.arithmetic.products import multiply
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import cached_njit

_codegen: Any = cgutils
_llvm: Any = binding
_address: Any = get_cython_function_address
_intrinsic: Any = intrinsic
_CHAR, _INT, _NUMBER = ir.IntType(8), ir.IntType(32), ir.DoubleType()

for _name in ("dsyrk", "dgemv", "ddot"):
    _llvm.add_symbol(f"kernelswarm_{_name}", _address("scipy.linalg.cython_blas", _name))


def _call(context: Any, builder: Any, name: str, returns: Any, given: list[tuple[Any, Any]]) -> Any:
    """Write the call of a routine, with all arguments as pointers; each argument is given with its type."""
    kind = ir.FunctionType(returns, [of.as_pointer() for of, _ in given])
    routine = _codegen.get_or_insert_function(builder.module, kind, f"kernelswarm_{name}")
    return builder.call(routine, [_pointer(builder, *each) for each in given])


def _pointer(builder: Any, of: Any, value: Any) -> Any:
    if isinstance(value, str | int | float):
        value = ir.Constant(of, ord(value) if isinstance(value, str) else value)
    elif isinstance(value.type, ir.PointerType):
        return value
    elif of is _INT:
        value = builder.trunc(value, _INT)
    return _codegen.alloca_once_value(builder, value)


def _start(context: Any, builder: Any, signature: Any, arguments: Any, place: int) -> Any:
    return context.make_array(signature.args[place])(context, builder, arguments[place]).data


def _rank(typing_context: Any, target: Any, rows: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [_start(context, builder, signature, arguments, place) for place in range(2)]
        array = context.make_array(signature.args[1])(context, builder, arguments[1])
        size, inner = (builder.extract_value(array.shape, k) for k in range(2))
        given: list[tuple[Any, Any]] = [(_CHAR, "L"), (_CHAR, "T"), (_INT, size), (_INT, inner), (_NUMBER, 1.0)]
        given += [(_NUMBER, data[1]), (_INT, inner), (_NUMBER, 0.0), (_NUMBER, data[0]), (_INT, size)]
        _call(context, builder, "dsyrk", ir.VoidType(), given)
        return context.get_dummy_value()

    return types.void(target, rows), generate


def _dot(typing_context: Any, left: Any, right: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [_start(context, builder, signature, arguments, place) for place in range(2)]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        given: list[tuple[Any, Any]] = [(_INT, array.nitems), (_NUMBER, data[0]), (_INT, 1), (_NUMBER, data[1])]
        return _call(context, builder, "ddot", _NUMBER, [*given, (_INT, 1)])

    return types.float64(left, right), generate


def _times(
    typing_context: Any, target: Any, matrix: Any, pitch: Any, turned: Any, vector: Any, rows: Any, columns: Any
) -> Any:
    size = types.intp
    signature = types.void(target, matrix, size, types.boolean, vector, size, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [_start(context, builder, signature, arguments, place) for place in (0, 1, 4)]
        _, _, pitch, turned, _, rows, columns = arguments
        letters = (ir.Constant(_CHAR, ord(letter)) for letter in "NT")  # for BLAS each matrix is transposed
        letter = builder.select(builder.trunc(turned, ir.IntType(1)), *letters)
        given: list[tuple[Any, Any]] = [(_CHAR, letter), (_INT, columns), (_INT, rows), (_NUMBER, 1.0)]
        given += [(_NUMBER, data[1]), (_INT, pitch), (_NUMBER, data[2]), (_INT, 1), (_NUMBER, 0.0)]
        _call(context, builder, "dgemv", ir.VoidType(), [*given, (_NUMBER, data[0]), (_INT, 1)])
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def _fill_upper(target: Array, rows: Array) -> None:
        target[:] = np.triu(rows @ rows.T)

    def _inner(left: Array, right: Array) -> float:
        return float(np.vdot(left, right))

    def _fill_product(
        target: Array, matrix: Array, pitch: int, turned: bool, vector: Array, rows: int, columns: int
    ) -> None:
        whole = matrix.reshape(-1, pitch)[:rows, :columns]
        target.reshape(-1)[: columns if turned else rows] = (whole.T if turned else whole) @ vector.reshape(-1)

else:
    _fill_upper, _inner, _fill_product = map(_intrinsic, (_rank, _dot, _times))


@cached_njit
def inner_products(rows: Array) -> Array:
    """Return ``A A'``, (n, n), for the rows A (n, M)."""
    size, inner = rows.shape
    found = np.zeros((size, size))
    if size == 1 and inner:
        found[0, 0] = _inner(rows[0], rows[0])
    elif size and inner:
        _fill_upper(found, rows)
    for i in range(size):
        for k in range(i):
            found[i, k] = found[k, i]
    return found


@cached_njit
def product(matrix: Array, turned: bool, rows: int, columns: int, right: Array) -> Array:
    """Return ``A B``, or ``A'B`` if ``turned``, for the first rows and columns A of a matrix."""
    outputs, inner = right.shape[1], rows if turned else columns
    found = np.zeros((columns if turned else rows, outputs))
    if inner and outputs == 1:
        _fill_product(found, matrix, matrix.shape[1], turned, right, rows, columns)
    elif inner:
        pitch, size = matrix.shape[1], len(found)
        multiply(found, 0, outputs, matrix, 0, pitch, turned, right, 0, outputs, False, size, inner, outputs, 1.0, 0.0)
    return found
