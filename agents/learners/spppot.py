"""Sparse positive functions by projected pseudo-mirror descent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    MIRROR,
    ORDER,
    StepArguments,
    loss_derivatives_at,
    mirror_at,
)
from kernelswarm.agents.arithmetic.implicit_systems import solve_mirrored
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.derived import Mirrored
from kernelswarm.agents.functions.expansion import Expansion, absorb_points, spanning, tables
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.learners import calling, descent
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, STEP_RANGES, DescentInSpace, check_step, weigh
from kernelswarm.agents.learners.polk import (
    BY_PRODUCTS,
    POLK_TOOLS,
    CompiledPolk,
    Polk,
    PolkState,
    compress,
    inner_products,
    maintain,
)
from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.agents.parts.budgets import Budget, Proportional
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared, grid_of
from kernelswarm.agents.parts.mirror_maps import KullbackLeibler, MirrorMap
from kernelswarm.agents.parts.plain_parts import kernel_rows, loss_form, mirror_form
from kernelswarm.agents.parts.schedules import Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.refused_key import RefusedKey

# SPPPOT's step in compiled code: POLK's on the dual function, along derivatives with respect to its image.


FIXED = 5
"""Among a state's integers, after POLK's, the points that no compression removes."""

MAP, DERIVATIVES = POLK_TOOLS, POLK_TOOLS + 1
"""Among the addresses that a step calls, after POLK's."""

INTEGRAL, LOSS, MIRRORED, CURVED, GRID_ONLY, SHRINKAGE, BATCH_SIZE, COUNT = range(8)
"""Places among the last `COUNT` numbers. The first three are lengths of the arrays that precede them, in this order:
the integral's weights on the fixed points, the loss's numbers, the mirror map's numbers."""


@cached_njit
def _own(numbers: Array) -> Array:
    return line(numbers, len(numbers) - COUNT, COUNT)


@cached_njit
def _part(numbers: ReadOnly, which: int) -> Array:
    """Return the numbers of the integral, the loss or the map, or POLK's, which are before them all, for -1."""
    own = _own(numbers)
    end = len(numbers) - COUNT
    for part in range(MIRRORED, which, -1):
        end -= int(own[part])
    size = end if which < 0 else int(own[which])
    return line(numbers, end - size, size)


@inline_always
def weigh_duals(
    gram: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    duals: Array,
    apart: Array,
) -> None:
    """Put the weights of a step's points (N, C) in the place of their gradients with respect to f.

    Parameters
    ----------
    gram : Array
        The points' inner products, (N, N); read in implicit steps.
    gradients, rates, stiffness : Array
        (N, C), (N,), (N,).
    implicit : bool
        Whether terms are taken at the new function.
    duals : Array
        z at the points, (N, C), where f = exp(z); without rows where f is a multiple of z.
    apart : Array
        The explicit part of the own samples' gradients, (n, C). An implicit step shortens its argument.
        Shortening the samples' part of a loss and not its integral would move the minimum, so both stay explicit, and
        the coupling is solved for.
    """
    own, outputs = apart.shape
    for k in range(own):
        for c in range(outputs):
            gradients[k, c] -= apart[k, c]
    if implicit and len(duals):
        solve_mirrored(gram, gradients, rates, stiffness, duals)
    else:
        weigh(gram, gradients, rates, stiffness, implicit)
    for k in range(own):
        for c in range(outputs):
            gradients[k, c] -= rates[k] * apart[k, c]


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel rows of points, and from them the values of f."""
    descent.evaluate(tools, numbers, storage, counts, points, rows, values)
    mirror_at(tools[MAP])(_part(numbers, MIRRORED), values, values)


@cached_njit
def scale_by_roots(values: ReadOnly, gram: Array) -> None:
    """Multiply ``gram`` (N, N) by the roots of the largest values of f, (N, C), at both points."""
    roots = np.empty(len(values))
    for m in range(len(values)):
        largest = 0.0
        for value in values[m]:
            largest = max(largest, value)
        roots[m] = math.sqrt(largest)
    for m in range(len(roots)):
        for n in range(len(roots)):
            gram[m, n] *= roots[m] * roots[n]


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) as :meth:`~kernelswarm.agents.learners.spppot.Spppot.inner` does."""
    descent.inner(tools, numbers, storage, counts, points, rows, values, gram)
    if _own(numbers)[CURVED] > 0.0:
        scale_by_roots(values, gram)


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.spppot.Spppot.step` does."""
    tools, numbers, storage, counts = given.tools, given.numbers, given.storage, given.counts
    gradients, targets, implicit = given.gradients, given.targets, given.implicit
    taken, outputs = gradients.shape
    capacity, order, inputs = counts[CAPACITY], counts[ORDER], given.points.shape[1]
    own, polk = _own(numbers), _part(numbers, -1)
    integral, eta, count = _part(numbers, INTEGRAL), given.sizes[0], len(targets)
    _, weights, factor, _ = tables(storage, capacity, inputs, outputs)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]
    behind = 5 * capacity + taken * taken  # what POLK works with
    apart = table(given.scratch, behind, count if len(integral) and implicit else 0, outputs)
    if len(apart):
        loss_derivatives_at(tools[DERIVATIVES])(_part(numbers, LOSS), given.values, targets, apart)
        for k in range(count):
            for c in range(outputs):
                apart[k, c] *= part
    behind += taken * outputs
    duals = table(given.scratch, behind, taken if implicit and own[CURVED] > 0.0 else 0, outputs)
    if len(duals):
        combine_into(given.rows, weights, order, duals)
    gram = inner_products(given, polk)
    weigh_duals(gram, gradients, given.rates, given.stiffness, implicit, duals, apart)
    if own[GRID_ONLY] > 0.0:
        memory = table(given.scratch, behind + taken * outputs, taken + 1, capacity)
        shrink = 1.0 - eta * own[SHRINKAGE]
        error = absorb_points(weights, factor, order, given.rows, gram, gradients, shrink, memory)
    else:
        error = compress(given, polk, gram, counts[FIXED])
    scale = eta * part
    for m in range(len(integral) // outputs):
        for c in range(outputs):
            weights[m, c] -= scale * integral[m * outputs + c]
    return error


class CompiledSpppot(CompiledPolk):
    """The functions and numbers of SPPPOT for compiled rounds: its states are POLK's, for the dual function."""

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, one_by_one=learner.grid is not None)  # whose points stay
        loss, mirror = loss_form(learner.loss), mirror_form(learner.mirror_map)
        self.tools = (*self.tools, address(mirror.values, MIRROR), address(loss.derivatives, LOSS_DERIVATIVES))
        self._loss, self._mirror = loss.numbers, mirror.numbers

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner and its parts, and the integral's weights."""
        integral = np.zeros(0) if state.integral is None else state.integral.reshape(-1)
        own = {
            INTEGRAL: len(integral),
            LOSS: len(self._loss),
            MIRRORED: len(self._mirror),
            CURVED: self._learner.mirror_map.slope is None,
            GRID_ONLY: self._learner.grid_only,
            SHRINKAGE: self._learner.regularization,
            BATCH_SIZE: self._learner.batch_size,
        }
        last = [float(own[place]) for place in range(COUNT)]
        return np.concatenate([self._numbers, integral, self._loss, self._mirror, last])

    def length(self, state: Any, capacity: int) -> int:
        return super().length(state.dual, capacity)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the room, in numbers, for POLK's working memory, and dual values, gradients and projections."""
        own = 2 * points * state.function.outputs + self._learner.grid_only * (points + 1) * capacity
        return int(super().scratch(state.dual, capacity, points) + own)

    def order(self, state: Any) -> int:
        return super().order(state.dual)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        return super().reserve(state.dual, points)

    def storage(self, state: Any) -> Array:
        return super().storage(state.dual)

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        super().move(state.dual, storage, capacity)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        return np.append(super().counts(state.dual, capacity, points), state.dual.function.fixed)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state.dual, counts, steps)

    def maintain(self, state: Any) -> None:
        """Look at the accuracy of the factor where that is due, and prepare what steps on many points need."""
        maintain(state.dual, self._learner.descent, BY_PRODUCTS, self._own)


CHECKED = 500
"""Points of the grid, evenly chosen, between which the kernel is checked for negative values."""


class SpppotState:
    """Everything a SPPPOT learner changes, the dual function's state, and what its steps integrate with."""

    __slots__ = ("dual", "function", "integral")

    def __init__(self, dual: PolkState, function: Mirrored, integral: Array | None) -> None:
        self.dual = dual
        self.function = function
        self.integral = integral
        """The weights of ``h sum_j kappa(u_j, .)`` on the dictionary's fixed points, (U, 1); None without a grid."""

    @property
    def steps(self) -> int:
        return self.dual.steps

    @property
    def rebuilds(self) -> int:
        """The number of times that the factor was computed afresh."""
        return self.dual.rebuilds


@dataclass(frozen=True)
class Spppot(DescentInSpace):
    """Projected pseudo-mirror descent: f = exp(z) > 0, where z takes POLK's steps (SPPPOT algorithm 1).

    With ``f = grad psi*(z)`` for the mirror map psi, a step on a mini-batch of b samples is

        z~ = (1 - eta lambda) z - eta [ (1/b) sum_k g_k kappa(x_k, .) + h sum_j kappa(u_j, .) ]

    where g_k is the derivative of the loss plus the coupling's with respect to f, at f(x_k); z is then the sparsest
    function that KOMP finds within ``eps`` of z~. The second term is there for losses with an integral over a box
    (`poisson_process`, eq. 27-30): the grid points u_j, of cell volume h, stay in the dictionary for good, save those
    in the span of the others to working precision, whose weight their projection takes. With ``squared_norm`` and no
    such loss the learner is `polk`; with ``grid_only`` it is the pseudo-mirror descent (PMD) of Yang et al.

    The implicit step solves for the coefficients at the new values, exp included; with such a loss, for those of the
    coupling alone.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel of z; for losses with an integral it must not be negative.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient of z, not negative; 0 as published.
    batch_size : int
        b, the samples that a node draws in a round.
    budget : Budget
        The rule for eps, as for `polk`: ``{ proportional = alpha }`` is eps = alpha eta (theorem 1), and
        ``{ target_order = d, alpha = a }`` adapts it (section V).
    mirror_map : MirrorMap
        "kl", f = exp(z), or "squared_norm", f = z.
    grid_only : bool
        Keep no sample in the dictionary: each step is projected on the grid points. Needs a loss with a grid.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Constant(0.02), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 0.0
    batch_size: int = 1
    budget: Budget = field(default=Proportional(0.05), metadata={"part": "budget"})
    mirror_map: MirrorMap = field(default=KullbackLeibler(), metadata={"part": "mirror_map"})
    grid_only: bool = False
    integrates: ClassVar[bool] = True

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)
        if self.loss.task == "binary" and self.mirror_map.positive:
            raise RefusedKey(
                "loss",
                "takes the sign of f for the class, and this mirror_map gives positive values: use "
                'multiclass_logistic or multiclass_hinge, or mirror_map = "squared_norm"',
                self.loss,
            )
        grid = self.grid
        if grid is None:
            if self.grid_only:
                raise RefusedKey(
                    "grid_only",
                    f"= True needs a loss with a grid, which {type(self.loss).__name__} has not: "
                    "use poisson_process, or leave grid_only out",
                )
        elif not automatic_keys(self.kernel):
            chosen = grid.points[:: -(-len(grid.points) // CHECKED)]
            if not (kernel_rows(self.kernel, chosen, chosen) >= 0.0).all():
                raise RefusedKey(
                    "kernel",
                    "is negative between points of the grid: descent on an integral needs a kernel that is never "
                    "negative, such as gaussian, laplacian, matern or student_t",
                    self.kernel,
                )

    @property
    def start(self) -> float:
        """The value of f before anything is learned, where z is 0."""
        return float(self.mirror_map.values(np.zeros((1, 1)))[0, 0])

    @property
    def positive(self) -> bool:
        return self.mirror_map.positive

    @property
    def grid(self) -> Grid | None:
        """The grid of the loss's integral, or None without an integral."""
        return grid_of(self.loss)

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x) if f = z, or None if f moves by an unknown multiple of z."""
        slope = self.mirror_map.slope
        return None if slope is None or self.kernel.supremum is None else slope * self.kernel.supremum

    @cached_property
    def descent(self) -> Polk:
        """The learner whose steps z takes."""
        return Polk(
            kernel=self.kernel,
            step_size=self.step_size,
            regularization=self.regularization,
            batch_size=self.batch_size,
            budget=self.budget,
        )

    def init(self, inputs: int, outputs: int) -> SpppotState:
        """Return the state of z = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        dual = self.descent.init(inputs, outputs)
        integral = None
        grid = self.grid
        if grid is not None:
            if grid.inputs != inputs:
                raise RefusedKey(
                    "low", f"= {list(grid.low)} must have {inputs} entries: one for each input of the points"
                )
            integral = _sync(dual.function, grid)
        return SpppotState(dual, Mirrored(dual.function, self.mirror_map), integral)

    def evaluate(self, state: SpppotState, points: Array) -> Evaluated:
        """Evaluate f at ``points`` (n, p), and keep the kernel rows for the step."""
        rows, duals = state.dual.function.rows_and_values(points)
        return Evaluated(points, rows, self.mirror_map.values(duals))

    @property
    def linear(self) -> bool:
        """Whether f = z."""
        return self.mirror_map.slope is not None

    def inner(self, state: SpppotState, at: Evaluated) -> Array:
        """Return the kernel between all points, for f = exp(z) times the root of both values of f, (n, n).

        A weight at x' moves f(x) by ``f(x) kappa(x, x')``. That has the eigenvalues of
        ``sqrt(f(x) f(x')) kappa(x, x')``, a column for each point and the largest output.
        """
        gram = kernel_rows(self.kernel, at.points, at.points)
        if self.linear:
            return gram
        scale_by_roots(at.values, gram)
        return gram

    step = calling.step

    def compression_budget(self, state: SpppotState) -> float:
        """Return eps of the step to come, a Hilbert norm of z."""
        return self.descent.compression_budget(state.dual)

    def function(self, state: SpppotState) -> Mirrored:
        """Return the current function f."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> Mirrored:  # type: ignore[override]
        """Rebuild a function from the saved arrays of its dual, for evaluation."""
        return Mirrored(super().function_from({**arrays, "weights": arrays["duals"]}), self.mirror_map)

    def snapshot(self, state: SpppotState) -> dict[str, Array]:
        """Return all of the dual function's state; the grid does not change."""
        return self.descent.snapshot(state.dual)

    def restore(self, state: SpppotState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        self.descent.restore(state.dual, arrays)

    @property
    def compiled(self) -> CompiledSpppot:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledSpppot(self)


def _sync(dual: Expansion, grid: Grid) -> Array:
    """Add the grid points to the dictionary for ever, with weight 0; return the integral's weights on them.

    Points of a fine grid lie in the span of others to working precision: a maximal set that does not is kept, and the
    integral ``h sum_j kappa(u_j, .)`` is projected on its span, (U, C) with the same column for every output.
    """
    kept = spanning(dual.kernel, grid.points, komp.SPAN_THRESHOLD)
    dual.assign(grid.points[kept], np.zeros((len(kept), dual.outputs)))
    dual.rebuild()
    dual.fixed = len(kept)
    factor = dual.factor
    inner = dual.rows(grid.points).sum(axis=0)
    return np.repeat((factor.T @ (factor @ inner))[:, np.newaxis] * grid.volume, dual.outputs, axis=1)
