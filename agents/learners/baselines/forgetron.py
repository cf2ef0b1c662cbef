"""The Forgetron: a perceptron that shrinks its function before it forgets its oldest mistake."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.functions.kernel_sum import add, drop, place_of
from kernelswarm.agents.learners.baselines.kernel_descent import SumState, check_budget_size
from kernelswarm.agents.learners.baselines.mistakes import MistakeDriven

Array = npt.NDArray[np.float64]

ALLOWED = 15.0 / 32.0
"""The share of the mistakes that the damage of all removals may come to."""


DAMAGE, MISTAKES = 0, 1
"""Of a state's numbers: Q, what removals have cost so far, and M, how many points came in."""


@dataclass(frozen=True)
class Forgetron(MistakeDriven):
    """The self-tuned Forgetron, a perceptron that forgets its oldest point (Dekel, Shalev-Shwartz and Singer, 2008).

    A mistake enters as with `perceptron`. While there are more than ``budget_size`` points, f is multiplied by phi and
    its oldest point goes. With delta the norm of that point's weight and mu the part of f(x_r) along it, both in units
    of eta, phi is the largest number up to 1 by which the damage of all removals so far stays within the mistakes M:

        Q + (delta phi)^2 + 2 delta phi (1 - phi mu) <= 15/32 M

    Every point that enters counts as a mistake, those that only the coupling brings too.

    Parameters
    ----------
    loss : Loss
        What the targets are, and what is measured; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel; the bound on the mistakes asks for kappa(x, x) <= 1.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    insensitivity : float
        The error of a number that is no mistake, not negative.
    budget_size : int
        The most points of the dictionary, at least 1.
    """

    budget_size: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget_size(self.budget_size)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its numbers are the damage Q and the mistakes M."""
        state = super().init(inputs, outputs)
        state.numbers = np.zeros(2)
        return state

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points one by one, and make room for each."""
        function = state.function
        shrink = 1.0 - eta * self.regularization
        error = 0.0
        for n in range(len(points)):
            enters = bool(weights[n].any()) and place_of(function, points[n]) == function.order
            add(function, points[n : n + 1], weights[n : n + 1], shrink)
            shrink = 1.0
            state.numbers[MISTAKES] += enters
            if function.order > self.budget_size:
                error += self._forget(state, eta)
        return error

    def _forget(self, state: SumState, eta: float) -> float:
        function, numbers = state.function, state.numbers
        oldest = function.weights[0]
        length = math.sqrt(float(np.dot(oldest, oldest)))
        value = function.values(function.points[:1])[0]
        along = float(np.dot(oldest, value)) / length if length > 0.0 else 0.0
        phi, numbers[DAMAGE] = _shrinkage(length / eta, along / eta, numbers[DAMAGE], ALLOWED * numbers[MISTAKES])
        function.weights[:] *= phi
        return drop(function, 0)


@njit(cache=True)
def _shrinkage(delta: float, mu: float, damage: float, allowed: float) -> tuple[float, float]:
    """Return the largest phi in (0, 1] that keeps the damage within what is allowed, and the damage it leads to."""
    square, line, rest = delta * delta - 2.0 * delta * mu, 2.0 * delta, damage - allowed
    phi = 1.0
    if square + line + rest > 0.0:
        phi = max(-2.0 * rest / (line + math.sqrt(line * line - 4.0 * square * rest)), 0.0)
    return phi, damage + square * phi * phi + line * phi
