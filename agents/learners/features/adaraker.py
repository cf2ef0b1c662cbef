"""Random features of several kernels, by instances whose intervals begin anew: for targets that change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.features import combine
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import Descent, Weighing, joined, share
from kernelswarm.agents.learners.features import adaraker_steps, raker_steps
from kernelswarm.agents.learners.features.raker import Raker
from kernelswarm.agents.learners.mixtures import Rate
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.protocols.parameters.hedge import shares_of
from kernelswarm.ranges import Range, check_ranges

Array = npt.NDArray[np.float64]


class AdaRakerState:
    """Everything the learner changes, in one vector: the function's weights, and those of all instances' members.

    Parameters
    ----------
    function : CosineFunction
        The function f = 0 in the features of all members.
    numbers : Array
        The learner's, as :mod:`~kernelswarm.agents.learners.features.adaraker_steps` reads them.
    """

    __slots__ = ("function", "numbers", "parts", "steps", "storage")

    def __init__(self, function: CosineFunction, numbers: Array) -> None:
        self.function = function
        self.numbers = numbers
        self.steps = 0
        self.parts: adaraker_steps.Parts
        self.storage: Array
        self.move_to(np.zeros(adaraker_steps.length(*self.sizes, function.coefficients.shape[1])))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """E, L and J."""
        members, width, instances = (
            int(self.numbers[place])
            for place in (adaraker_steps.MEMBERS, adaraker_steps.WIDTH, adaraker_steps.INSTANCES)
        )
        return members, width, instances

    def __getstate__(self) -> tuple[CosineFunction, Array, Array, int]:
        """Return the contents for a copy: its parts must lie in its own vector."""
        return self.function, self.numbers, self.storage, self.steps

    def __setstate__(self, state: tuple[CosineFunction, Array, Array, int]) -> None:
        """Take over the contents of a copy."""
        self.function, self.numbers, storage, self.steps = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Lie in a vector."""
        self.storage = storage
        self.parts = adaraker_steps.split(storage, *self.sizes, self.function.coefficients.shape[1])
        self.function.coefficients = self.parts.weights


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
        Whether an instance is 0 where its interval begins, as in the paper; otherwise it goes on from where it was,
        with what its kernels have lost, as in the authors' code.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(4.0, reach=1.0), metadata={"part": "schedule", "scalar": "constant"})
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
    weighs_widths: ClassVar[bool] = True  # bandwidths, by their losses: the data say which form their lengths have

    ranges: ClassVar = {
        "intervals": Range("[1, inf)"),
        "shortest": Range("[1, inf)"),
        "ratio": Range("[2, inf)"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        self._raker.gain  # noqa: B018

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
    def rates(self) -> Array:
        """The rho_j, (J,)."""
        return np.array([adaraker_steps.shrinking(float(self.ratio), place) for place in range(self.intervals)])

    @cached_property
    def _numbers(self) -> Array:
        own = [self.regularization, self.batch_size, self._raker.hedge_rate, self.forgetting, len(self.factors)]
        intervals = [self.features, self.intervals, self.shortest, self.ratio, self.restart]
        return np.array([*own, *intervals], dtype=np.float64)

    def init(self, inputs: int, outputs: int) -> AdaRakerState:
        """Return the state of instances that are all 0, each at the beginning of an interval."""
        state = AdaRakerState(self._raker.init(inputs, outputs).function, self._numbers)
        state.parts.shares[:] = 1.0 / len(self.factors)
        state.parts.log_weights[:] = np.log(self.rates)
        return state

    def shares(self, state: AdaRakerState) -> Array:
        """Return how much each instance counts, h_j over their sum, (J,)."""
        found: Array = shares_of(state.parts.log_weights)
        return found

    def evaluate(self, state: AdaRakerState, points: Array) -> Evaluated:
        """Evaluate the mixture at ``points`` (n, p): the rows are the features of all kernels, (n, E L)."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        raker_steps.in_their_unit(rows, len(self.factors))
        return Evaluated(points, rows, values)

    def inner(self, state: AdaRakerState, at: Evaluated) -> Array:
        """Return the mean of the instances' inner products, by their shares, (n, n)."""
        kernels, gram = np.empty(len(self.factors)), np.empty((len(at.rows), len(at.rows)))
        adaraker_steps.kernel_shares(state.parts.log_weights, state.parts.shares, kernels)
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
        rows = np.require(together(evaluations).rows, requirements=["C", "W"])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        (count, width, instances), outputs = state.sizes, weights.shape[1]
        size, seen, parts = len(rows), len(targets), state.parts
        features, found = np.empty((size, width)), np.empty((count, seen, outputs))
        own, mixed, whole = np.empty((seen, outputs)), np.empty(seen), np.empty((seen, outputs))
        theirs, lost = np.empty((instances * count, seen, outputs)), np.empty((instances * count, seen))
        instance_losses = np.empty((instances, seen))
        if seen:
            own = np.ascontiguousarray(self.loss.derivatives(evaluations[0].values, targets))
            mixed[:] = self.loss.values(evaluations[0].values, targets)
            for place in range(instances):
                members = slice(place * count, (place + 1) * count)
                raker_steps.values_of(rows, parts.members[members], features, found)
                adaraker_steps.instance_values(found, parts.shares[place], whole)
                instance_losses[place] = self.loss.values(whole, targets)
                lost[members] = [self.loss.values(values, targets) for values in found]
                theirs[members] = [self.loss.derivatives(values, targets) for values in found]
        adaraker_steps.learn(
            state.numbers,
            parts,
            raker_steps.Work(features, np.empty((size, size)), np.empty((size, outputs))),
            rows,
            raker_steps.Slopes(own, theirs, lost, share(seen, self.batch_size)),
            mixed,
            instance_losses,
            Weighing(weights, rates, stiffness, curvatures is not None),
            np.empty(size),
            eta,
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: AdaRakerState) -> CosineFunction:
        """Return the current function, in the features that those of `raker` have."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return self._raker.function_from(arrays)

    def snapshot(self, state: AdaRakerState) -> dict[str, Array]:
        """Return ``state``, the vector of the state, and the number of ``steps``."""
        return {"state": state.storage.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: AdaRakerState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.storage[:] = arrays["state"]
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> adaraker_steps.CompiledAdaRaker:
        """The learner's functions and numbers for compiled rounds."""
        return adaraker_steps.CompiledAdaRaker(self, self._raker.compiled)
