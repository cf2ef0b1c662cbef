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

# SPPPOT's step in compiled code: POLK's step on the dual function z, along derivatives with respect to f.


FIXED = 5
"""Index, among a state's integers, of the number of points that compression never removes; after POLK's integers."""

MAP, DERIVATIVES = POLK_TOOLS, POLK_TOOLS + 1
"""Indices among the addresses that a step calls, after POLK's."""

INTEGRAL, LOSS, MIRRORED, CURVED, GRID_ONLY, SHRINKAGE, BATCH_SIZE, COUNT = range(8)
"""Indices among the last `COUNT` numbers. The first three are the lengths of the arrays before these numbers, in this
order: the integral's weights on the fixed points, the loss's numbers, the mirror map's numbers."""


@cached_njit
def _own(numbers: Array) -> Array:
    return line(numbers, len(numbers) - COUNT, COUNT)


@cached_njit
def _part(numbers: ReadOnly, which: int) -> Array:
    """Return the numbers of the integral, the loss or the map; for -1, POLK's numbers, which precede them all."""
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
    """Overwrite the gradients with respect to f, (N, C), with the weights of the step's points.

    Parameters
    ----------
    gram : Array
        The points' inner products, (N, N); used only in implicit steps.
    gradients, rates, stiffness : Array
        (N, C), (N,), (N,).
    implicit : bool
        Whether terms are taken at the new function.
    duals : Array
        z at the points, (N, C), if f = exp(z); no rows if f is a multiple of z.
    apart : Array
        The part of the own samples' gradients that stays explicit, (n, C). An implicit step shortens the gradients.
        Shortening the samples' part of a loss but not its integral would move the minimum. For a loss with an integral
        both parts therefore stay explicit, and only the coupling is implicit.
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
    """Compute the kernel rows of points and the values of f."""
    descent.evaluate(tools, numbers, storage, counts, points, rows, values)
    mirror_at(tools[MAP])(_part(numbers, MIRRORED), values, values)


@cached_njit
def scale_by_roots(values: ReadOnly, gram: Array) -> None:
    """Multiply entry (m, n) of ``gram`` (N, N) by the square roots of the largest output of f at points m and n."""
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
    """Functions and numbers of SPPPOT for compiled rounds; its state is POLK's state for the dual function."""

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, one_by_one=learner.grid is not None)  # a grid's points stay
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
        """Return the size, in numbers, of POLK's working memory, dual values, gradients and projections."""
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
        """Check the factor's accuracy if due, and compile the function for steps on many points if needed."""
        maintain(state.dual, self._learner.descent, BY_PRODUCTS, self._own)


CHECKED = 500
"""The largest number of evenly chosen grid points between which the kernel is checked for negative values."""


class SpppotState:
    """State of a SPPPOT learner: the dual function's state, f itself, and the weights of the integral."""

    __slots__ = ("dual", "function", "integral")

    def __init__(self, dual: PolkState, function: Mirrored, integral: Array | None) -> None:
        self.dual = dual
        self.function = function
        self.integral = integral
        """The weights of ``h sum_j kappa(u_j, .)`` on the dictionary's fixed points, (U, C); None without a grid."""

    @property
    def steps(self) -> int:
        return self.dual.steps

    @property
    def rebuilds(self) -> int:
        """The number of times that the factor was recomputed."""
        return self.dual.rebuilds


@dataclass(frozen=True)
class Spppot(DescentInSpace):
    """Projected pseudo-mirror descent: f = exp(z) > 0, where z takes POLK's steps (SPPPOT algorithm 1).

    With ``f = grad psi*(z)`` for the mirror map psi, a step on a mini-batch of b samples is

        z~ = (1 - eta lambda) z - eta [ (1/b) sum_k g_k kappa(x_k, .) + h sum_j kappa(u_j, .) ]

    where g_k is the derivative of the loss plus that of the coupling with respect to f, at f(x_k). The new z is the
    sparsest function that KOMP finds within ``eps`` of z~. The second sum appears only for losses with an integral over
    a box (`poisson_process`, eq. 27-30). Its grid points u_j, of cell volume h, stay in the dictionary permanently; a
    grid point in the span of the others, to working precision, is replaced by its projection. With ``squared_norm`` and
    a loss without an integral the learner is `polk`; with ``grid_only`` it is the pseudo-mirror descent (PMD) of Yang
    et al.

    The implicit step solves for the coefficients at the new values of f, exp included. For a loss with an integral only
    the coupling is implicit.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel of z; for losses with an integral it must be nonnegative.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient of z, nonnegative; 0 in the paper.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget : Budget
        The rule for eps, as for `polk`: ``{ proportional = alpha }`` is eps = alpha eta (theorem 1), and
        ``{ target_order = d, alpha = a }`` adapts eps to a target model order (section V).
    mirror_map : MirrorMap
        "kl" for f = exp(z), or "squared_norm" for f = z.
    grid_only : bool
        Whether the dictionary contains grid points only, on which each step is projected. Needs a loss with a grid.
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
        """The value of f at z = 0, before learning."""
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
        """The slope of f in z times the supremum of kappa(x, x); None if the slope is not constant."""
        slope = self.mirror_map.slope
        return None if slope is None or self.kernel.supremum is None else slope * self.kernel.supremum

    @cached_property
    def descent(self) -> Polk:
        """The POLK learner that updates z."""
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
        """Return ``kappa(x, x')``, multiplied by ``sqrt(f(x) f(x'))`` if f = exp(z), between all points, (n, n).

        A weight at x' moves f(x) by ``f(x) kappa(x, x')``. That matrix has the same eigenvalues as the symmetric
        ``sqrt(f(x) f(x')) kappa(x, x')``. f is the largest output at each point.
        """
        gram = kernel_rows(self.kernel, at.points, at.points)
        if self.linear:
            return gram
        scale_by_roots(at.values, gram)
        return gram

    step = calling.step

    def compression_budget(self, state: SpppotState) -> float:
        """Return eps of the next step, a Hilbert norm of z."""
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
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledSpppot(self)


def _sync(dual: Expansion, grid: Grid) -> Array:
    """Add the grid points to the dictionary permanently, with weight 0; return the integral's weights on them.

    Some points of a fine grid lie in the span of the others to working precision. A maximal set of independent points
    is kept, and the integral ``h sum_j kappa(u_j, .)`` is projected on its span: (U, C), with equal columns for all
    outputs.
    """
    kept = spanning(dual.kernel, grid.points, komp.SPAN_THRESHOLD)
    dual.assign(grid.points[kept], np.zeros((len(kept), dual.outputs)))
    dual.rebuild()
    dual.fixed = len(kept)
    factor = dual.factor
    inner = dual.rows(grid.points).sum(axis=0)
    return np.repeat((factor.T @ (factor @ inner))[:, np.newaxis] * grid.volume, dual.outputs, axis=1)
