"""Budgeted stochastic gradient descent: a fixed number of points, kept by removal, projection or merging."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.merging import best_partner, merge
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum, add, close_up, drop, smallest
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState, check_budget_size
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, keep_largest
from kernelswarm.agents.learners.baselines.projected_sum import keep_accurate
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.protocols.compiled import NotCompiledError

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bsgd(KernelDescent):
    """Budgeted stochastic gradient descent (Wang, Crammer and Vucetic, JMLR 2012).

    While a step leaves more than ``budget_size`` points, the one with the least ||W_m||^2 kappa(x_m, x_m) goes:

    - ``removal``: with its weight;
    - ``projection``: the others are refitted to f, which changes f least of all that leave this point out;
    - ``merging``: with the point at which a single one between the two stands best for both, and that one comes in
      its place. For the gaussian kernel only.

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
        The most points of the dictionary, at least 1; 2 for merging.
    maintenance : str
        "removal", "projection" or "merging".
    """

    budget_size: int = 50
    maintenance: Literal["removal", "projection", "merging"] = "removal"

    def __post_init__(self) -> None:
        super().__post_init__()
        merges = self.maintenance == "merging"
        check_budget_size(self.budget_size, 2 if merges else 1)
        if merges and not isinstance(self.kernel, Gaussian):
            raise ValueError(
                f'maintenance = "merging" needs the gaussian kernel, and the kernel is {self.kernel}: '
                "use projection or removal"
            )

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.maintenance == "projection":
            return SumState(Expansion(self.kernel, inputs, outputs), 1)
        return super().init(inputs, outputs)

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points, then let points go while there are too many."""
        function = state.function
        shrink = 1.0 - eta * self.regularization
        if isinstance(function, Expansion):
            return project(state, function, points, rows, weights, shrink, self.budget_size)
        add(function, points, weights, shrink)
        error = 0.0
        while function.order > self.budget_size:
            place = smallest(function)
            error += drop(function, place) if self.maintenance == "removal" else _merge(function, place)
        return error

    @property
    def compiled(self) -> CompiledDescent:
        """What the learner hands over to compiled rounds.

        Raises
        ------
        NotCompiledError
            When the maintenance is not removal, or the kernel does not fit.
        """
        if self.maintenance != "removal":
            raise NotCompiledError(f"the maintenance {self.maintenance} of bsgd")
        return CompiledDescent(self, keep_largest, [float(self.budget_size)])


def project(
    state: SumState, function: Expansion, points: Array, rows: Array, weights: Array, shrink: float, budget_size: int
) -> float:
    """Add points, and while there are too many project on all but the smallest; the state counts the changes.

    Returns
    -------
    float
        The sum of the Hilbert norms of what the projections took.
    """
    error, changes = function.step(points, weights, rows, shrink, 0.0)
    while function.order > budget_size:
        error += function.remove(smallest(function))
        changes += 1
    keep_accurate(state, function, changes)
    return error


def _merge(function: KernelSum, place: int) -> float:
    """Merge the element at ``place`` with the best partner; returns the Hilbert norm of what is lost."""
    row = function.rows(function.points[place : place + 1])[0]
    partner, share, squared = best_partner(function.weights_buffer, function.order, place, row)
    merge(function.points_buffer, function.weights_buffer, place, partner, share, row[partner])
    close_up(function.points_buffer, function.order, partner, 1)
    close_up(function.weights_buffer, function.order, partner, 1)
    function.order -= 1
    return math.sqrt(squared)
