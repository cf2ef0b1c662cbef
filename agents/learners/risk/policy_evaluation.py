"""Policy evaluation: the value function of a Markov chain with rewards, as a compositional problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.learners.risk.compositional import check_pairs, check_tracking
from kernelswarm.agents.learners.risk.policy_evaluation_steps import CompiledPolicy, coefficients_in, errors_in
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Relative, Schedule
from kernelswarm.ranges import Range

Array = npt.NDArray[np.float64]


class PolicyState(PolkState):
    """A POLK learner's state for the value function, and another for the tracked residual."""

    __slots__ = ("residual", "vector")

    def __init__(self, function: Expansion, budget: float, residual: PolkState) -> None:
        super().__init__(function, budget)
        self.residual = residual
        self.vector: Array | None = None
        """The vector that holds both functions during compiled steps."""


@dataclass(frozen=True)
class PolicyEvaluation(Polk):
    """Learn the value function of a Markov chain from transitions, by minimising the Bellman residual (COLK example 2).

    With states x, the next states y and rewards r it minimises (COLK eq. 15)

        J(V) = E_x 1/2 (E_y[r + gamma V(y) - V(x) | x])^2 + lambda / 2 ||V||^2

    Samples 2k and 2k + 1 of a round are x and y of a transition, and r is the target of x. The inner mean is another
    one at every x, so what is tracked is a function g of the state, not a number: the mean residual at x. With the
    residuals delta = r + gamma V(y) - V(x) a step is the mean over the transitions of

        g~ = g - beta (g(x) - delta) kappa(x, .)
        V~ = (1 - eta lambda) V - eta g(x) (gamma kappa(y, .) - kappa(x, .))

    both compressed as in :class:`~kernelswarm.agents.learners.polk.Polk`. g(x) is that before the step: it does not
    know y, so that the product of the two means over y has no bias, which delta in its place would have. Under a
    protocol values are coupled at all states of the round; an implicit step takes the coupling at the new function.

    Parameters
    ----------
    kernel : Kernel
        The reproducing kernel of V and of g.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization, and well below ``tracking_rate``. By default 0.1, over
        the largest kappa(x, x) of the data where that is above 1.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        The samples that a node draws in a round, two for each transition: even.
    budget : Budget
        The rule for the compression error of V.
    discount : float
        gamma, between 0 and 1.
    tracking_rate : Schedule
        beta in (0, 1], a number or a schedule. By default 0.2, as ``step_size``.
    tracking_budget : Budget
        The rule for the compression error of g, whose step size is beta.
    """

    loss: Loss = field(default=Squared(), init=False)
    step_size: Schedule = field(default=Relative(0.1), metadata={"part": "schedule", "scalar": "constant"})
    budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})
    batch_size: int = 2
    discount: float = 0.9
    tracking_rate: Schedule = field(default=Relative(0.2), metadata={"part": "schedule", "scalar": "constant"})
    tracking_budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})
    on_trial: ClassVar[bool] = False  # targets are rewards, and not values of its function

    ranges: ClassVar = {"discount": Range("(0, 1)", "0.9 looks about ten steps ahead")}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pairs(self.batch_size)
        check_tracking(self.tracking_rate)

    @cached_property
    def tracker(self) -> Polk:
        """The learner of g."""
        return Polk(self.loss, self.kernel, self.tracking_rate, 0.0, self.batch_size // 2, self.tracking_budget)

    @property
    def gain(self) -> float | None:
        """Twice the supremum of kappa(x, x), since a transition moves the function at x and at y."""
        return None if self.kernel.supremum is None else 2.0 * self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> PolicyState:
        """Return the state of V = 0 and g = 0 on ``inputs`` dimensions, one of each for every reward."""
        function = Expansion(self.kernel, inputs, outputs)
        return PolicyState(function, begun(self.budget), self.tracker.init(inputs, outputs))

    def gradient(self, state: PolicyState, own: Evaluated, targets: Array) -> Array:
        """Return the coefficients at the states, (n, C), whose mean over the rows is the mean over the transitions.

        They are ``-2 g(x)`` at x and ``2 gamma g(x)`` at y; a state left over at the end has 0.
        """
        tracked = self._tracked(state, own)
        coefficients = np.zeros(own.values.shape)
        coefficients_in(tracked.values, self.discount, coefficients)
        return coefficients

    def _tracked(self, state: PolicyState, own: Evaluated) -> Evaluated:
        """Evaluate g at the first states of the transitions."""
        pairs = len(own.points) // 2
        return self.tracker.evaluate(state.residual, np.ascontiguousarray(own.points[0 : 2 * pairs : 2]))

    def step(
        self,
        state: PolkState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step of g and one of V along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``, and compress.

        As :meth:`Polk.step`; with own transitions, g learns from them.
        """
        assert isinstance(state, PolicyState)
        if len(targets):
            pairs = len(targets) // 2
            if pairs:
                tracked = self._tracked(state, evaluations[0])
                errors = np.empty(tracked.values.shape)
                errors_in(evaluations[0].values, targets, tracked.values, self.discount, errors)
                errors *= share(pairs, self.tracker.batch_size)
                self.tracker.step(state.residual, [tracked], [errors], None, targets[0 : 2 * pairs : 2])
            if curvatures is not None:  # the residual's part is explicit
                part = share(len(evaluations[0].points), self.batch_size)
                curvatures = [curvatures[0] - self.loss.curvature * part, *curvatures[1:]]
        info = super().step(state, evaluations, gradients, curvatures, targets, eta)
        state.residual.steps = state.steps  # both count the same steps, also those without a transition
        return info

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return POLK's arrays of V, and those of g as ``residual_<name>``."""
        assert isinstance(state, PolicyState)
        residual = self.tracker.snapshot(state.residual)
        return {**super().snapshot(state), **{f"residual_{name}": array for name, array in residual.items()}}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        assert isinstance(state, PolicyState)
        super().restore(state, arrays)
        prefix = "residual_"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        self.tracker.restore(state.residual, own)

    @property
    def compiled(self) -> CompiledPolicy:
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When one of the budgets hands nothing over.
        """
        return CompiledPolicy(self)
