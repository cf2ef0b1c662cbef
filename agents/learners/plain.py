"""A learner in plain Python, or with such a part, for compiled rounds, which call its methods."""

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
from kernelswarm.protocols.core.compiling import ReadOnly, inline_always, njit_no_refcount

# The functions of a learner in plain Python for compiled rounds, each of which calls one of its methods.
#
# Between the two lies one vector of numbers, the *box*, at an address that both know: compiled code puts there what a
# method is given, and finds there what it returned. What Python is called with is a few integers, since of each array
# that is passed it would make one of its own, which takes longer than to copy the few numbers in it.


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


FIRST_LENGTH = 256
"""The length of the box at first."""


class Asked:
    """A node's state, with its evaluations between steps."""

    __slots__ = ("evaluated", "order", "place", "sizes", "state", "steps", "steps_at", "summed")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.evaluated: dict[int, Evaluated] = {}  # since its last step, by number
        self.steps = True
        """Whether it takes steps; only then evaluations are kept."""
        self.place = -1  # among the nodes
        self.order = 0
        self.summed = True
        """Whether inner products were used since the last step: then the order is needed before the next."""
        self.sizes = np.zeros((1, 1))  # of the steps to come
        self.steps_at = 0  # among them


class PlainLearner:
    """A learner's methods as functions for compiled rounds.

    States stay the objects that they are. An evaluation is kept until the step that takes it, so that nothing is
    evaluated twice: rows hold its number in place of the evaluation there.

    Parameters
    ----------
    learner : Learner
        Any learner.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    gradient = staticmethod(gradient)
    step = staticmethod(step)
    taught_step = staticmethod(taught_step)

    def __init__(self, learner: Learner) -> None:
        self._learner, self._name = learner, type(learner).__name__
        self._nodes: list[Asked] = []
        self._places: dict[int, int] = {}  # among them, by where what stands for their states lies
        self._known: dict[int, Asked] = {}  # by their states
        self._head, self._box = np.zeros(2), np.zeros(0)
        self._parts: dict[tuple[int, ...], list[Array]] = {}
        self._grow(FIRST_LENGTH)
        asked: Sequence[Callable[..., None]] = (self._evaluate, self._inner, self._gradient, self._step, self._grow)
        self.tools = (*(address(each, ASKED) for each in asked), int(self._head.ctypes.data))

    def follow(self, state: Any, sizes: Array, steps: bool = True) -> None:
        """Take over the array for the sizes of the steps to come, (steps, k), each filled in after the step before;
        ``steps``: whether there are any."""
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
        """Return the numbers of the Gram matrix of a step's points."""
        return points * points

    def steps(self, state: Any) -> int:
        """Return 0: the learner counts its steps itself."""
        return 0

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return room for the sizes of steps, which :meth:`follow` takes over."""
        return np.zeros((steps, 1))

    def order(self, state: Any) -> int:
        return int(self._learner.function(state).order)

    def reserve(self, state: Any, points: int) -> int:
        """Do nothing; returns 0."""
        return 0

    def storage(self, state: Any) -> Array:
        return np.zeros(1)

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        """Take up a state, in place of the former one of its node."""
        node = self._of(state)
        node.place = self._places.setdefault(storage.ctypes.data, len(self._nodes))
        if node.place == len(self._nodes):
            self._nodes.append(node)
        elif self._nodes[node.place] is not node:
            former, self._nodes[node.place] = self._nodes[node.place], node
            if former.place == node.place:  # its node has begun anew, with another state
                del self._known[id(former.state)]

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers: unlimited room, no maintenance, the order, and the place of the state."""
        node = self._of(state)
        node.order = self.order(state)
        return np.array([ALWAYS, NOTHING, node.order, node.place, max(node.evaluated, default=0)], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        """Do nothing: states are up to date."""

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
        """Return parts of the box, one behind the other, of so many rows and columns in turn."""
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
