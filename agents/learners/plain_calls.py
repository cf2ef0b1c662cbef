"""The functions of a learner in plain Python for compiled rounds, each of which calls one of its methods.

Between the two lies one vector of numbers, the *box*, at an address that both know: compiled code puts there what a
method is given, and finds there what it returned. What Python is called with is a few integers, since of each array
that is passed it would make one of its own, which takes longer than to copy the few numbers in it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.agents.arithmetic.abi import ORDER, GradientArguments, StepArguments
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.protocols.compiling import ReadOnly, inline_always, njit_no_refcount
from kernelswarm.protocols.core.memory import numbers_at
from kernelswarm.protocols.first_class import Integers, at

Array = npt.NDArray[np.float64]

_types: Any = types

ASKED = types.void(*[_types.int64] * 6)
"""``asked(node, ...)`` calls a method on a node's state, with the sizes of its arguments in the box."""

asked_at = at(ASKED)

EVALUATED, SUMMED, WEIGHED, STEPPED, GROWN, BOX = range(6)
"""The tools: the methods, and the address of two numbers, the length of the box and its address."""

NODE, LAST = 3, 4
"""A state's further integers: its place, and the number of its last evaluation."""

ERROR, NEW_ORDER, RESULTS = 0, 1, 2
"""The results of a step at the begin of the box."""

EXPLICIT, IMPLICIT, TAUGHT = range(3)
"""The kinds of steps; the last is an implicit one with observations of surer neighbours."""


@inline_always
def box_of(tools: Integers, size: int) -> Array:
    """Return the first numbers of the box, which is made as long as needed."""
    if numbers_at(tools[BOX], 2)[0] < size:
        asked_at(tools[GROWN])(size, 0, 0, 0, 0, 0)
    return numbers_at(int(numbers_at(tools[BOX], 2)[1]), size)


@njit_no_refcount
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Evaluate the function; the rows hold the number of the evaluation, which is kept for the step."""
    (size, inputs), outputs = points.shape, values.shape[1]
    box = box_of(tools, size * (inputs + outputs))
    for k in range(size):
        for c in range(inputs):
            box[k * inputs + c] = points[k, c]
    counts[LAST] += 1
    asked_at(tools[EVALUATED])(counts[NODE], counts[LAST], size, inputs, outputs, 0)
    found = table(box, size * inputs, size, outputs)
    for k in range(size):
        rows[k, 0] = counts[LAST]
        for c in range(outputs):
            values[k, c] = found[k, c]


@njit_no_refcount
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
    """Compute the inner products at points of evaluations."""
    size = len(points)
    box = box_of(tools, size * (1 + size))
    for k in range(size):
        box[k] = rows[k, 0]
    asked_at(tools[SUMMED])(counts[NODE], size, 0, 0, 0, 0)
    found = table(box, size, size, size)
    for k in range(size):
        for m in range(size):
            gram[k, m] = found[k, m]


@njit_no_refcount
def gradient(given: GradientArguments, found: Array) -> None:
    """Compute the gradient at the samples, the first points of the first evaluation."""
    (size, outputs), width = given.values.shape, given.targets.shape[1]
    box = box_of(given.tools, size * (width + outputs))
    for k in range(size):
        for c in range(width):
            box[k * width + c] = given.targets[k, c]
    asked_at(given.tools[WEIGHED])(given.counts[NODE], int(given.rows[0, 0]), size, width, outputs, 0)
    weights = table(box, size * width, size, outputs)
    for k in range(size):
        for c in range(outputs):
            found[k, c] = weights[k, c]


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take the step; returns the compression error, and leaves the order in the state's integers."""
    kind = IMPLICIT if given.implicit else EXPLICIT
    return ask_for_step(given, table(given.scratch, 0, 0, 1), kind)


@njit_no_refcount
def taught_step(given: StepArguments, taught: ReadOnly) -> float:
    """Take the step with observations of surer neighbours, (N, 2 C + 1)."""
    return ask_for_step(given, taught, TAUGHT)


@inline_always
def ask_for_step(given: StepArguments, taught: ReadOnly, kind: int) -> float:
    tools, gradients, targets = given.tools, given.gradients, given.targets
    (taken, outputs), (size, width), (lessons, columns) = gradients.shape, targets.shape, taught.shape
    begin = RESULTS + 1
    box = box_of(tools, begin + taken * (2 + outputs) + size * width + lessons * columns)
    box[RESULTS] = given.sizes[0]
    for k in range(taken):
        box[begin + k] = given.rows[k, 0]
        box[begin + taken + k] = given.stiffness[k]
    weights = table(box, begin + 2 * taken, taken, outputs)
    for k in range(taken):
        for c in range(outputs):
            weights[k, c] = gradients[k, c]
    wanted = line(box, begin + (2 + outputs) * taken, size * width)
    for k in range(size):
        for c in range(width):
            wanted[k * width + c] = targets[k, c]
    taught_rows = line(box, begin + (2 + outputs) * taken + size * width, lessons * columns)
    for k in range(lessons):
        for c in range(columns):
            taught_rows[k * columns + c] = taught[k, c]
    asked_at(tools[STEPPED])(given.counts[NODE], taken, outputs, size, width, kind)
    given.counts[ORDER] = int(box[NEW_ORDER])
    return float(box[ERROR])
