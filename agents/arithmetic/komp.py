"""Destructive kernel orthogonal matching pursuit on the inverse Cholesky factor of the Gram matrix.

Everything here works in place on the buffers of one :class:`~kernelswarm.agents.functions.expansion.Expansion`: the
dictionary points (capacity, p), the weights (capacity, C), the factor U (capacity, capacity) with ``U.T @ U =
inv(K_DD)``, and the precision (capacity,), the diagonal of ``inv(K_DD)``. Only the leading ``order`` rows and columns
are in use. The dictionary stays in the order in which its points arrived, so that ties fall to the oldest element.

What is done to U is in :mod:`~kernelswarm.agents.arithmetic.inverse_factor`; here is what is decided.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables, append, remove, split
from kernelswarm.agents.arithmetic.screening import screen
from kernelswarm.agents.arithmetic.simd import any_within, dot
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.arithmetic.weights import add_and_square, scale, square
from kernelswarm.protocols.compiling import cached_njit, inline_always, njit_no_refcount

Array = npt.NDArray[np.float64]

SPAN_THRESHOLD = 1e-10
"""A point whose Schur complement s is below this share of kappa(x, x) lies, to rounding, in the dictionary's span."""

DEPENDENT = 1e10
"""An element whose entry of diag(inv K), 1 over its Schur complement, is beyond this over kappa(x, x) lies in the span
of the others, and leaves. This happens for budgets near 0 alone: KOMP removes such elements first, since that costs
next to nothing (docs/decisions/0001)."""


TRANSIENT = 1e3
"""The factor of this limit while a mini-batch enters, before KOMP."""


@njit_no_refcount
def _cheapest(norms: Array, precision: Array, order: int, fixed: int) -> int:
    """Find the element whose removal adds the least error after refitting: argmin ||W_j||^2 / inv(K)_jj."""
    best = fixed
    for j in range(fixed + 1, order):
        if norms[j] * precision[best] < norms[best] * precision[j]:  # the quotients, without a division for each
            best = j
    return best


@inline_always
def _may_remove(norms: Array, precision: Array, order: int, fixed: int, budget: float) -> bool:
    """Tell, but for rounding, whether any element's removal adds at most ``budget``."""
    return any_within(norms, precision, norms, budget, 0.0, fixed, order)


@njit_no_refcount
def _count_beyond(precision: Array, order: int, fixed: int, limit: float) -> int:
    beyond = 0
    for j in range(fixed, order):
        beyond += precision[j] > limit
    return beyond


@njit_no_refcount
def _cheapest_beyond(norms: Array, precision: Array, order: int, fixed: int, limit: float) -> int:
    """Find the cheapest element to remove among those in the span of the others."""
    best = -1
    for j in range(fixed, order):
        if precision[j] > limit and (best < 0 or norms[j] * precision[best] < norms[best] * precision[j]):
            best = j
    return best


@inline_always
def _is_cheapest(
    magnitude: float, schur: float, norms: Array, precision: Array, projection: Array, order: int, fixed: int
) -> bool:
    """Tell whether a new point would be removed first, ``||w||^2 s < ||W_j||^2 / (inv(K)_jj + a_j^2 / s)`` for all j;
    equal scores fall to the older."""
    return not any_within(norms, precision, projection, magnitude * schur, magnitude, fixed, order)


@cached_njit
def project(
    tables: Tables,
    order: int,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int = 0,
) -> tuple[int, float, int]:
    """Take one functional step and compress it: scale the old weights, add the new points, remove what the budget
    allows.

    Decides exactly as destructive KOMP with pre-fitting (POLK algorithm 1) does, ties aside: while the smallest
    ``gamma_j = min_w ||f~ - sum_{k != j} w_k kappa(d_k, .)||_H`` is at most ``epsilon``, element j is removed and
    the others are refitted to f~. The capacity must be at least ``order + n``. Elements in the span of the others,
    whose entry of diag(inv K) is beyond ``limit``, leave at once. The first ``fixed`` elements stay.

    Returns
    -------
    order : int
        The new model order.
    error : float
        ``||f - f~||_H`` of the compression, at most ``epsilon`` but for what lies in the span to rounding, up to
        ``1e-5 ||w|| sqrt(kappa(x, x))``.
    changes : int
        The number of insertions and removals in the factor.
    """
    scratch = np.empty((5, len(tables.points)))
    own = Added(added.points, added.weights.copy(), added.cross, added.gram)
    return project_in(scratch, tables, order, own, shrink, epsilon, limit, fixed)


@inline_always
def project_in(
    scratch: Array,  # (5, capacity)
    tables: Tables,
    order: int,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int = 0,
    known: bool = False,
) -> tuple[int, float, int]:
    """Do the same as :func:`project` in the caller's memory; the new weights are overwritten.

    With ``known`` the image and projection of the first point are already in the scratch's second and third row, as
    :func:`~kernelswarm.agents.arithmetic.inverse_factor.split` fills them in; it must be the only point.
    """
    weights, precision = tables.weights, tables.precision
    row, norms, origin = scratch[0], scratch[3], scratch[4]
    scale(weights, order, shrink)
    budget = epsilon * epsilon
    order, spent, changes, squared = _enter(scratch, tables, order, added, budget, limit, fixed, known)
    while order > fixed:
        if not squared:
            square(weights, order, norms)
        squared = False
        if not _may_remove(norms, precision, order, fixed, (budget - spent) * (1.0 + 1e-9)):
            break
        j = _cheapest(norms, precision, order, fixed)
        score = norms[j] / precision[j]
        if not spent + score <= budget:
            break
        remove(tables, order, j, row)
        order -= 1
        changes += 1
        spent += score
    if changes:
        left, lost = drop_dependent(row, norms, tables, order, limit, origin, fixed)
        changes += order - left
        spent += lost
        order = left
    return order, math.sqrt(spent), changes


@inline_always
def _enter(
    scratch: Array, tables: Tables, order: int, added: Added, budget: float, limit: float, fixed: int, known: bool
) -> tuple[int, float, int, bool]:
    """Add the points that KOMP would not remove at once.

    Returns the order, the squared error so far, the changes of the factor, and whether the norms in the scratch are
    those of the present weights.
    """
    _, weights, factor, precision = tables
    new_points, new_weights, cross, gram = added
    row, image, projection, norms, origin = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    outputs, before, size = weights.shape[1], order, new_points.shape[0]
    spent, changes, squared = 0.0, 0, False
    if size > 1 and budget > 0.0:
        spent = screen(tables, order, added, budget, SPAN_THRESHOLD, TRANSIENT * limit, fixed)
    # Where elements come from, the dictionary or, beyond it, the batch: needed from its second point on.
    if size > 1:
        for j in range(order):
            origin[j] = j
    for n in range(size):
        magnitude = 0.0
        for c in range(outputs):
            magnitude += new_weights[n, c] * new_weights[n, c]
        if magnitude == 0.0:
            continue  # it would be the first to go, at no cost
        if known:
            schur = gram[n, n] - dot(image, 0, image, order)
        elif size == 1:
            schur = split(factor, order, line(cross, 0, order), gram[0, 0], image, projection)
        else:
            for j in range(order):
                place = int(origin[j]) if n > 0 else j
                row[j] = cross[n, place] if place < before else gram[n, place - before]
            schur = split(factor, order, row, gram[n, n], image, projection)
        cost = magnitude * max(schur, 0.0)
        leaves = schur <= SPAN_THRESHOLD * gram[n, n]
        if not leaves and n == size - 1 and spent + cost <= budget:
            # The last point is added only if KOMP would not remove it at once.
            square(weights, order, norms)
            leaves = _is_cheapest(magnitude, schur, norms, precision, projection, order, fixed)
        if leaves:
            add_and_square(weights, order, projection, new_weights, n, norms)
            squared = n == size - 1
            spent += cost
        else:
            append(tables, order, new_points[n], new_weights[n], projection, schur)
            if size > 1:
                origin[order] = before + n
            order += 1
            changes += 1
            if size > 1:
                left, lost = drop_dependent(row, norms, tables, order, TRANSIENT * limit, origin, fixed)
                changes += order - left
                spent += lost
                order = left
    return order, spent, changes, squared


@njit_no_refcount
def drop_dependent(
    row: Array,  # (capacity,), working memory
    norms: Array,  # (capacity,), working memory
    tables: Tables,
    order: int,
    limit: float,
    origin: Array,  # a number for each element that moves with it, or an empty array
    fixed: int,  # a default would have numba compile it once more
) -> tuple[int, float]:
    """Remove elements whose entry of diag(inv K) is beyond ``limit``, the cheapest first; the first ``fixed`` stay.

    Returns
    -------
    order : int
        The new model order.
    squared : float
        The squared error added by the removals.
    """
    weights, precision, squared = tables.weights, tables.precision, 0.0
    while _count_beyond(precision, order, fixed, limit) > 0:
        square(weights, order, norms)
        j = _cheapest_beyond(norms, precision, order, fixed, limit)
        squared += norms[j] / precision[j]
        remove(tables, order, j, row)
        for k in range(j, min(order, len(origin)) - 1):
            origin[k] = origin[k + 1]
        order -= 1
    return order, squared
