"""Learners whose functions are linear in a fixed number of features: ``f(x) = W' phi(x)``.

What is the same for all of them is here: evaluation from the features, and gradient descent on the weights. A learner
adds its features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.functions.features import combine
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, check_step, joined
from kernelswarm.agents.learners.features.feature_steps import descend, gram_of
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule

Array = npt.NDArray[np.float64]


class FeatureFunction(Function, Protocol):
    """A function that is linear in its features."""

    coefficients: Array
    """The weights of all features, (L, C); the learner writes to them."""

    @property
    def shrunk(self) -> int:
        """How many of the features, from the first, are regularised."""
        ...

    def features(self, points: Array) -> Array:
        """Compute ``phi`` at ``points`` (n, p): (n, L)."""
        ...


class FeatureState:
    """Everything such a learner changes: the function's weights, and the number of steps taken."""

    __slots__ = ("function", "steps")

    def __init__(self, function: FeatureFunction) -> None:
        self.function = function
        self.steps = 0


@dataclass(frozen=True)
class LinearInFeatures(Descent):
    """Stochastic gradient descent on the weights of fixed features, with Tikhonov regularization.

    One step on sets of b points each is

        W <- (1 - eta lambda) W - sum_sets (eta / b) sum_k phi(x_k) g_k'

    where g_k is the derivative of the loss plus the coupling's at x_k. The implicit step takes the coupling, and a
    quadratic loss, at the new function: the Gram matrix of its points is ``Phi Phi'``.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    def evaluate(self, state: FeatureState, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p), and keep the features for the step."""
        features = state.function.features(points)
        return Evaluated(points, features, combine(features, state.function.coefficients))

    def inner(self, state: FeatureState, at: Evaluated) -> Array:
        """Return the inner products of the points' features, (n, n)."""
        gram = np.empty((len(at.rows), len(at.rows)))
        gram_of(np.ascontiguousarray(at.rows), at.rows.shape[1], gram)
        return gram

    def step(
        self,
        state: FeatureState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] phi(points_k[n])``."""
        eta = self.eta(state) if eta is None else eta
        function = state.function
        features = evaluations[0].rows if len(evaluations) == 1 else np.concatenate([each.rows for each in evaluations])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        size = len(weights)
        descend(
            function.coefficients,
            np.empty((size, size)),
            np.require(features, requirements=["C", "W"]),
            weights,
            rates,
            stiffness,
            curvatures is not None,
            1.0 - eta * self.regularization,
            function.shrunk,
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: FeatureState) -> FeatureFunction:
        return state.function

    def coefficients(self, state: FeatureState) -> Array:
        """Return the weights of all features, (L, C)."""
        return state.function.coefficients

    def regularized(self, state: FeatureState) -> int:
        """Return how many of the features, from the first, are regularised."""
        return state.function.shrunk

    def place(self, state: FeatureState, coefficients: Array, steps: int) -> None:
        """Put a state where its function has these weights (L, C), after so many steps."""
        state.function.coefficients[:] = coefficients
        state.steps = steps

    def snapshot(self, state: FeatureState) -> dict[str, Array]:
        """Return the weights of all ``coefficients`` (L, C), and the number of ``steps``; features do not change."""
        return {"coefficients": state.function.coefficients.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: FeatureState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        self.place(state, arrays["coefficients"], int(arrays["steps"]))
