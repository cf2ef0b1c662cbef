"""A baseline for protocols: every node receives the least-squares sums of all nodes."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood, Step, TreePlace
from kernelswarm.protocols.parameters.contract import Received, Samples, Vectors
from kernelswarm.protocols.parameters.diffusion_rls import conclude
from kernelswarm.protocols.parameters.least_squares import add, empty
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey


class Exchanged(NamedTuple):
    """The state of a node that sends sums up and down a tree."""

    weights: Array  # (L, C)
    own: Array  # (M,) the sums of its own samples
    begun: Array  # (M,) its own sums at the start of the exchange
    gathered: Array  # (M,) the sums of its subtree, and finally of all nodes
    others: Array  # (M,) the newest known sums of all other nodes
    round: int  # of the next samples
    tree: TreePlace


@dataclass(frozen=True)
class Statistics(Vectors):
    """A baseline: least-squares sums travel over a spanning tree, and each node solves ridge regression on all samples.

    Z_i are the features and y_i the targets of all samples of node i so far. Every ``every`` rounds an exchange starts
    with the current sums ``Z_i' Z_i``, ``Z_i' y_i`` and n_i. They move one hop per round towards the root and are added
    up on the way; then the totals move back. A node has the weights

        theta_i = inv(sum_j Z_j' Z_j + (ridge + n lambda / 2) I) sum_j Z_j' y_j

    with its own samples so far, the other nodes' samples up to the newest known exchange, and the learner's lambda.
    This is exactly ridge regression on these samples. An exchange sends L (L + 1) / 2 + L C + 1 numbers up and down
    each of the tree's V - 1 edges; each connected part of the network has its own tree. Links and nodes must never
    fail. If targets differ between nodes, one common function is learned.

    Parameters
    ----------
    every : int
        The number of rounds between exchanges, at least twice the tree's depth, the duration of an exchange.
    ridge : float
        The variance of the targets' noise in units of the prior's variance, above 0, as for `rls`.
    """

    every: int = 100
    ridge: float = 0.1

    step: ClassVar[Step] = "implicit"
    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False
    tuned_by: ClassVar[tuple[str, ...]] = ("ridge",)
    spans: ClassVar[bool] = True

    ranges: ClassVar = {"ridge": Range("(0, inf)")}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Exchanged:
        """Return the weights, and no samples."""
        tree, nothing = neighborhood.tree or TreePlace(-1, (), 0, 0), empty(*weights.shape)
        if self.every < 2 * tree.deepest:
            raise RefusedKey(
                "every",
                f"= {self.every} rounds are over before sums have gone {tree.deepest} hops up a spanning tree and down "
                f"again: take {2 * tree.deepest} at least",
            )
        return Exchanged(weights, nothing, nothing, nothing, nothing, 0, tree)

    def adapt(self, state: Exchanged, samples: Samples) -> Exchanged:
        """Add the samples to the node's own sums; an exchange may start with them."""
        own, now = state.own.copy(), state.round + 1
        add(own, samples.features, samples.targets, 1.0)
        state = state._replace(own=own, round=now)
        return state._replace(begun=own, gathered=own) if now % self.every == 0 else state

    def send(self, state: Exchanged) -> Array:
        """Return the sums of the node's subtree, or of all nodes."""
        return state.gathered

    def receivers(self, state: Exchanged) -> int:
        """Return 1 when sums go up, and the number of children when totals go down."""
        depth, deepest, hops = state.tree.depth, state.tree.deepest, self._hops(state)
        return len(state.tree.children) if hops == deepest + depth else int(hops == deepest - depth)

    def receive(self, state: Exchanged, received: Received, samples: Samples) -> Exchanged:
        """Add the children's sums, or take the parent's totals, and solve."""
        (parent, children, depth, deepest), hops = state.tree, self._hops(state)
        gathered, others, weights = state.gathered, state.others, np.empty(state.weights.shape)
        if hops == deepest - depth - 1:
            for child in children:
                gathered = gathered + received.vectors[child]
        if parent >= 0 and hops == deepest + depth - 1:
            gathered = received.vectors[parent]
        if hops == deepest + depth - 1:
            others = gathered - state.begun
        conclude(state.own + others, self.ridge, samples.lambdas, weights.reshape(-1))
        return state._replace(weights=weights, gathered=gathered, others=others)

    def weights(self, state: Exchanged) -> Array:
        """Return theta_i."""
        return state.weights

    def _hops(self, state: Exchanged) -> int:
        """Return the number of rounds since the last exchange started; -1 before the first."""
        return state.round % self.every if state.round >= self.every else -1
