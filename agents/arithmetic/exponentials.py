"""The exponential function of consecutive numbers, eight at a time, with the same bits on every machine.

A kernel row consists of twenty exponentials. Libraries compute them one by one, with a call for each, and the last bits
depend on the machine. Here ``exp(x) = 2^k exp(r)`` with k the integer nearest to x / ln 2, which is subtracted in two
parts (Cody and Waite); the exponential of the remainder r, with magnitude at most ln(2) / 2, is its Taylor series. The
truncation error is 4e-18, a 25th of the rounding error; results are within one unit in the last place.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES

SMALLEST = -708.0
"""Below this the exponential is set to 0: it would be less than the smallest number of full precision."""

_TO_EXPONENT = 1.0 / math.log(2.0)
_UPPER, _LOWER = 0.693147180369123816490, 1.90821492927058770002e-10
"""ln 2 in two parts, the first with so few digits that its product with any k is exact."""

_ROUNDING = 1.5 * 2.0**52
"""Adding and subtracting it rounds to the nearest integer; after the addition, the last bits are that integer."""

_SERIES = [1.0 / math.factorial(n) for n in range(2, 14)]

_codegen: Any = cgutils


def _paired(terms: list[Any], powers: list[Any], add: Any, multiply: Any) -> Any:
    """Sum ``terms[n] r^n`` in pairs, pairs of pairs and so on; ``powers`` are r, r^2, r^4, r^8."""
    for power in powers:
        pairs = [add(terms[n], multiply(terms[n + 1], power)) for n in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
        if len(terms) == 1:
            break
    return terms[0]


def _vector_of(builder: Any, simd: Simd, entry: Any) -> Any:
    """Write the code of the exponentials of eight numbers."""
    whole = ir.VectorType(ir.IntType(64), SIMD_WIDTH)

    def equal(number: float) -> Any:
        return ir.Constant(simd.vector, [number] * SIMD_WIDTH)

    shifted = builder.fadd(builder.fmul(entry, equal(_TO_EXPONENT)), equal(_ROUNDING))
    k = builder.fsub(shifted, equal(_ROUNDING))
    rest = builder.fsub(entry, builder.fmul(k, equal(_UPPER)))
    rest = builder.fsub(rest, builder.fmul(k, equal(_LOWER)))
    powers = [rest]
    for _ in range(3):
        powers.append(builder.fmul(powers[-1], powers[-1]))
    series = _paired([equal(term) for term in _SERIES], powers, builder.fadd, builder.fmul)
    found = builder.fadd(equal(1.0), builder.fadd(rest, builder.fmul(powers[1], series)))
    exponent = builder.shl(builder.bitcast(shifted, whole), ir.Constant(whole, [52] * SIMD_WIDTH))
    found = builder.bitcast(builder.add(builder.bitcast(found, whole), exponent), simd.vector)
    return builder.select(builder.fcmp_ordered("<", entry, equal(SMALLEST)), equal(0.0), found)


def _decay(typing_context: Any, values: Any, start: Any, rate: Any, size: Any) -> Any:
    signature = types.void(values, types.intp, types.float64, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, by, size = simd.pointer(0), simd.spread(arguments[2]), arguments[3]
        zero, eight = (ir.Constant(size.type, number) for number in (0, SIMD_WIDTH))

        def exponentials(place: Any, of: Any) -> Any:
            return _vector_of(builder, simd, builder.fmul(by, simd.load(of, place)))

        with builder.if_else(builder.icmp_signed("<", size, eight)) as (few, many):
            with few:
                some = _vector_of(builder, simd, builder.fmul(by, simd.load_part(into, zero, size)))
                simd.store_part(some, into, zero, size)
            with many:
                # The last eight are read before and written after the others, since they may overlap.
                end = builder.sub(size, eight)
                last = exponentials(end, into)
                simd.each(end, lambda place: simd.store(exponentials(place, into), into, place))
                simd.store(last, into, end)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def decay(values: Array, start: int, rate: float, size: int) -> None:
        """Replace ``size`` values of an array by ``exp(rate value)``, for products that are not positive."""
        part = values.reshape(-1)[start : start + size]
        entry = rate * part
        shifted = entry * _TO_EXPONENT + _ROUNDING
        k = shifted - _ROUNDING
        rest = entry - k * _UPPER - k * _LOWER
        powers = [rest, rest**2, rest**4, rest**8]
        series = _paired(list(_SERIES), powers, np.add, np.multiply)
        found = 1.0 + (rest + powers[1] * series)
        found = (found.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)
        part[:] = np.where(entry < SMALLEST, 0.0, found)

else:
    _intrinsic: Any = intrinsic
    decay = _intrinsic(_decay)
