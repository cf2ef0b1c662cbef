"""Destructive KOMP on the points of a step before they enter the dictionary.

Of the points of a step most would be removed at once. While the next element to go is one of them, the factor U of the
dictionary stays as it is: what the points would add to it, the rows ``L^-1 [-A', I]`` with their projections A on the
dictionary and the Cholesky factor L of what the projections leave of their Gram matrix, is kept apart, and rotated
there. Whoever is left enters, with the weights that the removals have left, and KOMP goes on.

Rows are formed in the order of what their points would cost, the dearest first: those that go first then stand last,
where a row is dropped without rotations. Where points are nearly in the span of others the order decides which of them
counts as the one that is, and is left as it is.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import transpose
from kernelswarm.agents.arithmetic.lanes import add_scaled, add_squares, dot, first_least, rotate, sum_rows, whole
from kernelswarm.agents.arithmetic.tables import line
from kernelswarm.protocols.compiling import ReadOnly, jitted

Array = npt.NDArray[np.float64]

NEAR = 1e-6
"""The share of kappa(x, x) at which a Schur complement is nearly 0."""

SLACK = 1e-6
"""By how much of itself an error is taken for more than it was computed to be, where the rest follows from a bound."""


@jitted
def screen(
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    precision: Array,  # (capacity,)
    order: int,
    new_weights: Array,  # (n, C)
    cross: ReadOnly,  # (n, M or more)
    gram: ReadOnly,  # (n, n)
    budget: float,
    span: float,
    fence: float,
    fixed: int,
) -> float:
    """Remove new points as long as KOMP would remove one of them next, and refit all other weights.

    Points that are gone have the weight 0. Nothing is done where new points are nearly in the span of others that are
    not, or an element's entry of diag(inv K) would be beyond ``fence``. A point whose Schur complement is below the
    share ``span`` of kappa(x, x) gives its weight to its projection on the dictionary and the points before it.

    Returns
    -------
    float
        The squared error of the removals, at most ``budget`` but for what lies in the span.
    """
    size, outputs = new_weights.shape
    capacity, columns = factor.shape[1], cross.shape[1]
    entering = np.empty(size, np.int64)
    count = 0
    for n in range(size):
        magnitude = 0.0
        for c in range(outputs):
            magnitude += new_weights[n, c] * new_weights[n, c]
        if magnitude != 0.0:
            entering[count] = n
            count += 1
    if count == 0:
        return 0.0
    wide, total = whole(count), order + count
    long = whole(total)
    pitch = wide + long  # of the board: what is left of the Gram matrix, and the rows
    crossed, images = 0, order * wide
    board = images + order * wide
    values = board + count * pitch
    bare = values + outputs * long
    norms = bare + long
    sums = norms + long  # of the squares of U's columns and of the rows up to each place
    keys = sums + (count + 1) * long
    sides = keys + whole(count)
    memory = np.zeros(sides + wide)
    # The images -V = -U B and projections -A = -U'V of all points at once, a point to a lane.
    if count == size:
        transpose(memory, crossed, wide, cross, 0, columns, count, order, -1.0)
    else:
        for q in range(count):
            for j in range(order):
                memory[crossed + j * wide + q] = -cross[entering[q], j]
    for i in range(order):
        sum_rows(memory, images + i * wide, factor, i * capacity, 1, memory, crossed, wide, i + 1, wide)
    for j in range(order):
        into, place = crossed + j * wide, images + j * wide
        sum_rows(memory, into, factor, j * capacity + j, capacity, memory, place, wide, order - j, wide)
    transpose(memory, board + wide, pitch, memory, crossed, wide, order, count, 1.0)
    for q in range(count):
        row = board + q * pitch
        sum_rows(memory, row, memory, images + q, wide, memory, images, wide, order, wide)
        products, shares = line(gram, entering[q] * size, size), line(memory, row, count)
        for p in range(count):
            shares[p] = products[entering[p]] - shares[p]
        memory[row + wide + order + q] = 1.0
        magnitude = 0.0
        for c in range(outputs):
            weight = new_weights[entering[q], c]
            memory[values + c * long + order + q] = weight
            magnitude += weight * weight
        memory[keys + q] = magnitude * memory[row + q]
    for c in range(outputs):
        for j in range(order):
            memory[values + c * long + j] = weights[j, c]
    turn = np.empty(count, np.int64)
    near = 0
    for q in range(count):
        near += not memory[board + q * pitch + q] > NEAR * gram[entering[q], entering[q]]
    for q in range(count):
        place = q
        while near == 0 and place > 0 and memory[keys + turn[place - 1]] < memory[keys + q]:
            turn[place] = turn[place - 1]
            place -= 1
        turn[place] = q
    # What removing all of them costs, ||sum_q w_q r_q||^2 with what is left of the points.
    cost = 0.0 if near == 0 else math.inf
    for c in range(outputs):
        place = values + c * long + order
        sum_rows(memory, sides, memory, place, 1, memory, board, pitch, count, wide)
        cost += dot(memory, sides, line(memory, place, count), count)
    cost *= 1.0 + SLACK
    # Elimination on the board leaves the rows, but for their length.
    rows, spent = 0, 0.0
    for j in range(order):
        memory[sums + j] = precision[j]
    for place in range(count):
        q = turn[place]
        row = board + q * pitch
        schur = memory[row + q]
        if near == 0 and not schur > NEAR * gram[entering[q], entering[q]]:
            return 0.0
        if schur <= span * gram[entering[q], entering[q]]:
            for c in range(outputs):
                weight = memory[values + c * long + order + q]
                spent += weight * weight * max(schur, 0.0)
                add_scaled(memory, values + c * long, memory, row + wide, -weight, long)
                memory[values + c * long + order + q] = 0.0
            continue
        for after in range(place + 1, count):
            other = board + turn[after] * pitch
            ratio = memory[other + q] / schur
            add_scaled(memory, other, memory, row, -ratio, pitch)
        scale = 1.0 / math.sqrt(schur)
        entries = line(memory, row + wide, long)
        for k in range(long):
            entries[k] *= scale
        add_squares(memory, sums + (rows + 1) * long, memory, sums + rows * long, memory, row + wide, long)
        turn[rows] = q
        rows += 1
    highest = 0.0
    for k in range(fixed, total):
        highest = max(highest, memory[sums + rows * long + k])
    if highest > fence:
        return 0.0
    all_go = False
    while rows > 0:
        if not all_go:
            add_squares(memory, norms, memory, bare, memory, values, long)
            for c in range(1, outputs):
                add_squares(memory, norms, memory, norms, memory, values + c * long, long)
            left = sums + rows * long
            old = first_least(memory, norms, memory, left, fixed, order, whole(order))
            threat = math.inf if old < 0 else memory[norms + old] / memory[left + old]
            rest = cost - spent
            all_go = spent + rest <= budget and 2.0 * rest < threat
        if all_go:
            best, score = order + turn[rows - 1], 0.0
            pivot = memory[board + turn[rows - 1] * pitch + wide + best]
            for c in range(outputs):
                entry = memory[values + c * long + best] / pivot
                score += entry * entry
        else:
            best = first_least(memory, norms, memory, left, order, total, long)
            score = math.inf if best < 0 else memory[norms + best] / memory[left + best]
            if not (score < threat and spent + score <= budget):
                break
        q = best - order
        row = board + q * pitch + wide
        place = 0
        while turn[place] != q:
            place += 1
        for after in range(place + 1, rows):
            other = board + turn[after] * pitch + wide
            x, y = memory[row + best], memory[other + best]
            radius = math.sqrt(x * x + y * y)
            rotate(memory, row, memory, other, x / radius, y / radius, long)
            turn[after - 1] = turn[after]
            memory[other + best] = 0.0
            add_squares(memory, sums + after * long, memory, sums + (after - 1) * long, memory, other, long)
        for c in range(outputs):
            start = values + c * long
            add_scaled(memory, start, memory, row, -memory[start + best] / memory[row + best], long)
            memory[start + best] = 0.0
        rows -= 1
        spent += score
    for c in range(outputs):
        for j in range(order):
            weights[j, c] = memory[values + c * long + j]
        for q in range(count):
            new_weights[entering[q], c] = memory[values + c * long + order + q]
    return spent
