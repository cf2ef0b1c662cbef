"""Exchanges of dictionary points, in the information on them."""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.informed_expansion import Information
from kernelswarm.agents.learners.second_order.information import keep
from kernelswarm.agents.learners.second_order.taking_in import Moved
from kernelswarm.protocols.compiling import cached_njit, inline_always

Array = npt.NDArray[np.float64]
LONG_LOOPS = True


@cached_njit
def exchange(
    known: Information,
    moved: Moved,
    leaving: Array,  # (r, before), the kernel between the points that leave and all before
    ridge: float,
    memory: Array,  # (r + n, capacity + r + n + 1)
) -> None:
    """Let points leave and others come in their place.

    What the samples tell of a point that leaves, those that come inherit as far as they can: they are put in first,
    with their projections on all points before, and then the others are taken out. With V the images of all that come
    and go in the coordinates of those that stay, and ``C C' = K - V V'``, a new point is

        V_i' u + C_i,going' e + C_i,coming' e'

    in orthonormal functions u of those that stay, e of what goes beyond them, and e' of what only the ridge knows.
    """
    root, moments, _ = known
    capacity, before, kept, order = len(root), moved.before, moved.kept, moved.order
    gone, coming = before - kept, order - kept
    total = gone + coming
    product = line(moved.work, capacity, capacity)
    images, lower = table(memory, 0, total, capacity), table(memory, total * capacity, total, total)
    places = line(memory, total * (capacity + total), total)
    _fill_images(moved, leaving, images, lower, places, product)
    for i in range(coming):
        _project(moved, i, images, lower, places, product)
        for j in range(before):
            root[j, before + i] = dot(root, j * capacity + j, line(product, j, before - j), before - j)
        for q in range(coming):
            root[before + q, before + i] = math.sqrt(ridge) * lower[gone + i, gone + q] if q <= i else 0.0
        for j in range(before):
            root[before + i, j] = 0.0
        for c in range(moments.shape[1]):
            moments[before + i, c] = 0.0
    for k in range(kept):
        images[0, k] = moved.work[k]
    for i in range(coming):
        images[0, kept + i] = before + i
    keep(root, moments, before + coming, images[0], order, product)


@inline_always
def _fill_images(moved: Moved, leaving: Array, images: Array, lower: Array, places: Array, product: Array) -> None:
    """Fill in V (r + n, kept) and C (r + n, r + n), and the places (r,) of the points that leave."""
    origins, cross, gram, factor, kept = moved.work, moved.cross, moved.gram, moved.factor, moved.kept
    before, gone, total = moved.before, moved.before - kept, len(images)
    place = 0
    for j in range(before):
        if j - place < kept and int(origins[j - place]) == j:
            continue
        places[place] = j
        place += 1
    for x in range(total):
        for k in range(kept):
            at = int(origins[k])
            product[k] = leaving[x, at] if x < gone else cross[int(origins[kept + x - gone]) - before, at]
        for k in range(kept):
            images[x, k] = dot(factor, k * factor.shape[1], product, k + 1)
        for y in range(x + 1):
            if x < gone:
                entry = leaving[x, int(places[y])]
            else:
                n = int(origins[kept + x - gone]) - before
                entry = cross[n, int(places[y])] if y < gone else gram[n, int(origins[kept + y - gone]) - before]
            whole = entry
            entry -= dot(images, x * images.shape[1], images[y], kept)
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            # A new point may lie in the span of all before, to rounding.
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * whole))


@inline_always
def _project(moved: Moved, i: int, images: Array, lower: Array, places: Array, product: Array) -> None:
    """Fill in the projection of the i-th point that comes on all points before, (before,)."""
    gone = moved.before - moved.kept
    x = gone + i
    for k in range(moved.before):
        product[k] = 0.0
    for q in range(gone - 1, -1, -1):  # the weights on those that go: C_going' b = C_i
        entry = lower[x, q]
        for y in range(q + 1, gone):
            entry -= lower[y, q] * product[int(places[y])]
        entry /= lower[q, q]
        product[int(places[q])] = entry
        for k in range(moved.kept):
            images[x, k] -= entry * images[q, k]
    for k in range(moved.kept):
        share = images[x, k]
        for m in range(k + 1):
            product[int(moved.work[m])] += share * moved.factor[k, m]
