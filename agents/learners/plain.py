"""Adapter by which compiled rounds call the methods of a learner in plain Python, or with a part in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING, ORDER, GradientArguments, StepArguments
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.contract import Evaluated, Learner, parted_at, together
from kernelswarm.agents.parts.plain_parts import fill
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import address, at, numbers_at
from kernelswarm.protocols.core.compiling import inline_always, njit_no_refcount

# Compiled functions of a learner in plain Python; each calls one of its methods.
#
# Arguments and results are exchanged in one vector of numbers, the *box*, at an address known to both sides: compiled
# code writes the arguments of a method there, and reads its results there. The Python function itself receives only a
# few integers. An array argument would be wrapped in a new Python array in each call, which takes longer than copying
# its few numbers.


_types: Any = types

ASKED = types.void(*[_types.int64] * 6)
"""``asked(node, ...)`` calls a method on a node's state; the integers are the sizes of the arguments in the box."""

asked_at = at(ASKED)

EVALUATED, SUMMED, WEIGHED, STEPPED, GROWN, BOX = range(6)
"""Indices among the tools: the methods, and the address of two numbers, the length and the address of the box."""

NODE, LAST = 3, 4
"""Indices of a state's further integers: its index among the nodes, and the number of its last evaluation."""

ERROR, NEW_ORDER, RESULTS = 0, 1, 2
"""Indices of a step's results at the beginning of the box."""

EXPLICIT, IMPLICIT, TAUGHT = range(3)
"""The kinds of steps; the last is an implicit step with observations taught by more certain neighbours."""


@inline_always
def box_of(tools: Integers, size: int) -> Array:
    """Return the first ``size`` numbers of the box, which is enlarged if needed."""
    if numbers_at(tools[BOX], 2)[0] < size:
        asked_at(tools[GROWN])(size, 0, 0, 0, 0, 0)
    return numbers_at(int(numbers_at(tools[BOX], 2)[1]), size)


@njit_no_refcount
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Evaluate the function; ``rows`` receives the number of the evaluation, which is kept for the step."""
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
    """Compute the inner products between the points of evaluations."""
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
    """Take the step; returns the compression error, and writes the new order to the state's integers."""
    taught = given.taught
    kind = TAUGHT if len(taught) else IMPLICIT if given.implicit else EXPLICIT
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


FIRST_LENGTH = 256
"""The initial length of the box."""


class Asked:
    """A node's state, with its evaluations between steps."""

    __slots__ = ("evaluated", "order", "place", "sizes", "state", "steps", "steps_at", "summed")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.evaluated: dict[int, Evaluated] = {}  # since its last step, by number
        self.steps = True
        """Whether the node takes steps; evaluations are kept only in that case."""
        self.place = -1  # among the nodes
        self.order = 0
        self.summed = True
        """Whether inner products were used since the last step; if so, the order is needed before the next step."""
        self.sizes = np.zeros((1, 1))  # of the next steps
        self.steps_at = 0  # index of the next step among them


class PlainLearner:
    """A learner's methods as functions for compiled rounds.

    States remain Python objects. An evaluation is kept until the step that uses it, so that no function is evaluated
    twice; ``rows`` holds the evaluation's number instead of kernel rows.

    Parameters
    ----------
    learner : Learner
        Any learner.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    gradient = staticmethod(gradient)
    step = staticmethod(step)

    def __init__(self, learner: Learner) -> None:
        self._learner, self._name = learner, type(learner).__name__
        self._nodes: list[Asked] = []
        self._places: dict[int, int] = {}  # indices among the nodes, by the address of the state's storage
        self._known: dict[int, Asked] = {}  # by the identity of the state
        self._head, self._box = np.zeros(2), np.zeros(0)
        self._parts: dict[tuple[int, ...], list[Array]] = {}
        self._grow(FIRST_LENGTH)
        asked: Sequence[Callable[..., None]] = (self._evaluate, self._inner, self._gradient, self._step, self._grow)
        self.tools = (*(address(each, ASKED) for each in asked), int(self._head.ctypes.data))

    def follow(self, state: Any, sizes: Array, steps: bool = True) -> None:
        """Use an array for the sizes of the next steps, (steps, k); each size is filled in after the previous step.

        ``steps`` is False if no steps follow.
        """
        node = self._of(state)
        node.sizes, node.steps_at, node.steps = sizes, 0, steps
        if not steps:
            node.evaluated.clear()
        sizes[0, 0] = self._learner.eta(state)

    def numbers(self, state: Any) -> Array:
        return np.zeros(0)

    def columns(self, state: Any, capacity: int) -> int:
        return 1

    def length(self, state: Any, capacity: int) -> int:
        """Return 1: the state is a Python object."""
        return 1

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of the Gram matrix of a step's points."""
        return points * points

    def steps(self, state: Any) -> int:
        """Return 0, because the learner counts its steps itself."""
        return 0

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return an array for step sizes, to be filled in by :meth:`follow` and the steps."""
        return np.zeros((steps, 1))

    def order(self, state: Any) -> int:
        return int(self._learner.function(state).order)

    def reserve(self, state: Any, points: int) -> int:
        """Do nothing; returns 0."""
        return 0

    def storage(self, state: Any) -> Array:
        return np.zeros(1)

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        """Register a state in place of its node's former state."""
        node = self._of(state)
        node.place = self._places.setdefault(storage.ctypes.data, len(self._nodes))
        if node.place == len(self._nodes):
            self._nodes.append(node)
        elif self._nodes[node.place] is not node:
            former, self._nodes[node.place] = self._nodes[node.place], node
            if former.place == node.place:  # the node has restarted with another state
                del self._known[id(former.state)]

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers: unlimited room, no maintenance, order, node index, last evaluation."""
        node = self._of(state)
        node.order = self.order(state)
        return np.array([ALWAYS, NOTHING, node.order, node.place, max(node.evaluated, default=0)], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        """Do nothing, because states are already up to date."""

    def maintain(self, state: Any) -> None:
        """Do nothing."""

    def _of(self, state: Any) -> Asked:
        node = self._known.get(id(state))
        if node is None:
            node = self._known[id(state)] = Asked(state)
        return node

    def _grow(self, size: int, *rest: int) -> None:
        self._box = np.zeros(max(size, 2 * len(self._box)))
        self._head[:] = len(self._box), self._box.ctypes.data
        self._parts.clear()

    def _parts_of(self, *shapes: int) -> list[Array]:
        """Return consecutive parts of the box; ``shapes`` are the rows and columns of each part in turn."""
        found = self._parts.get(shapes)
        if found is None:
            found, begin = [], 0
            for rows, columns in zip(shapes[::2], shapes[1::2], strict=True):
                found.append(self._box[begin : begin + rows * columns].reshape(rows, columns))
                begin += rows * columns
            self._parts[shapes] = found
        return found

    def _evaluate(self, place: int, number: int, size: int, inputs: int, outputs: int, *rest: int) -> None:
        points, values = self._parts_of(size, inputs, size, outputs)
        node = self._nodes[place]
        found = self._learner.evaluate(node.state, points.copy())
        fill(values, found.values, f"{self._name}.evaluate")
        if node.steps:
            node.evaluated[number] = found

    def _inner(self, place: int, size: int, *rest: int) -> None:
        numbers, gram = self._parts_of(size, 1, size, size)
        node, begin = self._nodes[place], 0
        sets: list[Evaluated] = []
        while begin < size:
            sets.append(node.evaluated[int(numbers[begin, 0])])
            begin += len(sets[-1].points)
        node.summed = True
        fill(gram, self._learner.inner(node.state, together(sets)), f"{self._name}.inner")

    def _gradient(self, place: int, number: int, size: int, width: int, outputs: int, *rest: int) -> None:
        targets, gradient = self._parts_of(size, width, size, outputs)
        node = self._nodes[place]
        samples, _replayed = parted_at(node.evaluated[number], size)
        fill(gradient, self._learner.gradient(node.state, samples, targets.copy()), f"{self._name}.gradient")

    def _step(self, place: int, taken: int, outputs: int, size: int, width: int, kind: int) -> None:
        lessons = (taken, 2 * outputs + 1) if kind == TAUGHT else ()
        results, numbers, stiffness, weights, targets, *taught = self._parts_of(
            1, RESULTS + 1, taken, 1, taken, 1, taken, outputs, size, width, *lessons
        )
        node, learner, begin = self._nodes[place], self._learner, 0
        evaluations: list[Evaluated] = []
        gradients: list[Array] = []
        curvatures: list[float] = []
        while begin < taken:
            whole = node.evaluated[int(numbers[begin, 0])]
            for part in parted_at(whole, size) if size and not begin else (whole,):
                if part is not None:
                    count = len(part.points)
                    evaluations.append(part)
                    gradients.append(weights[begin : begin + count].copy())
                    curvatures.append(float(stiffness[begin, 0]))
                    begin += count
        info = learner.step(
            node.state,
            evaluations,
            gradients,
            None if kind == EXPLICIT else curvatures,
            targets.copy(),
            float(results[0, RESULTS]),
            *(each.copy() for each in taught),
        )
        node.evaluated.clear()
        if node.summed:
            node.order, node.summed = int(learner.function(node.state).order), False
        results[0, ERROR], results[0, NEW_ORDER] = info.compression_error, node.order
        node.steps_at += 1
        node.sizes[node.steps_at, 0] = learner.eta(node.state)
