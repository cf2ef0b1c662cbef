"""The round of :class:`~kernelswarm.agents.agent.Agent`, for all agents of a block, in compiled code over arrays.

Nothing is computed otherwise than there: the same compiled functions are called with the same numbers in the same
order, so that both ways give the same bits.

Arrays of V nodes come first by node, arrays of E directed edges first by edge: those of node i are
``links.start[i] : links.start[i + 1]``, its neighbours in sorted order. Nodes of other blocks that are heard from
follow as V, V + 1, ...; answers to them as edges E, E + 1, ...
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from kernelswarm.agents import kernel_formulas, komp, loss_formulas
from kernelswarm.agents.budgets import adapted
from kernelswarm.agents.copying import copy_matrix, copy_vector
from kernelswarm.agents.descent import solved
from kernelswarm.agents.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES
from kernelswarm.agents.polk import inspection_due
from kernelswarm.protocols.coupling import mean_square_gaps, pull, total
from kernelswarm.protocols.proximity import ascend, largest_dual
from kernelswarm.protocols.tolerances import average

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

DONE, PAUSED, LARGE_VALUES, UNSTABLE = range(4)
"""Why rounds end; paused, some node wants room, its factor looked at, or steps in blocks."""


class Functions(NamedTuple):
    """The nodes' functions, as :class:`~kernelswarm.agents.expansion.Expansion` holds one."""

    points: Array  # (V, capacity, p)
    weights: Array  # (V, capacity, C)
    factor: Array  # (V, capacity, capacity)
    precision: Array  # (V, capacity)
    order: Integers  # (V,)
    alpha: Array  # (V,) the budget's state
    changes: Integers  # (V,)
    inspect: Flags  # (V,) whose factor is to be looked at after the round


class Parts(NamedTuple):
    """What the nodes' learners are made of."""

    kernel: Integers  # (V,) numbers of formulas
    kernel_values: Array  # (V, most) their numbers
    kernel_counts: Integers  # (V,) how many numbers each has
    loss: Integers  # (V,)
    threshold: Array  # (V,)
    quadratic_curvature: Array  # (V,) l'' where it is exact, else 0
    curvature: Array  # (V,) the bound on l''
    gain: Array  # (V,) sup kappa(x, x); 0 where unbounded
    regularization: Array  # (V,)
    adaptive: Flags  # (V,)
    rule: Array  # (V, 4) the adaptive budget's target order, gain and interval


class Links(NamedTuple):
    """The directed edges."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the neighbour
    reverse: Integers  # (E,) where the answer to the neighbour goes
    strength: Array  # (E,) the penalty or the dual variables
    sent: Array  # (E + outside,) dual variables as they were sent, by the edge that they belong to
    tolerance: Array  # (E,)
    average: Array  # (E,) of the excess losses


class Messages(NamedTuple):
    """What is in flight: each node's values at its own points, and the answers to its neighbours."""

    values: Array  # (V + outside, b, C)
    answers: Array  # (E + outside, b, C)
    rows: Array  # (V, b, capacity) kernel rows of a node's own points
    their_rows: Array  # (E, b, capacity) kernel rows of the neighbours' points; symmetric form only, else (0, b, 0)


class Sums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    compression_error: Array  # (V,)
    largest_target: Array  # (V,) of the whole run
    gaps: Array  # (E,)
    violation: Array  # (E,) of the whole run


class Coupling(NamedTuple):
    """The protocol."""

    scale: float  # of the strengths in the gradient; 0 without communication
    proximity: bool
    symmetric: bool
    implicit: bool
    penalty: float  # consensus only
    delta: float
    dual_max: float
    adaptive: bool
    tolerance_scale: float
    tolerance_rate: float


@numba.njit(cache=True)
def live(
    functions: Functions,
    parts: Parts,
    links: Links,
    messages: Messages,
    sums: Sums,
    coupling: Coupling,
    points: Array,  # (V + outside, rounds + 2, b, p) of the samples learned from in each round
    targets: Array,  # (V, rounds + 2, b, q)
    step_sizes: Array,  # (V, rounds)
    bounds: Array,  # (V, rounds) eps, or the step sizes where the budget adapts
    first: int,  # among these rounds
    count: int,
    lived: int,  # rounds of the whole run before
    diverged: float,
) -> tuple[int, int, int, float]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    nodes = len(functions.order)
    size, inputs = points.shape[2], points.shape[3]
    capacity, outputs = functions.weights.shape[1], functions.weights.shape[2]
    most = 0
    for i in range(nodes):
        most = max(most, points_taken(links, i, size, coupling.symmetric))
    scratch = np.empty((5, capacity))
    losses = np.empty(size)
    joined_points = np.empty((most, inputs))
    joined_rows = np.empty((most, capacity))
    joined = np.empty((most, outputs))
    rates = np.empty(most)
    stiffness = np.empty(most)
    for t in range(first, first + count):
        if _pauses(functions, links, capacity, size, coupling.symmetric):
            return PAUSED, t - first, 0, 0.0
        for i in range(nodes):
            begin, end = links.start[i], links.start[i + 1]
            own = messages.values[i]
            wanted = targets[i, t]
            # The checks of Agent._update, in its order.
            largest = sums.largest_target[i]
            for target in wanted.flat:
                largest = max(largest, abs(target))
            sums.largest_target[i] = largest
            for value in own.flat:
                if not abs(value) <= diverged * (1.0 + largest):
                    return LARGE_VALUES, t - first, i, 0.0
            loss_formulas.evaluate(parts.loss[i], parts.threshold[i], own, wanted, losses)
            loss = total(losses)
            gradient = joined[:size]
            loss_formulas.differentiate(parts.loss[i], parts.threshold[i], own, wanted, gradient)
            eta = step_sizes[i, t]
            rate = eta / size
            curvature = 0.0
            if end > begin:
                answers = messages.answers[begin:end]
                strength = links.strength[begin:end]
                gradient += pull(own, answers, strength, coupling.scale)
                curvature = coupling.scale * total(strength) if coupling.proximity else coupling.penalty * (end - begin)
                explicit = parts.quadratic_curvature[i] + curvature
                if not coupling.implicit and rate * parts.gain[i] * explicit >= 2.0:
                    return UNSTABLE, t - first, i, explicit
            sums.loss[i] += loss
            copy_matrix(points[i, t], joined_points)
            copy_matrix(messages.rows[i], joined_rows)
            rates[:size] = rate
            stiffness[:size] = parts.curvature[i] + curvature
            taken = size
            if coupling.symmetric:
                for e in range(begin, end):
                    j = links.other[e]
                    back = links.reverse[e]
                    pulling = coupling.scale * links.sent[back] if coupling.proximity else coupling.penalty
                    if not coupling.implicit and rate * parts.gain[i] * pulling >= 2.0:
                        return UNSTABLE, t - first, i, pulling
                    mine, theirs = messages.answers[back], messages.values[j]
                    for k in range(size):
                        for c in range(outputs):
                            joined[taken + k, c] = pulling * (mine[k, c] - theirs[k, c])
                    copy_matrix(points[j, t], joined_points[taken:])
                    copy_matrix(messages.their_rows[e], joined_rows[taken:])
                    rates[taken : taken + size] = rate
                    stiffness[taken : taken + size] = pulling
                    taken += size
            _step(
                functions,
                parts,
                i,
                scratch,
                joined_points[:taken],
                joined_rows[:taken],
                joined[:taken],
                rates[:taken],
                stiffness[:taken],
                coupling.implicit,
                eta,
                bounds[i, t],
                sums.compression_error,
            )
            if end > begin:
                _advance_links(
                    links, sums, coupling, parts, i, begin, end, own, wanted, loss, eta, lived + t - first + 1, messages
                )
        for i in range(nodes):
            order = functions.order[i]
            dictionary = functions.points[i, :order]
            number, values = parts.kernel[i], parts.kernel_values[i, : parts.kernel_counts[i]]
            rows = messages.rows[i]
            kernel_formulas.cross(number, values, points[i, t + 1], dictionary, rows)
            komp.combine(rows, functions.weights[i], order, messages.values[i])
            for e in range(links.start[i], links.start[i + 1]):
                rows = messages.their_rows[e] if coupling.symmetric else joined_rows[:size]
                theirs = points[links.other[e], t + 1]
                kernel_formulas.cross(number, values, theirs, dictionary, rows)
                komp.combine(rows, functions.weights[i], order, messages.answers[links.reverse[e]])
        if coupling.proximity and coupling.symmetric:
            copy_vector(links.strength, links.sent)
    return DONE, count, 0, 0.0


@numba.njit(cache=True)
def points_taken(links: Links, i: int, size: int, symmetric: bool) -> int:
    """Return the number of points in a step of node i: its own, and its neighbours' in the symmetric form."""
    return size * (1 + links.start[i + 1] - links.start[i]) if symmetric else size


@numba.njit(cache=True)
def _pauses(functions: Functions, links: Links, capacity: int, size: int, symmetric: bool) -> bool:
    for i in range(len(functions.order)):
        taken = points_taken(links, i, size, symmetric)
        if functions.inspect[i] or functions.order[i] + taken > capacity:
            return True
        if taken >= BLOCKED_FROM_SAMPLES and functions.order[i] >= BLOCKED_FROM_ORDER:
            return True
    return False


@numba.njit(cache=True)
def _step(
    functions: Functions,
    parts: Parts,
    i: int,
    scratch: Array,
    points: Array,
    rows: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    eta: float,
    bound: float,
    errors: Array,
) -> None:
    """Take node i's step and compress, as :meth:`~kernelswarm.agents.polk.Polk.step` does."""
    taken, outputs = gradients.shape
    number, values = parts.kernel[i], parts.kernel_values[i, : parts.kernel_counts[i]]
    gram = np.empty((taken, taken))
    kernel_formulas.among(number, values, points, gram)
    if implicit:
        copy_matrix(solved(gram, gradients, rates, stiffness), gradients)
    else:
        for k in range(taken):
            for c in range(outputs):
                gradients[k, c] *= -rates[k]
    adaptive = parts.adaptive[i]
    order, error, changes = komp.project_in(
        scratch,
        functions.points[i],
        functions.weights[i],
        functions.factor[i],
        functions.precision[i],
        functions.order[i],
        points,
        gradients,
        rows,
        gram,
        1.0 - eta * parts.regularization[i],
        functions.alpha[i] * eta if adaptive else bound,
        np.inf if number == kernel_formulas.POLYNOMIAL else komp.DEPENDENT,
    )
    functions.order[i] = order
    errors[i] += error
    functions.changes[i] += changes
    if adaptive:
        target, gain, smallest, largest = parts.rule[i, 0], parts.rule[i, 1], parts.rule[i, 2], parts.rule[i, 3]
        functions.alpha[i] = adapted(functions.alpha[i], order, target, gain, smallest, largest)
    if functions.changes[i] >= inspection_due(order):
        functions.inspect[i] = True


@numba.njit(cache=True)
def _advance_links(
    links: Links,
    sums: Sums,
    coupling: Coupling,
    parts: Parts,
    i: int,
    begin: int,
    end: int,
    own: Array,
    targets: Array,
    loss: float,
    eta: float,
    round: int,
    messages: Messages,
) -> None:
    """Add up the constraint values of node i's edges, and take their dual step."""
    answers = messages.answers[begin:end]
    gaps = mean_square_gaps(own, answers)
    sums.gaps[begin:end] += gaps
    if not coupling.proximity:
        return
    tolerances = links.tolerance[begin:end]
    bound = coupling.dual_max
    if coupling.adaptive:
        bound = min(bound, largest_dual(eta, len(targets), end - begin))
        losses = np.empty(len(targets))
        excess = np.empty(end - begin)
        for e in range(end - begin):
            loss_formulas.evaluate(parts.loss[i], parts.threshold[i], answers[e], targets, losses)
            excess[e] = (total(losses) - loss) / len(targets)
        beta = min(1.0, max(coupling.tolerance_rate, 2.0 / (round + 1)))
        values, averages = average(links.average[begin:end], excess, parts.curvature[i], beta, coupling.tolerance_scale)
        tolerances[:] = values
        links.average[begin:end] = averages
    decay = max(0.0, 1.0 - coupling.delta * eta * eta)
    links.strength[begin:end] = ascend(links.strength[begin:end], gaps, tolerances, decay, eta, bound)
    sums.violation[begin:end] += gaps - tolerances
