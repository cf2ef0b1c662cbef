"""The inverse Cholesky factor of a Gram matrix under insertions and removals.

A square root is used because recursions for the inverse itself lose accuracy without notice, and then the wrong
elements are removed. Here an insertion appends one row and a removal is a sequence of plane rotations, so inverses are
never subtracted from each other. U stays lower triangular (zero above the diagonal in the whole buffer, positive on
it), which makes it unique, ``U = inv(L)`` for the Cholesky factor ``K_DD = L L'``, and halves every product with it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.simd import ROWS, SIMD_WIDTH, Simd, dot, whole
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, njit_no_refcount


class Tables(NamedTuple):
    """The arrays of an expansion's elements, with spare room."""

    points: Array  # (capacity, p)
    weights: Array  # (capacity, C)
    factor: Array  # (capacity, capacity), U
    precision: Array  # (capacity,), the diagonal of inv(K_DD)


class Added(NamedTuple):
    """The points of a step with their weights, and the kernel between them and with the dictionary."""

    points: ReadOnly  # (n, p)
    weights: Array  # (n, C)
    cross: ReadOnly  # (n, M or more)
    gram: ReadOnly  # (n, n)


_I32 = ir.IntType(32)
_codegen: Any = cgutils


def _multiply_twice(typing_context: Any, factor: Any, order: Any, row: Any, image: Any, projection: Any) -> Any:
    signature = types.void(factor, types.intp, row, image, projection)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        order = arguments[1]
        size = order.type
        zero, simd_wide = ir.Constant(size, 0), ir.Constant(size, SIMD_WIDTH)
        simd = Simd(context, builder, signature.args, arguments)
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 2, 3, 4)]
        matrix, known, u_at, a_at = (array.data for array in arrays)
        width = builder.extract_value(arrays[0].shape, 1)
        images, sums = (_codegen.alloca_once(builder, simd.vector) for _ in range(2))

        def multiply(first: Any, start: Any, second: bool) -> None:
            """Multiply ROWS rows from ``first`` on; the lanes from ``start`` on are their last ones."""
            last = builder.sub(order, ir.Constant(size, 1))
            rows = []
            for r in range(ROWS):
                i = builder.add(first, ir.Constant(size, r))
                i = builder.select(builder.icmp_signed("<", i, last), i, last)
                rows.append(builder.gep(matrix, [builder.mul(i, width)]))
            totals = [_codegen.alloca_once_value(builder, simd.equal(0.0)) for _ in rows]

            def add(entries: list[Any], by: Any) -> None:
                for total, entry in zip(totals, entries, strict=True):
                    builder.store(builder.fadd(builder.load(total), builder.fmul(entry, by)), total)

            def before(place: Any) -> None:
                add([simd.load(row, place) for row in rows], simd.load(known, place))

            simd.each(start, before)
            ends = [simd.load_part(row, start, order) for row in rows]
            add(ends, simd.load_part(known, start, order))
            # The lanes of four rows are added in pairs, as in a dot product.
            x, y, z, w = (builder.load(total) for total in totals)
            halves = [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]
            x, y = (builder.fadd(*(simd.shuffled(p, q, half) for half in halves)) for p, q in ((x, z), (y, w)))
            quarters = [[0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]]
            x = builder.fadd(*(simd.shuffled(x, y, quarter) for quarter in quarters))
            found = builder.fadd(*(simd.shuffled(x, x, list(range(side, SIMD_WIDTH, 2)) * 2) for side in (0, 1)))
            found = builder.select(simd.mask(first, order), found, simd.equal(0.0))
            spread = [simd.shuffled(found, found, [r] * SIMD_WIDTH) for r in range(ROWS)]
            both = simd.shuffled(builder.load(images), found, [*range(ROWS), *range(SIMD_WIDTH, SIMD_WIDTH + ROWS)])
            builder.store(both if second else found, images)

            def combined(entries: list[Any]) -> Any:
                p, q, r, s = (builder.fmul(u, entry) for u, entry in zip(spread, entries, strict=True))
                return builder.fadd(builder.fadd(p, q), builder.fadd(r, s))

            def collect(place: Any) -> None:
                change = combined([simd.load(row, place) for row in rows])
                simd.store(builder.fadd(simd.load(a_at, place), change), a_at, place)

            simd.each(start, collect)
            builder.store(builder.fadd(builder.load(sums), combined(ends)), sums)

        with _codegen.for_range_slice(builder, zero, order, simd_wide, intp=size) as (start, _):
            builder.store(simd.equal(0.0), sums)
            multiply(start, start, second=False)
            half = builder.add(start, ir.Constant(size, ROWS))
            with builder.if_then(builder.icmp_signed("<", half, order)):
                multiply(half, start, second=True)
            simd.store_part(builder.load(images), u_at, start, order)
            simd.store_part(builder.load(sums), a_at, start, order)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def _products(factor: Array, order: int, row: Array, image: Array, projection: Array) -> None:
        size = whole(order)
        rows, known, found, sums = np.zeros((size, size)), np.zeros(size), np.zeros(size), np.zeros(size)
        rows[:order, :order], known[:order] = np.tril(factor[:order, :order]), row[:order]
        for i in range(order):
            found[i] = dot(rows, i * size, known, whole(i + 1))
        for i in range(0, order, ROWS):
            p, q, r, s = (found[i + k] * rows[i + k] for k in range(ROWS))
            sums += (p + q) + (r + s)
        image[:order], projection[:order] = found[:order], sums[:order]

else:
    _intrinsic: Any = intrinsic
    _products = _intrinsic(_multiply_twice)


@njit_no_refcount
def split(factor: Array, order: int, row: ReadOnly, diagonal: float, image: Array, projection: Array) -> float:
    """Project a point on the span: fill u = U k and a = U'u, return the Schur complement kappa(x,x) - u.u.

    Both products take one pass over the factor, four rows at a time, so each entry is loaded once. Rows are multiplied
    in whole lanes, padded with zeros: multiplied one by one, up to seven remaining entries would take longer than all
    other entries of a small dictionary.
    """
    _products(factor, order, row, image, projection)
    return diagonal - dot(image, 0, image, order)


@njit_no_refcount
def append(tables: Tables, order: int, point: ReadOnly, weight: ReadOnly, projection: Array, schur: float) -> None:
    """Append a point with its weight: the row ``[-a', 1] / sqrt(s)`` of U from its projection a and complement s."""
    points, weights, factor, precision = tables
    copy_vector(point, points[order])
    copy_vector(weight, weights[order])
    root = 1.0 / math.sqrt(schur)
    line = factor[order]
    for j in range(order):
        entry = -projection[j] * root
        line[j] = entry
        precision[j] += entry * entry
    factor[order, order] = root
    precision[order] = root * root


@njit_no_refcount
def remove(tables: Tables, order: int, j: int, carried: Array) -> None:
    """Remove element j: rotate column j of U into one row, drop this row, and refit the weights.

    Each row below row j is rotated with the row carried down so that the upper of the two has a zero in column j; the
    carried row at the end is ``inv(K)[j] / sqrt(inv(K)_jj)``. Gaps in rows and columns are closed on the way.
    """
    points, weights, factor, precision = tables
    last = order - 1
    for k in range(j):
        precision[k] = 0.0
    for i in range(j):
        line = factor[i]
        for k in range(i + 1):
            precision[k] += line[k] * line[k]
    for k in range(j + 1):
        carried[k] = factor[j, k]
    for k in range(j + 1, order):
        carried[k] = 0.0
        precision[k] = 0.0
    for i in range(j, last):
        upper, lower = factor[i], factor[i + 1]
        radius = math.sqrt(carried[j] * carried[j] + lower[j] * lower[j])
        cosine = carried[j] / radius
        sine = lower[j] / radius
        for k in range(j):
            x, y = carried[k], lower[k]
            entry = cosine * y - sine * x
            carried[k] = cosine * x + sine * y
            upper[k] = entry
            precision[k] += entry * entry
        carried[j] = radius
        for k in range(j + 1, i + 2):
            x, y = carried[k], lower[k]
            entry = cosine * y - sine * x
            carried[k] = cosine * x + sine * y
            upper[k - 1] = entry
            precision[k] += entry * entry
    for k in range(j, last):
        precision[k] = precision[k + 1]
    for k in range(order):
        factor[last, k] = 0.0
    outputs = weights.shape[1]
    for k in range(order):
        if k != j:
            ratio = carried[k] / carried[j]
            for c in range(outputs):
                weights[k, c] -= ratio * weights[j, c]
    for k in range(j, last):
        copy_vector(points[k + 1], points[k])
        copy_vector(weights[k + 1], weights[k])
