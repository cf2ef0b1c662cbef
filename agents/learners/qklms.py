"""Quantised kernel least mean squares: a sample near a point of the dictionary adds to that point's weight."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import enter, is_zero, scale, squared_length
from kernelswarm.agents.learners.descent import CAPACITY
from kernelswarm.agents.learners.kernel_descent import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ERROR,
    HEADER,
    NORMS,
    PHASE,
    START,
    CompiledDescent,
    DictionaryRule,
    KernelDescent,
    knows_norms,
    sum_of,
)
from kernelswarm.agents.parts.bandwidths import median_distance
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import Range, resolved_value, words_of

LONG_LOOPS = True

QUANTIZATION = BUDGET_SIZE
"""Of the rule's numbers."""

SHARE = 0.05
"""Of the median distance: an eighth of the bandwidth "median", over which a Gaussian kernel changes by under a
hundredth."""

EIGHTH = 0.125
"""The same where the kernel has a length for each input, in these lengths."""


@dataclass(frozen=True)
class Qklms(KernelDescent):
    """Quantised kernel least mean squares (Chen, Zhao, Zhu and Principe, IEEE TNNLS 2012).

    The step is that of `ogd`, f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .), but a point within
    ``quantization`` of the dictionary does not enter it: its weight is added to that of the nearest point, the oldest
    of equally near ones. So no two points of the dictionary are nearer to each other than ``quantization``, and it
    stops growing where the inputs are bounded.

    With the squared loss, whose derivative is twice the error, eta is half the paper's step size.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative; the paper has none.
    batch_size : int
        b, the samples that a node draws in a round.
    quantization : float or "auto"
        The paper's epsilon_U, a distance of inputs, not negative; 0 is kernel least mean squares (KLMS). "auto" is a
        twentieth of the median distance of two inputs. Where the kernel has a length for each input, distances are
        measured in these lengths, and "auto" is an eighth.
    """

    quantization: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"quantization": Range("[0, inf)", "it is a distance", "auto")}

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the distance that suits a sample of the data."""
        return replace(self, quantization=EIGHTH if self._factors else SHARE * median_distance(sample.points))

    @property
    def _factors(self) -> list[float]:
        """What each input is multiplied by before distances are measured; empty where nothing is."""
        lengths: float | tuple[float, ...] = getattr(self.kernel, "bandwidth", 1.0)
        return [1.0 / length for length in lengths] if isinstance(lengths, tuple) else []

    @property
    def rule(self) -> DictionaryRule:
        """Let only points enter that are far from all others."""
        return QUANTIZE

    def rule_numbers(self) -> list[float]:
        """Return the distance, and the factors of the inputs."""
        return [resolved_value("quantization", self.quantization), *self._factors]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)


@cached_njit
def quantize(
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
    """Add each point, or its weight to the nearest one.

    What that changes is ``||w|| ||kappa(x, .) - kappa(d, .)||``. The first row of the work has kappa(d, d), the second
    the places among the step's points of those that entered.
    """
    capacity, before = counts[CAPACITY], counts[ORDER]
    dictionary, old = sum_of(storage, capacity, points.shape[1], weights.shape[1])
    if work[PHASE] == START and not knows_norms(own, work, before):
        work[PHASE] = ASKED
        return NORMS
    norms, origins = line(work, HEADER, capacity), line(work, HEADER + capacity, capacity)
    factors = line(own, QUANTIZATION + 1, len(own) - QUANTIZATION - 1)
    scale(old, before, shrink)
    order = before
    for n in range(len(points)):
        if is_zero(weights, n):
            continue
        place, squared = _nearest(dictionary, order, points, n, factors)
        if squared > own[QUANTIZATION] * own[QUANTIZATION]:
            place = order
            norms[order], origins[order] = gram[n, n], n
        elif squared > 0.0:
            across = rows[n, place] if place < before else gram[n, int(origins[place])]
            apart = max(gram[n, n] - 2.0 * across + norms[place], 0.0)
            work[ERROR] += math.sqrt(squared_length(weights, n) * apart)
        order = enter(dictionary, old, order, place, points, weights, n)
    counts[ORDER] = order
    return DONE


@inline_always
def _nearest(dictionary: Array, order: int, points: Array, n: int, factors: Array) -> tuple[int, float]:
    """Find the point nearest to new point n, the oldest of equal ones, and its squared distance.

    Differences are multiplied by the inputs' factors, where there are any.
    """
    place, least = order, math.inf
    scaled = len(factors) > 0
    for m in range(order):
        squared = 0.0
        for i in range(points.shape[1]):
            apart = dictionary[m, i] - points[n, i]
            if scaled:
                apart *= factors[i]
            squared += apart * apart
        if squared < least:
            place, least = m, squared
    return place, least


QUANTIZE = DictionaryRule(quantize, rows=2, gram=True, norms=True)
