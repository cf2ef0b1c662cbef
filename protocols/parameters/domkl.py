"""DOMKL: random features of several kernels, each coupled by ADMM, mixed by the neighbourhood's losses."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD, log_weights, shares_of
from kernelswarm.protocols.parameters.least_squares import solve
from kernelswarm.protocols.parameters.neighbours import Tolerant, differences, refuse_waiting
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen
from kernelswarm.ranges import FORGETTING, Range

LONG_LOOPS = True


class Mixed(NamedTuple):
    """The state of a node of DOMKL, with L the features of all E members."""

    weights: Annotated[Array, "LC"]  # q_e theta_e, (E, L, C)
    sums: Annotated[Array, "n"]  # (E L C + E,) theta_e of all members, then their log weights
    dual: Annotated[Array, "LC"]  # gamma_e, the sums of its edges' dual variables, (E, L, C)
    losses: Annotated[Array, "E"]  # (E,) of the members, each before its step on the sample
    samples: float  # the number of samples in the losses
    penalty: float  # rho


def see(keys: tuple[float, float], state: Mixed, samples: Seen) -> Mixed:
    """Add the members' losses on the samples."""
    forgetting, rate = keys
    seen = lose(state.sums, state.losses, state.samples, samples.features, samples.targets, forgetting, rate)
    return Mixed(state.weights, state.sums, state.dual, state.losses, seen, state.penalty)


def mix_anew(keys: tuple[float, float], state: Mixed, received: Received, samples: Seen) -> Mixed:
    """Take the dual step of the previous round, from the weights sent then; then solve, and weigh the members."""
    multiply(state.sums, state.dual.reshape(-1), state.penalty, received, samples)
    mix(state.sums, received.vectors, received.counts, state.weights.reshape(-1))
    return state


@dataclass(frozen=True)
class Domkl(Tolerant):
    """Random features of several kernels, each coupled to the neighbours' by online ADMM, mixed by Hedge.

    DOMKL (Hong and Chae, IEEE TNNLS 2021). With the features Z_e (b, L) of the samples in kernel e and the learner's
    eta and lambda, every member minimises its loss on the round's samples, plus penalties on the distance to its old
    weights and to its neighbours' weights:

        theta_e <- inv(2/b Z_e'Z_e + (1 / eta + 2 rho deg_i) I)
                       (2/b Z_e'y + (1 / eta - lambda) theta_e + rho sum_j (theta_e + theta_ej) - gamma_e)
        gamma_e <- gamma_e + rho sum_j (theta_e - theta_ej)
        q_e     ~  exp(sum of log w_e over the node and its neighbours)      log w_e = -rate L_e

    L_e is the sum of the member's losses, each measured before the step on its sample. The function is
    ``sum_e q_e theta_e' z_e(x)``, as for the learner `raker`; with penalty 0 the members take the implicit steps of
    `raker`. rho is half the paper's rho, and 1 / eta is the paper's eta_l. A message has E (L C + 1) numbers.

    Parameters
    ----------
    penalty : float or "auto"
        rho, nonnegative; "auto" is 0.1.
    tolerant : bool
        Whether dual variables are computed from sums of all sent weights if messages may be lost or late, nodes may
        sleep or edges may switch. False adds up the messages that arrive, as published.
    rate : float or "auto"
        The learning rate of Hedge, 1 / eta_g in the paper, positive. "auto" corresponds to a Gaussian likelihood: 1
        over twice the mean loss of the node's best member.
    forgetting : float
        The factor in (0, 1] by which each new sample multiplies the losses of earlier batches; losses within a batch
        count equally. The paper's is 1.
    every : int
        Must be 1: in rounds without messages the dual variables would keep changing the weights without bound.
    """

    page: ClassVar = Page(Mixed, "sums", mix_anew, see)

    rate: float | Literal["auto"] = "auto"
    forgetting: float = 0.999

    quadratic: ClassVar[bool] = True
    mixes: ClassVar[bool] = True

    ranges: ClassVar = {"rate": Range("(0, inf)", "", "auto"), "forgetting": FORGETTING}

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_waiting(self.every)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Mixed:
        """Return members with equal mixture weights, dual variables of 0, and no losses."""
        self.refuse_one_way(neighborhood)
        count = len(weights)
        nothing = np.zeros(count)
        sums = np.concatenate([count * weights.reshape(-1), nothing])
        return Mixed(weights, sums, np.zeros_like(weights), nothing, 0.0, self.strength)

    @property
    def keys(self) -> tuple[float, float]:
        """The forgetting factor, and the rate of Hedge."""
        return self.forgetting, LIKELIHOOD if self.rate == "auto" else float(self.rate)


@cached_njit
def lose(
    sums: Array,
    losses: Array,
    samples: float,
    features: ReadOnly,
    targets: ReadOnly,
    forgetting: float,
    rate: float,
) -> float:
    """Add the members' losses on samples to their discounted losses (E,), and fill in their log weights.

    Parameters
    ----------
    sums : Array
        The members (E, L, C), then their log weights (E,), which are filled in.
    losses : Array
        (E,), changed.
    samples : float
        The number of samples in the losses.
    features, targets : Array
        (n, E L) and (n, C).
    forgetting, rate : float
        The protocol's keys.

    Returns
    -------
    float
        The new number of samples in the losses.
    """
    seen, outputs = targets.shape
    if seen == 0:
        return samples
    count, left = len(losses), forgetting**seen
    width = features.shape[1] // count
    for e in range(count):
        lost = 0.0
        for n in range(seen):
            for c in range(outputs):
                error = targets[n, c]
                for k in range(e * width, (e + 1) * width):
                    error -= features[n, k] * sums[k * outputs + c]
                lost += error * error
        losses[e] = left * losses[e] + lost
    samples = left * samples + seen
    known = log_weights(losses, samples, rate)
    for e in range(count):
        sums[len(sums) - count + e] = known[e]
    return samples


@cached_njit
def multiply(sums: Array, dual: Array, rho: float, received: Received, samples: Seen) -> None:
    """Take the dual step, (E L C,), and solve for the members (E, L, C), the first numbers of ``sums``.

    Each member is solved by a system in the few samples: ``theta = v + Z' inv(b/2 ridge I + Z Z') (y - Z v)``, where v
    is the right-hand side without the samples, divided by the ridge.
    """
    _, features, targets, lambdas, eta, batch_size = samples
    size, (seen, outputs) = len(dual), targets.shape
    last_sent, near = received.last_sent, 2.0 * rho * total(received.counts)
    apart, ridge = differences(last_sent, received.vectors, received.counts), 1.0 / eta + near
    for i in range(len(lambdas)):
        inertia = 1.0 / eta - lambdas[i]
        for k in range(i * outputs, (i + 1) * outputs):
            pull = rho * apart[k]
            dual[k] += pull
            # with theta as sent, rho sum_j (theta + theta_j) = 2 rho deg theta - rho sum_j (theta - theta_j)
            sums[k] = (inertia * sums[k] + near * last_sent[k] - pull - dual[k]) / ridge
    if seen == 0:
        return
    count = len(sums) - size
    width = features.shape[1] // count
    gram, errors = np.empty(seen * (seen + 1) // 2), np.empty(seen * outputs)
    small = np.full(seen, 0.5 * batch_size * ridge)
    for e in range(count):
        first, last, place = e * width, (e + 1) * width, 0
        for n in range(seen):
            for m in range(n, seen):
                product = 0.0
                for k in range(first, last):
                    product += features[n, k] * features[m, k]
                gram[place] = product
                place += 1
            for c in range(outputs):
                error = targets[n, c]
                for k in range(first, last):
                    error -= features[n, k] * sums[k * outputs + c]
                errors[n * outputs + c] = error
        solve(gram, 1.0, small, errors)
        for n in range(seen):
            for k in range(first, last):
                for c in range(outputs):
                    sums[k * outputs + c] += features[n, k] * errors[n * outputs + c]


@cached_njit
def mix(sums: ReadOnly, vectors: ReadOnly, counts: ReadOnly, weights: Array) -> None:
    """Fill in q_e theta_e, (E L C,), with mixture weights from the neighbourhood's log weights."""
    size = len(weights)
    count = len(sums) - size
    known = sums[size:].copy()
    for j in range(len(vectors)):
        for e in range(count):
            known[e] += counts[j] * vectors[j, size + e]
    shares = shares_of(known)
    for e in range(count):
        for k in range(e * (size // count), (e + 1) * (size // count)):
            weights[k] = shares[e] * sums[k]
