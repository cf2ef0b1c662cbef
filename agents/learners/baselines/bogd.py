"""Bounded online gradient descent: a full dictionary loses a point by chance, so that it stays right in the mean."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.arithmetic.chance import uniform
from kernelswarm.agents.functions.kernel_sum import add, drop, place_of, squared_norms
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState, check_budget_size

Array = npt.NDArray[np.float64]


DRAWN = 0
"""Of a state's numbers: how many random numbers were drawn."""


@dataclass(frozen=True)
class Bogd(KernelDescent):
    """Bounded online gradient descent (Zhao, Wang, Wu, Jin and Hoi, ICML 2012).

    Before a point enters a full dictionary, one of the B = ``budget_size`` others is drawn with probability p_m and
    goes, and the weights that stay are divided by 1 - p_m, by which f does not change in the mean. The probabilities:

    - ``uniform``: p_m = 1 / B;
    - ``nonuniform``: p_m = 1 - (B - 1) a_m / sum_j a_j, a_m = ||W_m|| sqrt(kappa(x_m, x_m)), so that small weights go;
      what is below 0 is taken for 0, and the others are scaled to add up to 1.

    No weight's norm is let grow beyond ``weight_bound`` * eta.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget_size : int
        The most points of the dictionary, at least 2.
    sampling : str
        "uniform" or "nonuniform".
    weight_bound : float
        The paper's gamma, positive; inf for none.
    seed : int
        Seed of what is drawn, not negative.
    """

    budget_size: int = 50
    sampling: Literal["uniform", "nonuniform"] = "nonuniform"
    weight_bound: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget_size(self.budget_size, 2)
        if not self.weight_bound > 0.0:
            raise ValueError(f"weight_bound = {self.weight_bound!r} must be positive: use inf for none")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed!r} must not be negative: use 0 or any larger integer")

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its number counts what was drawn."""
        state = super().init(inputs, outputs)
        state.numbers = np.zeros(1)
        return state

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points one by one, and make room for each."""
        function = state.function
        function.weights[:] *= 1.0 - eta * self.regularization
        error = 0.0
        for n in range(len(points)):
            if not weights[n].any():
                continue
            if function.order == self.budget_size and place_of(function, points[n]) == function.order:
                error += self._make_room(state)
            add(function, points[n : n + 1], weights[n : n + 1], 1.0)
        if self.weight_bound < math.inf:
            _bound(function.weights, self.weight_bound * eta)
        return error

    def _make_room(self, state: SumState) -> float:
        """Draw a point and drop it, the others' weights divided by the probability that they stay."""
        function = state.function
        norms = np.sqrt(squared_norms(function))
        go = self.probabilities(norms)
        place = _drawn(go, uniform(self.seed, int(state.numbers[DRAWN])))
        state.numbers[DRAWN] += 1.0
        error = _scale_up(function.weights, go, norms, place)
        return error + drop(function, place)

    def probabilities(self, norms: Array) -> Array:
        """Return the probability of each element to go, from their Hilbert norms: (B,) and (B,)."""
        size = len(norms)
        if self.sampling == "uniform" or not norms.any():
            return np.full(size, 1.0 / size)
        shares: Array = np.maximum(1.0 - (size - 1) * norms / norms.sum(), 0.0)
        shares /= shares.sum()
        return shares


@njit(cache=True)
def _drawn(probabilities: Array, uniform: float) -> int:
    """Return the place that a number in [0, 1) draws."""
    rest = uniform * probabilities.sum()
    for m in range(len(probabilities)):
        rest -= probabilities[m]
        if rest < 0.0:
            return m
    return int(probabilities.argmax())


@njit(cache=True)
def _scale_up(weights: Array, go: Array, norms: Array, place: int) -> float:
    """Divide all weights but one by 1 - p; returns the sum of the Hilbert norms of what that adds."""
    added = 0.0
    for m in range(len(weights)):
        if m != place:
            added += norms[m] * go[m] / (1.0 - go[m])
            for c in range(weights.shape[1]):
                weights[m, c] /= 1.0 - go[m]
    return added


def _bound(weights: Array, most: float) -> None:
    lengths = np.sqrt(np.sum(weights**2, axis=1))
    weights *= (most / np.maximum(lengths, most))[:, None]
