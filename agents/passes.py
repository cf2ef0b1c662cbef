"""One pass of a learner over samples: in compiled code from end to end where its parts allow, step by step elsewhere.

With small dictionaries a step costs less than the calls it is made of. The compiled pass calls the very functions that
the single steps call, in the same order, so that both give the same bits.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from kernelswarm.agents import kernel_formulas, komp, loss_formulas
from kernelswarm.agents.budgets import (
    Budget,
    Epsilon,
    Parsimony,
    PerSample,
    Proportional,
    Quadratic,
    TargetOrder,
    adapted,
)
from kernelswarm.agents.descent import share
from kernelswarm.agents.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES
from kernelswarm.agents.learner import Learner
from kernelswarm.agents.polk import Polk, PolkState, inspection_due
from kernelswarm.agents.schedules import Constant, Horizon, Schedule

Array = npt.NDArray[np.float64]

DIVERGED = 1e100
"""A squared gradient of this size means that the function grows without bound; every loss is then far from its data."""

BUDGETS = {Epsilon, Parsimony, PerSample, Quadratic, Proportional, TargetOrder}
"""The budgets of which a whole pass is known beforehand, or follows a compiled rule."""

DONE, NO_ROOM, INSPECTION, LARGE, GRADIENT = range(5)


def learn(learner: Learner, state: Any, points: Array, targets: Array) -> None:
    """Learn from samples in their order, ``batch_size`` at a time, as single steps without a coupling would.

    Parameters
    ----------
    learner : Learner
        Any local learner.
    state : object
        Its state, advanced in place.
    points, targets : Array
        The samples, (n, p) and (n, q), numbers of any kind; the last mini-batch may be smaller, and its step is as much
        smaller.

    Raises
    ------
    ValueError
        When the samples are not as many points as targets, in two dimensions each.
    FloatingPointError
        When the gradient grows without bound; the state is that before the step.
    """
    points, targets = _plain("points", points), _plain("targets", targets)
    if len(points) != len(targets):
        raise ValueError(f"there are {len(points)} points and {len(targets)} targets: each sample has one of both")
    compiled = type(learner) is Polk and obstacle(learner) is None
    done = 0
    while done < len(points):
        if compiled:
            done += _compiled_steps(learner, state, points[done:], targets[done:])
        batch = slice(done, done + learner.batch_size)
        if done < len(points):
            own = learner.evaluate(state, points[batch])
            gradient = learner.gradient(state, own, targets[batch])
            if not np.vdot(gradient, gradient) < DIVERGED:
                raise FloatingPointError(f"the gradient grows without bound after {state.steps} steps")
            part = share(len(own.points), learner.batch_size)
            learner.step(state, [own], [gradient if part == 1.0 else gradient * part], None)
            done += learner.batch_size


def _plain(name: str, values: Array) -> Array:
    # Read-only arrays, other strides and other kinds of numbers would each make numba compile another version.
    plain: Array = np.require(values, np.float64, ["C", "W", "A"])
    if plain.ndim != 2:
        raise ValueError(f"{name} have {plain.ndim} dimensions and must have 2: one row for each sample")
    return plain


def obstacle(learner: Polk) -> str | None:
    """Say which part keeps a learner out of compiled steps; None where none does."""
    for part in (learner.kernel, learner.loss):
        if "formula" not in type(part).__dict__:  # a subclass may compute something else
            return f"the {'kernel' if part is learner.kernel else 'loss'} {type(part).__name__}"
    if type(learner.budget) not in BUDGETS:
        return f"the budget {type(learner.budget).__name__}"
    return None


def _compiled_steps(learner: Any, state: PolkState, points: Array, targets: Array) -> int:
    """Take compiled steps until one needs more than they can do; return the number of samples used."""
    size, function, budget = learner.batch_size, state.function, learner.budget
    steps = -(-len(points) // size)
    rates = step_sizes(learner.step_size, state.steps, steps)
    adaptive = type(budget) is TargetOrder
    rule = (0.0, 0.0, 0.0, 0.0)
    if adaptive:
        rule = (float(budget.target_order), float(budget.gain), float(budget.smallest), float(budget.largest))
    limits = bounds(budget, state.budget, rates, size)
    taken = 0
    reason = NO_ROOM
    while taken < steps and reason in (NO_ROOM, INSPECTION):
        if reason == INSPECTION:
            learner.inspect(state)
        function.reserve(min(size, len(points) - taken * size))
        before = taken
        taken, function.order, state.budget, state.changes, reason = _steps(
            function.points_buffer,
            function.weights_buffer,
            function.factor_buffer,
            function.precision_buffer,
            function.order,
            points,
            targets,
            size,
            taken,
            learner.kernel.formula,
            learner.loss.formula,
            learner.regularization,
            rates,
            limits,
            adaptive,
            state.budget,
            rule,
            state.changes,
        )
        state.steps += taken - before
    if reason == INSPECTION:
        learner.inspect(state)
    used: int = min(taken * size, len(points))
    return used


def step_sizes(schedule: Schedule, first: int, steps: int) -> Array:
    """Return the step sizes of some steps to come, (steps,)."""
    if type(schedule) in (Constant, Horizon):
        return np.full(steps, schedule.at(first))
    return np.array([schedule.at(step) for step in range(first, first + steps)])


def bounds(budget: Budget, state: float, rates: Array, size: int) -> Array:
    """Return eps for each of the step sizes on ``size`` samples; for the adaptive budget the step sizes themselves."""
    if type(budget) is TargetOrder:
        return rates
    if len(rates) and (rates == rates[0]).all():
        return np.full(len(rates), budget.bound(float(rates[0]), state, size))
    return np.array([budget.bound(rate, state, size) for rate in rates.tolist()])


@numba.njit(cache=True)
def _steps(
    dictionary: Array,
    weights: Array,
    factor: Array,
    precision: Array,
    order: int,
    points: Array,
    targets: Array,
    size: int,
    taken: int,
    kernel: tuple[int, Array],
    loss: tuple[int, float],
    regularization: float,
    rates: Array,
    bounds: Array,
    adaptive: bool,
    alpha: float,
    rule: tuple[float, float, float, float],
    changes: int,
) -> tuple[int, int, float, int, int]:
    capacity = len(dictionary)
    number, numbers = kernel
    loss_number, threshold = loss
    limit = np.inf if number == kernel_formulas.POLYNOMIAL else komp.DEPENDENT
    scratch = np.empty((5, capacity))
    outputs = weights.shape[1]
    all_rows = np.empty((size, capacity))
    all_values = np.empty((size, outputs))
    all_gradients = np.empty((size, outputs))
    whole_gram = np.empty((size, size))
    while taken < len(rates):
        start = taken * size
        batch = points[start : start + size]
        if order + len(batch) > capacity:
            return taken, order, alpha, changes, NO_ROOM
        if len(batch) >= BLOCKED_FROM_SAMPLES and order >= BLOCKED_FROM_ORDER:
            return taken, order, alpha, changes, LARGE
        rate = rates[taken]
        count = len(batch)
        rows = all_rows[:count]
        kernel_formulas.cross(number, numbers, batch, dictionary[:order], rows)
        values, gradients = all_values[:count], all_gradients[:count]
        komp.combine(rows, weights, order, values)
        loss_formulas.differentiate(loss_number, threshold, values, targets[start : start + size], gradients)
        squared = 0.0
        for n in range(count):
            for c in range(outputs):
                squared += gradients[n, c] * gradients[n, c]
                if count < size:
                    gradients[n, c] *= count / size
                gradients[n, c] *= -rate / count
        if not squared < DIVERGED:
            return taken, order, alpha, changes, GRADIENT
        gram = whole_gram if count == size else np.empty((count, count))
        kernel_formulas.among(number, numbers, batch, gram)
        order, _, changed = komp.project_in(
            scratch,
            dictionary,
            weights,
            factor,
            precision,
            order,
            batch,
            gradients,
            rows,
            gram,
            1.0 - rate * regularization,
            alpha * rate if adaptive else bounds[taken],
            limit,
        )
        taken += 1
        changes += changed
        if adaptive:
            alpha = adapted(alpha, order, rule[0], rule[1], rule[2], rule[3])
        if changes >= inspection_due(order):
            return taken, order, alpha, changes, INSPECTION
    return taken, order, alpha, changes, DONE
