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
    """Take the samples into the sums."""
    forgetting, _ = keys
    add(state.sums, samples.features, samples.targets, forgetting)
    return state


def multiply(keys: tuple[float, float], state: Split, received: Received, samples: Seen) -> Split:
    """Take the dual's step of the round before, by its weights, and then solve for the new ones."""
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

    page: ClassVar = Page(Split, "weights", multiply, see)

    forgetting: float = 1.0

    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {"forgetting": FORGETTING}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Split:
        """Return the weights, no dual and no samples."""
        self.refuse_one_way(neighborhood)
        return Split(weights, np.zeros_like(weights), empty(*weights.shape), self.strength)

    @property
    def keys(self) -> tuple[float, float]:
        """The factor of earlier samples, and the rounds between messages."""
        return self.forgetting, float(self.every)
