"""Budgeted passive-aggressive learning: a point that leaves is projected on what stays."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, GradientArguments
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import close_up, enter, find, is_zero, scale, squared_length
from kernelswarm.agents.functions.nearest_sum import NearestSum, come, leave, products_of, with_nearest
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, own_numbers
from kernelswarm.agents.learners.dictionary_rules import PROJECT_LEAST, span_limit
from kernelswarm.agents.learners.kernel_descent import (
    BUDGET_SIZE,
    DONE,
    ERROR,
    FIRST,
    HEADER,
    INSENSITIVITY,
    MEASURED,
    MOVED,
    NEXT,
    NORMS,
    PHASE,
    POINT,
    START,
    TASK,
    CompiledDescent,
    DictionaryRule,
    SumState,
    budget_from,
    diagonal_of,
    knows_norms,
    row_wanted,
    sum_of,
)
from kernelswarm.agents.learners.perceptron import TASKS, MistakeDriven, passive_aggressive
from kernelswarm.agents.parts.plain_parts import kernel_diagonal
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.ranges import Range, resolved_value

AGGRESSIVENESS, OWN_SAMPLES = FIRST + 1, FIRST + 2
"""Among the rule's numbers, behind the limit of projections: C, and b, behind which a step's points are received."""


@dataclass(frozen=True)
class Bpa(MistakeDriven):
    """Passive-aggressive learning (PA-I) on a budget (Wang and Vucetic, AISTATS 2010).

    With eta = 1 a step on one sample changes f least of all that end its hinge loss l, up to the ``aggressiveness`` C:

    - two classes, sign s: g = -s min(C, l / kappa(x, x)), l = max(0, 1 - s f(x));
    - several, r the best of the wrong ones: g = (e_r - e_y) min(C, l / (2 kappa(x, x))), l = max(0, 1 + f_r - f_y);
    - numbers: g = sign(f - y) min(C, l / kappa(x, x)), ``l = max(0, |f - y| - insensitivity)``, output by output.

    The coupling's pull adds to g.

    When a point x enters a full dictionary, the point r goes whose element, projected on a part of what stays, loses
    least, and its projection stays. That part is

    - ``simple``: kappa(x, .) (BPA-S);
    - ``nearest``: that, and the element nearest to r (BPA-NN);
    - ``projecting``: all that stays (BPA-P), in O(M^2).

    Points that neighbours or replay bring come with small weights, and may be the ones that go: where the element of
    such a point loses least, projected on one element, that is what happens under simple and nearest.

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
        The error of a number that is none, not negative.
    budget_size : int
        The most points of the dictionary, at least 1; 2 for nearest.
    maintenance : str
        "simple", "nearest" or "projecting".
    aggressiveness : float or "auto"
        C, the largest coefficient of a sample, positive; "auto" is 1 for classes, and for numbers the standard
        deviation of the targets on training data.
    """

    budget_size: int = 50
    maintenance: Literal["simple", "nearest", "projecting"] = "simple"
    step_size: Schedule = field(default=Constant(0.1), metadata={"part": "schedule", "scalar": "constant"})
    aggressiveness: float | Literal["auto"] = "auto"

    ranges: ClassVar = {
        "budget_size": budget_from(1),
        "aggressiveness": Range("(0, inf]", "1 is usual, inf is no bound", "auto"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maintenance == "nearest":
            budget_from(2).check("budget_size", self.budget_size)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the insensitivity and the aggressiveness that suit a sample of the data."""
        learner = super().resolved(sample)
        if self.aggressiveness != "auto":
            return learner
        return replace(learner, aggressiveness=1.0 if sample.classes else sample.spread)

    @property
    def largest(self) -> float:
        """C as a number; ValueError where it is a word."""
        return resolved_value("aggressiveness", self.aggressiveness)

    def gradient(self, state: object, own: Evaluated, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C): 0 without a hinge loss."""
        coefficients = np.empty(own.values.shape)
        passive_aggressive(
            TASKS[self.loss.task],
            own.values,
            targets,
            self.tolerated,
            self.largest,
            kernel_diagonal(self.kernel, own.points),
            coefficients,
        )
        return coefficients

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.maintenance == "projecting":
            return SumState(Expansion(self.kernel, inputs, outputs), self.own_numbers(), 1)
        if self.maintenance == "nearest":
            return SumState(NearestSum(self.kernel, inputs, outputs, self.budget_size), self.own_numbers())
        return super().init(inputs, outputs)

    @property
    def rule(self) -> DictionaryRule:
        """Project the element that loses least."""
        return RULES[self.maintenance]

    def rule_numbers(self) -> list[float]:
        """Return the budget, what a mistake is, the limit of projections, and the aggressiveness."""
        return [
            float(self.budget_size),
            *self.mistake_numbers(),
            span_limit(self.kernel),
            self.largest,
            float(self.batch_size),
        ]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, hinge_steps)


@cached_njit
def hinge_steps(given: GradientArguments, coefficients: Array) -> None:
    """Compute the coefficients in compiled rounds."""
    own, values, targets = own_numbers(given.numbers), given.values, given.targets
    diagonal = diagonal_of(given.tools, given.numbers, given.points)
    passive_aggressive(int(own[TASK]), values, targets, own[INSENSITIVITY], own[AGGRESSIVENESS], diagonal, coefficients)


@cached_njit
def project_on_the_new(
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
    """Let the points in one by one, each time projecting an element on the new one where there are too many."""
    capacity = counts[CAPACITY]
    dictionary, old = sum_of(storage, capacity, points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        scale(old, counts[ORDER], shrink)
        work[PHASE] = NEXT
    for n in range(int(work[POINT]), len(points)):
        if is_zero(weights, n):
            continue
        order = counts[ORDER]
        place = find(dictionary, order, points, n)
        if place == order == int(own[BUDGET_SIZE]):
            wanted = row_wanted(work, capacity, rows, order, n)
            if wanted != DONE:
                return wanted
            if work[PHASE] != MEASURED and not knows_norms(own, work, order):
                work[POINT], work[PHASE] = n, MEASURED
                return NORMS
            row = line(work, HEADER + capacity, order)
            leaves, share, squared = _on_the_new(old, line(work, HEADER, order), row, gram[n, n])
            if n >= own[OWN_SAMPLES] and _stays_out(
                old, line(work, HEADER, order), row, weights, n, gram, squared, work
            ):
                continue
            work[ERROR] += math.sqrt(squared)
            _replace(dictionary, old, order, leaves, share, points, weights, n)
        else:
            counts[ORDER] = enter(dictionary, old, order, place, points, weights, n)
        work[PHASE] = NEXT
        work[MOVED] = 1.0
    return DONE


@cached_njit
def project_on_the_nearest(
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
    """The same, projecting on the new one and on the nearest neighbour of what leaves."""
    capacity, most = counts[CAPACITY], int(own[BUDGET_SIZE])
    dictionary, old = sum_of(storage, capacity, points.shape[1], weights.shape[1])
    products, near = products_of(storage, capacity, points.shape[1], weights.shape[1], most)
    if work[PHASE] == START:
        scale(old, counts[ORDER], shrink)
        work[PHASE] = NEXT
    for n in range(int(work[POINT]), len(points)):
        if is_zero(weights, n):
            continue
        order = counts[ORDER]
        place = find(dictionary, order, points, n)
        if place < order:
            enter(dictionary, old, order, place, points, weights, n)
        else:
            wanted = row_wanted(work, capacity, rows, order, n)
            if wanted != DONE:
                return wanted
            row = line(work, HEADER + capacity, order)
            if order == most:
                leaves, partner, share, others, squared = with_nearest(products, near, old, row, gram[n, n], order)
                if n >= own[OWN_SAMPLES]:
                    diagonal = line(work, HEADER, order)
                    for m in range(order):
                        diagonal[m] = products[m, m]
                    if _stays_out(old, diagonal, row, weights, n, gram, squared, work):
                        continue
                if partner >= 0:
                    for c in range(old.shape[1]):
                        old[partner, c] += others * old[leaves, c]
                work[ERROR] += math.sqrt(squared)
                leave(products, near, order, leaves)
                for m in range(leaves, order - 1):
                    row[m] = row[m + 1]
                come(products, near, order - 1, row, gram[n, n])
                _replace(dictionary, old, order, leaves, share, points, weights, n)
            else:
                come(products, near, order, row, gram[n, n])
                counts[ORDER] = enter(dictionary, old, order, place, points, weights, n)
        work[PHASE] = NEXT
        work[MOVED] = 1.0
    return DONE


@cached_njit
def _replace(
    dictionary: Array,
    old: Array,
    order: int,
    leaves: int,
    share: float,
    points: ReadOnly,
    weights: ReadOnly,
    n: int,
) -> None:
    """Let point n in for an element that leaves, with its share in that one's weight."""
    enter(dictionary, old, order, order, points, weights, n)  # a step has room for all of its points
    for c in range(old.shape[1]):
        old[order, c] += share * old[leaves, c]
    close_up(dictionary, order + 1, leaves, 1)
    close_up(old, order + 1, leaves, 1)


@inline_always
def _on_the_new(weights: Array, diagonal: Array, row: Array, itself: float) -> tuple[int, float, float]:
    """Find the element r that loses least when projected on kappa(x, .); returns r, its share and the squared loss."""
    best, least = 0, math.inf
    for r in range(len(row)):
        squared = squared_length(weights, r) * max(diagonal[r] - row[r] * row[r] / itself, 0.0)
        if squared < least:
            best, least = r, squared
    return best, row[best] / itself, least


@inline_always
def _stays_out(
    old: Array,
    diagonal: Array,
    row: Array,
    weights: ReadOnly,
    n: int,
    gram: ReadOnly,
    squared: float,
    work: Array,
) -> bool:
    """Project point n itself on the element where it loses least, if that is no more than ``squared``; tell whether."""
    best, most = -1, 0.0
    for r in range(len(row)):
        if row[r] * row[r] > most * diagonal[r]:
            best, most = r, row[r] * row[r] / diagonal[r]
    lost = squared_length(weights, n) * max(gram[n, n] - most, 0.0)
    if best < 0 or lost > squared:
        return False
    for c in range(old.shape[1]):
        old[best, c] += row[best] / diagonal[best] * weights[n, c]
    work[ERROR] += math.sqrt(lost)
    work[PHASE] = NEXT
    return True


RULES = {
    "simple": DictionaryRule(project_on_the_new, rows=2, gram=True, norms=True),
    "nearest": DictionaryRule(project_on_the_nearest, rows=2, gram=True, norms=True),
    "projecting": PROJECT_LEAST._replace(norms=True),
}
"""All want kappa(x, x) of the samples, for their coefficients."""
