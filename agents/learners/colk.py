"""Compositional online learning with kernels: compressed functional descent on a mean loss and its dispersion."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners import calling
from kernelswarm.agents.learners.colk_steps import CompiledColk, CompiledSlidingColk, KeptSample
from kernelswarm.agents.learners.compositional import (
    WEIGHTS_ALLOWED,
    Composition,
    Pairing,
    TrackedMean,
    Weight,
    check_pairs,
    check_tracking,
    weight_strengths,
)
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun
from kernelswarm.agents.parts.dispersions import Dispersion, Variance
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array
from kernelswarm.ranges import words_of


class ColkState(PolkState):
    """State of a POLK learner, with the center of the dispersion and the function before the last step.

    With sliding pairs it also holds the last sample.
    """

    __slots__ = ("kept", "previous", "vector")

    def __init__(self, function: Expansion, budget: float) -> None:
        super().__init__(function, budget)
        self.previous = KernelSum(function.kernel, function.inputs, function.outputs)
        self.kept = KeptSample(function.inputs, function.outputs)
        self.vector: Array | None = None
        """The vector that holds the whole state during compiled steps."""
        self.center = math.nan

    @property
    def sums(self) -> tuple[KernelSum, KernelSum]:
        """The functions in the order of storage."""
        return self.function, self.previous

    @property
    def center(self) -> float:
        """The center g of the last step; NaN before the first pair."""
        return float(self.previous.storage[0])  # compiled steps store it there

    @center.setter
    def center(self, center: float) -> None:
        self.previous.storage[0] = center


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
        found = {f"previous_{name}": array for name, array in state.previous.arrays().items()}
        if self.pairs == "sliding":
            found |= {"kept_points": state.kept.points, "kept_targets": state.kept.targets}
        return {**super().snapshot(state), **found, "center": np.array(state.center)}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        assert isinstance(state, ColkState)
        super().restore(state, arrays)
        state.previous.assign(arrays["previous_points"], arrays["previous_weights"])
        state.center = float(arrays["center"])
        if self.pairs == "sliding":
            state.kept.keep(arrays["kept_points"], arrays["kept_targets"])

    @property
    def compiled(self) -> CompiledColk:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledColk(self) if self.pairs == "disjoint" else CompiledSlidingColk(self)
