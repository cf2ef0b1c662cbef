"""Quantised kernel least mean squares: a sample near a point of the dictionary adds to that point's weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.functions.kernel_sum import is_zero, squared_length
from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner, Sum, between, squares
from kernelswarm.agents.parts.bandwidths import median_distance
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range, resolved_value, words_of

LONG_LOOPS = True

SHARE = 0.05
"""The distance "auto" as a multiple of the median distance. It is an eighth of the bandwidth "median": over that
distance a Gaussian kernel changes by less than 0.01."""

EIGHTH = 0.125
"""The distance "auto" if the kernel has a length for each input, in units of these lengths."""


def nearest(points: Array, point: Array, factors: Array) -> tuple[int, float]:
    """Return the index of the nearest point, the oldest if several are equally near, and the squared distance.

    If there are ``factors``, differences are multiplied by them, input by input.
    """
    place, least = -1, math.inf
    for m in range(len(points)):
        squared = 0.0
        for i in range(len(point)):
            apart = points[m, i] - point[i]
            squared += (apart * factors[i]) ** 2 if len(factors) else apart * apart
        if squared < least:
            place, least = m, squared
    return place, least


def move(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add each point x, or add its weight w to the nearest point d.

    The latter changes f by ``||w|| ||kappa(x, .) - kappa(d, .)||``.
    """
    (quantization,) = keys
    points, weights = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        m, squared = nearest(points, at.points[n], at.constants)
        if squared > quantization * quantization:
            points = np.concatenate((points, at.points[n : n + 1]))
            weights = np.concatenate((weights, at.weights[n : n + 1]))
            continue
        weights[m] += at.weights[n]
        if squared > 0.0:
            near = points[m : m + 1]
            across, itself = between(at.kappa, at.points[n : n + 1], near)[0, 0], squares(at.kappa, near)[0]
            apart = max(at.gram[n, n] - 2.0 * across + itself, 0.0)
            at.lost[0] += math.sqrt(squared_length(at.weights, n) * apart)
    return Sum(points, weights)


@dataclass(frozen=True)
class Qklms(NumpyLearner):
    """Quantised kernel least mean squares (Chen, Zhao, Zhu and Principe, IEEE TNNLS 2012).

    The step is that of `ogd`, f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .), but a point within the
    distance ``quantization`` of the dictionary does not enter: its weight is added to the weight of the nearest
    dictionary point, the oldest if several are equally near. Any two dictionary points are therefore farther apart than
    ``quantization``, and the dictionary stops growing if the inputs are bounded.

    With the squared loss eta is half the paper's step size, because the derivative is twice the error.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative; the paper has none.
    batch_size : int
        b, the number of samples that a node draws per round.
    quantization : float or "auto"
        The paper's epsilon_U, a distance of inputs, nonnegative; 0 is kernel least mean squares (KLMS). "auto" is a
        twentieth of the median distance of two inputs. If the kernel has a length for each input, distances are
        measured in these lengths, and "auto" is 1/8.
    """

    quantization: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"quantization": Range("[0, inf)", "it is a distance", "auto")}

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the quantization distance computed from a sample of the data."""
        return replace(self, quantization=EIGHTH if self._factors else SHARE * median_distance(sample.points))

    @property
    def _factors(self) -> list[float]:
        """The factor of each input in distances, the inverse of its length; empty if the kernel has one length."""
        lengths: float | tuple[float, ...] = getattr(self.kernel, "bandwidth", 1.0)
        return [1.0 / length for length in lengths] if isinstance(lengths, tuple) else []

    move: ClassVar = staticmethod(move)

    @property
    def keys(self) -> tuple[float, ...]:
        """The quantization distance."""
        return (resolved_value("quantization", self.quantization),)

    def constants(self, state: Any) -> Array:
        """Return the factors of the inputs."""
        return np.array(self._factors, dtype=np.float64)
