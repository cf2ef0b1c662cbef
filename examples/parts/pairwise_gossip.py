"""Randomised pairwise gossip of weights (Boyd, Ghosh, Prabhakar and Shah, IEEE Trans. Information Theory 2006).

A node steps on its samples, and where it meets a neighbour both take the mean of their weights:

    psi_i = theta_i - eta grad_i(theta_i),        theta_i = theta_j = (psi_i + psi_j) / 2.

Who meets is random: a topology with ``schedule = "gossip"`` draws disjoint pairs of neighbours in each round. A node
that meets several, as without a schedule, takes the mean with one after the other.

    kernelswarm run mine.toml --set protocol.name=pairwise_gossip:PairwiseGossip       beside this file
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors, Page


class State(NamedTuple):
    weights: Annotated[Array, "LC"]  # theta_i
    stepped: Annotated[Array, "LC"]  # psi_i, the vector sent


def adapt(keys, state, samples):
    return State(state.weights, samples.stepped)


def receive(keys, state, received, samples):
    mean = state.stepped.copy()
    for j in range(len(received.counts)):
        mean += 0.5 * received.counts[j] * (received.vectors[j].reshape(mean.shape) - mean)
    return State(mean, state.stepped)


@dataclass(frozen=True)
class PairwiseGossip(NumpyVectors):
    """Nodes that meet take the mean of their weights."""

    page: ClassVar = Page(State, "stepped", receive, adapt, "weights")

    def begin(self, neighborhood, weights):
        return State(weights, weights)
