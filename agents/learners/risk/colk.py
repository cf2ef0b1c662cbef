"""Compositional online learning with kernels: compressed functional descent on a mean loss and its dispersion."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.learners.risk.colk_steps import CompiledColk
from kernelswarm.agents.learners.risk.compositional import (
    Composition,
    TrackedMean,
    Weight,
    check_pairs,
    weight_strengths,
    weight_words,
)
from kernelswarm.agents.parts.budgets import Budget, PerSample
from kernelswarm.agents.parts.dispersions import Dispersion, Variance
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule

Array = npt.NDArray[np.float64]


class ColkState(PolkState):
    """A POLK learner's state, the center of the dispersion, and the function before the last step."""

    __slots__ = ("previous", "vector")

    def __init__(self, function: Expansion, budget: float) -> None:
        super().__init__(function, budget)
        self.previous = KernelSum(function.kernel, function.inputs, function.outputs)
        self.vector: Array | None = None
        """What both functions lie in, while compiled steps are taken."""
        self.center = math.nan

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

    and is compressed as in :class:`~kernelswarm.agents.learners.polk.Polk`. Under a protocol the coupling acts at all
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
        a pair counts for both.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        The samples that a node draws in a round, two for each pair: even.
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
    """

    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    batch_size: int = 2
    budget: Budget = field(default=PerSample(), metadata={"part": "budget"})
    dispersion: Dispersion = field(default=Variance(), metadata={"part": "dispersion"})
    dispersion_weight: Weight = "auto"
    tracking: TrackedMean = "difference"
    tracking_rate: Schedule = field(default=Constant(0.01), metadata={"part": "schedule", "scalar": "constant"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pairs(self.batch_size)
        self.composition  # noqa: B018  made now, so that it refuses what is out of range

    @property
    def words(self) -> tuple[str, ...]:
        """The keys that hold a word which data turn into a number."""
        return weight_words(self.dispersion_weight)

    def fitted(self, sample: Sample) -> Self:
        """Return the learner with the weight that suits a sample of the data."""
        return replace(self, dispersion_weight=self.composition.fitted_weight(sample))

    @property
    def strengths(self) -> dict[str, float]:
        """The key that makes the dispersion's pull stronger, with its value."""
        return weight_strengths(self.dispersion_weight)

    @cached_property
    def composition(self) -> Composition:
        """The mean loss and its dispersion."""
        return Composition(self.loss, self.dispersion, self.dispersion_weight, self.tracking, self.tracking_rate)

    @property
    def gain(self) -> float | None:
        """Twice the supremum of kappa(x, x), since the first sample of a pair counts for both."""
        return None if self.kernel.supremum is None else 2.0 * self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> ColkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return ColkState(Expansion(self.kernel, inputs, outputs), self.budget.start())

    def gradient(self, state: ColkState, own: Evaluated, targets: Array) -> Array:
        """Return the objective's coefficients at the samples, (n, C)."""
        losses = self.loss.values(own.values, targets)
        return self.composition.gradient(self._center(state, own, losses, targets), losses, own.values, targets)

    def _center(self, state: ColkState, own: Evaluated, losses: Array, targets: Array) -> float:
        """Return g in the step to come."""

        def before() -> Array:
            return state.previous.values(np.ascontiguousarray(own.points[1::2]))

        return self.composition.center(state.center, losses, targets, before, state.steps)

    def step(
        self,
        state: PolkState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)`` and compress.

        With own samples, g advances.
        """
        assert isinstance(state, ColkState)
        eta = self.eta(state) if eta is None else eta
        points, rows, weights, rates, stiffness = self.composition.pairs(
            eta, evaluations, gradients, curvatures, len(targets), self.batch_size
        )
        if len(targets):
            losses = self.loss.values(evaluations[0].values, targets)
            state.center = self._center(state, evaluations[0], losses, targets)
            if self.composition.looks_back:
                state.previous.assign(state.function.points, state.function.weights)
        implicit = curvatures is not None
        gram = self.kernel.cross(points, points) if implicit else np.empty((0, 0))
        weigh(gram, weights, rates, stiffness, implicit)
        return self.move(state, eta, points, weights, rows)

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return what POLK does, the ``center`` g, NaN before the first pair, and the function before the last step."""
        assert isinstance(state, ColkState)
        before = {f"previous_{name}": array for name, array in state.previous.arrays().items()}
        return {**super().snapshot(state), **before, "center": np.array(state.center)}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Put the state where :meth:`snapshot` was taken."""
        assert isinstance(state, ColkState)
        super().restore(state, arrays)
        state.previous.assign(arrays["previous_points"], arrays["previous_weights"])
        state.center = float(arrays["center"])

    @property
    def compiled(self) -> CompiledColk:
        """What the learner hands over to compiled rounds.

        Raises
        ------
        NotCompiledError
            When the kernel, the budget, the loss or the dispersion hands nothing over.
        """
        return CompiledColk(self)
