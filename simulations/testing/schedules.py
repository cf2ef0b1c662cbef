"""The contract of a schedule: positive step sizes, none above the largest, one at a time or many at once."""

from __future__ import annotations

import math

import numpy as np

from kernelswarm.agents.parts.schedules import Schedule, step_sizes
from kernelswarm.simulations.testing.properties import checked, require, require_equal

STEPS = (*range(50), 1000, 10**6)


def check_schedule(schedule: Schedule) -> None:
    """Check that a schedule keeps its contract, ``agents/parts/schedules.py``.

    Step sizes that are positive numbers, the same whenever they are asked for and none above ``largest``; and those of
    ``over``, where it has that, with the bits of ``at``.

    Parameters
    ----------
    schedule : Schedule
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no schedule, or a word in place of a number.
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
        require_equal(again, etas, schedule, "a step size does not depend on what was asked before")
        for first, steps in ((0, 50), (7, 1), (3, 0)):
            wanted = np.array([schedule.at(step) for step in range(first, first + steps)], dtype=np.float64)
            require_equal(step_sizes(schedule, first, steps), wanted, schedule, "over has the bits of at")
