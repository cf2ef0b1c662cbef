"""The same step as :mod:`kernelswarm.agents.arithmetic.komp` takes, with matrix-matrix products for large mini-batches.

Nothing is decided otherwise. The whole batch is projected on the span of the dictionary in one pass over the factor U.
What the batch adds to the factor are its last rows, ``L^-1 [-A', I]`` with the projections A and L the Cholesky factor
of the batch's Schur complement, and these few rows are kept apart while elements are chosen for removal, one after the
other, as KOMP does. Points of the batch that go straight out again, by far the most frequent case, go before that
(:mod:`~kernelswarm.agents.arithmetic.blocks.blocked_screening`). An old element needs its column of the inverse, from
products for several likely ones at a time, and is rotated out of U at the end, together with all others that go.

Notation: M old elements, n entering points; "total" is M + n. Columns keep their places until the end.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.blocks import blocked_removal, blocked_screening
from kernelswarm.agents.arithmetic.blocks.blocked_removal import FINISHED, Candidates
from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.protocols.compiling import jitted

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

PANEL = 128
"""Columns of the inverse that are computed together."""

TILE, STRIP = 32, 128
"""Rows and columns of the factor that are multiplied together, and stay in the cache between two products."""

FETCHED = 8
"""The most columns of the inverse that are computed before it is known that they are needed."""


def project(
    points: Array,  # (capacity, p)
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    precision: Array,  # (capacity,)
    order: int,
    new_points: Array,  # (n, p)
    new_weights: Array,  # (n, C)
    cross: Array,  # (n, order)
    gram: Array,  # (n, n)
    shrink: float,
    epsilon: float,
    limit: float,
    known: tuple[Array, Array] | None = None,
) -> tuple[int, float, int]:
    """Take one functional step and compress it; all as in :func:`kernelswarm.agents.arithmetic.komp.project`.

    Points that go straight out again do not count as changes of the factor. ``known`` is what :func:`split` says of
    the points whose weights are not 0, where it has been asked.
    """
    entering = np.flatnonzero(new_weights.any(axis=1))
    projections, rest = known or split(factor, cross[entering], gram[np.ix_(entering, entering)])
    fence = komp.TRANSIENT * limit
    bare, arrivals = weights[:order] * shrink, new_weights[entering]
    whole, left = np.ascontiguousarray((bare + projections.T @ arrivals).T), arrivals.copy()
    diagonal = gram.diagonal()[entering]
    screened, stays = blocked_screening.screen(
        whole, precision[:order], left, projections, rest, diagonal, epsilon * epsilon, fence
    )
    if len(stays) < len(entering):
        bare += projections.T @ (arrivals - left)
        entering, projections, rest = entering[stays], projections[stays], rest[np.ix_(stays, stays)]
        left, diagonal = left[stays], diagonal[stays]
    values, rows, accepted, spent = _enter(bare, left, projections, rest, diagonal)
    spent += screened
    beyond = precision[:order] + np.einsum("ij,ij->j", rows[:, :order], rows[:, :order]) > fence
    if beyond.any() or np.einsum("ij,ij->j", rows[:, order:], rows[:, order:]).max(initial=0.0) > fence:
        # Elements in the span of the others leave between two insertions: that is done one point at a time.
        return komp.project(
            points, weights, factor, precision, order, new_points, new_weights, cross, gram, shrink, epsilon, limit, 0
        )
    arriving = new_points[entering[accepted]]
    changes = 0
    while True:
        candidates = _candidates(values, rows, precision[:order])
        spent, finished = _choose(candidates, factor, spent, epsilon * epsilon)
        left: int = blocked_removal.settle(points, weights, factor, precision, order, arriving, candidates)
        changes += left - order + 2 * int(np.count_nonzero(candidates.gone[:order]))
        order = left
        if finished:
            row, norms, nothing = np.empty(order), np.empty(order), np.empty(0)
            left, squared = komp.drop_dependent(
                row, norms, points, weights, factor, precision, order, limit, nothing, 0
            )
            return left, math.sqrt(spent + squared), changes + order - left
        # What is left of the batch are old elements from here on.
        values, rows, arriving = np.ascontiguousarray(weights[:order].T), np.empty((0, order)), np.empty((0, 0))


def _enter(
    weights: Array, new_weights: Array, projections: Array, rest: Array, diagonal: Array
) -> tuple[Array, Array, Flags, float]:
    """Tell what of the batch enters beside the old elements, and what lies in the span of these and its predecessors.

    Returns
    -------
    values : Array
        The weights of all elements, (C, total), to which the points in the span have added theirs.
    rows : Array
        The batch's rows of the factor, (entered, total).
    accepted : Array
        Which points enter, (n,).
    spent : float
        The squared error that the points in the span cost.
    """
    size, order = projections.shape
    values = np.empty((weights.shape[1], order + size))
    values[:, :order] = weights.T
    rows = np.zeros((size, order + size))
    accepted, spent = _append(values, rows, new_weights, projections, rest, diagonal)
    entered = int(np.count_nonzero(accepted))
    if entered < size:
        values = np.ascontiguousarray(values[:, : order + entered])
        rows = np.ascontiguousarray(rows[:entered, : order + entered])
    return values, rows, accepted, spent


def split(factor: Array, cross: Array, gram: Array) -> tuple[Array, Array]:
    """Project points on the span of a dictionary of M.

    Parameters
    ----------
    factor : Array
        The storage of the factor U.
    cross : Array
        B', the kernel between the points and the dictionary, (n, M).
    gram : Array
        G, that between the points, (n, n).

    Returns
    -------
    projections : Array
        ``A' = B'U'U``, (n, M).
    rest : Array
        The Schur complement ``G - B'U'UB``, (n, n).
    """
    images, projections = np.empty(cross.shape), np.zeros(cross.shape)
    _project(factor, np.require(cross, requirements=["C", "W"]), images, projections)
    return projections, gram - images @ images.T


@jitted
def _project(factor: Array, cross: Array, images: Array, projections: Array) -> None:
    """Fill in ``B'U'`` and ``B'U'U``, in one pass over the factor; the latter's place holds zeros."""
    (size, order), pitch = cross.shape, factor.shape[1]
    for start in range(0, order, TILE):
        rows = min(TILE, order - start)
        for left in range(0, start + rows, STRIP):
            width, share = min(STRIP, start + rows - left), 0.0 if left == 0 else 1.0
            tile = start * pitch + left
            multiply(
                images, start, order, cross, left, order, False, factor, tile, pitch, True, size, width, rows, 1.0, share
            )
        for left in range(0, start + rows, STRIP):
            width = min(STRIP, start + rows - left)
            tile = start * pitch + left
            multiply(
                projections, left, order, images, start, order, False, factor, tile, pitch, False, size, rows, width, 1.0, 1.0
            )


@jitted
def _append(
    values: Array,  # (C, M + n)
    rows: Array,  # (n, M + n)
    new_weights: Array,  # (n, C)
    projections: Array,  # (n, M)
    gram: Array,  # (n, n), the Schur complement of the whole batch
    diagonal: Array,  # (n,), kappa(x, x)
) -> tuple[Flags, float]:
    """Fill in the batch's rows and weights point by point, each projected on all before; a point in their span gives
    its weight to its projection. Returns which points enter, and the squared error that the others cost."""
    size, order = projections.shape
    lower = np.zeros((size, size))  # the Cholesky factor, a row for each point, a column for each that has entered
    accepted = np.zeros(size, np.bool_)
    places = np.zeros(size, np.int64)
    entered = 0
    spent = 0.0
    for i in range(size):
        share = lower[i]
        schur = gram[i, i]
        for k in range(i):
            if accepted[k]:
                place = places[k]
                entry = gram[i, k]
                for q in range(place):
                    entry -= share[q] * lower[k, q]
                share[place] = entry / lower[k, place]
                schur -= share[place] * share[place]
        line = rows[entered]
        copy_vector(projections[i], line)
        line[order:] = 0.0
        for place in range(entered):
            entry = share[place]
            above = rows[place]
            for k in range(order + place + 1):
                line[k] += entry * above[k]
        if schur <= SPAN_THRESHOLD * diagonal[i]:
            for c in range(values.shape[0]):
                weight = new_weights[i, c]
                spent += weight * weight * max(schur, 0.0)
                for k in range(order + entered):
                    values[c, k] += weight * line[k]
            continue
        accepted[i] = True
        places[i] = entered
        share[entered] = math.sqrt(schur)
        for k in range(order + entered):
            line[k] /= -share[entered]
        line[order + entered] = 1.0 / share[entered]
        for c in range(values.shape[0]):
            values[c, order + entered] = new_weights[i, c]
        entered += 1
    return accepted, spent


def _candidates(values: Array, rows: Array, precision: Array) -> Candidates:
    """Gather what the choice of removals reads and writes, and the scores at its start."""
    order, total = len(precision), len(values.T)
    base = np.zeros(total)
    base[:order] = precision
    owners = np.arange(order, total)
    gone = np.zeros(total, dtype=np.bool_)
    candidates = Candidates(values, rows, owners, base[:order].copy(), base, np.empty(total), gone)
    blocked_removal.score(candidates)
    return candidates


def _choose(candidates: Candidates, factor: Array, spent: float, budget: float) -> tuple[float, bool]:
    """Mark the elements that KOMP removes as gone, refit the weights, take the elements out of the batch's rows.

    Returns the squared error, and whether all was chosen.
    """
    order, size = len(candidates.whole), len(candidates.rows)
    slots = np.full(order, -1, dtype=np.intp)
    columns = np.empty((FETCHED, order))
    removed = np.empty((FETCHED, order))
    fetched = count = 0
    while True:
        spent, size, count, wanted = blocked_removal.remove_while_known(
            candidates, size, columns, slots, removed, count, spent, budget
        )
        if wanted < 0:
            return spent, wanted == FINISHED
        likely = _likely(candidates.scores[:order], slots, wanted, budget - spent)
        if fetched + len(likely) > len(columns):
            columns = np.concatenate([columns, np.empty_like(columns)])
            removed = np.concatenate([removed, np.empty_like(removed)])
        slots[likely] = np.arange(fetched, fetched + len(likely))
        columns[fetched : fetched + len(likely)] = _columns_of_inverse(factor, order, likely)
        fetched += len(likely)


def _likely(scores: Array, slots: Indices, wanted: int, budget: float) -> Indices:
    """Guess which old elements go next: ``wanted``, and the cheapest ones as far as the budget reaches."""
    affordable = np.flatnonzero(scores <= budget)
    cheapest = affordable[np.argsort(scores[affordable], kind="stable")[:FETCHED]]
    cheapest = cheapest[np.cumsum(scores[cheapest]) <= budget]
    others = cheapest[(slots[cheapest] < 0) & (cheapest != wanted)]
    return np.concatenate([[wanted], others[: FETCHED - 1]]).astype(np.intp)


def _columns_of_inverse(factor: Array, order: int, elements: Indices) -> Array:
    """Compute columns of ``inv(K_DD) = U'U`` as rows, (k, M), from the part of U that is not zero in them."""
    top = int(elements.min())
    images = np.ascontiguousarray(factor[top:order, elements].T)
    found = np.empty((len(elements), order))
    for start in range(0, order, PANEL):
        end = min(start + PANEL, order)
        first = max(start, top)
        np.matmul(images[:, first - top :], factor[first:order, start:end], out=found[:, start:end])
    return found
