"""Random features of several kernels, mixed by how well each has predicted: the bandwidth is found online."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.features import combine
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, Weighing, check_step, joined, share
from kernelswarm.agents.learners.features import raker_steps
from kernelswarm.agents.learners.features.random_features import RandomFeatures
from kernelswarm.agents.learners.mixtures import MIXTURE_RANGES, Rate, check_mixture, rate_for, scaled_kernels
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule

Array = npt.NDArray[np.float64]


class RakerState:
    """Everything the learner changes, in one vector: the function's weights, the members', their losses and shares.

    Parameters
    ----------
    function : CosineFunction
        The function f = 0 in the features of all members.
    count : int
        E, the number of members.
    """

    __slots__ = ("count", "function", "losses", "members", "shares", "steps", "storage")

    def __init__(self, function: CosineFunction, count: int) -> None:
        self.function = function
        self.count = count
        self.steps = 0
        self.members: Array
        self.losses: Array
        self.shares: Array
        self.storage: Array
        self.move_to(np.zeros(2 * (function.coefficients.size + count) + 1))
        self.shares[:] = 1.0 / count

    def __getstate__(self) -> tuple[CosineFunction, int, Array, int]:
        """Return the contents for a copy: its parts must lie in its own vector."""
        return self.function, self.count, self.storage, self.steps

    def __setstate__(self, state: tuple[CosineFunction, int, Array, int]) -> None:
        """Take over the contents of a copy."""
        self.function, self.count, storage, self.steps = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Lie in a vector."""
        features, outputs = shape = self.function.coefficients.shape
        size, count = features * outputs, self.count
        self.storage = storage
        self.function.coefficients = storage[:size].reshape(shape)
        self.members = storage[size : 2 * size].reshape(count, features // count, outputs)
        self.losses = storage[2 * size : 2 * size + count]
        self.shares = storage[2 * size + count : 2 * (size + count)]


@dataclass(frozen=True)
class Raker(Descent):
    """Random features of several bandwidths, mixed by their losses on samples that they had not seen yet (Hedge).

    Raker (Shen, Chen and Giannakis, JMLR 2019): member e is linear in L random features z_e of the kernel
    with the bandwidth ``factors[e]`` times that of ``kernel``, and steps along its own loss,

        f = sum_e q_e theta_e' z_e(x)      theta_e <- (1 - eta lambda) theta_e - (eta / b) sum_k z_e(x_k) g_k'

    With L_e the sum of its losses before each step, of which a sample leaves ``forgetting``, ``q_e ~ exp(-rate L_e)``.
    What neighbours add to g_k is their pull on the mixture. `multi_kernel` mixes compressed members in the same way;
    the protocol `domkl` sends the weights of such members.

    Parameters
    ----------
    loss, step_size, regularization, batch_size
        As of `random_features`, the same for every member.
    kernel : Kernel
        The kernel with the bandwidth 1 in ``factors``: gaussian, laplacian, matern or student_t.
    factors : sequence of float
        The bandwidths, as multiples of the kernel's, positive.
    features : int
        L, the random features of each member, at least 1.
    seed : int
        Seed of the features, not negative: member e has those of `random_features` with the seed ``seed + e``.
    phases : {"random", "paired"}
        As of `random_features`; the paper's are paired.
    rate : float or "auto"
        The rate of Hedge, positive. "auto" is the likelihood's: 1 where classes are learned, and for numbers 1 over
        twice the mean loss of the best member, which is a Gaussian likelihood for the squared loss in every unit.
    forgetting : float
        What a sample leaves of the losses before its batch, above 0, at most 1; those of a batch count alike. The
        paper's is 1.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    features: int = 50
    seed: int = 0
    phases: Literal["random", "paired"] = "random"
    rate: Rate = "auto"
    forgetting: float = 0.999
    weighs_widths: ClassVar[bool] = True  # bandwidths, by their losses: the data say which form their lengths have

    ranges: ClassVar = STEP_RANGES | MIXTURE_RANGES

    def __post_init__(self) -> None:
        check_step(self)
        self._mapping(0, self.kernel)
        check_mixture(self.kernel, self.factors)

    def _mapping(self, place: int, kernel: Kernel) -> RandomFeatures:
        """Return the learner whose features a member has; its steps are never taken."""
        seed = self.seed + place
        return RandomFeatures(self.loss, Constant(1.0), 0.0, 1, kernel, self.features, seed, self.phases)

    @property
    def gain(self) -> float | None:
        """The mean of ``||z_e(x)||^2``, the same for all members."""
        return self.kernel.supremum

    @property
    def linear(self) -> bool:
        """False: a step changes the members' shares too."""
        return False

    @property
    def hedge_rate(self) -> float:
        return rate_for(self.rate, self.loss)

    def init(self, inputs: int, outputs: int) -> RakerState:
        """Return the state of members that are all 0 and count alike."""
        members = [
            self._mapping(place, kernel).init(inputs, outputs).function
            for place, kernel in enumerate(scaled_kernels(self.kernel, self.factors))
        ]
        arrays = [member.arrays() for member in members]
        stacked = {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}
        return RakerState(self.function_from(stacked), len(members))

    def shares(self, state: RakerState) -> Array:
        """Return how much each member counts, q_e, (E,)."""
        return state.shares

    def evaluate(self, state: RakerState, points: Array) -> Evaluated:
        """Evaluate the mixture at ``points`` (n, p): the rows are the features of all members, (n, E L)."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        raker_steps.in_their_unit(rows, state.count)
        return Evaluated(points, rows, values)

    def inner(self, state: RakerState, at: Evaluated) -> Array:
        """Return the mean of the members' inner products, by their shares, (n, n)."""
        gram = np.empty((len(at.rows), len(at.rows)))
        raker_steps.gram_of(np.require(at.rows, requirements=["C", "W"]), state.shares, self.features, gram)
        return gram

    def step(
        self,
        state: RakerState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take a step with every member: its own loss's derivatives and the coupling's; then weigh them anew."""
        eta = self.eta(state) if eta is None else eta
        rows = np.require(together(evaluations).rows, requirements=["C", "W"])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        (count, width, outputs), size, seen = state.members.shape, len(rows), len(targets)
        features, found = np.empty((size, width)), np.empty((count, seen, outputs))
        own, theirs, lost = np.empty((seen, outputs)), np.empty_like(found), np.empty((count, seen))
        if seen:
            raker_steps.values_of(rows, state.members, features, found)
            own = np.ascontiguousarray(self.loss.derivatives(evaluations[0].values, targets))
            for place, values in enumerate(found):
                lost[place] = self.loss.values(values, targets)
                theirs[place] = self.loss.derivatives(values, targets)
        state.storage[-1] = raker_steps.learn(
            state.function.coefficients,
            raker_steps.Members(state.members, state.losses, state.shares),
            float(state.storage[-1]),
            raker_steps.Work(features, np.empty((size, size)), np.empty((size, outputs))),
            rows,
            raker_steps.Slopes(own, theirs, lost, share(seen, self.batch_size)),
            Weighing(weights, rates, stiffness, curvatures is not None),
            1.0 - eta * self.regularization,
            raker_steps.Hedging(float(self.forgetting), self.hedge_rate),
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: RakerState) -> CosineFunction:
        """Return the current function: in features of the mean of all kernels, its weights ``sqrt(E) q_e theta_e``."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return CosineFunction(arrays["frequencies"], arrays["phases"], arrays["weights"])

    def coefficients(self, state: RakerState) -> Array:
        """Return the weights ``q_e theta_e`` of the function in the members' features, (E, L, C)."""
        return state.shares[:, np.newaxis, np.newaxis] * state.members

    def regularized(self, state: RakerState) -> int:
        """Return that all features are regularised, E L."""
        return len(state.function.coefficients)

    def place(self, state: RakerState, coefficients: Array, steps: int) -> None:
        """Put a state where its function has these weights (E, L, C), after so many steps: all members count alike."""
        raker_steps.place_members(state.storage, state.count, np.ascontiguousarray(coefficients).reshape(-1))
        state.steps = steps

    def snapshot(self, state: RakerState) -> dict[str, Array]:
        """Return ``state``, the vector of the state, and the number of ``steps``."""
        return {"state": state.storage.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: RakerState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.storage[:] = arrays["state"]
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> raker_steps.CompiledRaker:
        """The learner's functions and numbers for compiled rounds."""
        features, numbers = self._mapping(0, self.kernel).handed_features
        return raker_steps.CompiledRaker(self, features, numbers)
