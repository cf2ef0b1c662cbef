"""Online kernel feature extraction: every uncensored sample becomes a point of the subspace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners import calling
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.linear_in_features import LinearInFeatures
from kernelswarm.agents.learners.subspace import CompiledSubspace, Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.subspace_rules import Censoring, MovingAverage, Normalized, SubspaceStep, Threshold
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# Learners that are linear in the features of a subspace, which is updated by the node's own samples.


class SubspaceState:
    """State of such a learner: the subspace, the function on it, and the number of steps taken.

    The subspace holds the function's weights. With one weight per point they are a separate array, ``of_points``.
    """

    __slots__ = ("function", "of_points", "steps", "subspace")

    def __init__(self, subspace: Subspace, of_points: Array | None = None) -> None:
        self.__setstate__((subspace, 0, of_points))

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy, whose function must refer to its own subspace."""
        return self.subspace, self.steps, self.of_points

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.subspace, self.steps, self.of_points = state
        self.refer()

    def refer(self) -> None:
        """Rebuild the function from the current subspace and weights."""
        subspace, mixing, weights = self.subspace, self.subspace.mixing, self.subspace.coefficients
        if self.of_points is not None:
            mixing, weights = subspace.mixing_of_points(), self.of_points
        self.function = SubspaceFunction(subspace.kernel, subspace.points, subspace.factor, mixing, weights)


@dataclass(frozen=True)
class SubspaceDescent(LinearInFeatures, ABC):
    """Gradient descent on the weights w of the features z, followed by an update of the subspace.

        w <- (1 - eta lambda_w) w - sum_sets (eta / b) sum_k z(x_k) g_k'

    The step uses the features of the subspace before its update. Then the subspace is updated with each of the node's
    own samples. With unchanged weights the function would change together with the features. With ``follow`` the
    weights are replaced by those of the nearest function on the new features. With ``coordinates = "points"`` the
    features are ``K_SS^(1/2) A q``, one for each stored point: a new point has the weight 0, and the weight of a
    removed point is dropped.
    """

    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    rank: int = 10
    subspace_regularization: float = 1e-3
    subspace_step: SubspaceStep = field(default=Normalized(), metadata={"part": "subspace_step"})
    subspace_update: Literal["nonparametric", "parametric"] = "nonparametric"
    follow: bool = True
    coordinates: Literal["subspace", "points"] = "subspace"

    ranges: ClassVar = {"subspace_regularization": Range("(0, inf)", "1e-3 is usual")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates == "points" and self.follow:
            raise RefusedKey(
                "coordinates", '= "points" needs follow = false: weights that follow are the same function in both'
            )
        self.tracking()

    @abstractmethod
    def tracking(self) -> Tracking:
        """Return the rules by which the subspace follows its samples."""

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x), an upper bound: ``||z(x)||`` is the norm of a shrunk projection."""
        return self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> SubspaceState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.coordinates == "points":
            return SubspaceState(Subspace(self.kernel, self.tracking(), inputs), np.zeros((0, outputs)))
        return SubspaceState(Subspace(self.kernel, self.tracking(), inputs, outputs, self.follow))

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step on the weights with all points, then let the subspace follow the node's own.

        Parameters
        ----------
        state : SubspaceState
            Updated in place; ``evaluations`` must be evaluations of its current function.
        evaluations : sequence of Evaluated
            The evaluation at the node's own samples, if any, and, in the symmetric form, at each neighbour's.
        gradients : sequence of Array
            The derivatives at the points of each evaluation, (n_k, C).
        curvatures : sequence of float, optional
            The second derivatives of the terms at each evaluation's points. If given, the step is implicit.
        targets : Array
            The targets of the own samples, (n, q). Without rows the subspace does not change.

        Returns
        -------
        Info
            The compression error is the Hilbert norm of the function's change in the update of the subspace.
        """
        if self.coordinates == "subspace":
            return calling.step(self, state, evaluations, gradients, curvatures, targets, eta)
        info = super().step(state, evaluations, gradients, curvatures, targets, eta)
        return Info(self._visit_with_points(state, evaluations[0].points[: len(targets)]), info.step_size)

    def _visit_with_points(self, state: Any, points: Array) -> float:
        """Update the subspace with the points, and the weights of stored points; returns the norm of f's change."""
        before, stored = self.function_from(state.function.arrays()), False
        for n in range(len(points)):
            visit = state.subspace.visit(points[n : n + 1])
            if visit.stored:
                stored = True
                weights = np.concatenate([state.of_points, np.zeros((1, state.function.outputs))])
                state.of_points = np.delete(weights, visit.dropped, axis=0) if visit.dropped >= 0 else weights
        if not stored:
            return 0.0
        state.refer()
        return float(state.function.distance(before))

    def function_from(self, arrays: Mapping[str, Array]) -> SubspaceFunction:
        """Rebuild a function from its saved arrays."""
        names = ("points", "basis", "mixing", "coefficients")
        return SubspaceFunction(self.kernel, *(arrays[name] for name in names))

    def snapshot(self, state: Any) -> dict[str, Array]:
        """Return the arrays of the subspace, the ``coefficients`` (r, C), and the number of ``steps``."""
        return {**state.subspace.snapshot(), **super().snapshot(state)}

    def restore(self, state: Any, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.subspace.restore(arrays)
        if self.coordinates == "points":
            state.of_points = arrays["coefficients"].copy()
        state.refer()
        super().restore(state, arrays)


@dataclass(frozen=True)
class Okfe(SubspaceDescent):
    """A linear model on learned features: online kernel feature extraction (OKFEB algorithms 2 and 3).

    The function is f(x) = w'z(x). The features z come from the coefficients q of x in a learned subspace of dimension r
    of the Hilbert space, L = Phi_S A:

        q = inv(A'K_SS A + lambda I) A'k_S(x)        z = (A'K_SS A)^(1/2) q        z(x).z(y) = <L q(x), L q(y)>

    S contains all uncensored samples. For each of them A takes a gradient step on
    ``||phi(x) - L q||^2 / 2 + lambda / (2 n) ||L||^2``. The number of points grows without bound.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta, the step size of the weights: a number or a schedule, below 1 / regularization.
    regularization : float
        The Tikhonov coefficient of the weights, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    kernel : Kernel
        The reproducing kernel.
    rank : int
        r, the number of features, at least 1.
    subspace_regularization : float
        lambda, positive.
    subspace_step : SubspaceStep
        mu, the step size of the subspace: "normalized" keeps tracking changes;
        ``{ name = "power", initial = m, offset = n, exponent = p }`` decreases, so that the subspace converges.
    subspace_update : str
        "nonparametric" (algorithm 3) or "parametric" (algorithm 2).
    follow : bool
        Whether the weights are refitted when the subspace changes, so that the function stays nearly the same.
    coordinates : str
        The features that the weights belong to: "subspace", the r features above, or "points", the published features
        ``K_SS^(1/2) A q``, one for each stored point. "points" needs ``follow = false``, and a step takes O(m^3).
    censoring : Censoring
        The rule for samples that cause no update: ``{ threshold = e }`` or "moving_average".
    """

    censoring: Censoring = field(default=Threshold(), metadata={"part": "censoring", "scalar": "threshold"})

    def tracking(self) -> Tracking:
        return Tracking(
            self.rank, self.subspace_regularization, self.subspace_step, self.censoring, self.subspace_update
        )

    @property
    def compiled(self) -> CompiledSubspace:
        """Functions and numbers of the learner for compiled rounds.

        Raises
        ------
        NotCompiledError
            If the weights belong to the points.
        """
        return CompiledSubspace(self)


# Online kernel feature extraction on a budget: the subspace is spanned by a bounded number of points.


@dataclass(frozen=True)
class Okfeb(SubspaceDescent):
    """A linear model on learned features, on a budget (OKFEB algorithms 4 and 5).

    The learner is `okfe` with at most ``budget_size`` points. A sample whose fitting error is below the threshold
    causes no update. If there is one point too many, the point with the smallest ``beta^age ||phi(x_i) a_i'||`` is
    removed, with a_i its row of A. The norm ``||phi(x_i) a_i'|| = ||a_i|| sqrt(kappa(x_i, x_i))`` is the change of
    Phi A by the removal.

    Parameters
    ----------
    loss, step_size, regularization, batch_size, kernel, rank
        As for `okfe`; the rank is at most the budget size.
    subspace_regularization, subspace_step, subspace_update, follow, coordinates
        As for `okfe`.
    budget_size : int
        B, the largest number of stored points; 1.5 to 5 times the rank is usual.
    recency : float
        beta, in (0, 1]. 1 removes the point with the smallest effect, and small values remove the oldest point; below 1
        the subspace follows changes faster.
    censoring : Censoring
        The rule for samples that cause no update: ``{ threshold = e }`` or "moving_average".
    censoring_from : str
        "rank": samples are censored as soon as there is a basis; "budget": only once the budget is full, as in the
        paper (OKFEB section V-A).
    """

    budget_size: int = 30
    recency: float = 1.0
    censoring: Censoring = field(default=MovingAverage(), metadata={"part": "censoring", "scalar": "threshold"})
    censoring_from: Literal["rank", "budget"] = "rank"

    def tracking(self) -> Tracking:
        return Tracking(
            self.rank,
            self.subspace_regularization,
            self.subspace_step,
            self.censoring,
            self.subspace_update,
            self.budget_size,
            self.recency,
            self.censoring_from,
        )

    @property
    def compiled(self) -> CompiledSubspace:
        """Functions and numbers of the learner for compiled rounds.

        Raises
        ------
        NotCompiledError
            If the weights belong to the points.
        """
        return CompiledSubspace(self)
