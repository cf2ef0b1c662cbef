"""A pass of a learner over samples, in compiled code if its parts are compiled, otherwise step by step.

With small dictionaries a step costs less than its function calls. The compiled pass calls the same functions in the
same order as single steps, so both give the same bits.
"""

from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    LOOK,
    NOTHING,
    ROOM,
    WANTS,
    CompiledLearner,
    GradientArguments,
    StepArguments,
    evaluate_at,
    gradient_at,
    loss_derivatives_at,
    step_at,
)
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.nodes.arrays import EVALUATE, GRADIENT, LOSS_DERIVATIVES, STEP
from kernelswarm.agents.nodes.filling import addresses_of
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.core.addresses import NONE
from kernelswarm.protocols.core.callbacks import array_of, called
from kernelswarm.protocols.core.compiling import njit_no_refcount

LONG_LOOPS = True

DIVERGED = 1e300
"""The squared gradient at which a function is considered to grow without bound: targets are at most 1e100."""

DONE, PAUSED, GRADIENT_GROWS = range(3)
"""Reasons for the end of steps. PAUSED: the state needs maintenance or room."""


def learn(learner: Learner, state: Any, points: Array, targets: Array) -> Array:
    """Learn from samples in order, in batches of ``batch_size``, like single steps without a coupling.

    Parameters
    ----------
    learner : Learner
        Any local learner.
    state : object
        The learner's state, updated in place.
    points, targets : Array
        The samples, (n, p) and (n, q), of any numeric type; the last mini-batch may be smaller, with a proportionally
        smaller step.

    Returns
    -------
    values : Array
        f at each sample before its step, (n, C).

    Raises
    ------
    ValueError
        The numbers of points and targets differ, or one of them is not two-dimensional.
    FloatingPointError
        The gradient grows without bound; the state remains as before the step.
    """
    return Pass(learner).learn(state, points, targets)


class LookedUp(NamedTuple):
    """A learner's compiled form, the addresses called by its steps, and its loss's numbers."""

    form: CompiledLearner
    functions: Integers
    tools: Integers
    loss_numbers: Array


class Pass:
    """The arguments of a learner's passes that do not depend on the samples.

    Parameters
    ----------
    learner : Learner
        Any local learner.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def __reduce__(self) -> tuple[type[Self], tuple[Learner]]:
        """Return the components of a copy, without addresses of functions, which are invalid in other processes."""
        return type(self), (self.learner,)

    @cached_property
    def _looked_up(self) -> LookedUp | None:
        """The arguments of compiled steps, or None if a part has no compiled functions."""
        learner = self.learner
        if obstacle(learner) is not None:
            return None
        form, loss = handed_over(learner, "learner"), loss_form(learner.loss)
        return LookedUp(form, array_of(addresses_of(form, loss)), array_of(form.tools), loss.numbers)

    def learn(self, state: Any, points: Array, targets: Array) -> Array:
        """Learn from samples in order and return f at each sample before its step, like :func:`learn`."""
        learner, points, targets = self.learner, _plain("points", points), _plain("targets", targets)
        if len(points) != len(targets):
            raise ValueError(f"there are {len(points)} points and {len(targets)} targets: each sample has one of both")
        found, done = self._looked_up, 0
        values = np.empty((len(points), (learner.function(state) if found is None else state.function).outputs))
        while done < len(points):
            if found is not None:
                done += self._compiled_steps(found, state, points[done:], targets[done:], values[done:])
            batch = slice(done, done + learner.batch_size)
            if done < len(points):
                own = learner.evaluate(state, points[batch])
                values[batch] = own.values
                gradient = learner.gradient(state, own, targets[batch])
                if not np.vdot(gradient, gradient) < DIVERGED:
                    raise FloatingPointError(f"the gradient grows without bound after {state.steps} steps")
                part = share(len(own.points), learner.batch_size)
                learner.step(state, [own], [gradient if part == 1.0 else gradient * part], None, targets[batch])
                done += learner.batch_size
        return values

    def _compiled_steps(self, found: LookedUp, state: Any, points: Array, targets: Array, values: Array) -> int:
        """Take compiled steps until one needs room or maintenance, and fill in ``values`` for them.

        Returns the number of samples used.
        """
        form, size = found.form, self.learner.batch_size
        steps = -(-len(points) // size)
        rates, numbers = None, form.numbers(state)
        taken = 0
        while True:
            most = min(size, len(points) - taken * size)
            capacity = form.reserve(state, most)
            storage, counts = form.storage(state), form.counts(state, capacity, most)
            if rates is None:
                rates = form.step_sizes(form.steps(state), steps)
            scratch = np.empty(form.scratch(state, capacity, size))
            before = taken
            taken, reason = called(
                _steps,
                found.functions,
                found.tools,
                numbers,
                found.loss_numbers,
                storage,
                counts,
                scratch,
                points,
                targets,
                size,
                taken,
                rates,
                np.empty((size, form.columns(state, capacity))),
                values,
                np.empty((size, state.function.outputs)),
                np.zeros((2, size)),
            )
            form.sync(state, counts, taken - before)
            if counts[WANTS] == LOOK:
                form.maintain(state)
            if reason != PAUSED or taken == steps or (taken == before and counts[WANTS] != LOOK):
                return int(min(taken * size, len(points)))


def _plain(name: str, values: Array) -> Array:
    # For read-only arrays, other strides or other number types, numba would compile further versions.
    plain: Array = values
    if not (type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray):
        plain = np.require(values, np.float64, ["C", "W", "A"])
    if plain.ndim != 2:
        raise ValueError(f"{name} have {plain.ndim} dimensions and must have 2: one row for each sample")
    return plain


def obstacle(learner: Learner) -> str | None:
    """Return the part that prevents compiled steps of a learner, or None."""
    try:
        handed_over(learner, "learner")
    except NotCompiledError as cause:
        return str(cause)
    return None


# Python calls it for each single sample: unpacking named tuples there would cost 5 of 19 microseconds.
@njit_no_refcount
def _steps(
    functions: Integers,
    tools: Integers,
    numbers: Array,
    loss_numbers: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    targets: Array,
    size: int,
    taken: int,
    step_sizes: Array,  # (steps, k)
    all_rows: Array,  # (b, R)
    all_values: Array,  # (n, C), f at each sample before its step
    all_gradients: Array,  # (b, C)
    weighting: Array,  # (2, b), the second row 0
) -> tuple[int, int]:
    outputs, inputs, width, columns = all_values.shape[1], points.shape[1], targets.shape[1], all_rows.shape[1]
    kinds = step_sizes.shape[1]
    evaluate, step = evaluate_at(functions[EVALUATE]), step_at(functions[STEP])
    while taken < len(step_sizes):
        start = taken * size
        count = min(size, len(points) - start)
        batch, wanted = table(points, start * inputs, count, inputs), table(targets, start * width, count, width)
        if counts[WANTS] != NOTHING or counts[ROOM] < count:
            return taken, PAUSED
        sizes, rows = line(step_sizes, taken * kinds, kinds), table(all_rows, 0, count, columns)
        values, gradients = table(all_values, start * outputs, count, outputs), table(all_gradients, 0, count, outputs)
        rates, stiffness = line(weighting, 0, count), line(weighting, size, count)
        evaluate(tools, numbers, storage, counts, batch, rows, values)
        if functions[GRADIENT] == NONE:
            loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, values, wanted, gradients)
        else:
            given = GradientArguments(tools, numbers, storage, counts, scratch, batch, rows, values, wanted, sizes)
            gradient_at(functions[GRADIENT])(given, gradients)
        squared = 0.0
        for n in range(count):
            for c in range(outputs):
                squared += gradients[n, c] * gradients[n, c]
                if count < size:
                    gradients[n, c] *= count / size
            rates[n] = sizes[0] / count
        if not squared < DIVERGED:
            return taken, GRADIENT_GROWS
        step(
            StepArguments(
                tools,
                numbers,
                storage,
                counts,
                scratch,
                batch,
                rows,
                gradients,
                rates,
                stiffness,
                False,
                sizes,
                values,
                wanted,
                table(scratch, 0, 0, 1),  # nobody teaches
            )
        )
        taken += 1
    return taken, DONE
