"""Second-order steps on a compressed dictionary: the accuracy of a batch solver, one sample at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.abi import (
    BOUND,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    NEXT_BUDGET,
    ORDER,
    ROOM,
    STEP,
    WANTS,
    StepArguments,
    kernel_at,
    loss_values_at,
    next_budget_at,
    step_at,
)
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.late import LateFunction, found_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import (
    BLOCKED_FROM_SAMPLES,
    InformedExpansion,
    WindowedExpansion,
    information_in,
    recent_and_window,
    tables,
)
from kernelswarm.agents.learners import blocked_second_order, calling, hellinger, moves
from kernelswarm.agents.learners.blocked_second_order import Numbers
from kernelswarm.agents.learners.certainty import CertainDescent, Posterior, check_certain
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, CROSS, DescentInSpace, kernel_numbers, own_numbers
from kernelswarm.agents.learners.moves import Asked
from kernelswarm.agents.learners.observations import Memory, Moved, Terms, offer_taught
from kernelswarm.agents.learners.polk import (
    CHANGES,
    ByProducts,
    PolkState,
    compiled_bound_of_step,
    inner_products,
    is_large,
    wanted,
)
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun, bound_at
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import budget_form, kernel_form, kernel_rows, loss_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.protocols.parameters.least_squares import noise_of
from kernelswarm.refused_key import RefusedKey

# The second-order step in compiled code, on a function that lies in a vector.

LONG_LOOPS = True

BLOCKED_FROM_ORDER = 128
"""The order from which on a step on several points uses matrix-matrix products, which are faster there. They round
differently, so the choice depends on the sizes alone."""

BUDGET_BOUND, BUDGET_NEXT, DERIVATIVES, CURVATURES, OFFERS, BLOCKED = range(1, 7)
"""Indices among the addresses that a step calls, after the kernel's."""

RIDGE, LIMIT, UNIT, BATCH_SIZE, LARGE_BATCH, LARGE_ORDER, FORGETTING, ADAPTIVE = range(8)
CURVATURE, OF_WEIGHT_ONE, REACH, LOSS_NUMBERS, FIRST = range(8, 13)
"""Indices among the learner's own numbers, which follow the kernel's and begin like POLK's. The loss's numbers and the
budget's numbers come after them."""


@cached_njit
def step(given: StepArguments) -> float:
    """Add own samples and taught observations to the information, and move along the pulls in the gradients.

    Only the presence of stiffness matters, not its values: pulls are already limited to their longest step.
    """
    if is_large(own_numbers(given.numbers), given.counts[ORDER], len(given.gradients)):
        # Called by address: few runs need it, and it is most of the code to compile.
        error: float = step_at(found_at(given.tools[BLOCKED]))(given)
        return error
    order, error, changes = _move(given, _epsilon(given))
    _count(given, order, changes)
    return error


@cached_njit
def hellinger_step(given: StepArguments) -> float:
    """Take a step with all its points, and compress the posterior."""
    storage, outputs, own = given.storage, given.gradients.shape[1], own_numbers(given.numbers)
    capacity, inputs = given.counts[CAPACITY], given.points.shape[1]
    order, _, changes = _move(given, 0.0)
    memory = _memory(given)
    known, work = tables(storage, capacity, inputs, outputs), table(given.scratch, 0, 5, capacity)
    order, spent, removed = hellinger.compress(known, memory, order, _epsilon(given), own[RIDGE], own[CURVATURE], work)
    _count(given, order, changes + removed)
    return spent


@inline_always
def _memory(given: StepArguments) -> Memory:
    storage, outputs, own = given.storage, given.gradients.shape[1], own_numbers(given.numbers)
    capacity, inputs = given.counts[CAPACITY], given.points.shape[1]
    recent, window = recent_and_window(storage, capacity, inputs, outputs, own[ADAPTIVE] > 0.0)
    return Memory(information_in(storage, capacity, inputs, outputs), recent, window)


@inline_always
def _move(given: StepArguments, epsilon: float) -> tuple[int, float, int]:
    """Choose the dictionary by KOMP within ``epsilon``, add the step's terms to the information, and solve.

    Returns the new order, the compression error, and the number of changes of the factor.
    """
    storage, counts, own = given.storage, given.counts, own_numbers(given.numbers)
    (taken, outputs), inputs = given.gradients.shape, given.points.shape[1]
    order, capacity, first = counts[ORDER], counts[CAPACITY], 5 * counts[CAPACITY] + taken * taken
    gram = inner_products(given, given.numbers)
    terms = _terms(given, first)
    first += moves.terms_room(taken, outputs) + taken
    komp_work, work = table(given.scratch, 0, 5, capacity), line(given.scratch, first, len(given.scratch) - first)
    known = tables(storage, capacity, inputs, outputs)
    moved, error, changes = moves.choose(
        komp_work, work, known, order, given.gradients, given.rows, gram, epsilon, own[LIMIT]
    )
    leaving = _leaving(given, moved, known.points)
    storage[1] = moves.apply_moves(
        known, _memory(given), moved, changes, given.points, leaving, terms, own[RIDGE], own[FORGETTING], storage[1]
    )
    return moved.order, error, changes


@cached_njit
def large_step(given: StepArguments) -> float:
    """Do the same with matrix products."""
    storage, counts, own, outputs = given.storage, given.counts, own_numbers(given.numbers), given.gradients.shape[1]
    capacity, taken, inputs = counts[CAPACITY], len(given.points), given.points.shape[1]
    gram = inner_products(given, given.numbers)
    terms = _terms(given, 5 * capacity + taken * taken)
    order, error, changes, storage[1] = blocked_second_order.move(
        tables(storage, capacity, inputs, outputs),
        information_in(storage, capacity, inputs, outputs),
        counts[ORDER],
        Added(given.points, given.gradients, given.rows, gram),
        given.values,
        terms,
        Numbers(_epsilon(given), own[LIMIT], own[RIDGE], own[FORGETTING]),
        storage[1],
    )
    _count(given, order, changes)
    return error


BY_PRODUCTS = LateFunction(large_step, STEP)


@inline_always
def _epsilon(given: StepArguments) -> float:
    own = own_numbers(given.numbers)
    return compiled_bound_of_step(
        given.tools[BUDGET_BOUND], _budget(own), given.sizes, given.storage[0], int(own[BATCH_SIZE])
    )


@inline_always
def _budget(own: Array) -> Array:
    first = FIRST + int(own[LOSS_NUMBERS])
    return line(own, first, len(own) - first)


@inline_always
def _count(given: StepArguments, order: int, changes: int) -> None:
    """Store the order after a step, and the integers that depend on it."""
    storage, counts, own, late = given.storage, given.counts, own_numbers(given.numbers), given.tools[BLOCKED]
    storage[0] = next_budget_at(given.tools[BUDGET_NEXT])(_budget(own), storage[0], order)
    counts[ORDER], counts[ROOM] = order, counts[CAPACITY] - order
    counts[CHANGES] += changes
    counts[WANTS] = wanted(own, order, counts[CHANGES], late)


@inline_always
def _terms(given: StepArguments, first: int) -> Terms:
    """Return the terms of own samples and of the neighbours' pulls, stored in the scratch from ``first`` on.

    ``given.gradients`` is overwritten with the weights of the first-order step by which KOMP chooses the dictionary.
    """
    own, (count, outputs), taken = own_numbers(given.numbers), given.values.shape, len(given.gradients)
    losses = line(own, FIRST, int(own[LOSS_NUMBERS]))
    asked = Asked(losses, own[CURVATURE], own[OF_WEIGHT_ONE], own[BATCH_SIZE], own[REACH])
    room = moves.terms_room(taken, outputs)
    terms = moves.terms(given, asked, line(given.scratch, first, room), DERIVATIVES)
    if given.tools[OFFERS] != NONE:
        offered = line(given.scratch, first + room, count)
        loss_values_at(given.tools[OFFERS])(asked.loss_numbers, given.values, given.targets, offered)
        moves.withhold(given.gradients, terms.pulls, offered)
    if len(given.taught):
        offer_taught(given.gradients, given.rates, own[CURVATURE], given.taught)
    return terms


@inline_always
def _leaving(given: StepArguments, moved: Moved, points: Array) -> Array:
    """Return the kernel between leaving and all earlier points, (r, before); no rows unless new points enter."""
    leaving = np.empty((0, moved.before))
    if moved.kept < moved.before and moved.kept < moved.order:
        gone, all_before = moves.leaving_points(moved, points), table(points, 0, moved.before, points.shape[1])
        leaving = np.empty((moved.before - moved.kept, moved.before))
        kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), gone, all_before, leaving)
    return leaving


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
    """Fill ``gram`` (N, N): entry (m, n) is the change of f at point m for a weight of 1 at point n."""
    own, order, capacity, outputs = own_numbers(numbers), counts[ORDER], counts[CAPACITY], values.shape[1]
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    factor = tables(storage, capacity, points.shape[1], outputs).factor
    root = information_in(storage, capacity, points.shape[1], outputs).root
    moves.products(root, factor, order, rows, own[RIDGE], own[REACH], gram)


class CompiledNewton(ByProducts):
    """Functions and numbers of the learner for compiled rounds.

    The storage begins with the budget's state and the coordinate whose ridge is renewed next.

    Parameters
    ----------
    learner : Newton
        The learner.
    """

    inner = staticmethod(inner)
    step = staticmethod(step)
    late = BY_PRODUCTS

    def __init__(self, learner: Any) -> None:
        kernel, budget = kernel_form(learner.kernel), budget_form(learner.budget)
        loss = loss_form(learner.loss)
        own = {
            RIDGE: learner.penalty,
            LIMIT: learner.limit,
            UNIT: kernel.unit,
            BATCH_SIZE: learner.batch_size,
            LARGE_BATCH: BLOCKED_FROM_SAMPLES,
            LARGE_ORDER: np.inf if learner.adaptive or learner.of_posterior else BLOCKED_FROM_ORDER,
            FORGETTING: learner.share,
            ADAPTIVE: learner.adaptive,
            CURVATURE: learner.loss.curvature,
            OF_WEIGHT_ONE: learner.of_weight_one,
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
        numbers = np.concatenate([self._own, loss.numbers, budget.numbers])
        super().__init__(learner, numbers, (*tools, BY_PRODUCTS.place))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of the working memory of KOMP, of the step's terms and of the information."""
        outputs = state.function.outputs
        own = points * (points + 3 * outputs + 2)
        return int(5 * capacity + own + moves.room(capacity, points, outputs))


class CompiledPosterior(CompiledNewton):
    """The same with removals by the Hellinger distance between posteriors."""

    step = staticmethod(hellinger_step)


class NewtonState(PolkState):
    """State of the learner: function and information, number of steps, the budget's state, the factor's history."""

    __slots__ = ()
    function: InformedExpansion

    @property
    def cursor(self) -> float:
        """The coordinate whose ridge is renewed next if samples are forgotten; compiled steps use the same number."""
        return float(self.function.storage[1])

    @cursor.setter
    def cursor(self, coordinate: float) -> None:
        self.function.storage[1] = coordinate


@dataclass(frozen=True)
class Newton(CertainDescent, DescentInSpace):
    """Kernel online Newton steps: the regularised least-squares solution on a dictionary chosen by KOMP.

    Let g_n and r_n be the slope and the curvature of the loss at sample n when it arrived. f minimises

        sum_n r_n / 2 ||f(x_n) - (f_n(x_n) - g_n / r_n)||^2 + lambda / 2 ||f||^2

    over the span of the dictionary. For the squared loss the sum is exactly the risk of all samples so far (recursive
    least squares); for other losses it is a quadratic model of the risk (kernel online Newton step, Calandriello,
    Lazaric and Valko 2017). Destructive KOMP chooses the dictionary, as for `polk`: it takes a first-order step and
    removes points while the function changes by less than eps. A loss may exclude samples from that first-order step,
    so that they never enter the dictionary, as squared hinges do (`OfferingLoss`). After a removal, the remaining
    points keep the information of all earlier samples. A new point starts with the information of its projection on
    the others.

    In a network, a pull of weight p at x moves f by ``p / H``, where H is the curvature of the sum above: the Newton
    step on the penalised sum. The move is large where few samples have been seen, and leaves the certainty unchanged.
    Two neighbours divide the gap between them according to their certainties, because the row sums that limit implicit
    steps are uncertainties. Explicit steps follow the kernel, as published.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size of the first-order steps that choose the dictionary, and of explicit couplings. Implicit
        couplings take the fraction eta / max(eta) of their Newton step. "auto" is computed from the data.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature, positive: the weight of ``||f||^2`` in units of samples.
        "auto" is the ratio of noise variance to signal variance, estimated from a sample of the data, at least 0.1;
        for classes a quarter of that ratio, at least 0.005; for squared hinges 0.2.
    forgetting : float or "auto"
        beta, the forgetting factor in (0, 1]; 1 forgets nothing. lambda decays together
        with the samples, and is renewed in a few coordinates after each step, in turn, so that none loses more than a
        quarter of it. "auto" forgets older samples when recent samples predict better than all samples do, by a
        sequential test on the two likelihoods (`adaptive_memory`). "auto" needs the squared loss of numbers, and does
        not use matrix products.
    batch_size : int
        b, the number of samples that a node draws per round.
    compression : {"komp", "hellinger"}
        The distance that eps bounds: the Hilbert norm ("komp"), or the Hellinger distance in [0, 1] between the
        Gaussian posteriors before and after a step's removals ("hellinger"). With "hellinger" each step removes the
        points that change the posterior least, until the sum of the distances would exceed eps (after Koppel, Pradhan
        and Rajawat 2021). It needs the squared loss of numbers and ``budget = {epsilon = e}`` with e in [0, 1), such as
        0.1, or ``target_order``. A step takes O(M^3).
    budget : Budget
        The rule for eps; see `polk`.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    ridge: float | Literal["auto"] = "auto"
    forgetting: float | Literal["auto"] = 1.0
    batch_size: int = 1
    compression: Literal["komp", "hellinger"] = "komp"
    budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})

    def __post_init__(self) -> None:
        check_certain(self)
        if self.of_posterior:
            self._check_posterior()

    def _check_posterior(self) -> None:
        """Refuse losses without a posterior, and budgets that are no Hellinger distances."""
        if self.loss.task != "regression" or not self.loss.quadratic:
            other = 'loss = "squared", or ' if self.loss.task == "regression" else ""
            raise RefusedKey(
                "compression",
                '= "hellinger" compares Gaussian posteriors, which the squared loss of numbers has: '
                f'take {other}compression = "komp"',
            )
        if isinstance(self.budget, PerSample) or not getattr(self.budget, "epsilon", 0.0) < 1.0:
            raise RefusedKey(
                "budget",
                f'= {self.budget!r} is no Hellinger distance, which compression = "hellinger" bounds: '
                "take budget = {epsilon = 0.1}, from 0 to below 1, or {target_order = 50}",
            )

    @property
    def of_posterior(self) -> bool:
        """Whether removals are chosen by the change of the posterior instead of the function's change."""
        return self.compression == "hellinger"

    @property
    def share(self) -> float:
        """beta; 1 if forgetting is "auto"."""
        return 1.0 if self.forgetting == "auto" else float(self.forgetting)

    @property
    def limit(self) -> float:
        """The entry of diag(inv K) above which an element counts as in the span of the others."""
        return math.inf if self.kernel.supremum is None else komp.DEPENDENT / self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> NewtonState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        kind = WindowedExpansion if self.adaptive else InformedExpansion
        return NewtonState(kind(self.kernel, inputs, outputs), begun(self.budget))

    def inner(self, state: NewtonState, at: Evaluated) -> Array:
        """Return, for implicit steps, the change of f at each point for a weight of 1 at each point, (n, n).

        It is called before the budget is resolved from data, and so not by the compiled form.
        """
        function, gram = state.function, kernel_rows(self.kernel, at.points, at.points)
        rows, root, factor = np.require(at.rows, requirements=["C", "W"]), function.root_buffer, function.factor_buffer
        moves.products(root, factor, function.order, rows, self.penalty, self.reach, gram)
        return gram

    step = calling.step

    def compression_budget(self, state: NewtonState) -> float:
        """Return eps of the next step, a distance; 0 if the budget aims at more points than the dictionary has."""
        return bound_at(self.budget, state.function.order, self.eta(state), state.budget)

    def inspect(self, state: NewtonState) -> None:
        """Check the factor's accuracy; recompute the factor if it is inaccurate and the new one is better."""
        state.changes = 0
        state.rebuilds += state.function.inspect()

    def noise(self, state: NewtonState) -> Array:
        return state.function.noise

    def posterior(self, state: NewtonState) -> Posterior | None:
        """Return the posterior of the function; None for losses other than the squared loss."""
        function, scale = state.function, self.loss.curvature
        noise = noise_of(function.noise)
        if not self.gaussian:
            return None
        return Posterior(function, function.root.copy(), function.factor.copy(), self.penalty, scale, noise)

    def snapshot(self, state: NewtonState) -> dict[str, Array]:
        """Return the function with its information, and ``progress``: steps, changes, rebuilds, budget and cursor."""
        progress = np.array([state.steps, state.changes, state.rebuilds, state.budget, state.cursor])
        return {**state.function.snapshot(), "progress": progress}

    def restore(self, state: NewtonState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        steps, changes, rebuilds, state.budget, state.cursor = arrays["progress"].tolist()
        state.steps, state.changes, state.rebuilds = int(steps), int(changes), int(rebuilds)

    @property
    def compiled(self) -> CompiledNewton:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledPosterior(self) if self.of_posterior else CompiledNewton(self)
