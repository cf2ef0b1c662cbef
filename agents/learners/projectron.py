"""The Projectron: a perceptron that projects a mistake on the dictionary where that costs little; with margins too."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, GradientArguments
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables, append, split
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.expansion import Expansion, tables
from kernelswarm.agents.functions.kernel_sum import scale
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, own_numbers
from kernelswarm.agents.learners.dictionary_rules import inspect_in_time
from kernelswarm.agents.learners.kernel_descent import (
    BUDGET_SIZE,
    CHANGES,
    DONE,
    ERROR,
    FIRST,
    HEADER,
    INSENSITIVITY,
    TASK,
    CompiledDescent,
    DictionaryRule,
    SumState,
    budget_from,
    diagonal_of,
)
from kernelswarm.agents.learners.perceptron import (
    BINARY,
    REGRESSION,
    TASKS,
    MistakeDriven,
    best_wrong,
    mistaken_in,
    mistakes,
)
from kernelswarm.agents.parts.plain_parts import kernel_diagonal
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.ranges import Range

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

    ranges: ClassVar = {
        "tolerance": Range("[0, inf]", "0 projects nothing but duplicates"),
        "budget_size": budget_from(1, None),
    }

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
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, mistakes)


@dataclass(frozen=True)
class ProjectronPlus(Projectron):
    """Projectron++: the Projectron, which also moves where the answer is right and its margin below 1.

    Mistakes are those of the Projectron. Where a margin m is between 0 and 1, with P kappa(x, .) the projection on the
    span of the dictionary and d the norm of what that takes from kappa(x, .), a step of size 1 adds tau P kappa(x, .)
    with the signs of a mistake's (Orabona, Keshet and Caputo, JMLR 2009, section 5, their eta the tolerance)::

        tau = min(1, l / a, 2 (l - d / tolerance) / a)   where l = 1 - m > d / tolerance, else 0

    - two classes, sign s: m = s f(x), a = ||P kappa(x, .)||^2;
    - several, r the best of the wrong ones: m = f_y - f_r, a = 2 ||P kappa(x, .)||^2.

    A step of l / a just ends the margin error. By ``tau (2 l - tau a - 2 d / tolerance)`` at least, which tau keeps
    from being negative, the squared distance to every g shrinks whose own margin is 1 here and whose norm is at most
    1 / tolerance. As d is below the tolerance then, no point enters. Numbers have no margins: they are learned as by
    the Projectron.

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
        The largest Hilbert norm that a projection may take from kappa(x, .), not negative; below sqrt(kappa(x, x)). 0
        leaves the mistakes alone.
    budget_size : int, optional
        The most points of the dictionary, at least 1; as many as the tolerance asks for when left out.
    """

    @property
    def rule(self) -> DictionaryRule:
        """Let points in, or project them; the gradient needs kappa(x, x)."""
        return LET_IN._replace(norms=True)

    def gradient(self, state: object, own: Evaluated, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C): those of mistakes, and of margins below 1."""
        assert isinstance(state, SumState)
        function, coefficients = state.function, np.empty(own.values.shape)
        assert isinstance(function, Expansion)
        task, values = TASKS[self.loss.task], own.values
        mistaken_in(task, values, targets, self.tolerated, coefficients)
        margins_in(
            task,
            values,
            targets,
            self.tolerance,
            function.factor_buffer,
            function.order,
            own.rows,
            kernel_diagonal(self.kernel, own.points),
            np.empty(3 * len(function.points_buffer)),
            coefficients,
        )
        return coefficients

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, margins)


@cached_njit
def margins(given: GradientArguments, coefficients: Array) -> None:
    """Compute the coefficients of Projectron++ in compiled rounds."""
    own = own_numbers(given.numbers)
    diagonal = diagonal_of(given.tools, given.numbers, given.points)
    factor = tables(given.storage, given.counts[CAPACITY], given.points.shape[1], given.values.shape[1]).factor
    mistaken_in(int(own[TASK]), given.values, given.targets, own[INSENSITIVITY], coefficients)
    margins_in(
        int(own[TASK]),
        given.values,
        given.targets,
        own[TOLERANCE],
        factor,
        given.counts[ORDER],
        given.rows,
        diagonal,
        given.scratch,
        coefficients,
    )


@cached_njit
def margins_in(
    task: int,
    values: ReadOnly,  # (n, C)
    targets: ReadOnly,  # (n, q)
    tolerance: float,
    factor: ReadOnly,  # (capacity, capacity)
    order: int,
    rows: ReadOnly,  # (n, order or more)
    diagonal: Array,  # (n,)
    work: Array,  # (3 capacity or more,)
    coefficients: Array,  # (n, C), those of mistakes
) -> None:
    """Add to the coefficients of mistakes, of classes, those of margins below 1."""
    if task == REGRESSION:
        return
    together = table(work, 0, 3, len(factor))
    row, image, projection = together[0], together[1], together[2]
    for n in range(len(values)):
        if task == BINARY:
            sign, right, wrong, elements = 2.0 * targets[n, 0] - 1.0, 0, 0, 1.0
            margin = sign * values[n, 0]
        else:
            sign, right, elements = 1.0, int(targets[n, 0]), 2.0
            wrong = best_wrong(values[n], right)
            margin = values[n, right] - values[n, wrong]
        loss = 1.0 - margin
        if margin <= 0.0 or loss <= 0.0:
            continue
        for j in range(order):
            row[j] = rows[n, j]
        outside = max(split(factor, order, row, diagonal[n], image, projection), 0.0)
        if loss * tolerance <= math.sqrt(outside):
            continue
        most = min(loss, 2.0 * (loss - math.sqrt(outside) / tolerance))
        squared = elements * (diagonal[n] - outside)
        tau = 1.0 if most >= squared else most / squared
        coefficients[n, wrong] = tau
        coefficients[n, right] = -sign * tau


@njit_no_refcount
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
    known, scratch = tables(storage, capacity, points.shape[1], outputs), table(work, HEADER, ROWS, capacity)
    scale(known.weights, before, shrink)
    most = int(min(own[BUDGET_SIZE], float(capacity)))
    added = Added(points, weights, rows, gram)
    counts[ORDER], work[ERROR] = _enter(scratch, known, before, added, own[TOLERANCE], most)
    storage[CHANGES] += counts[ORDER] - before
    inspect_in_time(storage, counts)
    return DONE


@inline_always
def _enter(
    scratch: Array,  # (4, capacity), to work with
    known: Tables,
    order: int,
    added: Added,
    tolerance: float,
    most: int,
) -> tuple[int, float]:
    """Append the points, or add their projections; returns the new order and the sum of what projections took."""
    new_points, new_weights, cross, gram = added
    weights, factor, before = known.weights, known.factor, order
    outputs = weights.shape[1]
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
            append(known, order, new_points[n], new_weights[n], projection, schur)
            entered[order - before] = n
            order += 1
    return order, error


LET_IN = DictionaryRule(let_in, rows=ROWS, gram=True)
