"""Gradient tracking: neighbours average their weights and track the mean step of the whole network."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import Stepping, averaged, combination
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen
from kernelswarm.refused_key import RefusedKey


class Tracked(NamedTuple):
    """The state of a node that sends its tracker."""

    weights: Annotated[Array, "LC"]
    tracker: Annotated[Array, "LC"]  # d_i, its estimate of the mean gradient of all nodes
    gradient: Annotated[Array, "LC"]  # grad_i, of its last samples
    following: Annotated[Array, "2LC"]  # the vector sent: the weights after its step, and the tracker
    combination: Annotated[Array, "d"]  # a_ij


def track(keys: tuple[()], state: Tracked, samples: Seen) -> Tracked:
    """d_i <- d_i + grad_i - grad_i', and a step along it"""
    gradient = (state.weights - samples.stepped) / samples.eta
    tracker = state.tracker + (gradient - state.gradient)
    following = np.stack((state.weights - samples.eta * tracker, tracker))
    return Tracked(state.weights, tracker, gradient, following, state.combination)


def average_both(keys: tuple[()], state: Tracked, received: Received, samples: Seen) -> Tracked:
    """theta_i = sum_j a_ij (theta_j - eta d_j), d_i = sum_j a_ij d_j"""
    mean = averaged(state.following, received, state.combination)
    return Tracked(mean[0], mean[1], state.gradient, state.following, state.combination)


class Totalled(NamedTuple):
    """The state of a node that sends the sum of its steps."""

    weights: Annotated[Array, "LC"]
    inflow: Annotated[Array, "LC"]  # the net inflow from its neighbours: sum_j a_ij (s_j - s_i)
    following: Annotated[Array, "2LC"]  # the vector sent: the weights after its step, and the sum s_i of its steps
    received: Annotated[Array, "dLC"]  # the newest sums s_j that it has received
    combination: Annotated[Array, "d"]  # a_ij
    returned: Annotated[Array, "d"]  # 1, and 0 where the neighbour does not receive this node's sum


def add_step(keys: tuple[()], state: Totalled, samples: Seen) -> Totalled:
    """p_i = eta grad_i + sum_j a_ij (s_j - s_i), s_i <- s_i + p_i"""
    step = (state.weights - samples.stepped) + state.inflow
    following = np.stack((state.weights - step, state.following[1] + step))
    return Totalled(state.weights, state.inflow, following, state.received, state.combination, state.returned)


def take_in(keys: tuple[()], state: Totalled, received: Received, samples: Seen) -> Totalled:
    """theta_i = sum_j a_ij (theta_j - p_j) over arrived messages, and sum_j a_ij (s_j - s_i) over the newest s_j"""
    moved, total = state.following
    theirs = received.vectors.reshape((len(received.counts), *state.following.shape))
    weights, inflow = moved.copy(), np.zeros_like(moved)
    for j in range(len(theirs)):
        if received.counts[j] != 0.0:
            weights += state.combination[j] * received.counts[j] * (theirs[j, 0] - moved)
            state.received[j] = theirs[j, 1]
        inflow += state.combination[j] * (state.received[j] - state.returned[j] * total)
    return Totalled(weights, inflow, state.following, state.received, state.combination, state.returned)


@dataclass(frozen=True)
class GradientTracking(Stepping):
    """Neighbours average weights and gradient trackers (Di Lorenzo and Scutari, IEEE TSIPN 2016; Pu and Nedic, 2021).

    With Metropolis weights a_ij, ``theta_i <- sum_j a_ij (theta_j - eta d_j)`` and ``d_i <- sum_j a_ij d_j + grad_i -
    grad_i'``. grad_i is the gradient at the new weights on the new samples, and grad_i' is the gradient of the previous
    round. The mean of all d_i equals the mean of all grad_i, so that nodes with different data still converge to the
    minimum of the mean loss.

    A lost tracker would be missing from that mean permanently. Nodes therefore send the sum s_i of all their steps
    ``p_i = eta d_i`` instead, and use the newest sum received from each neighbour:

        p_i = eta grad_i + sum_j a_ij (s_j - s_i),    s_i <- s_i + p_i.

    On ideal links, with one constant step size, the weights are the same. The next sum that arrives compensates for
    lost, late or rounded ones. The steps p_i, plus the amounts in transit, a_ij (s_i - the s_i that j has received),
    always add up to the sum of all ``eta grad_i`` (running sums as in Hadjicostis, Vaidya and Dominguez-Garcia, IEEE
    TAC 2016, and in ASY-SONATA: Tian, Sun and Scutari, IEEE TAC 2020).

    In directed networks a node receives s_j from the neighbours that it asks, and sends s_i to the neighbours that ask
    it: weights are averaged by rows, steps by columns (Push-Pull: Pu, Shi, Xu and Nedic, IEEE TAC 2021).

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether the gradient of a quadratic loss is taken at the end of an implicit step or, as published, at the
        current weights.
    sends : {"sums", "trackers"}
        Whether nodes send the sums s_i or, as published, the trackers d_i, which diverge if messages are lost, late or
        rounded.
    as_published : bool
        Whether to take the papers' explicit step and trackers.
    every : int
        The number of rounds from one message to the next, at least 1. Nodes learn alone in the rounds between.
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
        """The key to set if messages may be lost, late or rounded."""
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

    @property
    def keys(self) -> tuple[()]:
        """No numbers."""
        return ()

    @property
    def page(self) -> Page:
        """The page for trackers or for sums."""
        if self.sends == "trackers":
            return Page(Tracked, "following", average_both, track, "weights")
        return Page(Totalled, "following", take_in, add_step, "weights")
