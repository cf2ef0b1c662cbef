"""A learner in plain Python, or with such a part, for compiled rounds, which call its methods."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING
from kernelswarm.agents.learners import plain_calls
from kernelswarm.agents.learners.contract import Evaluated, Learner, parted_at, together
from kernelswarm.agents.learners.plain_calls import ASKED, ERROR, EXPLICIT, NEW_ORDER, RESULTS, TAUGHT
from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]

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
    evaluated twice: rows hold its number in place of what is known there.

    Parameters
    ----------
    learner : Learner
        Any learner.
    """

    evaluate = staticmethod(plain_calls.evaluate)
    inner = staticmethod(plain_calls.inner)
    gradient = staticmethod(plain_calls.gradient)
    step = staticmethod(plain_calls.step)
    taught_step = staticmethod(plain_calls.taught_step)

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
