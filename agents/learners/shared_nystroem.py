"""Nystroem features of landmarks shared by all nodes, so that neighbours can average weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.abi import KERNEL, kernel_at
from kernelswarm.agents.arithmetic.subspace_updates import coordinates
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Expansion, spanning
from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners.linear_in_features import CompiledFeatures, FeatureState, LinearInFeatures
from kernelswarm.agents.learners.nystroem import INDEPENDENT
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.plain_parts import kernel_form, kernel_rows
from kernelswarm.agents.parts.sample import Sample, spaced
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True


class LandmarkFunction(SubspaceFunction):
    """The function ``f(x) = w' U k_D(x)`` with landmarks D, (M, p), and ``U'U = inv(K_DD)``."""

    __slots__ = ()

    def features(self, points: Array) -> Array:
        """Compute ``U k_D`` at ``points`` (n, p): (n, M)."""
        found = np.empty((len(points), len(self.points)))
        coordinates(kernel_rows(self.kernel, points, self.points), self.basis, len(self.basis), found)
        return found

    def distance(self, other: object) -> float:
        """Compute the Hilbert distance ``||f - g||``; NaN if the landmarks differ: weights are then not comparable."""
        if not isinstance(other, LandmarkFunction) or self.kernel != other.kernel:
            return math.nan
        if not np.array_equal(self.points, other.points):
            return math.nan
        return float(np.linalg.norm(self.coefficients - other.coefficients))


@dataclass(frozen=True)
class SharedNystroem(LinearInFeatures):
    """Stochastic gradient descent on Nystroem features of landmarks shared by all nodes.

    All nodes have the same landmarks D. With ``U'U = inv(K_DD)`` the function is linear in M features

        f(x) = W' z(x)        z(x) = U kappa(D, x)

    The inner product ``z(x) . z(y)`` equals that of the projections of kappa(x, .) and kappa(y, .) on the span of D
    (Williams and Seeger, NIPS 2000). In contrast to `nystroem` the landmarks are fixed before learning, so that
    neighbours can exchange W, as with `random_features`. The features adapt to the data, and work with any kernel.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    kernel : Kernel
        The reproducing kernel.
    landmarks : int
        The largest number of landmarks taken from the sample, at least 1.
    points : list of lists of float, or "sample"
        D, one list per landmark. "sample" chooses points from the training data of all nodes, without points that are
        nearly in the span of the others. With "sample" every node sees samples of other nodes.
    """

    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    landmarks: int = 50
    points: tuple[tuple[float, ...], ...] | Literal["sample"] = "sample"

    ranges: ClassVar = {"landmarks": Range("[1, inf)", "20 to 500 are usual")}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points == "sample":
            return
        if not self.points or len({len(point) for point in self.points}) > 1:
            raise RefusedKey("points", f'= {self.points!r} must be lists of the same length, one at least, or "sample"')

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that still have to be resolved from data."""
        return ("points",) if self.points == "sample" else ()

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with landmarks chosen from a sample of the data."""
        chosen = np.unique(sample.points[spaced(len(sample.points), self.landmarks)], axis=0)
        return replace(self, points=tuple(map(tuple, chosen[spanning(self.kernel, chosen, INDEPENDENT)].tolist())))

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x), an upper bound of ``||z(x)||^2``."""
        return self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> FeatureState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if isinstance(self.points, str):
            raise RefusedKey(
                "points",
                f'= "{self.points}" is a word that training data turn into numbers before learning starts: take '
                "resolved_learner(learner, ...), or give points",
            )
        if len(self.points[0]) != inputs:
            raise RefusedKey(
                "points", f"has {len(self.points[0])} numbers for each landmark, and there are {inputs} inputs"
            )
        kernel: Any = self.kernel  # a frozen dataclass: hashable for the cache
        points, basis = _landmarks(kernel, self.points)
        nothing = np.zeros((len(points), outputs))
        return FeatureState(LandmarkFunction(self.kernel, points, basis, np.eye(len(points)), nothing))

    def function_from(self, arrays: Mapping[str, Array]) -> LandmarkFunction:
        names = ("points", "basis", "mixing", "coefficients")
        return LandmarkFunction(self.kernel, *(arrays[name] for name in names))

    @property
    def compiled(self) -> CompiledFeatures:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledFeatures(self, features_of, numbers_of)


@lru_cache(maxsize=16)
def _landmarks(kernel: Kernel, points: tuple[tuple[float, ...], ...]) -> tuple[Array, Array]:
    """Return D (M, p) and U' (M, M); all nodes of a process share the arrays."""
    found = np.array(points, dtype=np.float64)
    apart = spanning(kernel, found, komp.SPAN_THRESHOLD)
    if len(apart) < len(found):
        first = min(set(range(len(found))) - set(apart.tolist()))
        raise RefusedKey(f"points[{first}]", f"= {list(points[first])!r} is in the span of the others: leave it out")
    basis = np.ascontiguousarray(Expansion.from_arrays(kernel, found, np.zeros((len(found), 1))).factor.T)
    found.flags.writeable = basis.flags.writeable = False
    return found, basis


OWN = 3
"""The numbers before the kernel's: the address of its function, how many it has, and M."""


@cached_njit
def features_of(numbers: Array, points: Array, rows: Array) -> None:
    """Fill in ``U k_D`` of points; behind the kernel's numbers are the landmarks (M, p) and U' (M, M)."""
    size, count, inputs = int(numbers[1]), int(numbers[2]), points.shape[1]
    landmarks = OWN + size
    cross, found = np.empty((len(points), count)), np.empty((len(points), count))
    kernel_at(int(numbers[0]))(line(numbers, OWN, size), points, table(numbers, landmarks, count, inputs), cross)
    coordinates(cross, table(numbers, landmarks + count * inputs, count, count), count, found)
    rows[:, :count] = found


def numbers_of(state: FeatureState) -> Array:
    """Return the numbers of :func:`features_of`."""
    function: Any = state.function
    kernel = kernel_form(function.kernel)
    own = float(address(kernel.cross, KERNEL)), float(len(kernel.numbers)), float(function.order)
    return np.concatenate([own, kernel.numbers, function.points.reshape(-1), function.basis.reshape(-1)])
