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
    """A POLK learner's state, the center of the dispersion, and the function before the last step.

    Where pairs slide, the last sample too.
    """

    __slots__ = ("kept", "previous", "vector")

    def __init__(self, function: Expansion, budget: float) -> None:
        super().__init__(function, budget)
        self.previous = KernelSum(function.kernel, function.inputs, function.outputs)
        self.kept = KeptSample(function.inputs, function.outputs)
        self.vector: Array | None = None
        """The vector that holds all of these during compiled steps."""
        self.center = math.nan

    @property
    def sums(self) -> tuple[KernelSum, KernelSum]:
        """The functions in the order in which they lie."""
        return self.function, self.previous

    @property
    def center(self) -> float:
        """The center g as the last step had it; NaN before the first pair."""
        return float(self.previous.storage[0])  # where compiled steps keep it

    @center.setter
    def center(self, center: float) -> None:
        self.previous.storage[0] = center


@dataclass(frozen=True)
class Colk(Polk):
    """Compositional, risk-aware functional stochastic gradient descent with destructive KOMP (COLK algorithm 1).

    It minimises the mean loss plus nu times a dispersion D of the loss (COLK eq. 12; SURVEY eq. 8),

        min_f  E[l(f(x), y)] + nu D[l(f(x), y)] + lambda / 2 ||f||^2

    Samples 2k and 2k + 1 of a round are a pair (x, y), (x', y'), independent since they are drawn one after the other.
    The second tracks g, the mean loss, and a step is the mean over the pairs of (COLK eq. 47)

        f~ = (1 - eta lambda) f - eta { l'(f(x), y) kappa(x, .)
                 + nu d'(l(f(x), y) - g) [ l'(f(x), y) kappa(x, .) - l'(f(x'), y') kappa(x', .) ] }

    and is compressed as in :class:`~kernelswarm.agents.learners.polk.Polk`. Where pairs slide, each sample is the
    second of a pair and then the first of the next, and a step is the mean over as many pairs as there are samples; the
    last sample of a round is kept for the next, whose first pair it begins. Under a protocol the coupling acts at all
    samples of the round. With nu = 0 and no coupling, second samples change nothing: this is POLK on the first ones, to
    the bit up to 32 inputs. The implicit step takes the coupling and a quadratic mean loss at the new function; the
    dispersion stays explicit.

    Parameters
    ----------
    loss : Loss
        The loss l of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The default is half of "auto", since the first sample of
        a pair counts for both, and since a sample of two sliding pairs is learned from twice.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        The samples that a node draws in a round, two for each pair: even, unless pairs slide.
    budget : Budget
        The rule for the compression error eps, as for POLK; ``{ quadratic = K }`` is the published one.
    dispersion : Dispersion
        D: variance, central_moments, semivariance or cvar.
    dispersion_weight : float or "auto"
        nu, not negative. "auto": such that the dispersion multiplies the loss's derivatives by 1/2 to 3/2, also where
        the loss is four times as large as any of f = 0 on training data, in whatever unit the targets are.
    tracking : str
        "difference" (COLK eq. 20) or "average" (SURVEY eq. 11): how g follows the mean loss.
    tracking_rate : Schedule
        beta in (0, 1], a number or a schedule.
    pairs : str
        "disjoint": two fresh samples for each pair, as the theorems have it. "sliding": a pair for each sample, the
        first of which was drawn before, and is known to f and g.
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
        """Return the learner with the weight that suits a sample of the data."""
        return replace(self, dispersion_weight=self.composition.fitted_weight(sample))

    @property
    def strengths(self) -> dict[str, float]:
        """The key that makes the dispersion's pull stronger, with its value."""
        return weight_strengths(self.dispersion_weight)

    @cached_property
    def composition(self) -> Composition:
        """The mean loss and its dispersion."""
        return Composition(
            self.loss, self.dispersion, self.dispersion_weight, self.tracking, self.tracking_rate, self.pairs
        )

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x); twice that where pairs are disjoint, whose first sample counts for both."""
        if self.kernel.supremum is None or self.pairs == "sliding":
            return self.kernel.supremum
        return 2.0 * self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> ColkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return ColkState(Expansion(self.kernel, inputs, outputs), begun(self.budget))

    gradient = calling.gradient
    step = calling.step

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return POLK's arrays, the ``center`` g, NaN before the first pair, and the function before the last step.

        Where pairs slide, the sample that is kept too.
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
        """The learner's functions and numbers for compiled rounds."""
        return CompiledColk(self) if self.pairs == "disjoint" else CompiledSlidingColk(self)
