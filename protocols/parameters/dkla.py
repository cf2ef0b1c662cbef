"""DKLA: least squares on random features by the alternating direction method of multipliers, and COKE."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.least_squares import add, empty, solve
from kernelswarm.protocols.parameters.neighbours import Tolerant, differences, waits
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen
from kernelswarm.ranges import FORGETTING

LONG_LOOPS = True


class Split(NamedTuple):
    """The state of a node of DKLA."""

    weights: Annotated[Array, "LC"]  # theta_i
    dual: Annotated[Array, "LC"]  # gamma_i
    sums: Annotated[Array, "M"]  # of all its samples
    penalty: float  # rho


def see(keys: tuple[float, float], state: Split, samples: Seen) -> Split:
    """Add the samples to the sums."""
    forgetting, _ = keys
    add(state.sums, samples.features, samples.targets, forgetting)
    return state


def multiply(keys: tuple[float, float], state: Split, received: Received, samples: Seen) -> Split:
    """Take the dual step of the previous round, from the weights sent then, and solve for the new weights."""
    _, every = keys
    if waits(every, received.counts):
        return state
    rho, sums, shape = state.penalty, state.sums, state.weights.shape
    pull = rho * differences(received.last_sent, received.vectors, received.counts).reshape(shape)
    dual, near, share = state.dual + pull, 2.0 * rho * total(received.counts), 2.0 / max(sums[-1], 1.0)
    features = len(samples.lambdas)
    products = sums[features * (features + 1) // 2 : -1].reshape(shape)
    # with theta as sent, rho sum_j (theta_i + theta_j) = 2 rho deg theta_i - rho sum_j (theta_i - theta_j)
    weights = share * products + (near * received.last_sent.reshape(shape) - pull) - dual
    solve(sums, share, near + samples.lambdas, weights.reshape(-1))
    return Split(weights, dual, sums, rho)


@dataclass(frozen=True)
class Dkla(Tolerant):
    """Least squares on each node's samples, coupled to its neighbours by ADMM (Xu et al., JMLR 2021, algorithm 1).

    With the features Z and targets y of the node's n samples so far, and the learner's lambda,

        theta_i <- inv(2/n Z'Z + lambda I + 2 rho deg_i I) (2/n Z'y + rho sum_j (theta_i + theta_j) - gamma_i)
        gamma_i <- gamma_i + rho sum_j (theta_i - theta_j)

    The paper has all samples from the start. Here this is the case once the data is used up; ``stream.epochs`` adds
    iterations. For COKE, set ``trigger = { threshold = v, decay = mu }`` and ``on_missing = "repeat"`` in ``[links]``:
    both ends then use the weights that were sent last.

    Parameters
    ----------
    penalty : float or "auto"
        rho, nonnegative; "auto" is 0.1.
    tolerant : bool
        Whether dual variables are computed from sums of all sent weights if messages may be lost or late, nodes may
        sleep or edges may switch. False adds up the messages that arrive, as published.
    forgetting : float
        The forgetting factor of earlier samples per round, in (0, 1]; take a value below 1 if targets drift.
    every : int
        The number of rounds from one message to the next, at least 1. In the rounds between, functions do not change,
        and samples accumulate.
    """

    page: ClassVar = Page(Split, "weights", multiply, see)

    forgetting: float = 1.0

    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {"forgetting": FORGETTING}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Split:
        """Return the weights, dual variables of 0, and sums over no samples."""
        self.refuse_one_way(neighborhood)
        return Split(weights, np.zeros_like(weights), empty(*weights.shape), self.strength)

    @property
    def keys(self) -> tuple[float, float]:
        """The forgetting factor, and the number of rounds between messages."""
        return self.forgetting, float(self.every)
