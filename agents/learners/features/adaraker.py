"""Random features of several kernels, by instances whose intervals begin anew: for targets that change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.features import combine
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import Descent, share
from kernelswarm.agents.learners.features import raker_steps
from kernelswarm.agents.learners.features.raker import Raker, RakerState
from kernelswarm.agents.learners.features.random_features import CosineFunction
from kernelswarm.agents.learners.mixtures import Rate
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.states.hedge import LIKELIHOOD, shares_of

Array = npt.NDArray[np.float64]


class AdaRakerState:
    """Everything that changes: the instances, how much each counts, and the mixture of them.

    Parameters
    ----------
    instances : list of RakerState
        One for each length of intervals, the shortest first.
    """

    __slots__ = ("count", "function", "instances", "log_weights", "lost", "seen", "steps")

    def __init__(self, instances: list[RakerState]) -> None:
        first = instances[0].function
        self.instances = instances
        self.function = CosineFunction(first.frequencies, first.phases, np.zeros_like(first.coefficients))
        self.log_weights = np.zeros(len(instances))
        self.lost = self.count = 0.0  # by the mixture, and over how many samples
        self.seen = 0  # steps with samples of the node's own
        self.steps = 0


@dataclass(frozen=True)
class AdaRaker(Descent):
    """Raker with steps of several sizes, mixed by what each has lost in its present interval (a second Hedge).

    AdaRaker (Shen, Chen and Giannakis, JMLR 2019): instance j is `raker` with steps of ``eta_j = rho_j eta``, ``rho_j =
    ratio^(-j/2)``. Its intervals have ``shortest ratio^j`` steps each; where one begins, what it lost before counts no
    longer, and ``log h_j = log rho_j``. A step in which the mixture loses L and the instance L_j changes it,

        log h_j <- log h_j + rate (L - L_j)        f = sum_j h_j f_j / sum_j h_j

    Short intervals with large steps follow what changes, long ones with small steps average noise.

    Parameters
    ----------
    loss, kernel, regularization, batch_size, factors, features, seed, phases, rate, forgetting
        As of `raker`. The rate is that of both Hedges; "auto" takes here the mean loss of the mixture. The paper's is
        eta_j, for losses between 0 and 1.
    step_size : Schedule
        eta, the steps of the shortest intervals; the default is four times "auto", as far as that is stable.
    intervals : int
        J, the number of instances, at least 1.
    shortest : int
        The steps of the shortest intervals, at least 1, which is the paper's.
    ratio : int
        The ratio of one length to the next, at least 2, which is the paper's.
    restart : bool
        Whether an instance is 0 where its interval begins, as in the paper; otherwise it goes on from where it was, as
        in the authors' code.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(4.0), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    features: int = 50
    seed: int = 0
    phases: Literal["random", "paired"] = "random"
    rate: Rate = "auto"
    forgetting: float = 0.999
    intervals: int = 5
    shortest: int = 16
    ratio: int = 4
    restart: bool = False

    def __post_init__(self) -> None:
        self._raker.gain  # noqa: B018  refuses what raker refuses
        for name, least in (("intervals", 1), ("shortest", 1), ("ratio", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)!r} must be at least {least}")

    @cached_property
    def _raker(self) -> Raker:
        return Raker(**{key.name: getattr(self, key.name) for key in fields(Raker)})

    @property
    def gain(self) -> float | None:
        """The mean of ``||z_e(x)||^2``, the same for all members of all instances."""
        return self._raker.gain

    @property
    def linear(self) -> bool:
        """False: a step changes the instances' shares too."""
        return False

    @property
    def compiled(self) -> Any:
        """Raise NotCompiledError: the instances step one after the other."""
        raise NotCompiledError("the learner adaraker")

    @property
    def rates(self) -> Array:
        """The rho_j, (J,)."""
        return np.array([self.ratio ** (-0.5 * place) for place in range(self.intervals)])

    def init(self, inputs: int, outputs: int) -> AdaRakerState:
        """Return the state of instances that are all 0, each at the beginning of an interval."""
        state = AdaRakerState([self._raker.init(inputs, outputs) for _ in range(self.intervals)])
        state.log_weights[:] = np.log(self.rates)
        return state

    def shares(self, state: AdaRakerState) -> Array:
        """Return how much each instance counts, h_j over their sum, (J,)."""
        found: Array = shares_of(state.log_weights)
        return found

    def evaluate(self, state: AdaRakerState, points: Array) -> Evaluated:
        """Evaluate the mixture at ``points`` (n, p): the rows are the features of all kernels, (n, E L)."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        raker_steps.in_their_unit(rows, len(self.factors))
        return Evaluated(points, rows, values)

    def inner(self, state: AdaRakerState, at: Evaluated) -> Array:
        """Return the mean of the instances' inner products, by their shares, (n, n)."""
        kernels: Array = self.shares(state) @ np.stack([each.shares for each in state.instances])
        gram = np.empty((len(at.rows), len(at.rows)))
        raker_steps.gram_of(np.require(at.rows, requirements=["C", "W"]), kernels, self.features, gram)
        return gram

    def step(
        self,
        state: AdaRakerState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take a step with every instance: its own loss's derivatives and the coupling's; then weigh them anew."""
        eta = self.eta(state) if eta is None else eta
        own, seen, part = evaluations[0], len(targets), share(len(targets), self.batch_size)
        coupling, rate, lost = list(gradients), 0.0, 0.0
        if seen:
            coupling[0] = gradients[0] - part * self.gradient(state, own, targets)
            lost = float(np.sum(self.loss.values(own.values, targets)))
            left = self.forgetting**seen
            state.lost, state.count = left * state.lost + lost, left * state.count + seen
            rate = self._rate(state)
        for place, (instance, shorter) in enumerate(zip(state.instances, self.rates.tolist(), strict=True)):
            sets, pulled = list(evaluations), list(coupling)
            if seen:
                values = combine(own.rows, instance.function.coefficients) / math.sqrt(len(self.factors))
                sets[0] = own._replace(values=values)
                pulled[0] = coupling[0] + part * self.loss.derivatives(values, targets)
                state.log_weights[place] += rate * (lost - float(np.sum(self.loss.values(values, targets))))
            self._raker.step(instance, sets, pulled, curvatures, targets, shorter * eta)
        if seen:
            state.seen += 1
            self._begin(state)
        self._mix(state)
        state.steps += 1
        return Info(0.0, eta)

    def _rate(self, state: AdaRakerState) -> float:
        rate = self._raker.hedge_rate
        if rate != LIKELIHOOD:
            return rate
        return 0.5 * state.count / state.lost if state.lost > 0.0 else 0.0

    def _begin(self, state: AdaRakerState) -> None:
        """Begin the intervals of the step to come."""
        for place, shorter in enumerate(self.rates.tolist()):
            if state.seen % (self.shortest * self.ratio**place) == 0:
                state.log_weights[place] = math.log(shorter)
                if self.restart:
                    instance = state.instances[place]
                    instance.storage[:] = 0.0
                    instance.shares[:] = 1.0 / instance.count

    def _mix(self, state: AdaRakerState) -> None:
        """Bring the weights of the mixture up to date."""
        state.function.coefficients[:] = 0.0
        for part, instance in zip(self.shares(state).tolist(), state.instances, strict=True):
            state.function.coefficients += part * instance.function.coefficients

    def function(self, state: AdaRakerState) -> CosineFunction:
        """Return the current function, in the features that those of `raker` have."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        """Rebuild a function from its saved arrays."""
        return self._raker.function_from(arrays)

    def snapshot(self, state: AdaRakerState) -> dict[str, Array]:
        """Return the ``instances``' vectors (J, n), their ``log_weights`` (J,), and what is counted."""
        return {
            "instances": np.stack([each.storage for each in state.instances]),
            "log_weights": state.log_weights.copy(),
            "progress": np.array([state.lost, state.count, float(state.seen), float(state.steps)]),
        }

    def restore(self, state: AdaRakerState, arrays: Mapping[str, Array]) -> None:
        """Put the state where :meth:`snapshot` was taken."""
        state.lost, state.count, seen, steps = arrays["progress"].tolist()
        state.seen, state.steps = int(seen), int(steps)
        state.log_weights[:] = arrays["log_weights"]
        for instance, storage in zip(state.instances, arrays["instances"], strict=True):
            instance.storage[:] = storage
            instance.steps = state.steps
        self._mix(state)
