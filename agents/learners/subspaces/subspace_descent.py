"""Learners that are linear in the features of a subspace which follows the node's own samples."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.features.linear_in_features import LinearInFeatures
from kernelswarm.agents.learners.subspaces.subspace import Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.subspace_rules import Normalized, SubspaceStep
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]


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
