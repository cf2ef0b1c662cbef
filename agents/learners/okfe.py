"""Online kernel feature extraction: every sample that is not censored becomes a point of the subspace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.linear_in_features import LinearInFeatures
from kernelswarm.agents.learners.subspace import CompiledSubspace, Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.subspace_rules import Censoring, MovingAverage, Normalized, SubspaceStep, Threshold
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# Learners that are linear in the features of a subspace which follows the node's own samples.


class SubspaceState:
    """Everything such a learner changes: the subspace, the function on it, and the number of steps taken.

    The function's weights are what the subspace has before its own numbers in its vector, or, with a weight for each
    point, an array of their own.
    """

    __slots__ = ("function", "of_points", "outputs", "steps", "subspace")

    def __init__(self, subspace: Subspace, outputs: int, of_points: Array | None = None) -> None:
        self.__setstate__((subspace, outputs, 0, of_points))

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy: its function must be that of its own subspace."""
        return self.subspace, self.outputs, self.steps, self.of_points

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.subspace, self.outputs, self.steps, self.of_points = state
        self.refer()

    def refer(self) -> None:
        """Let the function be that of the present subspace with its weights."""
        subspace = self.subspace
        if self.of_points is not None:
            mixing = subspace.mixing_of_points()
            self.function = SubspaceFunction(subspace.kernel, subspace.points, subspace.factor, mixing, self.of_points)
            return
        weights = subspace.storage[: subspace.own].reshape(subspace.tracking.rank, self.outputs)
        self.function = SubspaceFunction(subspace.kernel, subspace.points, subspace.factor, subspace.mixing, weights)


@dataclass(frozen=True)
class SubspaceDescent(LinearInFeatures, ABC):
    """Gradient descent on the weights w of the features z, after which the subspace follows the node's samples.

        w <- (1 - eta lambda_w) w - sum_sets (eta / b) sum_k z(x_k) g_k'

    with the features of the subspace before the step, then one visit of each of the node's own samples. As the features
    change with the subspace, so would the function with its weights kept; with ``follow`` the weights become those of
    the nearest function of the new features. With ``coordinates = "points"`` the features are ``K_SS^(1/2) A q``, one
    for each stored point: a new point's weight is 0, and a point that goes takes its own along.
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
        """Return how the subspace follows its samples."""

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x): ``||z(x)||`` is the norm of a projection, shrunk."""
        return self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> SubspaceState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.coordinates == "points":
            return SubspaceState(Subspace(self.kernel, self.tracking(), inputs), outputs, np.zeros((0, outputs)))
        return SubspaceState(Subspace(self.kernel, self.tracking(), inputs, self.rank * outputs), outputs)

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
            Advanced in place; the evaluations must be of its present function.
        evaluations : sequence of Evaluated
            The node's own samples, where there are any, and, in the symmetric form, each neighbour's.
        gradients : sequence of Array
            The derivatives at the points of each evaluation, (n_k, C).
        curvatures : sequence of float, optional
            The second derivative of the terms at each evaluation's points; given, the step is implicit.
        targets : Array
            Those of the own samples, (n, q); without rows the subspace stays as it is.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm by which the function moved with the subspace.
        """
        info = super().step(state, evaluations, gradients, curvatures, targets, eta)
        if self.coordinates == "points":
            return Info(self._visit_with_points(state, evaluations[0].points[: len(targets)]), info.step_size)
        subspace = state.subspace
        moved = 0.0
        for n in range(len(targets)):  # the own samples come first
            points = evaluations[0].points
            visit = subspace.visit(points[n : n + 1], state.function.coefficients, self.follow)
            state.refer()
            if visit.weights is not None:
                moved += visit.moved
                state.function.coefficients[:] = visit.weights
        return Info(moved, info.step_size)

    def _visit_with_points(self, state: Any, points: Array) -> float:
        """Let the subspace follow the points, the weights of stored points with them; returns by how much f moved."""
        before, stored = self.function_from(state.function.arrays()), False
        for n in range(len(points)):
            visit = state.subspace.visit(points[n : n + 1])
            if visit.stored:
                stored = True
                weights = np.concatenate([state.of_points, np.zeros((1, state.outputs))])
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
        """Return all that the subspace's visits change, the ``coefficients`` (r, C), and the number of ``steps``."""
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
    """A linear model on features that follow the samples: online kernel feature extraction (OKFEB algorithms 2 and 3).

    The features of x are its coefficients in a subspace of dimension r of the Hilbert space, L = Phi_S A,

        q = inv(A'K_SS A + lambda I) A'k_S(x)        z = (A'K_SS A)^(1/2) q        z(x).z(y) = <L q(x), L q(y)>

    and f(x) = w'z(x). The points S are all samples; A takes a gradient step on each sample's own
    ``||phi(x) - L q||^2 / 2 + lambda / (2 n) ||L||^2``. The number of points grows without bound.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta of the weights, a number or a schedule; below 1 / regularization.
    regularization : float
        The Tikhonov coefficient of the weights, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    kernel : Kernel
        The reproducing kernel.
    rank : int
        r, the number of features, at least 1.
    subspace_regularization : float
        lambda, positive.
    subspace_step : SubspaceStep
        mu of the subspace: "normalized" tracks, ``{ name = "power", initial = m, offset = n, exponent = p }`` settles.
    subspace_update : str
        "nonparametric" (algorithm 3) or "parametric" (algorithm 2).
    follow : bool
        Whether the weights are refitted as the subspace changes, so that the function stays.
    coordinates : str
        What weights that are kept belong to: "subspace", the r features above, or "points", the published features
        ``K_SS^(1/2) A q``, one for each stored point. "points" needs ``follow = false``, and a step takes O(m^3).
    censoring : Censoring
        Which samples make no update: ``{ threshold = e }`` or "moving_average".
    """

    censoring: Censoring = field(default=Threshold(), metadata={"part": "censoring", "scalar": "threshold"})

    def tracking(self) -> Tracking:
        return Tracking(
            self.rank, self.subspace_regularization, self.subspace_step, self.censoring, self.subspace_update
        )

    @property
    def compiled(self) -> CompiledSubspace:
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When one of the subspace's rules hands nothing over.
        """
        return CompiledSubspace(self)


# Online kernel feature extraction on a budget: the subspace is written in a bounded number of points.


@dataclass(frozen=True)
class Okfeb(SubspaceDescent):
    """A linear model on features that follow the samples, on a budget (OKFEB algorithms 4 and 5).

    As `okfe`, with at most ``budget_size`` points: a sample whose fit is below the threshold makes no update, and where
    there is a point too many the one with the least ``beta^age ||phi(x_i) a_i'||`` goes, a_i its row of A: what Phi A
    loses with it, ``||a_i|| sqrt(kappa(x_i, x_i))``.

    Parameters
    ----------
    loss, step_size, regularization, batch_size, kernel, rank
        As of `Okfe`; the rank is at most the budget size.
    subspace_regularization, subspace_step, subspace_update, follow, coordinates
        As of `Okfe`.
    budget_size : int
        B, the points stored at most: 1.5 to 5 times the rank.
    recency : float
        beta in (0, 1]: 1 drops the point that matters least, small ones the oldest; below 1 the subspace tracks faster.
    censoring : Censoring
        Which samples make no update: ``{ threshold = e }`` or "moving_average".
    censoring_from : str
        "rank": samples are left out as soon as there is a basis; "budget": once the budget is full, as the paper does
        (OKFEB section V-A).
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
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When one of the subspace's rules hands nothing over.
        """
        return CompiledSubspace(self)
