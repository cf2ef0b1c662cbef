"""Compositional online learning with kernels: compressed functional descent on a mean loss and its dispersion."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, ROOM, GradientArguments, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Expansion, length_of, tables
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, combine_into
from kernelswarm.agents.learners import calling, polk
from kernelswarm.agents.learners.compositional import (
    WEIGHTS_ALLOWED,
    CompiledComposition,
    CompiledPair,
    Composition,
    Joined,
    Pairing,
    TrackedMean,
    Weight,
    check_pairs,
    check_tracking,
    curvature_of,
    learn_from_pairs,
    looks_back,
    of_samples,
    share_of,
    step_on_pairs,
    stride_of,
    weight_strengths,
)
from kernelswarm.agents.learners.descent import CAPACITY, CROSS, evaluate, kernel_numbers
from kernelswarm.agents.learners.polk import CHANGES, Polk, PolkState
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun
from kernelswarm.agents.parts.dispersions import Dispersion, Variance
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import words_of

# COLK's step in compiled code: POLK's step along other coefficients, with a tracked center.
#
# Where pairs slide, the last sample of the batch before is the first of a pair. It is stored with the function before
# the last step, and is evaluated within the gradient and the step; the caller of the step does not know of it. It may
# enter the dictionary in addition to the points of the step, so that a state reports room for one point less than there
# is.

PREVIOUS = CHANGES + 1
"""Index, among a state's integers, of the order of the function before the last step; after POLK's integers."""

CENTER, WIDTH = range(OWN)
"""Indices among the numbers before that function's: g, NaN before the first pair, and the length of the kept sample's
target, 0 without such a sample."""


class Before(KernelSum):
    """The function before the last step, and the last sample of the batch before: its point and its target."""

    __slots__ = ("point", "target")

    point: Array
    target: Array
    parts: ClassVar = {**KernelSum.parts, "point": "p", "target": "C"}


class BeforeTables(NamedTuple):
    """The arrays of `Before` in a state's storage, behind the function's."""

    numbers: Array  # (OWN,)
    points: Array  # (capacity, p)
    weights: Array  # (capacity, C)
    point: Array  # (p,)
    target: Array  # (C,)


@inline_always
def before_in(storage: Array, capacity: int, inputs: int, outputs: int) -> BeforeTables:
    """Return the arrays of `Before`, in the layout of its parts."""
    first = length_of(capacity, inputs, outputs)
    points = first + OWN
    weights = points + capacity * inputs
    point = weights + capacity * outputs
    return BeforeTables(
        line(storage, first, OWN),
        table(storage, points, capacity, inputs),
        table(storage, weights, capacity, outputs),
        line(storage, point, inputs),
        line(storage, point + inputs, outputs),
    )


@cached_njit
def _paired(given: GradientArguments) -> tuple[Array, Array, float, Array]:
    """Return the kept point, (1, p), or (0, p) without one, its kernel row, g for the next step, and the coefficients.

    The coefficients are those at the kept point and at the node's own samples.
    """
    tools, numbers, counts = given.tools, given.numbers, given.counts
    (own, outputs), inputs, width = given.values.shape, given.points.shape[1], given.targets.shape[1]
    before, order = before_in(given.storage, counts[CAPACITY], inputs, outputs), counts[PREVIOUS]
    kept = 1 if own and before.numbers[WIDTH] > 0.0 else 0
    point, target = table(before.point, 0, kept, inputs).copy(), table(before.target, 0, kept, width)
    row, value = np.empty((kept, given.rows.shape[1])), np.empty((kept, outputs))
    evaluate(tools, numbers, given.storage, counts, point, row, value)
    seconds = np.concatenate((point, given.points))[1 :: stride_of(numbers)].copy()
    rows, earlier = np.empty((len(seconds), order)), np.empty((len(seconds), outputs))
    dictionary = table(before.points, 0, order, inputs)
    kernel_at(tools[CROSS])(kernel_numbers(numbers), seconds, dictionary, rows)
    combine_into(rows, before.weights, order, earlier)
    values, targets = np.concatenate((value, given.values)), np.concatenate((target, given.targets))
    center, found = learn_from_pairs(given, before.numbers[CENTER], earlier, values, targets)
    return point, row, center, found


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    point, _, _, coefficients = _paired(given)
    found[:] = coefficients[len(point) :]


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step on the samples' pairs."""
    numbers, storage, counts = given.numbers, given.storage, given.counts
    capacity, order, inputs, (own, outputs) = counts[CAPACITY], counts[ORDER], given.points.shape[1], given.values.shape
    point, row, center, coefficients = _paired(of_samples(given))
    kept, share = len(point), share_of(numbers, own)
    joined = Joined(
        np.concatenate((point, given.points)),
        np.concatenate((row, given.rows)),
        np.concatenate((share * coefficients[:kept], given.gradients)),
        np.concatenate((given.rates[:kept], given.rates)),
        np.concatenate((np.full(kept, share * curvature_of(numbers)), given.stiffness)),
    )
    before = before_in(storage, capacity, inputs, outputs)
    before.numbers[CENTER] = center
    if own and looks_back(numbers):
        dictionary, weights, _, _ = tables(storage, capacity, inputs, outputs)
        before.points[:order] = dictionary[:order]
        before.weights[:order] = weights[:order]
        counts[PREVIOUS] = order
    if own and stride_of(numbers) == 1:
        width = given.targets.shape[1]
        before.point[:] = given.points[own - 1]
        before.target[:width] = given.targets[own - 1]
        before.numbers[WIDTH] = width
    error = step_on_pairs(given, joined, kept + own)
    counts[ROOM] -= 1
    return error


class CompiledColk(CompiledPair):
    """Functions and numbers of COLK for compiled rounds."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._composition = CompiledComposition(learner, self.tools, polk.step)
        self.tools = self._composition.tools
        self._numbers = self._composition.numbers(self._numbers)

    @property
    def gradient(self) -> Any:
        return gradient

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of POLK's working memory, with the kept sample."""
        return super().scratch(state, capacity, points + 1)

    def step_sizes(self, first: int, steps: int) -> Array:
        return self._composition.step_sizes(first, steps)

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of the larger function, plus one for the kept sample."""
        return super().order(state) + 1

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points and the kept sample; returns the capacity."""
        return super().reserve(state, points + 1)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        counts = np.append(super().counts(state, capacity, points + 1), state.before.order)
        counts[ROOM] -= 1
        return counts

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts, steps)
        state.before.order = int(counts[PREVIOUS])


class ColkState(PolkState):
    """State of a POLK learner, with the center of the dispersion and the function before the last step.

    With sliding pairs it also holds the last sample.
    """

    __slots__ = ("before", "vector")

    def __init__(self, function: Expansion, budget: float) -> None:
        super().__init__(function, budget)
        self.before = Before(function.kernel, function.inputs, function.outputs)
        self.vector: Array | None = None
        """The vector that holds the whole state during compiled steps."""
        self.center = math.nan

    @property
    def sums(self) -> tuple[KernelSum, KernelSum]:
        """The functions in the order of storage."""
        return self.function, self.before

    @property
    def center(self) -> float:
        """The center g of the last step; NaN before the first pair."""
        return float(self.before.storage[CENTER])  # compiled steps store it there

    @center.setter
    def center(self, center: float) -> None:
        self.before.storage[CENTER] = center


@dataclass(frozen=True)
class Colk(Polk):
    """Compositional, risk-aware functional stochastic gradient descent with destructive KOMP (COLK algorithm 1).

    The objective is the mean loss plus nu times a dispersion D of the loss (COLK eq. 12; SURVEY eq. 8),

        min_f  E[l(f(x), y)] + nu D[l(f(x), y)] + lambda / 2 ||f||^2

    Samples 2k and 2k + 1 of a round form a pair of independent samples (x, y), (x', y'). The second sample updates g,
    the tracked mean loss. A step is the mean over the pairs of (COLK eq. 47)

        f~ = (1 - eta lambda) f - eta { l'(f(x), y) kappa(x, .)
                 + nu d'(l(f(x), y) - g) [ l'(f(x), y) kappa(x, .) - l'(f(x'), y') kappa(x', .) ] }

    and is compressed as in :class:`~kernelswarm.agents.learners.polk.Polk`. With sliding pairs, each sample is the
    second of one pair and the first of the next, so that there are as many pairs as samples; the last sample of a
    round is kept, and begins the first pair of the next round. Under a protocol the coupling acts at all samples of the
    round. With nu = 0 and no coupling, second samples have no effect: the learner is POLK on the first samples, equal
    to the bit for up to 32 inputs. In the implicit step the coupling and a quadratic mean loss are taken at the new
    function; the dispersion stays explicit.

    Parameters
    ----------
    loss : Loss
        The loss l of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is
        half of "auto": the first sample of a disjoint pair counts twice, and a sliding sample is used in two pairs.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        The number of samples that a node draws per round; even for disjoint pairs.
    budget : Budget
        The rule for the compression error eps, as for POLK; the paper's rule is ``{ quadratic = K }``.
    dispersion : Dispersion
        D: variance, central_moments, semivariance or cvar.
    dispersion_weight : float or "auto"
        nu, nonnegative. With "auto" the dispersion multiplies the loss's derivatives by a factor from 1/2 to 3/2, for
        all losses up to four times the largest loss of f = 0 on training data. It does not depend on the targets' unit.
    tracking : str
        "difference" (COLK eq. 20) or "average" (SURVEY eq. 11): how g follows the mean loss.
    tracking_rate : Schedule
        beta in (0, 1], a number or a schedule.
    pairs : str
        "disjoint": each pair has two new samples, as the theorems assume. "sliding": each new sample forms a pair with
        the sample before it, from which f and g have already learned.
    """

    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    batch_size: int = 2
    budget: Budget = field(default=PerSample(), metadata={"part": "budget"})
    dispersion: Dispersion = field(default=Variance(), metadata={"part": "dispersion"})
    dispersion_weight: Weight = "auto"
    tracking: TrackedMean = "difference"
    tracking_rate: Schedule = field(default=Constant(0.01), metadata={"part": "schedule", "scalar": "constant"})
    pairs: Pairing = "disjoint"

    ranges: ClassVar = {"dispersion_weight": WEIGHTS_ALLOWED}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs == "disjoint":
            check_pairs(self.batch_size)
        check_tracking(self.tracking_rate)

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the dispersion weight computed from a sample of the data."""
        return replace(self, dispersion_weight=self.composition.fitted_weight(sample))

    @property
    def strengths(self) -> dict[str, float]:
        """The key that scales the gradient of the dispersion, with its value."""
        return weight_strengths(self.dispersion_weight)

    @cached_property
    def composition(self) -> Composition:
        """The mean loss and its dispersion."""
        return Composition(
            self.loss, self.dispersion, self.dispersion_weight, self.tracking, self.tracking_rate, self.pairs
        )

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x); twice that for disjoint pairs, because their first sample counts twice."""
        if self.kernel.supremum is None or self.pairs == "sliding":
            return self.kernel.supremum
        return 2.0 * self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> ColkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return ColkState(Expansion(self.kernel, inputs, outputs), begun(self.budget))

    gradient = calling.gradient
    step = calling.step

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return POLK's arrays, the ``center`` g (NaN before the first pair) and the function before the last step.

        With sliding pairs the kept sample is included.
        """
        assert isinstance(state, ColkState)
        before = state.before
        found = {f"previous_{name}": array for name, array in before.arrays().items()}
        if self.pairs == "sliding":
            width = int(before.storage[WIDTH])
            found["kept_points"] = before.point.reshape(1, -1)[: min(width, 1)].copy()
            found["kept_targets"] = before.target[:width].reshape(-1, max(width, 1)).copy()
        return {**super().snapshot(state), **found, "center": np.array(state.center)}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        assert isinstance(state, ColkState)
        super().restore(state, arrays)
        before = state.before.assign(arrays["previous_points"], arrays["previous_weights"])
        state.center = float(arrays["center"])
        if self.pairs == "sliding" and len(arrays["kept_points"]):
            target = arrays["kept_targets"][0]
            before.point[:], before.target[: len(target)] = arrays["kept_points"][0], target
            before.storage[WIDTH] = len(target)

    @property
    def compiled(self) -> CompiledColk:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledColk(self)
