"""The Projectron: a perceptron that projects a mistake on the dictionary where that costs little."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.inverse_factor import append, split
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.signatures import ORDER
from kernelswarm.agents.arithmetic.tables import table
from kernelswarm.agents.functions.expansion import Expansion, tables
from kernelswarm.agents.functions.kernel_sum import scale
from kernelswarm.agents.learners.baselines.kernel_descent import CHANGES, SumState, check_budget_size
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    BUDGET_SIZE,
    DONE,
    ERROR,
    FIRST,
    HEADER,
    CompiledDescent,
    DictionaryRule,
)
from kernelswarm.agents.learners.baselines.mistakes import MistakeDriven, mistakes
from kernelswarm.agents.learners.baselines.projection_steps import inspect_in_time
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.protocols.compiling import inlined, jitted
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]

TOLERANCE = FIRST
"""Among the rule's numbers."""

ROWS = 4
"""Of what the rule works with."""


@dataclass(frozen=True)
class Projectron(MistakeDriven):
    """The Projectron, a perceptron whose mistakes enter only where the dictionary cannot stand for them.

    A mistake's w kappa(x, .) is projected on the span of the dictionary if what that takes from kappa(x, .) is at most
    ``tolerance``, a Hilbert norm, or if the dictionary is full; otherwise its point enters (Orabona, Keshet and Caputo,
    JMLR 2009, where ``|w| = 1``, the tolerance is called eta, and a full dictionary is not known).

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
    insensitivity : float or "auto"
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
        return SumState(Expansion(self.kernel, inputs, outputs), self.own_numbers(), 1)

    @property
    def rule(self) -> DictionaryRule:
        """Let points in, or project them."""
        return LET_IN

    def rule_numbers(self) -> list[float]:
        """Return the budget, what a mistake is, and the tolerance."""
        most = math.inf if self.budget_size is None else float(self.budget_size)
        return [most, *self.mistake_numbers(), self.tolerance]

    @property
    def compiled(self) -> CompiledDescent:
        """What the learner hands over to compiled rounds; raises NotCompiledError where its kernel does not."""
        return CompiledDescent(self, mistakes)


@jitted
def let_in(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Let the points in, or project them, one by one."""
    before, capacity, outputs = counts[ORDER], counts[CAPACITY], weights.shape[1]
    dictionary, old, factor, precision = tables(storage, capacity, points.shape[1], outputs)
    scale(old, before, shrink)
    most = int(min(own[BUDGET_SIZE], float(capacity)))
    counts[ORDER], work[ERROR] = _enter(
        table(work, HEADER, ROWS, capacity),
        dictionary,
        old,
        factor,
        precision,
        before,
        points,
        weights,
        rows,
        gram,
        own[TOLERANCE],
        most,
    )
    storage[CHANGES] += counts[ORDER] - before
    inspect_in_time(storage, counts)
    return DONE


@inlined
def _enter(
    scratch: Array,  # (4, capacity), to work with
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
    row, image, projection, entered = scratch[0], scratch[1], scratch[2], scratch[3]
    error = 0.0
    for n in range(len(new_points)):
        squared = 0.0
        for c in range(outputs):
            squared += new_weights[n, c] * new_weights[n, c]
        if squared == 0.0:
            continue
        for j in range(order):
            row[j] = cross[n, j] if j < before else gram[n, int(entered[j - before])]
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


LET_IN = DictionaryRule(let_in, rows=ROWS, gram=True)
