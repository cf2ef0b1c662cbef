"""Methods of learners that call the learner's compiled functions, so that each step is implemented once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    GRADIENT,
    INNER,
    LOOK,
    STEP,
    WANTS,
    GradientArguments,
    StepArguments,
    gradient_at,
    inner_at,
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

NO_LESSONS = np.zeros((0, 1))
"""The observations of a step if more certain neighbours taught none: no rows."""


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
    taught: ReadOnly,
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
            taught,
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


_last: tuple[Any, Any] = None, None
"""The learner that was called last, and its compiled functions."""


def _functions_of(learner: Any) -> Any:
    """Return the learner's compiled functions and numbers; making them takes as long as a step."""
    global _last
    known, form = _last
    if known is not learner:
        _last = learner, form = learner, learner.functions
    return form


def _contiguous(array: Array) -> Array:
    """Return an array that compiled code takes as it is: of floats, contiguous, and writable."""
    found = np.asarray(array, dtype=np.float64)
    return found if found.flags.carray else found.copy()


@cached_njit
def _inner_once(
    place: int,
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: ReadOnly,
    rows: ReadOnly,
    values: ReadOnly,
    gram: Array,
) -> None:
    """Fill in the inner products of points from Python, with separate arguments as for a step."""
    inner_at(place)(tools, numbers, storage, counts, points, rows, values, gram)


def _begun(form: Any, state: Any, at: Evaluated) -> tuple[Any, ...]:
    """Return the arguments of gradients and steps up to the kernel rows, which have columns for new points."""
    size, capacity = len(at.points), form.reserve(state, len(at.points))
    points, rows = _contiguous(at.points), np.empty((size, form.columns(state, capacity)))
    rows[:, : at.rows.shape[1]] = at.rows
    counts, scratch = form.counts(state, capacity, size), np.empty(form.scratch(state, capacity, size))
    return array_of(form.tools), form.numbers(state), form.storage(state), counts, scratch, points, rows


def _is_compiled(function: Compiled) -> bool:
    return hasattr(function, "get_compile_result") or not COMPILES


def gradient(self: Any, state: Any, own: Evaluated, targets: Array) -> Array:
    """Return the coefficients of the samples, (n, C)."""
    form, found = _functions_of(self), np.empty(own.values.shape)
    sizes = form.step_sizes(state.steps, 1)[0]
    given = *_begun(form, state, own), _contiguous(own.values), _contiguous(targets), sizes
    if _is_compiled(form.gradient):
        called(_gradient_once, address(form.gradient, GRADIENT), *given, found)
    else:
        form.gradient(GradientArguments(*given), found)
    return found


def inner(self: Any, state: Any, at: Evaluated) -> Array:
    """Return, for implicit steps, the change of f at each point for a weight of 1 at each point, (n, n)."""
    form, gram = _functions_of(self), np.empty((len(at.points), len(at.points)))
    tools, numbers, storage, counts, _, points, rows = _begun(form, state, at)
    called(
        _inner_once,
        address(form.inner, INNER),
        tools,
        numbers,
        storage,
        counts,
        points,
        rows,
        _contiguous(at.values),
        gram,
    )
    return gram


def step(
    self: Any,
    state: Any,
    evaluations: Sequence[Evaluated],
    gradients: Sequence[Array],
    curvatures: Sequence[float] | None,
    targets: Array,
    eta: float | None = None,
    taught: Array = NO_LESSONS,
) -> Info:
    """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``, and add ``taught`` observations."""
    form, at = _functions_of(self), together(evaluations)
    sizes = form.step_sizes(state.steps, 1)[0]
    if eta is not None:
        sizes[0] = eta
    before, weighing = _begun(form, state, at), (*joined(sizes[0], gradients, curvatures), curvatures is not None)
    samples = map(_contiguous, (at.values[: len(targets)], targets, taught))
    given, counts = (*before, *weighing, sizes, *samples), before[3]
    if _is_compiled(form.step):
        lost = called(_step_once, address(form.step, STEP), *given)
    else:
        lost = form.step(StepArguments(*given))
    form.sync(state, counts, 1)
    if counts[WANTS] == LOOK:
        form.maintain(state)
    return Info(lost, float(sizes[0]))
