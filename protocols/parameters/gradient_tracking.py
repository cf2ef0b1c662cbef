"""Gradient tracking: neighbours average their weights and track the mean step of the whole network."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import (
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    Received,
    Samples,
    from_weights,
)
from kernelswarm.protocols.parameters.neighbours import Stepping, average, average_in, combination
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True


class Tracked(NamedTuple):
    """The state of a node that sends its tracker."""

    weights: Array  # (L, C)
    tracker: Array  # (L, C) its estimate of the mean gradient of all nodes
    gradient: Array  # (L, C) its own gradient, of its last samples
    following: Array  # (2, L, C) the vector sent: the weights after its step, and the tracker
    combination: Array  # (deg,) a_ij


class Totalled(NamedTuple):
    """The state of a node that sends the sum of its steps."""

    weights: Array  # (L, C)
    inflow: Array  # (L, C) the net inflow from its neighbours: sum_j a_ij (s_j - s_i)
    following: Array  # (2, L, C) the vector sent: the weights after its step, and the sum s_i of its steps
    received: Array  # (deg, L, C) the newest sums s_j that it has received
    combination: Array  # (deg,) a_ij
    returned: Array  # (deg,) 1, and 0 where the neighbour does not receive this node's sum


@dataclass(frozen=True)
class GradientTracking(Stepping):
    """Neighbours average weights and gradient trackers (Di Lorenzo and Scutari, IEEE TSIPN 2016; Pu and Nedic, 2021).

    With Metropolis weights a_ij, ``theta_i <- sum_j a_ij (theta_j - eta d_j)`` and ``d_i <- sum_j a_ij d_j + grad_i -
    grad_i'``, where grad_i is the gradient at the new weights on the new samples, and grad_i' that of the round before.
    The mean of all d_i is that of all grad_i, so that nodes with data of their own are not pulled back to their own.

    A lost tracker would be missing from that mean for ever. Nodes therefore send the sum s_i of all
    their steps ``p_i = eta d_i`` in its place, and a node takes the newest that it has received from each neighbour:

        p_i = eta grad_i + sum_j a_ij (s_j - s_i),    s_i <- s_i + p_i.

    On ideal links, with one constant step size, these are the same weights. The next sum that arrives makes up for
    lost, late or rounded ones: the p_i, and those under way, a_ij (s_i - the s_i that j has received), always add
    up to all ``eta grad_i`` (running sums as of Hadjicostis, Vaidya and Dominguez-Garcia, IEEE TAC 2016, and of
    ASY-SONATA: Tian, Sun and Scutari, IEEE TAC 2020).

    In directed networks a node takes s_j of those that it asks, and gives s_i to those that ask it: weights are
    averaged by rows, and steps are shared out by columns (Push-Pull: Pu, Shi, Xu and Nedic, IEEE TAC 2021).

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether the gradients of a quadratic loss are those at the end of implicit steps, or, as published, at the
        weights.
    sends : {"sums", "trackers"}
        The sums s_i, or, as published, the trackers d_i, which diverge where messages are lost, late or rounded.
    as_published : bool
        The papers' explicit step and trackers in one key.
    every : int
        The rounds from one message to the next, at least 1; in those between nodes learn alone.
    """

    sends: Literal["sums", "trackers"] = field(default="sums", metadata={"as_published": "trackers"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every > 1 and self.sends == "trackers":
            raise RefusedKey(
                "every", f'= {self.every!r} has trackers run away between messages: take sends = "sums", or set it to 1'
            )

    @property
    def requires(self) -> str | None:
        """The key to set where messages are lost, late or rounded."""
        if self.sends == "sums":
            return None
        return 'set protocol.sends = "sums": trackers that are lost, late or rounded are missing for good'

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Tracked | Totalled:
        """Return the weights, and a tracker or sums of 0."""
        nothing, combined = np.zeros_like(weights), combination("metropolis", neighborhood)
        following = np.stack([weights, nothing])
        if self.sends == "trackers":
            if not neighborhood.mutual:
                raise RefusedKey("sends", '= "trackers" needs both ends of each edge to ask: take "sums"')
            return Tracked(weights, nothing, nothing, following, combined)
        received, asked = np.zeros((len(combined), *weights.shape)), neighborhood.asked or (True,) * len(combined)
        return Totalled(weights, nothing, following, received, combined, np.array(asked, dtype=np.float64))

    def adapt(self, state: Tracked | Totalled, samples: Samples) -> Tracked | Totalled:
        """Take the gradient on the samples into the tracker, and step along it."""
        if isinstance(state, Totalled):
            step = (state.weights - samples.descend(state.weights)) + state.inflow
            return state._replace(following=np.stack([state.weights - step, state.following[1] + step]))
        gradient = samples.gradient(state.weights)
        tracker = state.tracker + (gradient - state.gradient)
        following = np.stack([state.weights - samples.eta * tracker, tracker])
        return state._replace(tracker=tracker, gradient=gradient, following=following)

    def send(self, state: Tracked | Totalled) -> Array:
        """Return the weights after the step, and behind them the tracker or the sum, (2 L C,)."""
        return state.following.reshape(-1)

    def receive(self, state: Tracked | Totalled, received: Received, samples: Samples) -> Tracked | Totalled:
        """Average the weights, and average the trackers or take in the received sums."""
        own, shape = state.following.reshape(-1), state.weights.shape
        if isinstance(state, Totalled):
            weights, inflow, sums = (
                np.empty(state.weights.size),
                np.empty(state.weights.size),
                state.received.reshape(-1),
            )
            sums = sums.copy()
            taken = state.combination, received.counts, state.returned
            take_in(own, received.vectors, *taken, sums, weights, inflow)
            return state._replace(
                weights=weights.reshape(shape),
                inflow=inflow.reshape(shape),
                received=sums.reshape(state.received.shape),
            )
        weights, tracker = average(own, received.vectors, state.combination, received.counts).reshape(2, *shape)
        return state._replace(weights=weights.copy(), tracker=tracker.copy())

    def weights(self, state: Tracked | Totalled) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        if self.sends == "trackers":
            return CompiledParameterRule(
                CompiledPhase(_mix), "following", np.zeros(0), CompiledPhase(_track, from_weights)
            )
        return CompiledParameterRule(
            CompiledPhase(_receive), "following", np.zeros(0), CompiledPhase(_add, from_weights)
        )


@cached_njit
def take_in(
    own: ReadOnly,
    vectors: ReadOnly,
    weights: Array,
    counts: ReadOnly,
    returned: ReadOnly,
    sums: Array,
    mean: Array,
    inflow: Array,
) -> None:
    """Average weights with those that have arrived, and keep the sums behind them.

    Parameters
    ----------
    own : Array
        The node's weights after its step, and its sum, (2 n,).
    vectors : Array
        Its neighbours', (deg, 2 n).
    weights, counts : Array
        a_ij, and the weight of each message in the average; 0 where nothing has arrived, (deg,).
    returned : Array
        1, and 0 where the neighbour does not receive the node's sum, (deg,).
    sums : Array
        The newest sums that it has received, (deg n,), brought up to date.
    mean, inflow : Array
        Filled with the new weights, and with ``sum_j a_ij (s_j - s_i)``, (n,), each sum where it is received.
    """
    size = len(mean)
    for k in range(size):
        mean[k] = own[k]
        inflow[k] = 0.0
    for j in range(len(vectors)):
        weight = weights[j] * counts[j]
        for k in range(size):
            if counts[j] != 0.0:
                mean[k] += weight * (vectors[j, k] - own[k])
                sums[j * size + k] = vectors[j, size + k]
            inflow[k] += weights[j] * (sums[j * size + k] - returned[j] * own[size + k])


# The state of a node that sends sums, as a vector: weights, inflow, the vector sent, 4 L C numbers; deg L C received
# ones; then a_ij, and whether each neighbour receives its sum.


@cached_njit
def _add(given: PhaseArguments) -> None:
    """Step along the gradient and the inflow, and add the step to the sum."""
    state = given.state
    size = len(given.weights)
    for k in range(size):
        step = (state[k] - given.weights[k]) + state[size + k]
        state[2 * size + k] = state[k] - step
        state[3 * size + k] += step


@cached_njit
def _receive(given: PhaseArguments) -> None:
    """Average the weights, and take in the received sums."""
    state = given.state
    size, degree = len(given.weights), len(given.vectors)
    own, sums = state[2 * size : 4 * size], state[4 * size : (4 + degree) * size]
    end = (4 + degree) * size
    combined, returned = state[end : end + degree], state[end + degree : end + 2 * degree]
    take_in(own, given.vectors, combined, given.counts, returned, sums, state[:size], state[size : 2 * size])


# Of a node that sends trackers: weights, tracker, gradient, the vector sent, 5 L C numbers; then a_ij.


@cached_njit
def _track(given: PhaseArguments) -> None:
    """Take the gradient into the tracker, and step along it."""
    state = given.state
    size = len(given.weights)
    for k in range(size):
        gradient = (state[k] - given.weights[k]) / given.eta
        state[size + k] += gradient - state[2 * size + k]
        state[2 * size + k] = gradient
        state[3 * size + k] = state[k] - given.eta * state[size + k]
        state[4 * size + k] = state[size + k]


@cached_njit
def _mix(given: PhaseArguments) -> None:
    """Average both."""
    state = given.state
    size = len(given.weights)
    own, combined = state[3 * size : 5 * size], state[5 * size : 5 * size + len(given.vectors)]
    average_in(own, given.vectors, combined, given.counts, state[: 2 * size])
