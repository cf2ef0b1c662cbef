"""The systems of implicit steps: linear ones, and systems for a dual function z with values f = exp(z)."""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from kernelswarm.agents.arithmetic.elimination import eliminate_two
from kernelswarm.agents.arithmetic.simd import Simd, whole
from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount

SMALL = 24
"""Maximum number of points for which the system is solved by plain loops, which then cost less than a LAPACK call."""

MOST_ITERATIONS = 1000
"""Maximum number of Newton steps; a few suffice unless the solution is hundreds away, since no step moves z by more
than 1."""

PRECISION = 1e-12
"""The change of z at which the iteration ends."""


@inline_always
def augmented_of(size: int, outputs: int) -> Array:
    """Return a zero augmented matrix, (N, N + C or more), for N equations followed by C right-hand sides."""
    augmented: Array = np.zeros((size, whole(size + outputs)))
    return augmented


def _fill_row(typing_context: Any, augmented: Any, b: Any, row: Any, r: Any, factor: Any, rates: Any, size: Any) -> Any:
    signature = types.void(augmented, types.intp, row, types.intp, types.float64, rates, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        simd = Simd(context, builder, signature.args, arguments)
        into, out_of, by, size = simd.pointer(0), simd.pointer(2), simd.spread(arguments[4]), arguments[6]
        each = context.make_array(signature.args[5])(context, builder, arguments[5]).data

        def body(place: Any) -> None:
            entry = builder.fmul(by, simd.load_part(out_of, place, size))
            simd.store(builder.fmul(entry, simd.load_part(each, place, size)), into, place)

        simd.each(size, body)
        return context.get_dummy_value()

    return signature, generate


if not COMPILES:

    def fill_row(augmented: Array, b: int, row: Array, r: int, factor: float, rates: Array, size: int) -> None:
        """Write ``factor row[j] rates[j]`` to the matrix from ``b`` on, in whole lanes, padded with zeros."""
        found = np.zeros(whole(size))
        found[:size] = factor * row.reshape(-1)[r : r + size] * rates[:size]
        augmented.reshape(-1)[b : b + len(found)] = found

else:
    _intrinsic: Any = intrinsic
    fill_row = _intrinsic(_fill_row)


@njit_no_refcount
def eliminate(augmented: Array, outputs: int) -> None:
    """Solve the system of an augmented matrix for its right-hand sides in place, by elimination without pivoting.

    ``I + diag(r) K diag(q)`` needs no pivoting: with rows divided by r and columns by q it is positive definite, and
    such factors do not change elimination. A row with r = 0 is a row of the identity. Whole lanes are eliminated,
    including columns before the pivot, which are not read again.
    """
    size = len(augmented)
    for k in range(0, size - 1, 2):
        eliminate_two(augmented, k)
    for k in range(size - 1, -1, -1):
        for c in range(size, size + outputs):
            entry = augmented[k, c]
            for j in range(k + 1, size):
                entry -= augmented[k, j] * augmented[j, c]
            augmented[k, c] = entry / augmented[k, k]


_pointer: Any = types.CPointer
_lapack_solve: Any = types.ExternalFunction(
    "numba_xgesv",
    types.intc(
        types.char,
        types.intp,
        types.intp,
        _pointer(types.float64),
        types.intp,
        _pointer(types.int64),
        _pointer(types.float64),
        types.intp,
    ),
)
"""The function called by numba's `np.linalg.solve`, with the size, the number of right-hand sides, the system by
columns, its pitch, room for the pivots (integers of 32 or 64 bits), the right-hand sides by columns and their pitch."""

_DOUBLE = ord("d")

if not COMPILES:

    def _solve_with_pivots(augmented: Array, outputs: int) -> None:
        size = len(augmented)
        augmented[:, size : size + outputs] = np.linalg.solve(augmented[:, :size], augmented[:, size : size + outputs])

else:

    @cached_njit
    def _solve_with_pivots(augmented: Array, outputs: int) -> None:
        # For `np.linalg.solve` numba would compile checks of shapes and their messages, which takes five seconds.
        size = len(augmented)
        columns, found = np.empty((size, size)), np.empty((outputs, size))
        for i in range(size):
            for j in range(size):
                columns[j, i] = augmented[i, j]
            for c in range(outputs):
                found[c, i] = augmented[i, size + c]
        pivots = np.empty(size, np.int64)
        failed = _lapack_solve(_DOUBLE, size, outputs, columns.ctypes, size, pivots.ctypes, found.ctypes, size)
        if failed:
            raise np.linalg.LinAlgError("the system of an implicit step is singular to machine precision")
        for i in range(size):
            for c in range(outputs):
                augmented[i, size + c] = found[c, i]


@inline_always
def solve(augmented: Array, outputs: int) -> None:
    """Solve the system of an implicit step in an augmented matrix for its right-hand sides in place."""
    if len(augmented) <= SMALL:
        eliminate(augmented, outputs)
    else:
        _solve_with_pivots(augmented, outputs)


@cached_njit
def solve_mirrored(gram: Array, gradients: Array, rates: ReadOnly, stiffness: ReadOnly, duals: Array) -> None:
    """Replace the explicit gradients with respect to f, (N, C), by the weights ``-eta/b g`` of an implicit step.

    The terms of curvature r are evaluated at the new function: each column of g solves

        g = g_explicit + r (exp(z~) - exp(z)),    z~ = z - K diag(eta/b) g

    by Newton's method, in steps so short that the exponential stays near its tangent.

    Parameters
    ----------
    gram : Array
        The inner products K of the points, (N, N).
    gradients : Array
        (N, C).
    rates, stiffness : Array
        eta/b of each point, and r, the second derivative with respect to f, not negative: (N,).
    duals : Array
        z at the points before the step, (N, C).
    """
    size, outputs = gradients.shape
    augmented = augmented_of(size, 1)
    solution, change, shift = np.empty(size), np.empty(size), np.empty(size)  # the change of z
    for c in range(outputs):
        for i in range(size):
            solution[i] = change[i] = 0.0
        for _ in range(MOST_ITERATIONS):
            for i in range(size):
                before = np.exp(duals[i, c])
                after = np.exp(duals[i, c] + change[i])
                augmented[i, size] = gradients[i, c] + stiffness[i] * (after - before) - solution[i]
                for j in range(size):
                    augmented[i, j] = stiffness[i] * after * gram[i, j] * rates[j]
                augmented[i, i] += 1.0
            solve(augmented, 1)
            longest = 0.0
            for i in range(size):
                shift[i] = 0.0
                for j in range(size):
                    shift[i] -= gram[i, j] * rates[j] * augmented[j, size]
                longest = max(longest, abs(shift[i]))
            share = 1.0 if longest <= 1.0 else 1.0 / longest
            for i in range(size):
                solution[i] += share * augmented[i, size]
                change[i] += share * shift[i]
            if not longest > PRECISION:
                break
        for i in range(size):
            gradients[i, c] = -rates[i] * solution[i]
