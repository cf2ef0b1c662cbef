"""The contracts of schedules and budgets: positive step sizes, and bounds with an explicit state."""

from __future__ import annotations

import math

import numpy as np

from kernelswarm.agents.arithmetic.abi import BOUND, NEXT_BUDGET
from kernelswarm.agents.parts.budgets import Budget
from kernelswarm.agents.parts.schedules import Schedule, step_sizes
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.simulations.testing.networks import checked, compiled_form, require, require_equal

STEPS = (*range(50), 1000, 10**6)


def check_schedule(schedule: Schedule) -> None:
    """Check that a schedule keeps its contract, ``agents/parts/schedules.py``.

    Step sizes are positive numbers, equal at every call and not above ``largest``. The step sizes of ``over``, if it
    exists, have the bits of ``at``.

    Parameters
    ----------
    schedule : Schedule
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a schedule, or a word is unresolved.
    """
    with checked("schedule", schedule):
        etas = [schedule.at(step) for step in STEPS]
        for step, eta in zip(STEPS, etas, strict=True):
            require(0.0 < eta < math.inf, schedule, f"step sizes are positive numbers; at({step}) is {eta!r}")
            require(
                eta <= schedule.largest,
                schedule,
                f"largest = {schedule.largest!r} is no less than any step size; at({step}) is {eta!r}",
            )
        again = [schedule.at(step) for step in reversed(STEPS)][::-1]
        require_equal(again, etas, schedule, "a step size does not depend on earlier questions")
        for first, steps in ((0, 50), (7, 1), (3, 0)):
            wanted = np.array([schedule.at(step) for step in range(first, first + steps)], dtype=np.float64)
            require_equal(step_sizes(schedule, first, steps), wanted, schedule, "over has the bits of at")


def check_budget(budget: Budget) -> None:
    """Check that a compression budget keeps its contract, ``agents/parts/budgets.py``.

    Bounds are finite and not negative; the state, one number, is passed in and returned, so equal calls have equal
    results; compiled functions give the same bits.

    Parameters
    ----------
    budget : Budget
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a budget.
    """
    with checked("budget", budget):
        for batch_size in (1, 8):
            first = _answers(budget, batch_size)
            require_equal(
                _answers(budget, batch_size),
                first,
                budget,
                "bound and next depend on their arguments alone: what changes goes in and comes out as the state",
            )


def _answers(budget: Budget, batch_size: int) -> list[tuple[float, float]]:
    form = compiled_form(budget, "budget")
    state = budget.start()
    found = []
    for step in range(60):
        eta = 0.7 / (1.0 + step / 9.0)
        order = (step * 7) % 40
        eps, following = budget.bound(eta, state, batch_size), budget.next(state, order)
        require(0.0 <= eps < math.inf, budget, f"bound is a number and not negative; for eta = {eta:.6g} it is {eps!r}")
        require(math.isfinite(following), budget, f"next is a finite number; after order {order} it is {following!r}")
        if form is not None:
            compiled = ready(form.bound, BOUND)(form.numbers, eta, state, batch_size)
            require_equal(compiled, eps, budget, "the compiled bound has the bits of bound")
            compiled = ready(form.next, NEXT_BUDGET)(form.numbers, state, order)
            require_equal(compiled, following, budget, "the compiled next has the bits of next")
        found.append((eps, following))
        state = following
    return found
