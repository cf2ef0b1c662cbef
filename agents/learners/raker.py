"""Random features of several bandwidths, mixed by their past losses, so that the bandwidth is learned online."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.learners.descent import STEP_RANGES
from kernelswarm.agents.learners.multi_kernel import MIXTURE_RANGES, Rate, check_mixture, rate_for, scaled_kernels
from kernelswarm.agents.learners.numpy_features import (
    At,
    NumpyFeatures,
    PageState,
    combined,
    derivatives,
    descended,
    losses,
    products,
)
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.parameters.hedge import log_weights, shares_of
from kernelswarm.ranges import Seed, seed_of


class State(NamedTuple):
    weights: Annotated[Array, "FC"]  # of the function, in features whose squares have the mean 1 / F
    members: Annotated[Array, "ELC"]  # theta_e
    lost: Annotated[Array, "E"]  # L_e
    shares: Annotated[Array, "E"]  # q_e
    samples: Annotated[Array, "1"]  # of the losses L_e


@cached_njit
def features_of(features: Array, e: int, count: int) -> Array:
    """Return the features z_e of member e at the points, (N, L), from the features of all ``count`` members."""
    width = features.shape[1] // count
    return features[:, e * width : (e + 1) * width].copy()


@cached_njit
def mixed(members: Array, shares: Array) -> Array:
    """Return ``sum_e q_e f_e`` as weights of the function."""
    found = np.empty(members.shape)
    for e in range(len(members)):
        found[e] = math.sqrt(len(members)) * shares[e] * members[e]
    return found.reshape((-1, members.shape[2]))


@cached_njit
def hedged(
    theta: Array,  # (E, L, C)
    lost: Array,  # (E,)
    samples: Array,  # (1,)
    at: At,
    regularization: float,
    rate: float,
    forgetting: float,
    scale: float,
) -> tuple[Array, Array]:
    """Update every member along its own loss and the coupling; returns the shares, and the values before the step."""
    own = len(at.targets)
    left = forgetting**own
    values = np.empty((len(theta), own, at.slopes.shape[1]))
    for e in range(len(theta)):
        z = features_of(at.features, e, len(theta))
        values[e] = combined(z[:own], theta[e])
        lost[e] *= left
        for each in losses(at, values[e]):
            lost[e] += each
        g = at.gradients.copy()
        g[:own] += at.part * (derivatives(at, values[e]) - at.slopes)
        theta[e] = descended(at, theta[e], z, g, regularization, scale)
    samples[0] = left * samples[0] + own
    return shares_of(log_weights(lost, samples[0], rate)), values


def move(keys: tuple[float, ...], state: State, at: At) -> State:
    regularization, rate, forgetting = keys
    _, theta, lost, _, samples = state
    shares, _ = hedged(theta, lost, samples, at, regularization, rate, forgetting, 1.0)
    return State(mixed(theta, shares), theta, lost, shares, samples)


@cached_njit
def felt_by(shares: Array, features: Array) -> Array:
    """Compute ``sum_e q_e z_e(x) . z_e(y)`` of all points, (N, N)."""
    gram = np.zeros((len(features), len(features)))
    for e in range(len(shares)):
        gram += shares[e] * products(features_of(features, e, len(shares)))
    return gram


def felt(keys: tuple[float, ...], state: State, features: Array) -> Array:
    return felt_by(state.shares, features)


def placed(keys: tuple[float, ...], state: State, weights: Array) -> State:
    """Return the state of members with equal shares and the given weights ``q_e theta_e``."""
    count = len(state.shares)
    shares, theta = np.full(count, 1.0 / count), count * weights.reshape(state.members.shape)
    return State(mixed(theta, shares), theta, np.zeros(count), shares, np.zeros(1))


@dataclass(frozen=True)
class KernelMixture(NumpyFeatures):
    """Base of learners on the random features z_e, (n, E L), of one kernel with several bandwidths."""

    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    features: int = 50
    seed: Seed = "auto"
    phases: Literal["random", "paired"] = "random"
    rate: Rate = "auto"
    forgetting: float = 0.999
    weighs_widths: ClassVar[bool] = True  # losses choose the bandwidth; data set the lengths' ratios

    ranges: ClassVar = STEP_RANGES | MIXTURE_RANGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self._mapping(0, self.kernel)
        check_mixture(self.kernel, self.factors)

    def _mapping(self, place: int, kernel: Kernel) -> RandomFeatures:
        """Return the `random_features` learner that defines a member's features; it never takes a step."""
        seed = seed_of(self.seed) + place
        return RandomFeatures(self.loss, Constant(1.0), 0.0, 1, kernel, self.features, seed, self.phases)

    @property
    def gain(self) -> float | None:
        """The mean of ``||z_e(x)||^2``, the same for all members."""
        return self.kernel.supremum

    @property
    def unit(self) -> float:
        """sqrt(E): the ratio of each kernel's features to the function's features, which represent the mean kernel."""
        return math.sqrt(len(self.factors))

    @property
    def keys(self) -> tuple[float, ...]:
        """The Tikhonov coefficient, the rate of Hedge and the forgetting factor."""
        return self.regularization, rate_for(self.rate, self.loss), float(self.forgetting)

    def nothing(self, inputs: int, outputs: int) -> CosineFunction:
        """Return f = 0 in the features of all members."""
        kernels = enumerate(scaled_kernels(self.kernel, self.factors))
        arrays = [self._mapping(*each).init(inputs, outputs).function.arrays() for each in kernels]
        return self.function_from({name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]})


@dataclass(frozen=True)
class Raker(KernelMixture):
    """Random features of several bandwidths, mixed by Hedge on their losses on new samples.

    Raker (Shen, Chen and Giannakis, JMLR 2019). Member e is linear in L random features z_e of the kernel whose
    bandwidth is ``factors[e]`` times that of ``kernel``, and follows the gradient of its own loss:

        f = sum_e q_e theta_e' z_e(x)      theta_e <- (1 - eta lambda) theta_e - (eta / b) sum_k z_e(x_k) g_k'

    The shares are ``q_e ~ exp(-rate L_e)``. L_e is the discounted sum of the member's losses, each measured before the
    step on its sample. Every new sample multiplies the earlier sum by ``forgetting``. The coupling adds to g_k its
    gradient at the mixture f. `multi_kernel` mixes compressed members in the same way; the protocol `domkl` exchanges
    the weights of such members.

    Parameters
    ----------
    loss, step_size, regularization, batch_size
        As for `random_features`, the same for every member.
    kernel : Kernel
        The kernel with the bandwidth 1 in ``factors``: gaussian, laplacian, matern or student_t.
    factors : sequence of float
        The members' bandwidths, as multiples of the kernel's bandwidth, positive.
    features : int
        L, the number of random features of each member, at least 1.
    seed : int or "auto"
        Seed of the features: member e has the features of `random_features` with the seed ``seed + e``.
    phases : {"random", "paired"}
        As for `random_features`; the paper uses paired phases.
    rate : float or "auto"
        The learning rate of Hedge, positive. "auto" treats losses as negative log-likelihoods: it is 1 for classes,
        and for numbers 1 over twice the mean loss of the best member; for the squared loss this is a Gaussian
        likelihood in any unit.
    forgetting : float
        The factor in (0, 1] by which each new sample multiplies the losses of earlier batches; losses within a batch
        count equally. The paper's is 1.
    """

    State: ClassVar = State
    move: ClassVar = staticmethod(move)
    felt: ClassVar = staticmethod(felt)
    placed: ClassVar = staticmethod(placed)

    def init(self, inputs: int, outputs: int) -> PageState:
        """Return the state of members that are all 0, with equal shares."""
        function, count = self.nothing(inputs, outputs), len(self.factors)
        members = np.zeros((count, self.features, outputs))
        lost, shares = np.zeros(count), np.full(count, 1.0 / count)
        return PageState(function, State(function.coefficients, members, lost, shares, np.zeros(1)))

    def shares(self, state: PageState) -> Array:
        """Return the members' shares q_e, (E,)."""
        found: Array = state.arrays.shares
        return found

    def coefficients(self, state: PageState) -> Array:
        """Return the weights ``q_e theta_e`` of the function in the members' features, (E, L, C)."""
        found: Array = state.arrays.shares[:, np.newaxis, np.newaxis] * state.arrays.members
        return found

    def regularized(self, state: PageState) -> int:
        """Return E L, the number of regularised features: all of them."""
        return state.function.order

    def place(self, state: PageState, coefficients: Array, steps: int) -> None:
        """Set a state to the function with these weights (E, L, C), with equal shares, after ``steps`` steps."""
        self.put(state, coefficients)
        state.steps = steps
