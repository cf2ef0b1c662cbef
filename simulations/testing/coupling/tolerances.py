"""The contract of a tolerance: one number for each directed edge, not negative, and still unless it says it adapts."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelswarm.protocols.compiled import NEXT_TOLERANCES
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.first_class import ready
from kernelswarm.protocols.tolerances import Tolerance, ToleranceState
from kernelswarm.simulations.testing.properties import (
    checked,
    compiled_form,
    require,
    require_equal,
    require_shape,
    sealed,
)


def neighborhood(batch_size: int = 3, outputs: int = 1) -> Neighborhood:
    """Return the facts about the links of a node with three neighbours, complete."""
    return Neighborhood(
        node=0,
        neighbors=(1, 4, 7),
        distances=sealed(np.array([0.1, 0.5, 0.2])),
        differences=sealed(np.array([0.3, 0.0, 1.2])),
        curvature=2.0,
        batch_size=batch_size,
        degrees=(1, 2, 3),
        edges=({}, {"weight": 2.0}, {}),
        batch_sizes=(batch_size,) * 3,
        outputs=outputs,
    )


def check_tolerance(tolerance: Tolerance) -> None:
    """Check that a tolerance keeps its contract, ``protocols/tolerances.py``.

    Tolerances of shape (deg,) that are finite and not negative; a state that ``next`` does not change in place,
    returns unchanged where it does not ``adapt``, and computes from its arguments alone; and the same
    bits from its compiled functions.

    Parameters
    ----------
    tolerance : Tolerance
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no tolerance.
    """
    with checked("tolerance", tolerance):
        for curvature in (2.0, 0.0):
            first = _ran(tolerance, curvature)
            sentence = (
                "the same excess losses give the same tolerances: what changes goes in and comes out as the state"
            )
            require_equal(_ran(tolerance, curvature), first, tolerance, sentence)


def _ran(tolerance: Tolerance, curvature: float) -> list[Any]:
    generator = np.random.default_rng(0)
    state = tolerance.init(neighborhood())
    form = compiled_form(tolerance, "tolerance") if tolerance.adapts else None
    found: list[Any] = []
    for round in range(1, 30):
        require_shape(state.values, (3,), tolerance, "the state's values")
        require(
            bool(np.all((state.values >= 0.0) & np.isfinite(state.values))),
            tolerance,
            f"tolerances are finite and not negative; before round {round} they are {state.values.tolist()}",
        )
        before = ToleranceState(state.values.copy(), state.averages.copy())
        excess_loss = generator.normal(0.2, 1.0, 3)
        if round % 3 == 0:
            excess_loss[1] = np.nan
        following = tolerance.next(state, sealed(excess_loss), curvature, round)
        if round % 3 == 0:
            sentence = "the tolerance of an edge whose excess is NaN, without a message, stays as it is"
            require_equal(following.values[1], state.values[1], tolerance, sentence)
        require_equal(tuple(state), tuple(before), tolerance, "next leaves the state it is given as it is")
        if not tolerance.adapts:
            require_equal(tuple(following), tuple(before), tolerance, "a tolerance that does not adapt never changes")
        if form is not None:
            values, averages = before.values.copy(), before.averages.copy()
            ready(form.next, NEXT_TOLERANCES)(form.numbers, sealed(excess_loss), curvature, round, values, averages)
            require_equal((values, averages), tuple(following), tolerance, "the compiled next has the bits of next")
        state = following
        found.append(tuple(np.array(array) for array in state))
    return found
