"""The second-order step in compiled code, on a function that lies in a vector."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    BOUND,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    NEXT_BUDGET,
    ORDER,
    ROOM,
    WANTS,
    StepArguments,
    kernel_at,
    loss_derivatives_at,
    loss_values_at,
    next_budget_at,
)
from kernelswarm.agents.arithmetic.blocks.thresholds import LEAST_BLOCKED_ORDER
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_SAMPLES, tables
from kernelswarm.agents.functions.informed_expansion import root_moments_noise
from kernelswarm.agents.functions.windowed_expansion import recent_and_window
from kernelswarm.agents.learners.kernel_steps import CAPACITY, CROSS, CompiledExpansion, kernel_numbers, own_numbers
from kernelswarm.agents.learners.polk_steps import CHANGES, bound_of_step, inner_products, wanted
from kernelswarm.agents.learners.second_order import moves
from kernelswarm.agents.learners.second_order.taught import offer_taught, without_taught
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import NONE, Integers, address

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

BLOCKED_FROM_ORDER = LEAST_BLOCKED_ORDER
"""A step of several points on so large a dictionary is faster with matrix-matrix products. Its last digits are others,
so that the size alone decides."""

BUDGET_BOUND, BUDGET_NEXT, DERIVATIVES, CURVATURES, OFFERS = range(1, 6)
"""Among the addresses that a step calls, after that of the kernel."""

RIDGE, LIMIT, UNIT, BATCH_SIZE, LARGE_BATCH, LARGE_ORDER, FORGETTING, ADAPTIVE = range(8)
CURVATURE, REACH, LOSS_NUMBERS, FIRST = range(8, 12)
"""The learner's own numbers, the first of them as POLK's, behind those of the kernel; the loss's numbers, so many of
them, and the budget's follow."""


@cached_njit
def taught_step(given: StepArguments, taught: Array) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.second_order.newton.Newton.step` does.

    What neighbours taught is (N, 2 C + 1), or of no rows.
    """
    tools, numbers, storage, counts, scratch, points, rows, gradients, rates, values, targets = (
        given.tools,
        given.numbers,
        given.storage,
        given.counts,
        given.scratch,
        given.points,
        given.rows,
        given.gradients,
        given.rates,
        given.values,
        given.targets,
    )
    taken, outputs = gradients.shape
    own, count = own_numbers(numbers), len(values)
    order, capacity = counts[ORDER], counts[CAPACITY]
    losses = int(own[LOSS_NUMBERS])
    loss_numbers = line(own, FIRST, losses)
    budget = line(own, FIRST + losses, len(own) - FIRST - losses)
    gram = inner_products(given, numbers)
    first = 5 * capacity + taken * taken
    slopes, aims = table(scratch, first, count, outputs), table(scratch, first + count * outputs, count, outputs)
    first += 2 * count * outputs
    curvatures = line(scratch, first, count)
    loss_derivatives_at(tools[DERIVATIVES])(loss_numbers, values, targets, slopes)
    if tools[CURVATURES] == NONE:
        for n in range(count):
            curvatures[n] = own[CURVATURE]
    else:
        loss_values_at(tools[CURVATURES])(loss_numbers, values, targets, curvatures)
    first += count
    pulls = table(scratch, first, taken, outputs)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]  # as descent.share
    coupled = moves.part_ways(gradients, slopes, values, curvatures, rates, part, aims, pulls)
    first += taken * outputs
    if tools[OFFERS] != NONE:
        offered = line(scratch, first, count)
        loss_values_at(tools[OFFERS])(loss_numbers, values, targets, offered)
        moves.withhold(gradients, pulls, offered)
    first += count
    if len(taught):
        offer_taught(gradients, rates, own[CURVATURE], taught)
    dictionary, weights, factor, precision = tables(storage, capacity, points.shape[1], outputs)
    root, moments, noise = root_moments_noise(storage, capacity, points.shape[1], outputs)
    recent_root, recent_moments, recent_noise, window = recent_and_window(
        storage, capacity, points.shape[1], outputs, own[ADAPTIVE] > 0.0
    )
    epsilon = bound_of_step(tools[BUDGET_BOUND], budget, given.sizes, storage[0], int(own[BATCH_SIZE]))
    work = line(scratch, first, len(scratch) - first)
    before = order
    order, error, changes, kept = moves.choose(
        table(scratch, 0, 5, capacity),
        work,
        weights,
        factor,
        precision,
        before,
        gradients,
        rows,
        gram,
        epsilon,
        own[LIMIT],
    )
    leaving = np.empty((0, before))
    if kept < before and kept < order:
        gone = moves.leaving_points(table(work, 0, capacity, 1), before, kept, dictionary)
        leaving = np.empty((before - kept, before))
        kernel_at(tools[CROSS])(kernel_numbers(numbers), gone, table(dictionary, 0, before, points.shape[1]), leaving)
    storage[1] = moves.apply_moves(
        work,
        dictionary,
        weights,
        factor,
        root,
        moments,
        noise,
        before,
        order,
        kept,
        changes,
        points,
        rows,
        gram,
        leaving,
        pulls,
        coupled,
        own[REACH] if given.implicit else 0.0,
        curvatures,
        aims,
        own[RIDGE],
        own[FORGETTING],
        storage[1],
        taught,
        recent_root,
        recent_moments,
        recent_noise,
        window,
    )
    storage[0] = next_budget_at(tools[BUDGET_NEXT])(budget, storage[0], order)
    counts[ORDER], counts[ROOM] = order, capacity - order
    counts[CHANGES] += changes
    counts[WANTS] = wanted(own, order, counts[CHANGES], taken)
    return error


step = without_taught(taught_step)


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) with how far a weight at each point moves f at each other."""
    own, order, capacity, outputs = own_numbers(numbers), counts[ORDER], counts[CAPACITY], values.shape[1]
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    _, _, factor, _ = tables(storage, capacity, points.shape[1], outputs)
    root, _, _ = root_moments_noise(storage, capacity, points.shape[1], outputs)
    moves.products(root, factor, order, rows, own[RIDGE], own[REACH], gram)


class CompiledNewton(CompiledExpansion):
    """What the learner hands over to compiled rounds; its numbers in the storage are the budget's state and the
    coordinate whose ridge is renewed next.

    Parameters
    ----------
    learner : Newton
        The learner.
    """

    inner = staticmethod(inner)
    step = staticmethod(step)
    taught_step = staticmethod(taught_step)

    def __init__(self, learner: Any) -> None:
        kernel, budget = kernel_form(learner.kernel), handed_over(learner.budget, "budget")
        loss = loss_form(learner.loss)
        own = {
            RIDGE: learner.penalty,
            LIMIT: learner.limit,
            UNIT: kernel.unit,
            BATCH_SIZE: learner.batch_size,
            LARGE_BATCH: BLOCKED_FROM_SAMPLES,
            LARGE_ORDER: np.inf if learner.adaptive else BLOCKED_FROM_ORDER,
            FORGETTING: learner.share,
            ADAPTIVE: learner.adaptive,
            CURVATURE: learner.loss.curvature,
            REACH: learner.reach,
            LOSS_NUMBERS: len(loss.numbers),
        }
        self._own = np.array([own[place] for place in range(FIRST)], dtype=np.float64)
        tools = (
            address(budget.bound, BOUND),
            address(budget.next, NEXT_BUDGET),
            address(loss.derivatives, LOSS_DERIVATIVES),
            NONE if loss.curvatures is None else address(loss.curvatures, LOSS_VALUES),
            NONE if loss.offers is None else address(loss.offers, LOSS_VALUES),
        )
        super().__init__(learner, np.concatenate([self._own, loss.numbers, budget.numbers]), tools)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that KOMP, the step's own sums and the information work with."""
        outputs = state.function.outputs
        own = points * (points + 3 * outputs + 2)
        return int(5 * capacity + own + moves.room(capacity, points, outputs))

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers."""
        counts = super().counts(state, capacity, points)
        counts[WANTS] = wanted(self._own, state.function.order, state.changes, points)
        return np.array([*counts.tolist(), state.changes], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        """Bring a state up to date."""
        super().sync(state, counts, steps)
        state.changes = int(counts[CHANGES])

    def maintain(self, state: Any) -> None:
        """Look at the accuracy of the factor."""
        self._learner.inspect(state)
