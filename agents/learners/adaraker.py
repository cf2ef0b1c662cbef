"""Random features of several kernels, by instances whose intervals begin anew: for targets that change."""

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.agents.learners.numpy_features import At, PageState, losses
from kernelswarm.agents.learners.raker import KernelMixture, felt_by, hedged
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD, shares_of
from kernelswarm.ranges import Range


class State(NamedTuple):
    weights: Annotated[Array, "FC"]  # of the function, as of `raker`
    members: Annotated[Array, "JELC"]  # theta_je
    lost: Annotated[Array, "JE"]  # L_je
    shares: Annotated[Array, "JE"]  # q_je
    samples: Annotated[Array, "J"]  # of the losses L_je
    log_weights: Annotated[Array, "J"]  # log h_j
    progress: Annotated[Array, "3"]  # what f has lost, on how many samples, and the steps with samples


def shrinking(ratio: float, j: int) -> float:
    """Compute rho_j."""
    return float(ratio ** (-0.5 * j))


def move(keys: tuple[float, ...], state: State, at: At) -> State:
    regularization, rate, forgetting, shortest, ratio, restart = keys
    _, theta, lost, q, samples, log_h, progress = state
    own, (instances, count) = len(at.targets), q.shape
    whole, left = np.sum(losses(at, at.values)), forgetting**own
    f_lost, f_samples, steps = left * progress[0] + whole, left * progress[1] + own, progress[2] + min(own, 1)
    second = rate
    if rate == LIKELIHOOD:
        second = 0.5 * f_samples / f_lost if f_lost > 0.0 else 0.0
    interval = shortest
    for j in range(instances):
        before, rho = q[j].copy(), shrinking(ratio, j)
        q[j], values = hedged(theta[j], lost[j], samples[j : j + 1], at, regularization, rate, forgetting, rho)
        f_j = np.zeros(at.values.shape)
        for e in range(count):
            f_j += before[e] * values[e]
        log_h[j] += second * (whole - np.sum(losses(at, f_j)))
        if own and steps % interval == 0:
            log_h[j] = math.log(rho)
            if restart:
                theta[j], lost[j], q[j], samples[j] = 0.0, 0.0, 1.0 / count, 0.0
        interval *= ratio
    return State(mixed(theta, q, log_h), theta, lost, q, samples, log_h, np.array([f_lost, f_samples, steps]))


def mixed(theta: Array, q: Array, log_h: Array) -> Array:
    """Return ``sum_j h_j sum_e q_je f_je`` as weights of the function."""
    instances, count, width, outputs = theta.shape
    found, h = np.zeros((count, width, outputs)), shares_of(log_h)
    for e in range(count):
        for j in range(instances):
            found[e] += math.sqrt(count) * h[j] * q[j, e] * theta[j, e]
    return found.reshape((count * width, outputs))


def felt(keys: tuple[float, ...], state: State, features: Array) -> Array:
    """Compute ``sum_je h_j q_je z_e(x) . z_e(y)``."""
    shares, h = np.zeros(state.shares.shape[1]), shares_of(state.log_weights)
    for j in range(len(h)):
        shares += h[j] * state.shares[j]
    return felt_by(shares, features)


@dataclass(frozen=True)
class AdaRaker(KernelMixture):
    """Raker with steps of several sizes, mixed by their losses in their present interval (a second Hedge).

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

    step_size: Schedule = field(default=Auto(4.0, reach=1.0), metadata={"part": "schedule", "scalar": "constant"})
    intervals: int = 5
    shortest: int = 16
    ratio: int = 4
    restart: bool = False

    ranges: ClassVar = {
        "intervals": Range("[1, inf)"),
        "shortest": Range("[1, inf)"),
        "ratio": Range("[2, inf)"),
    }
    State: ClassVar = State
    move: ClassVar = staticmethod(move)
    felt: ClassVar = staticmethod(felt)

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers of `raker`, and of the intervals."""
        return *super().keys, float(self.shortest), float(self.ratio), float(self.restart)

    @property
    def rates(self) -> Array:
        """The rho_j, (J,)."""
        return np.array([shrinking(float(self.ratio), j) for j in range(self.intervals)])

    def init(self, inputs: int, outputs: int) -> PageState:
        """Return the state of instances that are all 0, each at the beginning of an interval."""
        function, (instances, count) = self.nothing(inputs, outputs), (self.intervals, len(self.factors))
        members, shares = np.zeros((instances, count, self.features, outputs)), np.full((instances, count), 1.0 / count)
        lost, samples = np.zeros((instances, count)), np.zeros(instances)
        arrays = State(function.coefficients, members, lost, shares, samples, np.log(self.rates), np.zeros(3))
        return PageState(function, arrays)

    def shares(self, state: PageState) -> Array:
        """Return how much each instance counts, h_j over their sum, (J,)."""
        found: Array = shares_of(state.arrays.log_weights)
        return found
