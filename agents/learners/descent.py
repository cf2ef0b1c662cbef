"""The common parts of learners by stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import KERNEL, NOTHING, ORDER, kernel_at
from kernelswarm.agents.arithmetic.implicit_systems import fill_row, solve
from kernelswarm.agents.arithmetic.simd import whole
from kernelswarm.agents.arithmetic.views import line, nearby, table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, combine_into
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.plain_parts import kernel_form, kernel_rows
from kernelswarm.agents.parts.schedules import Schedule, step_sizes
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import Compiled, address
from kernelswarm.protocols.core.compiling import (
    ReadOnly,
    ReadOnlyIntegers,
    cached_njit,
    inline_always,
    njit_no_refcount,
)
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

AnyFunction = TypeVar("AnyFunction")

AUGMENTED = 2**10
"""The size, in numbers, up to which an implicit step's system is kept on the stack: 8 kB, enough for 24 points."""


def share(count: int, batch_size: int) -> float:
    """Return ``count`` samples as a fraction of a mini-batch, at most 1.

    A step is ``eta`` times the mean over the batch. At the end of the data a batch may have fewer samples. Their mean
    is multiplied by this fraction, so that each sample keeps the weight ``eta / b``, and steps stay stable.

    Examples
    --------
    >>> share(8, 8), share(2, 8)
    (1.0, 0.25)
    """
    return 1.0 if count >= batch_size else count / batch_size


class Weighing(NamedTuple):
    """The arguments from which :func:`weigh` computes the weights of a step."""

    gradients: Array  # (N, C), overwritten with weights
    rates: ReadOnly  # (N,)
    stiffness: ReadOnly  # (N,)
    implicit: bool


class LearnerState(Generic[AnyFunction]):
    """State of a learner: its function, with the function's intermediate results, and the number of steps taken."""

    __slots__ = ("function", "steps")

    def __init__(self, function: AnyFunction) -> None:
        self.function = function
        self.steps = 0


class Descent:
    """The methods between steps that all learners by gradient descent share."""

    loss: Loss
    step_size: Schedule

    @property
    def linear(self) -> bool:
        """True: a weight on a sample changes the function by the weight times the kernel, or the features."""
        return True

    @property
    def functions(self) -> Any:
        """The compiled functions that the methods call."""
        return self.compiled  # type: ignore[attr-defined]

    def eta(self, state: Any) -> float:
        return self.step_size.at(state.steps)

    def gradient(self, state: Any, own: Evaluated, targets: Array) -> Array:
        """Return the loss's derivatives at the samples, (n, C)."""
        return self.loss.derivatives(own.values, targets)

    def function(self, state: Any) -> Any:
        """Return the state's function."""
        return state.function


class DescentInSpace(Descent):
    """The same for learners whose function is a kernel expansion."""

    kernel: Kernel

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x)."""
        return self.kernel.supremum

    def evaluate(self, state: Any, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p), and keep the kernel rows for the step."""
        rows, values = state.function.rows_and_values(points)
        return Evaluated(points, rows, values)

    def inner(self, state: Any, at: Evaluated) -> Array:
        """Return the kernel between all points, (n, n)."""
        return kernel_rows(self.kernel, at.points, at.points)

    def function_from(self, arrays: Mapping[str, Array]) -> KernelSum:
        points, weights = arrays["points"], arrays["weights"]
        return KernelSum(self.kernel, points.shape[1], weights.shape[1]).assign(points, weights)

    def snapshot(self, state: Any) -> dict[str, Array]:
        """Return the function with its intermediate results, and the number of ``steps``."""
        return {**state.function.snapshot(), "steps": np.array(float(state.steps))}

    def restore(self, state: Any, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        state.steps = int(arrays["steps"])


def explicit_or_implicit(
    kernel: Kernel,
    eta: float,
    evaluations: Sequence[Evaluated],
    gradients: Sequence[Array],
    curvatures: Sequence[float] | None,
) -> tuple[Array, Array, Array]:
    """Join all points of a step; returns the points (N, p), their kernel rows (N, M) and their weights (N, C)."""
    if len(evaluations) == 1:
        points, rows, _ = evaluations[0]
        if curvatures is None:
            return points, rows, gradients[0] * (-eta / len(points))
    else:
        points = np.concatenate([evaluation.points for evaluation in evaluations])
        rows = np.concatenate([evaluation.rows for evaluation in evaluations])
    if curvatures is not None:
        return points, rows, implicit_weights(eta, gradients, curvatures, kernel_rows(kernel, points, points))
    weights = [gradient * (-eta / max(len(gradient), 1)) for gradient in gradients]
    return points, rows, np.concatenate(weights)


STEP_RANGES = {"regularization": Range("[0, inf)"), "batch_size": Range("[1, inf)")}
"""The ranges of the keys of gradient steps."""


def check_step(learner: Any) -> None:
    """Refuse keys out of their ranges, and step sizes of 1 / regularization or more."""
    check_ranges(learner)
    step_size, regularization = learner.step_size, learner.regularization
    if not hasattr(step_size, "largest"):
        raise RefusedKey("step_size", f"= {step_size!r} must be a schedule, such as Constant(0.1) or Auto()")
    if step_size.largest * regularization >= 1.0:
        raise RefusedKey(
            "step_size",
            f"= {step_size.largest!r} must be below 1 / regularization, "
            f"{1.0 / regularization:g}: lower the step size or the regularization",
        )


def implicit_weights(eta: float, gradients: Sequence[Array], curvatures: Sequence[float], gram: Array) -> Array:
    """Return the weights ``-eta/b g`` of all points in an implicit step, (N, C).

    The terms with curvature r are taken at the new function: g solves ``(I + diag(r) K diag(eta/b)) g = g_explicit``.

    Parameters
    ----------
    eta : float
        The step size.
    gradients : sequence of Array
        The explicit gradients at each set of points, (b_k, C).
    curvatures : sequence of float
        The curvature r of each set.
    gram : Array
        The inner products K of all points of all sets, (N, N).
    """
    weights, rates, stiffness = joined(eta, gradients, curvatures)
    weigh_together(gram, weights, rates, stiffness)
    return weights


def joined(eta: float, gradients: Sequence[Array], curvatures: Sequence[float] | None) -> tuple[Array, Array, Array]:
    """Join the sets of a step; returns the gradients (N, C), copied, and each point's eta/b and curvature, (N,)."""
    if len(gradients) == 1:
        gradient = gradients[0].copy()
        rates = np.full(len(gradient), eta / max(len(gradient), 1))
        stiffness = np.full(len(gradient), 0.0 if curvatures is None else curvatures[0])
        return gradient, rates, stiffness
    sizes = [len(part) for part in gradients]
    rates = np.repeat([eta / max(size, 1) for size in sizes], sizes)
    each = np.zeros(len(sizes)) if curvatures is None else np.asarray(curvatures, dtype=np.float64)
    return np.concatenate(gradients), rates, np.repeat(each, sizes)


@inline_always
def weigh(gram: Array, gradients: Array, rates: Array, stiffness: Array, implicit: bool) -> None:
    """Overwrite the gradients of a step's points (N, C) with their weights, as :func:`explicit_or_implicit` does.

    ``gram`` (N, N) holds the points' inner products, ``rates`` and ``stiffness`` (N,) their eta/b and curvatures.
    """
    size, outputs = gradients.shape
    if implicit and size > 1:
        weigh_together(gram, gradients, rates, stiffness)
        return
    for k in range(size):
        for c in range(outputs):
            gradients[k, c] *= -rates[k]
    if implicit:
        for c in range(outputs):
            gradients[0, c] /= 1.0 + stiffness[0] * rates[0] * gram[0, 0]


@cached_njit
def weigh_together(gram: ReadOnly, gradients: Array, rates: ReadOnly, stiffness: ReadOnly) -> None:
    """Do the same for an implicit step by solving one linear system for all points."""
    size, outputs = gradients.shape
    if size == 1:
        for c in range(outputs):
            gradients[0, c] = -rates[0] * gradients[0, c] / (1.0 + stiffness[0] * rates[0] * gram[0, 0])
        return
    wide = whole(size + outputs)
    few = size * wide <= AUGMENTED
    augmented = table(nearby(np.float64, AUGMENTED), 0, size, wide) if few else np.empty((size, wide))
    for i in range(size):
        for j in range(whole(size), wide):
            augmented[i, j] = 0.0
        fill_row(augmented, i * wide, gram, i * size, stiffness[i], rates, size)
        augmented[i, i] += 1.0
        for c in range(outputs):
            augmented[i, size + c] = gradients[i, c]
    solve(augmented, outputs)
    for i in range(size):
        for c in range(outputs):
            gradients[i, c] = augmented[i, size + c] * -rates[i]


# The common part of compiled learners of kernel expansions: evaluation, and the layout of states.

CAPACITY = 3
"""Index, among a state's integers, of the capacity: the number of dictionary points that fit in all."""

CROSS = 0
"""Index of the kernel's address among the addresses that a step calls."""

PLANNED = 1
"""Index of the schedule's step size among a step's sizes; it follows the step size in use, which may be smaller."""


@inline_always
def kernel_numbers(numbers: Array) -> Array:
    """Return the kernel's numbers; ``numbers[0]`` is their count, and they follow it."""
    return line(numbers, 1, int(numbers[0]))


@inline_always
def own_numbers(numbers: Array) -> Array:
    """Return the learner's own numbers, which follow the kernel's."""
    first = 1 + int(numbers[0])
    return line(numbers, first, len(numbers) - first)


@njit_no_refcount
def evaluate(
    tools: ReadOnlyIntegers,
    numbers: ReadOnly,
    storage: Array,
    counts: Integers,
    points: ReadOnly,
    rows: Array,
    values: Array,
) -> None:
    """Compute the kernel rows of points and the values of f."""
    order, capacity = counts[ORDER], counts[CAPACITY]
    inputs, outputs = points.shape[1], values.shape[1]
    dictionary = table(storage, OWN, order, inputs)
    weights = table(storage, OWN + capacity * inputs, capacity, outputs)
    kernel_at(tools[CROSS])(line(numbers, 1, int(numbers[0])), points, dictionary, rows)
    combine_into(rows, weights, order, values)


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
    """Fill ``gram`` (N, N) with the kernel between all points."""
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)


def packed(*parts: Sequence[float] | Array) -> Array:
    """Return the numbers of a learner and of its parts in one vector, in which :func:`part_of` finds them."""
    ends = np.cumsum([len(part) for part in parts])
    return np.concatenate([*parts, ends, [float(len(parts))]])


@inline_always
def part_of(numbers: Array, place: int) -> Array:
    """Return one of the parts that :func:`packed` has put into a vector."""
    ends = len(numbers) - 1 - int(numbers[len(numbers) - 1])
    first = int(numbers[ends + place - 1]) if place > 0 else 0
    return line(numbers, first, int(numbers[ends + place]) - first)


class CompiledExpansion:
    """Functions and numbers of such a learner for compiled rounds, and the layout of its states in vectors.

    Parameters
    ----------
    learner : object
        The learner.
    numbers : sequence of float
        The learner's own numbers.
    tools : sequence of int
        The addresses that the learner's step calls, without the kernel's.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)

    def __init__(self, learner: Any, numbers: Sequence[float] | Array, tools: Sequence[int] = ()) -> None:
        kernel = kernel_form(learner.kernel)
        self._learner = learner
        self.tools = (address(kernel.cross, KERNEL), *tools)
        self._numbers = np.concatenate([[float(len(kernel.numbers))], kernel.numbers, numbers])

    @property
    def gradient(self) -> Compiled | None:
        """None: the loss's derivatives are the gradient."""
        return None

    def numbers(self, state: Any) -> Array:
        return self._numbers

    def columns(self, state: Any, capacity: int) -> int:
        return capacity

    def length(self, state: Any, capacity: int) -> int:
        return int(state.function.length(capacity))

    def steps(self, state: Any) -> int:
        return int(state.steps)

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return the schedule's step sizes twice, (steps, 2); a node may damp the first column."""
        return step_sizes(self._learner.step_size, first, steps)[:, np.newaxis].repeat(2, axis=1)

    def order(self, state: Any) -> int:
        return int(state.function.order)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        state.function.reserve(points)
        return len(state.function.points_buffer)

    def storage(self, state: Any) -> Array:
        vector: Array = state.function.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        state.function.move(storage, capacity)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        order = state.function.order
        return np.array([capacity - order, NOTHING, order, capacity], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        state.function.order = int(counts[ORDER])
        state.steps += steps

    def maintain(self, state: Any) -> None:
        """Do nothing: such states need no maintenance."""
