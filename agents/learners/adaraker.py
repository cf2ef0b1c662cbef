"""Random features of several kernels, learned by restarted instances with several step sizes: for changing targets."""

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
    progress: Annotated[Array, "3"]  # sum of the losses of f, number of samples, number of steps with samples


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
    """Raker with several step sizes, mixed by a second Hedge on the losses in each instance's current interval.

    AdaRaker (Shen, Chen and Giannakis, JMLR 2019). Instance j is `raker` with the step size ``eta_j = rho_j eta``,
    ``rho_j = ratio^(-j/2)``. Its intervals have ``shortest ratio^j`` steps. At the start of an interval its weight is
    reset to ``log h_j = log rho_j``, so that earlier losses no longer count. After a step in which the mixture has the
    loss L and the instance the loss L_j,

        log h_j <- log h_j + rate (L - L_j)        f = sum_j h_j f_j / sum_j h_j

    Short intervals with large steps follow changes of the target; long intervals with small steps average noise.

    Parameters
    ----------
    loss, kernel, regularization, batch_size, factors, features, seed, phases, rate, forgetting
        As for `raker`. ``rate`` is used by both Hedges; for the second Hedge "auto" uses the mean loss of the mixture.
        The paper's rate is eta_j, for losses between 0 and 1.
    step_size : Schedule
        eta, the step size of the shortest intervals. The default is four times "auto", or the largest stable step if
        that is smaller.
    intervals : int
        J, the number of instances, at least 1.
    shortest : int
        The number of steps of the shortest intervals, at least 1; 1 in the paper.
    ratio : int
        The ratio of consecutive interval lengths, at least 2; 2 in the paper.
    restart : bool
        Whether an instance is reset to 0 at the start of each interval, as in the paper. If False, it keeps its weights
        and its kernels' losses, as in the authors' code.
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
        """The numbers of `raker`, then the shortest interval, the ratio and whether to restart."""
        return *super().keys, float(self.shortest), float(self.ratio), float(self.restart)

    @property
    def rates(self) -> Array:
        """The rho_j, (J,)."""
        return np.array([shrinking(float(self.ratio), j) for j in range(self.intervals)])

    def init(self, inputs: int, outputs: int) -> PageState:
        """Return the state in which all instances are 0 and at the start of an interval."""
        function, (instances, count) = self.nothing(inputs, outputs), (self.intervals, len(self.factors))
        members, shares = np.zeros((instances, count, self.features, outputs)), np.full((instances, count), 1.0 / count)
        lost, samples = np.zeros((instances, count)), np.zeros(instances)
        arrays = State(function.coefficients, members, lost, shares, samples, np.log(self.rates), np.zeros(3))
        return PageState(function, arrays)

    def shares(self, state: PageState) -> Array:
        """Return the normalised weights of the instances, h_j / sum_i h_i, (J,)."""
        found: Array = shares_of(state.arrays.log_weights)
        return found
