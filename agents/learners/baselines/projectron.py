"""The Projectron: a perceptron that projects a mistake on the dictionary where that costs little."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.arithmetic.inverse_factor import append, split
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.signatures import LOOK, NOTHING, ORDER, WANTS
from kernelswarm.agents.functions.expansion import Expansion, tables
from kernelswarm.agents.learners.baselines.kernel_descent import SumState, check_budget_size
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent
from kernelswarm.agents.learners.baselines.mistakes import TASKS, MistakeDriven, mistakes
from kernelswarm.agents.learners.baselines.projected_sum import CHANGES, keep_accurate, look
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.agents.learners.polk_steps import inspection_due
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Projectron(MistakeDriven):
    """The Projectron, a perceptron whose mistakes enter only where the dictionary cannot stand for them.

    A mistake's w kappa(x, .) is projected on the span of the dictionary if what that takes from kappa(x, .) is at most
    ``tolerance``, a Hilbert norm, or if the dictionary is full; otherwise its point enters (Orabona, Keshet and Caputo,
    JMLR 2009, where |w| = 1, the tolerance is called eta, and a full dictionary is not known).

    Parameters
    ----------
    loss : Loss
        What the targets are, and what is measured; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    insensitivity : float
        The error of a number that is no mistake, not negative.
    tolerance : float
        The largest Hilbert norm that a projection may take from kappa(x, .), not negative; below sqrt(kappa(x, x)).
    budget_size : int, optional
        The most points of the dictionary, at least 1; as many as the tolerance asks for when left out.
    """

    tolerance: float = 0.1
    budget_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tolerance >= 0.0:
            raise ValueError(f"tolerance = {self.tolerance!r} must not be negative: 0 projects nothing but duplicates")
        if self.budget_size is not None:
            check_budget_size(self.budget_size)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its number counts changes of the factor."""
        return SumState(Expansion(self.kernel, inputs, outputs), 1)

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Let the points in, or project them, one by one."""
        function = state.function
        assert isinstance(function, Expansion)
        function.weights[:] *= 1.0 - eta * self.regularization
        function.reserve(len(points))
        before = function.order
        most = len(function.points_buffer) if self.budget_size is None else self.budget_size
        gram = self.kernel.cross(points, points)
        function.order, error = _enter(
            function.points_buffer,
            function.weights_buffer,
            function.factor_buffer,
            function.precision_buffer,
            before,
            points,
            weights,
            rows,
            gram,
            self.tolerance,
            most,
        )
        keep_accurate(state, function, function.order - before)
        return float(error)

    @property
    def compiled(self) -> "CompiledProjectron":
        """What the learner hands over to compiled rounds; raises NotCompiledError where its kernel does not."""
        return CompiledProjectron(self)


TOLERANCE = 2
"""Among the learner's own numbers, in the place of the budget's, which comes last."""


@njit(cache=True)
def _let_in(
    own: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
) -> float:
    """Let the points in, or project them, in compiled rounds."""
    before, capacity, outputs = counts[ORDER], counts[CAPACITY], weights.shape[1]
    dictionary, old, factor, precision = tables(storage, capacity, points.shape[1], outputs)
    for m in range(before):
        for c in range(outputs):
            old[m, c] *= shrink
    most = min(own[len(own) - 1], float(capacity))
    order, error = _enter(
        dictionary, old, factor, precision, before, points, weights, rows, gram, own[TOLERANCE], int(most)
    )
    counts[ORDER] = order
    storage[0] += order - before
    counts[WANTS] = LOOK if storage[0] >= inspection_due(order) else NOTHING
    return error


class CompiledProjectron(CompiledDescent):
    """What the projectron hands over; changes of the factor are the learner's number in the storage."""

    def __init__(self, learner: Projectron) -> None:
        most = math.inf if learner.budget_size is None else float(learner.budget_size)
        task = float(TASKS[learner.loss.task])
        numbers = [learner.tolerance, task, learner.insensitivity, most]
        super().__init__(learner, _let_in, numbers, mistakes, wants_gram=True)

    def storage(self, state: SumState) -> Array:
        """Return the vector of the state."""
        vector = super().storage(state)
        vector[0] = state.numbers[CHANGES]
        return vector

    def move(self, state: SumState, storage: Array, capacity: int) -> None:
        """Have the state live in another vector."""
        super().move(state, storage, capacity)
        storage[0] = state.numbers[CHANGES]

    def settle(self, state: SumState, counts: Integers, steps: int) -> None:
        """Bring a state up to date."""
        super().settle(state, counts, steps)
        state.numbers[CHANGES] = state.function.storage[0]

    def attend(self, state: SumState) -> None:
        """Look at the accuracy of the factor."""
        assert isinstance(state.function, Expansion)
        look(state, state.function)
        state.function.storage[0] = 0.0


@njit(cache=True)
def _enter(
    points: Array,  # (capacity, p)
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    precision: Array,  # (capacity,)
    order: int,
    new_points: Array,  # (n, p)
    new_weights: Array,  # (n, C)
    cross: Array,  # (n, order)
    gram: Array,  # (n, n)
    tolerance: float,
    most: int,
) -> tuple[int, float]:
    """Append the points, or add their projections; returns the new order and the sum of what projections took."""
    before, outputs = order, weights.shape[1]
    row, image, projection = np.empty(len(points)), np.empty(len(points)), np.empty(len(points))
    entered = np.empty(len(new_points), dtype=np.int64)
    error = 0.0
    for n in range(len(new_points)):
        squared = 0.0
        for c in range(outputs):
            squared += new_weights[n, c] * new_weights[n, c]
        if squared == 0.0:
            continue
        for j in range(order):
            row[j] = cross[n, j] if j < before else gram[n, entered[j - before]]
        schur = split(factor, order, row, gram[n, n], image, projection)
        outside = math.sqrt(max(schur, 0.0))
        if outside <= tolerance or order >= most or schur <= SPAN_THRESHOLD * gram[n, n]:
            for j in range(order):
                for c in range(outputs):
                    weights[j, c] += projection[j] * new_weights[n, c]
            error += math.sqrt(squared) * outside
        else:
            append(points, weights, factor, precision, order, new_points[n], new_weights[n], projection, schur)
            entered[order - before] = n
            order += 1
    return order, error
