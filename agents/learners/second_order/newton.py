"""Second-order steps on a compressed dictionary: as accurate as a batch solver, sample by sample."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_SAMPLES
from kernelswarm.agents.functions.informed_expansion import Information, InformedExpansion
from kernelswarm.agents.functions.windowed_expansion import WindowedExpansion, recent_and_window
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import DescentInSpace, joined
from kernelswarm.agents.learners.polk import PolkState
from kernelswarm.agents.learners.polk_steps import inspection_due
from kernelswarm.agents.learners.second_order import blocked_moves, moves
from kernelswarm.agents.learners.second_order.adaptive_memory import Memory
from kernelswarm.agents.learners.second_order.blocked_moves import Numbers
from kernelswarm.agents.learners.second_order.certainty import (
    CertainDescent,
    check_certain,
    check_forgetting,
)
from kernelswarm.agents.learners.second_order.newton_steps import BLOCKED_FROM_ORDER, CompiledNewton
from kernelswarm.agents.learners.second_order.posterior import Posterior
from kernelswarm.agents.learners.second_order.taking_in import Moved, Terms
from kernelswarm.agents.learners.second_order.taught import NOTHING, offer_taught
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun, bound_at, bound_of_step
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.offers import offers_of
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.agents.plain.kernels import kernel_rows
from kernelswarm.protocols.solving.noise_variance import noise_of

Array = npt.NDArray[np.float64]


class NewtonState(PolkState):
    """Everything the learner changes: function and information, steps, the budget's state, the factor's history."""

    __slots__ = ()
    function: InformedExpansion

    @property
    def cursor(self) -> float:
        """The coordinate whose ridge is renewed next, where samples are forgotten; compiled steps keep it here too."""
        return float(self.function.storage[1])

    @cursor.setter
    def cursor(self, coordinate: float) -> None:
        self.function.storage[1] = coordinate


@dataclass(frozen=True)
class Newton(CertainDescent, DescentInSpace):
    """Kernel online Newton steps: the regularised least-squares solution on a dictionary that KOMP chooses.

    With the loss's slope g_n and curvature r_n at sample n, when it came, f minimises over the span of the dictionary

        sum_n r_n / 2 ||f(x_n) - (f_n(x_n) - g_n / r_n)||^2 + lambda / 2 ||f||^2

    which for the squared loss is the risk of all samples so far, exactly (recursive least squares), and otherwise its
    model by quadratics (kernel online Newton step, Calandriello, Lazaric and Valko 2017). Which points the dictionary
    has destructive KOMP decides, as for `polk`: of the function after a first-order step, those whose removal would
    change it by less than eps go. A loss may leave samples out of that step that are not worth a point, as squared
    hinges do (`OfferingLoss`). The information that earlier samples gave stays with those that are left, and a point
    that enters begins with what its projection on the others tells.

    In a network a pull of weight p at x moves f by ``p / H``, H the curvature of the sum above: most where little is
    known, and nowhere else, by the Newton step on the penalised sum. What is known keeps its certainty. Neighbours
    share a gap as their certainties say, since the row sums that limit implicit steps are then uncertainties. Explicit
    steps pull as published, along the kernel.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta of the first-order steps that offer points to the dictionary, and of explicit couplings; implicit ones take
        as much of their Newton step as eta is of its largest. "auto" takes what the data suggest.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature, positive: the weight of ``||f||^2`` in samples. "auto" is
        the noise's variance over that of the function beneath it, from a sample of the data, at least 0.1; of classes a
        quarter of that, at least 0.005, with squared hinges 0.2.
    forgetting : float or "auto"
        beta, what a sample still counts when one more has come, in (0, 1]; 1 forgets nothing. lambda is forgotten as
        the samples are, and renewed in some coordinates after each step, in turn: none loses over a quarter of it.
        "auto" forgets older samples when recent ones predict better than all, by a sequential test on the likelihoods
        of both (`adaptive_memory`); it wants the squared loss of numbers, and its steps take no matrix products.
    batch_size : int
        b, the samples that a node draws in a round.
    budget : Budget
        The rule for eps, as for `polk`.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    ridge: float | Literal["auto"] = "auto"
    forgetting: float | Literal["auto"] = 1.0
    batch_size: int = 1
    budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})

    def __post_init__(self) -> None:
        check_certain(self.ridge, self.batch_size, self.loss)
        check_forgetting(self.forgetting, self.loss)

    @property
    def share(self) -> float:
        """beta, and 1 where what is forgotten is found as samples come."""
        return 1.0 if self.forgetting == "auto" else float(self.forgetting)

    @property
    def limit(self) -> float:
        """The entry of diag(inv K) beyond which an element lies in the span of the others."""
        return math.inf if self.kernel.supremum is None else komp.DEPENDENT / self.kernel.supremum

    def inner(self, state: NewtonState, at: Evaluated) -> Array:
        """Return how far a weight of 1 at each point moves f at each other where steps are implicit, (n, n)."""
        function, gram = state.function, kernel_rows(self.kernel, at.points, at.points)
        root, factor = function.root_buffer, function.factor_buffer
        rows = np.require(at.rows, requirements=["C", "W"])
        moves.products(root, factor, function.order, rows, self.penalty, self.reach, gram)
        return gram

    def init(self, inputs: int, outputs: int) -> NewtonState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        kind = WindowedExpansion if self.adaptive else InformedExpansion
        return NewtonState(kind(self.kernel, inputs, outputs), begun(self.budget))

    def step(
        self,
        state: NewtonState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
        taught: Array = NOTHING,
    ) -> Info:
        """Take in own samples and taught observations, and move along their part of the gradients.

        Of the curvatures it only matters whether there are any: pulls come as far as they may go.
        """
        eta = self.eta(state) if eta is None else eta
        function, at = state.function, together(evaluations)
        coupled, deciding, pulls, bends, aims = self.terms(at, gradients, targets, eta)
        offered = offers_of(self.loss, np.ascontiguousarray(at.values[: len(targets)]), targets)
        if offered is not None:
            moves.withhold(deciding, pulls, offered)
        if len(taught):
            offer_taught(deciding, joined(eta, gradients, None)[1], self.loss.curvature, taught)
        epsilon = bound_of_step(self.budget, eta, self.eta(state), state.budget, self.batch_size)
        function.reserve(len(at.points))
        large = len(at.points) >= BLOCKED_FROM_SAMPLES and function.order >= BLOCKED_FROM_ORDER
        move = self._move_blocked if large and not self.adaptive else self._move
        unit = None if not coupled else self.reach if curvatures is not None else 0.0
        error, changes = move(state, at, deciding, pulls, unit, bends, aims, epsilon, taught)
        state.budget = self.budget.next(state.budget, function.order)
        state.steps += 1
        state.changes += changes
        if state.changes >= inspection_due(function.order):
            self.inspect(state)
        return Info(error, eta)

    def _move(
        self,
        state: NewtonState,
        at: Evaluated,
        deciding: Array,
        pulls: Array,
        unit: float | None,
        bends: Array,
        aims: Array,
        epsilon: float,
        taught: Array,
    ) -> tuple[float, int]:
        function, before = state.function, state.function.order
        capacity, gram = len(function.points_buffer), kernel_rows(self.kernel, at.points, at.points)
        work = np.empty(moves.room(capacity, len(at.points), function.outputs))
        rows = np.require(at.rows, requirements=["C", "W"])
        komp_work, tables = np.empty((5, capacity)), function.tables
        moved, error, changes = moves.choose(
            komp_work, work, tables, before, deciding, rows, gram, float(epsilon), self.limit
        )
        function.order = moved.order
        known = Information(function.root_buffer, function.moments_buffer, function.noise)
        room = function.storage, capacity, function.inputs, function.outputs
        memory = Memory(known, *recent_and_window(*room, self.adaptive))
        terms = Terms(unit is not None, pulls, unit or 0.0, bends, aims, taught)
        points, leaving = np.require(at.points, requirements=["C", "W"]), self._leaving(function, moved)
        state.cursor = moves.apply_moves(
            tables, memory, moved, changes, points, leaving, terms, self.penalty, self.share, state.cursor
        )
        return error, changes

    def _leaving(self, function: InformedExpansion, moved: Moved) -> Array:
        """Return the kernel between the points that leave and all before, (r, before), where others come."""
        if moved.kept == moved.before or moved.kept == moved.order:
            return np.empty((0, moved.before))
        points = function.points_buffer
        return kernel_rows(self.kernel, moves.leaving_points(moved, points), points[: moved.before])

    def _move_blocked(
        self,
        state: NewtonState,
        at: Evaluated,
        deciding: Array,
        pulls: Array,
        unit: float | None,
        bends: Array,
        aims: Array,
        epsilon: float,
        taught: Array,
    ) -> tuple[float, int]:
        function, before = state.function, state.function.order
        gram = kernel_rows(self.kernel, at.points, at.points)
        points, rows, values = (np.require(each, requirements=["C", "W"]) for each in (at.points, at.rows, at.values))
        order, error, changes, state.cursor = blocked_moves.move(
            function.tables,
            Information(function.root_buffer, function.moments_buffer, function.noise),
            before,
            Added(points, deciding, rows, gram),
            values,
            Terms(unit is not None, pulls, unit or 0.0, bends, aims, taught),
            Numbers(float(epsilon), self.limit, self.penalty, self.share),
            state.cursor,
        )
        function.order = order
        return error, changes

    def compression_budget(self, state: NewtonState) -> float:
        """Return eps of the next step, a Hilbert norm; 0 while the budget steers to more points than there are."""
        return bound_at(self.budget, state.function.order, self.eta(state), state.budget)

    def inspect(self, state: NewtonState) -> None:
        """Look at the accuracy of the factor, and compute it afresh where it is lost and that is better."""
        state.changes = 0
        state.rebuilds += state.function.inspect()

    def function(self, state: NewtonState) -> InformedExpansion:
        return state.function

    def noise(self, state: NewtonState) -> Array:
        return state.function.noise

    def posterior(self, state: NewtonState) -> Posterior | None:
        """Return how certain the function is; None for other losses than the squared one."""
        function, scale = state.function, self.loss.curvature
        noise = noise_of(function.noise)
        if not self.gaussian:
            return None
        return Posterior(function, function.root.copy(), function.factor.copy(), self.penalty, scale, noise)

    def snapshot(self, state: NewtonState) -> dict[str, Array]:
        """Return the function with its information, and ``progress``: steps, changes, rebuilds, budget and cursor."""
        progress = np.array([state.steps, state.changes, state.rebuilds, state.budget, state.cursor])
        return {**state.function.snapshot(), "progress": progress}

    def restore(self, state: NewtonState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        steps, changes, rebuilds, state.budget, state.cursor = arrays["progress"].tolist()
        state.steps, state.changes, state.rebuilds = int(steps), int(changes), int(rebuilds)

    @property
    def compiled(self) -> CompiledNewton:
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When the budget hands nothing over.
        """
        return CompiledNewton(self)
