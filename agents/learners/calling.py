"""Methods of learners that call the learner's compiled functions, so that each step is implemented once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    GRADIENT,
    LOOK,
    STEP,
    WANTS,
    GradientArguments,
    StepArguments,
    gradient_at,
    step_at,
)
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import joined
from kernelswarm.arrays import Array, Integers
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.addresses import Compiled, address
from kernelswarm.protocols.core.callbacks import array_of, called
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit


@cached_njit
def _step_once(
    place: int,
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: ReadOnly,
    rows: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    sizes: Array,
    values: ReadOnly,
    targets: ReadOnly,
) -> float:
    """Take one step from Python; separate arguments are passed several times faster than one named tuple."""
    lost: float = step_at(place)(
        StepArguments(
            tools,
            numbers,
            storage,
            counts,
            scratch,
            points,
            table(rows, 0, len(rows), rows.shape[1]),
            gradients,
            rates,
            stiffness,
            implicit,
            sizes,
            values,
            targets,
        )
    )
    return lost


@cached_njit
def _gradient_once(
    place: int,
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: ReadOnly,
    rows: ReadOnly,
    values: ReadOnly,
    targets: ReadOnly,
    sizes: Array,
    found: Array,
) -> None:
    """Fill in one gradient from Python, with separate arguments as for a step."""
    given = GradientArguments(tools, numbers, storage, counts, scratch, points, rows, values, targets, sizes)
    gradient_at(place)(given, found)


def _begun(form: Any, state: Any, at: Evaluated) -> tuple[Any, ...]:
    """Return the arguments of gradients and steps up to the kernel rows, which have columns for new points."""
    size, capacity = len(at.points), form.reserve(state, len(at.points))
    points, rows = np.require(at.points, requirements=["C", "W"]), np.empty((size, form.columns(state, capacity)))
    rows[:, : at.rows.shape[1]] = at.rows
    counts, scratch = form.counts(state, capacity, size), np.empty(form.scratch(state, capacity, size))
    return array_of(form.tools), form.numbers(state), form.storage(state), counts, scratch, points, rows


def _is_compiled(function: Compiled) -> bool:
    return hasattr(function, "get_compile_result") or not COMPILES


def gradient(self: Any, state: Any, own: Evaluated, targets: Array) -> Array:
    """Return the coefficients of the samples, (n, C)."""
    form, found = self.functions, np.empty(own.values.shape)
    sizes, targets = form.step_sizes(state.steps, 1)[0], np.require(targets, requirements=["C", "W"])
    given = *_begun(form, state, own), np.require(own.values, requirements=["C", "W"]), targets, sizes
    if _is_compiled(form.gradient):
        called(_gradient_once, address(form.gradient, GRADIENT), *given, found)
    else:
        form.gradient(GradientArguments(*given), found)
    return found


def step(
    self: Any,
    state: Any,
    evaluations: Sequence[Evaluated],
    gradients: Sequence[Array],
    curvatures: Sequence[float] | None,
    targets: Array,
    eta: float | None = None,
) -> Info:
    """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``."""
    form, at = self.functions, together(evaluations)
    sizes = form.step_sizes(state.steps, 1)[0]
    if eta is not None:
        sizes[0] = eta
    before, weighing = _begun(form, state, at), (*joined(sizes[0], gradients, curvatures), curvatures is not None)
    samples = (np.require(each, requirements=["C", "W"]) for each in (at.values[: len(targets)], targets))
    given, counts = (*before, *weighing, sizes, *samples), before[3]
    if _is_compiled(form.step):
        lost = called(_step_once, address(form.step, STEP), *given)
    else:
        lost = form.step(StepArguments(*given))
    form.sync(state, counts, 1)
    if counts[WANTS] == LOOK:
        form.maintain(state)
    return Info(lost, float(sizes[0]))
