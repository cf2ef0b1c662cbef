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
from kernelswarm.agents.functions.derived import Mirrored
from kernelswarm.agents.functions.expansion import Expansion, absorb_points, spanning, tables
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.learners import calling, descent
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, own_numbers, packed, part_of, weigh
from kernelswarm.agents.learners.polk import (
    BATCH_SIZE,
    POLK_TOOLS,
    REGULARIZATION,
    CompiledPolk,
    Polk,
    PolkState,
    compress,
    inner_products,
)
from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.agents.parts.budgets import Budget, Proportional
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.agents.parts.mirror_maps import KullbackLeibler, MirrorMap
from kernelswarm.agents.parts.plain_parts import kernel_rows, loss_form, mirror_form
from kernelswarm.agents.parts.schedules import Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.refused_key import RefusedKey

# SPPPOT's step in compiled code: POLK's step on the dual function z, along derivatives with respect to f.


MAP, DERIVATIVES = POLK_TOOLS, POLK_TOOLS + 1
"""Indices among the addresses that a step calls, after POLK's."""

POLK, INTEGRAL, LOSS, MIRRORED, OWN = range(5)
"""The parts of the numbers: POLK's, the integral's weights on the fixed points, the loss's, the mirror map's, and
SPPPOT's own: `CURVED`, whether f is not linear in z, and `GRID_ONLY`."""

CURVED, GRID_ONLY = range(2)


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel rows of points and the values of f."""
    descent.evaluate(tools, numbers, storage, counts, points, rows, values)
    mirror_at(tools[MAP])(part_of(numbers, MIRRORED), values, values)


@cached_njit
def scale_by_roots(values: ReadOnly, gram: Array) -> None:
    """Multiply entry (m, n) of ``gram`` (N, N) by the square roots of the largest output of f at points m and n."""
    for m in range(len(values)):
        root = math.sqrt(max(np.max(values[m]), 0.0))
        gram[m] *= root
        gram[:, m] *= root


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
    if part_of(numbers, OWN)[CURVED] > 0.0:
        scale_by_roots(values, gram)


@cached_njit
def weigh_duals(given: StepArguments, weights: Array, gram: Array, part: float) -> None:
    """Overwrite the gradients with respect to f, (N, C), with the weights of the step's points.

    An implicit step shortens the gradients. Shortening the samples' part of a loss but not its integral would move the
    minimum. For a loss with an integral both parts therefore stay explicit, and only the coupling is implicit.

    Parameters
    ----------
    given : StepArguments
        The arguments of the step.
    weights : Array
        The weights of z, (capacity, C).
    gram : Array
        The points' inner products, (N, N).
    part : float
        The samples as a fraction of a batch.
    """
    numbers, gradients, count = given.numbers, given.gradients, len(given.values)
    explicit = np.zeros(given.values.shape)
    if given.implicit and len(part_of(numbers, INTEGRAL)):
        loss_derivatives_at(given.tools[DERIVATIVES])(part_of(numbers, LOSS), given.values, given.targets, explicit)
        explicit *= part
    gradients[:count] -= explicit
    if given.implicit and part_of(numbers, OWN)[CURVED] > 0.0:
        duals = np.empty(gradients.shape)
        combine_into(given.rows, weights, given.counts[ORDER], duals)
        solve_mirrored(gram, gradients, given.rates, given.stiffness, duals)
    else:
        weigh(gram, gradients, given.rates, given.stiffness, given.implicit)
    for k in range(count):
        gradients[k] -= given.rates[k] * explicit[k]


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step of the dual function, and compress it."""
    numbers, counts, eta, count = given.numbers, given.counts, given.sizes[0], len(given.targets)
    polk, integral = part_of(numbers, POLK), part_of(numbers, INTEGRAL)
    own, inputs, outputs = own_numbers(polk), given.points.shape[1], given.gradients.shape[1]
    _, weights, factor, _ = tables(given.storage, counts[CAPACITY], inputs, outputs)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]
    gram = inner_products(given, polk)
    weigh_duals(given, weights, gram, part)
    if part_of(numbers, OWN)[GRID_ONLY] > 0.0:
        shrink = 1.0 - eta * own[REGULARIZATION]
        error = absorb_points(weights, factor, counts[ORDER], given.rows, gram, given.gradients, shrink)
    else:
        error = compress(given, polk, gram, len(integral))
    for m in range(len(integral)):
        weights[m] -= eta * part * integral[m]
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
        own = [float(not learner.linear), float(learner.grid_only)]
        self._numbers = packed(self._numbers, learner.integral[1], loss.numbers, mirror.numbers, own)


CHECKED = 500
"""The largest number of evenly chosen grid points between which the kernel is checked for negative values."""


@dataclass(frozen=True)
class Spppot(Polk):
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

    step_size: Schedule = field(default=Constant(0.02), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 0.0
    budget: Budget = field(default=Proportional(0.05), metadata={"part": "budget"})
    mirror_map: MirrorMap = field(default=KullbackLeibler(), metadata={"part": "mirror_map"})
    grid_only: bool = False
    integrates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
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
    def integral(self) -> tuple[Array, Array]:
        """Points of the grid, (U, p), and the weights of ``h sum_j kappa(u_j, .)`` on them, (U,).

        Some points of a fine grid lie in the span of the others to working precision. A maximal set of independent
        points is kept, and the integral is projected on its span.
        """
        grid = self.grid
        if grid is None:
            return np.zeros((0, 0)), np.zeros(0)
        points = grid.points[spanning(self.kernel, grid.points, komp.SPAN_THRESHOLD)]
        kept = Expansion.from_arrays(self.kernel, points, np.zeros((len(points), 1)))
        inner = kept.rows(grid.points).sum(axis=0)
        return points, grid.volume * (kept.factor.T @ (kept.factor @ inner))

    def init(self, inputs: int, outputs: int) -> PolkState:
        """Return the state of z = 0 on ``inputs`` dimensions with ``outputs`` functions.

        The points of a grid are added to the dictionary permanently, with weight 0.
        """
        state, grid = super().init(inputs, outputs), self.grid
        if grid is not None:
            if grid.inputs != inputs:
                raise RefusedKey(
                    "low", f"= {list(grid.low)} must have {inputs} entries: one for each input of the points"
                )
            points, _ = self.integral
            state.function.assign(points, np.zeros((len(points), outputs)))
            state.function.rebuild()
            state.function.fixed = len(points)
        return state

    def evaluate(self, state: PolkState, points: Array) -> Evaluated:
        """Evaluate f at ``points`` (n, p), and keep the kernel rows for the step."""
        found = super().evaluate(state, points)
        return found._replace(values=self.mirror_map.values(found.values))

    @property
    def linear(self) -> bool:
        """Whether f = z."""
        return self.mirror_map.slope is not None

    def inner(self, state: PolkState, at: Evaluated) -> Array:
        """Return ``kappa(x, x')``, multiplied by ``sqrt(f(x) f(x'))`` if f = exp(z), between all points, (n, n).

        A weight at x' moves f(x) by ``f(x) kappa(x, x')``. That matrix has the same eigenvalues as the symmetric
        ``sqrt(f(x) f(x')) kappa(x, x')``. f is the largest output at each point.
        """
        gram = super().inner(state, at)
        if not self.linear:
            scale_by_roots(at.values, gram)
        return gram

    step = calling.step

    def function(self, state: PolkState) -> Mirrored:
        """Return the current function f."""
        return Mirrored(state.function, self.mirror_map)

    def function_from(self, arrays: Mapping[str, Array]) -> Mirrored:  # type: ignore[override]
        """Rebuild a function from the saved arrays of its dual, for evaluation."""
        return Mirrored(super().function_from({**arrays, "weights": arrays["duals"]}), self.mirror_map)

    @property
    def compiled(self) -> CompiledSpppot:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledSpppot(self)
