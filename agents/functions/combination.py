"""Linear combinations of a function's terms: its values from their kernel rows, or from features."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd, dot
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.compiling import ReadOnly, njit_no_refcount

Array = npt.NDArray[np.float64]

_codegen: Any = cgutils


def _combine(
    typing_context: Any, rows: Any, r: Any, weights: Any, order: Any, outputs: Any, values: Any, v: Any
) -> Any:
    if any(array.layout != "C" for array in (rows, weights, values)):
        raise TypingError("rows, weights and values must be contiguous")
    size = types.intp
    signature = types.void(rows, size, weights, size, size, values, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        row, order, outputs = simd.pointer(0), arguments[3], arguments[4]
        array = context.make_array(signature.args[2])(context, builder, arguments[2])
        zero, one, four = (ir.Constant(order.type, number) for number in (0, 1, 4))
        end = builder.mul(order, outputs)
        total = _codegen.alloca_once_value(builder, simd.equal(0.0))

        def term(place: Any) -> Any:
            factor = simd.spread(builder.load(builder.gep(row, [place])))
            # What follows the outputs of a term is other terms': it stays in lanes that nobody reads.
            return builder.fmul(factor, simd.load_part(array.data, builder.mul(place, outputs), end))

        whole = builder.and_(order, ir.Constant(order.type, -4))
        with _codegen.for_range_slice(builder, zero, whole, four, intp=order.type) as (m, _):
            p, q, r, s = (term(builder.add(m, ir.Constant(order.type, k))) for k in range(4))
            four_terms = builder.fadd(builder.fadd(p, q), builder.fadd(r, s))
            builder.store(builder.fadd(builder.load(total), four_terms), total)
        with _codegen.for_range_slice(builder, whole, order, one, intp=order.type) as (m, _):
            builder.store(builder.fadd(builder.load(total), term(m)), total)
        simd.store_part(builder.load(total), simd.pointer(5), zero, outputs)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def _combine_few(rows: Array, r: int, weights: Array, order: int, outputs: int, values: Array, v: int) -> None:
        row, found = rows.reshape(-1)[r : r + order], np.zeros(outputs)
        whole = order - order % 4
        for m in range(0, whole, 4):
            p, q, r, s = (row[m + k] * weights[m + k] for k in range(4))
            found += (p + q) + (r + s)
        for m in range(whole, order):
            found += row[m] * weights[m]
        values.reshape(-1)[v : v + outputs] = found

else:
    _intrinsic: Any = intrinsic
    _combine_few = _intrinsic(_combine)


@njit_no_refcount
def combine(rows: ReadOnly, weights: ReadOnly, order: int, values: Array) -> None:
    """Evaluate a function from its rows (n, M): ``values[n] = f(x_n) = sum_m W[m] kappa(D[m], x_n)``."""
    outputs, columns = weights.shape[1], rows.shape[1]
    whole = order - order % 4
    for n in range(rows.shape[0]):
        if outputs == 1:
            values[n, 0] = dot(rows, n * columns, weights, order)
            continue
        if outputs <= SIMD_WIDTH:
            _combine_few(rows, n * columns, weights, order, outputs, values, n * outputs)
            continue
        for c in range(outputs):
            values[n, c] = 0.0
        for m in range(0, whole, 4):
            k0, k1, k2, k3 = rows[n, m], rows[n, m + 1], rows[n, m + 2], rows[n, m + 3]
            for c in range(outputs):
                values[n, c] += (k0 * weights[m, c] + k1 * weights[m + 1, c]) + (
                    k2 * weights[m + 2, c] + k3 * weights[m + 3, c]
                )
        for m in range(whole, order):
            for c in range(outputs):
                values[n, c] += rows[n, m] * weights[m, c]
