"""DKLA: least squares on random features by the alternating direction method of multipliers, and COKE."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import (
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    Received,
    Samples,
)
from kernelswarm.protocols.parameters.least_squares import add, empty, solve
from kernelswarm.protocols.parameters.neighbours import Tolerant, differences, waits
from kernelswarm.ranges import FORGETTING

LONG_LOOPS = True


class Split(NamedTuple):
    """The state of a node of DKLA."""

    weights: Array  # (L, C)
    dual: Array  # (L, C) gamma_i
    sums: Array  # (M,) of all its samples
    penalty: float  # rho


@dataclass(frozen=True)
class Dkla(Tolerant):
    """Each node solves least squares on all its samples, held to its neighbours by ADMM (Xu et al., JMLR 2021, alg. 1).

    With the means over the node's n samples so far, Z its features and y its targets, and the learner's lambda,

        theta_i <- inv(2/n Z'Z + lambda I + 2 rho deg_i I) (2/n Z'y + rho sum_j (theta_i + theta_j) - gamma_i)
        gamma_i <- gamma_i + rho sum_j (theta_i - theta_j)

    The paper has all samples from the start, as here once the data is used up: ``stream.epochs`` adds iterations. COKE
    is this protocol where ``[links]`` has ``trigger = { threshold = v, decay = mu }`` and
    ``on_missing = "repeat"``: both ends then take the weights that were sent last.

    Parameters
    ----------
    penalty : float or "auto"
        rho, not negative; "auto" is 0.1.
    tolerant : bool
        Whether duals come from sums of the weights sent where messages are lost or late, nodes sleep or edges switch;
        false adds up the messages that arrive, as published.
    forgetting : float
        The factor of earlier samples in each round, above 0, at most 1: below 1 where targets drift.
    every : int
        The rounds from one message to the next, at least 1; in those between functions stay, and samples add up.
    """

    forgetting: float = 1.0

    step: ClassVar[Step] = "implicit"
    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {"forgetting": FORGETTING}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Split:
        """Return the weights, no dual and no samples."""
        self.refuse_one_way(neighborhood)
        return Split(weights, np.zeros_like(weights), empty(*weights.shape), self.strength)

    def adapt(self, state: Split, samples: Samples) -> Split:
        """Take the samples into the sums."""
        sums = state.sums.copy()
        add(sums, samples.features, samples.targets, self.forgetting)
        return state._replace(sums=sums)

    def send(self, state: Split) -> Array:
        """Return theta_i."""
        return state.weights.reshape(-1)

    def receive(self, state: Split, received: Received, samples: Samples) -> Split:
        """Take the dual's step of the round before, by its weights, and then solve for the new ones."""
        if waits(self.every, received.counts):
            return state
        dual, weights = state.dual.copy(), np.empty(state.weights.shape)
        multiply(*received, state.sums, state.penalty, samples.lambdas, dual.reshape(-1), weights.reshape(-1))
        return state._replace(weights=weights, dual=dual)

    def weights(self, state: Split) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        receive, adapt = CompiledPhase(_receive), CompiledPhase(_see)
        return CompiledParameterRule(receive, "weights", np.array([self.forgetting, self.every]), adapt)


@cached_njit
def _see(given: PhaseArguments) -> None:
    """Take the samples into the sums; the state is the weights (L C,), the dual (L C,), the sums and rho."""
    add(given.state[2 * len(given.weights) : -1], given.features, given.targets, given.numbers[0])


@cached_njit
def _receive(given: PhaseArguments) -> None:
    """Take both steps."""
    state = given.state
    if waits(given.numbers[1], given.counts):
        return
    size = len(given.weights)
    dual, sums = state[size : 2 * size], state[2 * size : -1]
    multiply(given.last_sent, given.vectors, given.counts, sums, state[-1], given.lambdas, dual, state[:size])


@cached_njit
def multiply(
    last_sent: ReadOnly,
    vectors: ReadOnly,
    counts: ReadOnly,
    sums: ReadOnly,
    rho: float,
    lambdas: ReadOnly,
    dual: Array,
    weights: Array,
) -> None:
    """Take the dual's step, (L C,), and solve for the weights (L C,); the first three are as received."""
    features = len(lambdas)
    apart, near = differences(last_sent, vectors, counts), 2.0 * rho * total(counts)
    share, products = 2.0 / max(sums[-1], 1.0), features * (features + 1) // 2
    for k in range(len(weights)):
        pull = rho * apart[k]
        dual[k] += pull
        # with theta as sent, rho sum_j (theta_i + theta_j) = 2 rho deg theta_i - rho sum_j (theta_i - theta_j)
        weights[k] = share * sums[products + k] + (near * last_sent[k] - pull) - dual[k]
    ridge = np.empty(features)
    for k in range(features):
        ridge[k] = near + lambdas[k]
    solve(sums, share, ridge, weights)
