"""Adapter for learners in plain Python that are linear in features, for compiled rounds in which nodes send vectors.

The round stores the weights, and a protocol may step from weights other than the node's. The functions called by
compiled rounds therefore set the weights of the learner's state before they call a method. The calls have the same
order as for single nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelswarm.agents.arithmetic.abi import CompiledFeatureLearner, CompiledLearner, GradientArguments, StepArguments
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.learners.contract import Evaluated, Learner
from kernelswarm.agents.learners.plain import EVALUATED, NODE, STEPPED, WEIGHED, Asked, PlainLearner, asked_at, box_of
from kernelswarm.agents.parts.plain_parts import fill
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.compiling import njit_no_refcount

SIZE, CURVATURE, HEAD = 0, 1, 2
"""Indices of a step's arguments at the beginning of the box, and their number."""


@njit_no_refcount
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Evaluate the function with the node's weights."""
    (size, inputs), outputs, columns = points.shape, values.shape[1], rows.shape[1]
    box = box_of(tools, size * (inputs + columns + outputs))
    for k in range(size):
        for c in range(inputs):
            box[k * inputs + c] = points[k, c]
    asked_at(tools[EVALUATED])(counts[NODE], 0, size, inputs, outputs, columns)
    features = table(box, size * inputs, size, columns)
    found = table(box, size * (inputs + columns), size, outputs)
    for k in range(size):
        for c in range(columns):
            rows[k, c] = features[k, c]
        for c in range(outputs):
            values[k, c] = found[k, c]


@njit_no_refcount
def gradient(given: GradientArguments, found: Array) -> None:
    """Compute the gradient for the weights in ``storage`` at the samples that were evaluated last."""
    storage, targets, (size, outputs) = given.storage, given.targets, given.values.shape
    width, count = targets.shape[1], len(storage)
    box = box_of(given.tools, count + size * (2 * outputs + width))
    for k in range(count):
        box[k] = storage[k]
    known, wanted = table(box, count, size, outputs), table(box, count + size * outputs, size, width)
    for k in range(size):
        for c in range(outputs):
            known[k, c] = given.values[k, c]
        for c in range(width):
            wanted[k, c] = targets[k, c]
    asked_at(given.tools[WEIGHED])(given.counts[NODE], 0, size, width, outputs, 0)
    answer = table(box, count + size * (outputs + width), size, outputs)
    for k in range(size):
        for c in range(outputs):
            found[k, c] = answer[k, c]


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take the step from the weights and samples of the last gradient; the weights are changed in place."""
    storage, gradients = given.storage, given.gradients
    (size, outputs), count, width = gradients.shape, len(storage), given.targets.shape[1]
    box = box_of(given.tools, HEAD + size * outputs + count)
    box[SIZE], box[CURVATURE] = given.sizes[0], given.stiffness[0]
    pushed = table(box, HEAD, size, outputs)
    for k in range(size):
        for c in range(outputs):
            pushed[k, c] = gradients[k, c]
    asked_at(given.tools[STEPPED])(given.counts[NODE], size, outputs, size, width, int(given.implicit))
    for k in range(count):
        storage[k] = box[HEAD + size * outputs + k]
    return 0.0


@njit_no_refcount
def place(numbers: Array, storage: Array, weights: Array) -> None:
    """Store the node's weights for its next evaluation."""
    for k in range(len(weights)):
        storage[k] = weights[k]


class _Placed(Asked):
    """A node's state, with its evaluation between steps."""

    __slots__ = ("own", "rounds", "shape", "storage", "targets")

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.own: Evaluated  # at the samples of the round
        self.targets: Array
        self.storage: Array  # its weights, in one row
        self.shape: tuple[int, ...]  # of these
        self.rounds = 0  # since it began


class PlainFeatures(PlainLearner):
    """The methods of such a learner as functions for compiled rounds.

    Parameters
    ----------
    learner : Learner
        A learner that is linear in its features.
    """

    evaluate = staticmethod(evaluate)
    gradient = staticmethod(gradient)
    step = staticmethod(step)
    place = staticmethod(place)

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self._linear: Any = learner

    def begin(self, state: Any, rounds: int, own: Evaluated) -> None:
        """Set the number of rounds since the node started, and its evaluation at the samples of the next round."""
        node = self._of(state)
        node.rounds, node.own = rounds, own

    def own(self, state: Any) -> Evaluated:
        """Return the learner's evaluation at the node's samples of the round."""
        return self._of(state).own

    def follow(self, state: Any, sizes: Array, steps: bool = True) -> None:
        """Use an array for the next rounds' step sizes, (rounds, 1); each is filled in with its round's samples."""
        node = self._of(state)
        node.sizes, node.steps_at = sizes, 0
        self._ask_size(node)

    def length(self, state: Any, capacity: int) -> int:
        return int(self._linear.coefficients(state).size)

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        """Register a state, whose weights are stored in a vector."""
        super().move(state, storage, capacity)
        node, weights = self._of(state), self._linear.coefficients(state)
        node.storage, node.shape = storage, weights.shape
        storage[:] = weights.reshape(-1)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        node = self._of(state)
        self._put(node, node.storage, node.rounds)

    def _of(self, state: Any) -> _Placed:
        node = self._known.get(id(state))
        if not isinstance(node, _Placed):
            node = self._known[id(state)] = _Placed(state)
        return node

    def _put(self, node: _Placed, weights: Array, steps: int) -> None:
        """Set the weights of a node's function to a copy, which the learner may keep."""
        self._linear.place(node.state, weights.reshape(node.shape).copy(), steps)

    def _ask_size(self, node: _Placed) -> None:
        self._put(node, node.storage, node.rounds)
        node.sizes[node.steps_at, 0] = self._learner.eta(node.state)

    def _evaluate(self, place: int, number: int, size: int, inputs: int, outputs: int, *rest: int) -> None:
        points, rows, values = self._parts_of(size, inputs, size, rest[0], size, outputs)
        node = self._of(self._nodes[place].state)
        node.rounds += 1
        node.steps_at += 1
        self._put(node, node.storage, node.rounds)
        node.own = self._learner.evaluate(node.state, points.copy())
        fill(rows, node.own.rows, f"{self._name}.evaluate")
        fill(values, node.own.values, f"{self._name}.evaluate")
        node.sizes[node.steps_at, 0] = self._learner.eta(node.state)

    def _gradient(self, place: int, number: int, size: int, width: int, outputs: int, *rest: int) -> None:
        node = self._of(self._nodes[place].state)
        weights, values, targets, gradient = self._parts_of(
            1, len(node.storage), size, outputs, size, width, size, outputs
        )
        self._put(node, weights, 0)
        node.own, node.targets = node.own._replace(values=values.copy()), targets.copy()
        fill(gradient, self._learner.gradient(node.state, node.own, node.targets), f"{self._name}.gradient")

    def _step(self, place: int, taken: int, outputs: int, size: int, width: int, implicit: int) -> None:
        node = self._of(self._nodes[place].state)
        head, gradient, weights = self._parts_of(1, HEAD, size, outputs, 1, len(node.storage))
        eta, curvature = head[0].tolist()
        curvatures = [curvature] if implicit else None
        self._learner.step(node.state, [node.own], [gradient.copy()], curvatures, node.targets, eta)
        weights[0] = self._linear.coefficients(node.state).reshape(-1)
        self._ask_size(node)


# The forms of learners for compiled rounds: compiled functions, or functions that call the learner's methods.


def learner_forms(
    learners: Sequence[Learner], form_of: Callable[[Learner], CompiledLearner] | None = None
) -> list[CompiledLearner]:
    """Return each learner's form, the same object for equal learners; by default its :func:`learner_form`."""
    found: dict[Learner, CompiledLearner] = {}
    known: dict[int, CompiledLearner] = {}  # a lookup by identity; a lookup by fields is slow
    for learner in _different(learners):
        if learner not in found:
            found[learner] = (form_of or learner_form)(learner)
        known[id(learner)] = found[learner]
    return [known[id(learner)] for learner in learners]


def learner_form(learner: Learner) -> CompiledLearner:
    """Return a learner's form for compiled rounds."""
    try:
        found: CompiledLearner = handed_over(learner, "learner")
    except NotCompiledError:
        return PlainLearner(learner)
    return found


def feature_form(learner: Learner) -> CompiledLearner:
    """Return the form for compiled rounds of a learner that is linear in its features."""
    form = learner_form(learner)
    return form if fulfils(form, CompiledFeatureLearner) else PlainFeatures(learner)


def _different(learners: Sequence[Learner]) -> list[Learner]:
    """Return the learners without repeated references to the same object."""
    return list({id(learner): learner for learner in learners}.values())
