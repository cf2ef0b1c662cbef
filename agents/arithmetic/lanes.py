"""The dot product, summed in eight lanes: as fast as vector registers allow, with the same bits on every machine.

A plain loop adds one product at a time, and a compiler may only use vector registers for it where it is allowed to
reorder sums (numba's `fastmath`), which then differ with the machine and with the surrounding code. Here the order is
part of the definition: lane q sums the products q, q + 8, q + 16, ...; the lanes are then added in pairs, and what does
not fill eight lanes follows one by one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from kernelswarm.protocols.compiling import jitted

Array = npt.NDArray[np.float64]

LANES = 8


def _type_and_code(typing_context: Any, left: Any, start: Any, right: Any, size: Any) -> Any:
    signature = types.float64(left, types.intp, right, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 2))
        pointers = [builder.gep(left, [arguments[1]]), right]
        size = arguments[3]
        lanes = ir.VectorType(ir.DoubleType(), LANES)
        zero, one, step = (ir.Constant(size.type, number) for number in (0, 1, LANES))
        whole = builder.and_(size, ir.Constant(size.type, -LANES))
        sums = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * LANES))
        with cgutils.for_range_slice(builder, zero, whole, step, intp=size.type) as (i, _):
            places = [builder.bitcast(builder.gep(pointer, [i]), lanes.as_pointer()) for pointer in pointers]
            x, y = (builder.load(place, align=8) for place in places)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(x, y)), sums)
        found = builder.load(sums)
        parts = [builder.extract_element(found, ir.Constant(ir.IntType(32), q)) for q in range(LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[q], parts[q + half]) for q in range(half)]
        total = cgutils.alloca_once_value(builder, parts[0])
        with cgutils.for_range_slice(builder, whole, size, one, intp=size.type) as (i, _):
            x, y = (builder.load(builder.gep(pointer, [i])) for pointer in pointers)
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)
        return builder.load(total)

    return signature, generate


_dot_in_lanes: Any = intrinsic(_type_and_code)

if vars(config)["DISABLE_JIT"]:

    def dot(left: Array, start: int, right: Array, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        left, right = left.reshape(-1)[start : start + size], right.reshape(-1)[:size]
        whole = size - size % LANES
        sums = np.zeros(LANES)
        for first in range(0, whole, LANES):
            sums += left[first : first + LANES] * right[first : first + LANES]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = sums[:half] + sums[half:]
        total = float(sums[0])
        for i in range(whole, size):
            total += left[i] * right[i]
        return total

else:

    @jitted
    def dot(left: Array, start: int, right: Array, size: int) -> float:
        """Compute ``sum_i left.flat[start + i] right.flat[i]`` over ``size`` entries of two contiguous arrays."""
        # An offset in place of a view of a row: a view costs more than the product of a short row.
        total: float = _dot_in_lanes(left, start, right, size)
        return total
