"""The compiled formulas of the kernels; `kernels` contains the parts that users name.

With at most `NARROW` inputs an entry is computed by plain loops over its two rows, so its bits do not depend on the
other rows of the call; a node may therefore be evaluated alone or with others.

Each kernel is a function with the signature `KERNEL` of `compiled`: (n, p) points and (m, p) centers fill the first m
columns of the values, all C-contiguous. The numbers are one array: the kernel's parameters (bandwidth; bandwidth;
bandwidth, smoothness; bandwidth, degrees; bandwidth, trend, its number of known inputs, their centers and factors;
scale, offset, degree), followed by a factor for each input if inputs have separate length scales. `polynomial_diagonal`
and `trended_diagonal` have the signature `DIAGONAL`.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.exponentials import decay
from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, Simd, dot
from kernelswarm.agents.arithmetic.views import line, read_only
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import cached_njit, inline_always, njit_no_refcount

#: Maximum number of inputs for plain loops over distances and inner products, instead of one matrix product.
NARROW = 32

#: A pair whose squared distance is below this share of its squared norms loses too many digits in the difference
#: ||x||^2 - 2 x.c + ||c||^2 and is computed again by a plain loop. Equal rows thus have distance exactly 0.
CANCELLATION = 1e-4

_codegen: Any = cgutils


def _planar_squares(typing_context: Any, points: Any, centers: Any, squares: Any) -> Any:
    signature = types.void(points, centers, squares)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(3)]
        points, centers, squares = (array.data for array in arrays)
        rows, count = (builder.extract_value(array.shape, 0) for array in arrays[:2])
        pitch = builder.extract_value(arrays[2].shape, 1)
        zero, one, two, eight = (ir.Constant(pitch.type, number) for number in (0, 1, 2, SIMD_WIDTH))

        def columns(place: Any) -> None:
            start, end = builder.mul(two, place), builder.mul(two, count)
            left, right = (simd.load_part(centers, at, end) for at in (start, builder.add(start, eight)))
            others = [simd.shuffled(left, right, list(range(k, 2 * SIMD_WIDTH, 2))) for k in range(2)]
            with _codegen.for_range_slice(builder, zero, rows, one, intp=pitch.type) as (i, _):
                own = [builder.load(builder.gep(points, [builder.add(builder.mul(two, i), k)])) for k in (zero, one)]
                x, y = (builder.fsub(simd.spread(entry), other) for entry, other in zip(own, others, strict=True))
                square = builder.fadd(builder.fmul(x, x), builder.fmul(y, y))
                simd.store_part(square, builder.gep(squares, [builder.mul(i, pitch)]), place, count)

        simd.each(count, columns)
        return context.get_dummy_value()

    return signature, generate


def _narrow_squares(typing_context: Any, points: Any, centers: Any, squares: Any) -> Any:
    signature = types.void(points, centers, squares)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        arrays = [context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(3)]
        points, centers, squares = (array.data for array in arrays)
        rows, count = (builder.extract_value(array.shape, 0) for array in arrays[:2])
        inputs, pitch = (builder.extract_value(arrays[k].shape, 1) for k in (0, 2))
        zero, one = (ir.Constant(pitch.type, number) for number in (0, 1))
        last = builder.sub(count, one)
        others = _codegen.alloca_once(builder, simd.vector, size=NARROW)  # eight centers, by input
        total = _codegen.alloca_once(builder, simd.vector)

        def columns(place: Any) -> None:
            starts = []
            for lane in range(SIMD_WIDTH):
                at = builder.add(place, ir.Constant(pitch.type, lane))
                at = builder.select(builder.icmp_signed("<", at, last), at, last)  # lanes beyond it are unused
                starts.append(builder.mul(at, inputs))
            with _codegen.for_range_slice(builder, zero, inputs, one, intp=pitch.type) as (k, _):
                entries = [builder.load(builder.gep(centers, [builder.add(start, k)])) for start in starts]
                builder.store(simd.of(entries), builder.gep(others, [k]))
            with _codegen.for_range_slice(builder, zero, rows, one, intp=pitch.type) as (i, _):
                builder.store(simd.equal(0.0), total)
                start = builder.mul(i, inputs)
                with _codegen.for_range_slice(builder, zero, inputs, one, intp=pitch.type) as (k, _):
                    own = simd.spread(builder.load(builder.gep(points, [builder.add(start, k)])))
                    difference = builder.fsub(own, builder.load(builder.gep(others, [k])))
                    square = builder.fmul(difference, difference)
                    builder.store(builder.fadd(builder.load(total), square), total)
                simd.store_part(builder.load(total), builder.gep(squares, [builder.mul(i, pitch)]), place, count)

        simd.each(count, columns)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def planar_squares(points: Array, centers: Array, squares: Array) -> None:
        """Do the same as `narrow_squares` for p = 2, two to three times as fast for up to 20 points."""
        narrow_squares(points, centers, squares)

    def narrow_squares(points: Array, centers: Array, squares: Array) -> None:
        """Fill the first columns of ``squares`` with the squared distances of points (n, p) and centers (m, p)."""
        found = squares[:, : len(centers)]
        found[:] = 0.0
        for k in range(points.shape[1]):
            found += (points[:, np.newaxis, k] - centers[:, k]) ** 2

else:
    _intrinsic: Any = intrinsic
    narrow_squares, planar_squares = _intrinsic(_narrow_squares), _intrinsic(_planar_squares)


@inline_always
def _squared_norms(rows: Array) -> Array:
    norms: Array = np.empty(rows.shape[0])
    width = rows.shape[1]
    for i in range(rows.shape[0]):
        norms[i] = dot(rows, i * width, rows[i], width)
    return norms


@inline_always
def _squared_distance(points: Array, i: int, centers: Array, j: int) -> float:
    total = 0.0
    for k in range(points.shape[1]):
        difference = points[i, k] - centers[j, k]
        total += difference * difference
    return total


@cached_njit
def _stretched(rows: Array, factors: Array) -> Array:
    stretched: Array = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            stretched[i, k] = rows[i, k] * factors[k]
    return stretched


@cached_njit  # with reference counts: it owns the stretched rows, which are freed after the call
def _wide_distances(points: Array, centers: Array, factors: Array, squares: Array) -> None:
    if len(factors):
        stretched_points, stretched_centers = _stretched(points, factors), _stretched(centers, factors)
        _wide_distances_of(read_only(stretched_points), read_only(stretched_centers), squares)
    else:
        _wide_distances_of(points, centers, squares)


@cached_njit
def _wide_distances_of(points: Array, centers: Array, squares: Array) -> None:
    copy_matrix(np.dot(points, centers.T), squares)
    point_norms = _squared_norms(points)
    center_norms = _squared_norms(centers)
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            norms = point_norms[i] + center_norms[j]
            square = norms - 2.0 * squares[i, j]
            if not square > CANCELLATION * norms:  # also if squared norms overflow
                square = _squared_distance(points, i, centers, j)
            squares[i, j] = max(square, 0.0)


@inline_always
def _distances(points: Array, centers: Array, factors: Array, squares: Array) -> None:
    """Fill in squared distances, with every input first multiplied by its factor, if there are factors."""
    if points.shape[1] > NARROW:
        _wide_distances(points, centers, factors, squares)
    elif len(factors):
        for i in range(points.shape[0]):
            for j in range(centers.shape[0]):
                total = 0.0
                for k in range(points.shape[1]):
                    difference = (points[i, k] - centers[j, k]) * factors[k]
                    total += difference * difference
                squares[i, j] = total
    elif points.shape[1] == 2:
        planar_squares(points, centers, squares)
    else:
        narrow_squares(points, centers, squares)


@inline_always
def _decay(values: Array, rate: float, rows: int, columns: int) -> None:
    """Replace the values of the first columns by ``exp(rate value)``."""
    pitch = values.shape[1]
    if pitch == columns:
        decay(values, 0, rate, rows * columns)
    else:
        for i in range(rows):
            decay(values, i * pitch, rate, columns)


@njit_no_refcount
def gaussian(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate exp(-||x - y||^2 / (2 bandwidth^2))."""
    bandwidth = numbers[0]
    _distances(points, centers, line(numbers, 1, len(numbers) - 1), values)
    _decay(values, -0.5 / (bandwidth * bandwidth), points.shape[0], centers.shape[0])


@njit_no_refcount
def laplacian(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate exp(-||x - y||_1 / bandwidth)."""
    bandwidth, factors = numbers[0], line(numbers, 1, len(numbers) - 1)
    each = len(factors) > 0
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            total = 0.0
            if each:
                for k in range(points.shape[1]):
                    total += abs((points[i, k] - centers[j, k]) * factors[k])
            else:
                for k in range(points.shape[1]):
                    total += abs(points[i, k] - centers[j, k])
            values[i, j] = total
    _decay(values, -1.0 / bandwidth, points.shape[0], centers.shape[0])


@njit_no_refcount
def matern(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate the Matern kernel of smoothness 1.5 or 2.5."""
    bandwidth, smoothness = numbers[0], numbers[1]
    _distances(points, centers, line(numbers, 2, len(numbers) - 2), values)
    twice = 2.0 * smoothness  # 3 or 5
    curved = 1.0 / 3.0 if smoothness == 2.5 else 0.0
    rate = math.sqrt(twice) / bandwidth
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            distance = rate * math.sqrt(values[i, j])
            # At large distances the polynomial may be infinite while the exponential is 0.
            if distance > 750.0:
                values[i, j] = 0.0
            else:
                values[i, j] = (1.0 + distance * (1.0 + curved * distance)) * math.exp(-distance)


@njit_no_refcount
def student_t(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate (1 + ||x - y||^2 / (degrees bandwidth^2))^(-(degrees + 1) / 2)."""
    bandwidth, degrees = numbers[0], numbers[1]
    _distances(points, centers, line(numbers, 2, len(numbers) - 2), values)
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            square = values[i, j] / (degrees * bandwidth * bandwidth)
            values[i, j] = math.exp(-0.5 * (degrees + 1.0) * math.log1p(square))


@cached_njit
def _scaled(numbers: Array, rows: Array) -> Array:
    """Return rows minus the center, times the factors, of a trend's inputs; unchanged if these are unknown."""
    known = int(numbers[2])
    scaled: Array = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            scaled[i, k] = (rows[i, k] - numbers[3 + k]) * numbers[3 + known + k] if known else rows[i, k]
    return scaled


@cached_njit
def _add_trend(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    (n, inputs), m = points.shape, centers.shape[0]
    factor = numbers[1] / (1.0 + inputs)
    first, second = _scaled(numbers, points), _scaled(numbers, centers)
    if inputs > NARROW:
        products = np.dot(first, second.T)
        for i in range(n):
            for j in range(m):
                values[i, j] += factor * (1.0 + products[i, j])
        return
    for i in range(n):
        for j in range(m):
            product = 1.0
            for k in range(inputs):
                product += first[i, k] * second[j, k]
            values[i, j] += factor * product


@njit_no_refcount
def trended(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate exp(-||x - y||^2 / (2 bandwidth^2)) + trend (1 + u.v) / (1 + p), u and v the scaled points."""
    bandwidth, place = numbers[0], 3 + 2 * int(numbers[2])
    _distances(points, centers, line(numbers, place, len(numbers) - place), values)
    _decay(values, -0.5 / (bandwidth * bandwidth), points.shape[0], centers.shape[0])
    _add_trend(numbers, points, centers, values)


@njit_no_refcount
def trended_diagonal(numbers: Array, points: Array, values: Array) -> None:
    """Evaluate 1 + trend (1 + ||u||^2) / (1 + p)."""
    known, inputs = int(numbers[2]), points.shape[1]
    for i in range(points.shape[0]):
        total = 1.0
        for k in range(inputs):
            scaled = (points[i, k] - numbers[3 + k]) * numbers[3 + known + k] if known else points[i, k]
            total += scaled * scaled
        values[i] = 1.0 + numbers[1] / (1.0 + inputs) * total


@njit_no_refcount
def _power(base: float, degree: int) -> float:
    # Repeated multiplication gives the same bits with and without compilation, unlike the ** operator.
    value = base
    for _ in range(degree - 1):
        value *= base
    return value


@cached_njit
def polynomial(numbers: Array, points: Array, centers: Array, values: Array) -> None:
    """Evaluate (scale x.y + offset)^degree."""
    scale, offset, degree = numbers[0], numbers[1], int(numbers[2])
    n, m = points.shape[0], centers.shape[0]
    if points.shape[1] <= NARROW:
        for i in range(n):
            for j in range(m):
                product = 0.0
                for k in range(points.shape[1]):
                    product += points[i, k] * centers[j, k]
                values[i, j] = product
    else:
        copy_matrix(np.dot(points, centers.T), values)
    for i in range(n):
        for j in range(m):
            values[i, j] = _power(scale * values[i, j] + offset, degree)


@njit_no_refcount
def polynomial_diagonal(numbers: Array, points: Array, values: Array) -> None:
    """Evaluate (scale ||x||^2 + offset)^degree."""
    scale, offset, degree = numbers[0], numbers[1], int(numbers[2])
    width = points.shape[1]
    for i in range(points.shape[0]):
        values[i] = _power(scale * dot(points, i * width, points[i], width) + offset, degree)
