"""Dual variables of ADMM where messages are lost or late: neighbours compare sums of all that they have sent.

A node of ADMM adds to its dual variable how far it is from each neighbour, and those additions cancel in the whole
network: what one end of an edge adds the other takes away. Where a message is lost, one end adds and the other does
not. The difference stays for ever, and the functions grow without bound. Here a message carries the sum of all weights
that its sender has had, by which the next one that arrives makes up for all that did not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Neighborhood, Step, strengths_of
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import Clip, Links, Quantization, Trigger
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule, Received, Samples, SendsVectors

Array = npt.NDArray[np.float64]

CLOCK, AGE = -2, -1
"""The last two numbers of a message: the sender's clock, and the largest age that it has heard of."""


@runtime_checkable
class DualRule(ParameterRule, Protocol):
    """A protocol whose state has a ``dual``, of the shape of what it sends first, and a ``penalty`` rho."""

    @property
    def tolerant(self) -> bool:
        """Whether it takes its dual from sums where links lose messages or deliver them late."""
        ...


class Sums(NamedTuple):
    """What a node keeps to compare sums with its neighbours."""

    own: Array  # (H, n) sums of the weights that it has sent, of the last H rounds: those of round t at t modulo H
    clock: float  # the round t of the newest
    age: float  # the largest age of a message in the network, as far as is known here
    vectors: Array  # (deg, .) the newest vector of each neighbour
    apart: Array  # (deg, n) how far the own sum was from the neighbour's in the round of that
    received: Array  # (deg,) its round, 0 before there is any


class Counted(NamedTuple):
    """What a node knows: what the protocol itself has it know, and sums."""

    known: Any
    sums: Sums


@dataclass(frozen=True)
class SummedDuals(SendsVectors):
    """A protocol of ADMM whose dual variables come from sums of weights.

    With the weights theta and the sums ``S_i(t) = theta_i(1) + ... + theta_i(t)`` of the weights that node i has sent,

        gamma_i = rho / (1 + 2 A) sum_j (S_i(t_j) - S_j(t_j))

    where t_j is the round of the newest message from node j, and A the largest age that any message in the network had
    when it was used, up to the next of 1, 3, 7, 15, ...; messages carry the largest that their sender knows. An
    integral that is fed late is unstable where its gain times the lateness is large, hence the factor. Where all
    messages arrive in the next round, gamma_i is what the protocol adds up itself. Neighbours from which nothing
    arrives count with what arrived last.

    Rounds are counted by a logical clock (Lamport, 1978): who receives a later round than its own goes on to it, as if
    it had sent the same weights meanwhile. A node that begins anew takes over a neighbour's sum. A message has twice as
    many weights, and two numbers. Sums in place of increments are those of Vaidya, Hadjicostis and Dominguez-Garcia
    (2011) for averages on links that lose messages; that they serve ADMM's duals is tried here, and not proved.

    Parameters
    ----------
    rule : DualRule
        The protocol.
    rounds : int
        H, the rounds of which a node keeps its own sums, at least 1: what is older than that is not used.
    """

    rule: DualRule
    rounds: int

    @property
    def step(self) -> Step:
        """As of the protocol."""
        return self.rule.step

    @property
    def quadratic(self) -> bool:
        """As of the protocol."""
        return self.rule.quadratic

    @property
    def mixes(self) -> bool:
        """As of the protocol."""
        return self.rule.mixes

    @property
    def strengths(self) -> Mapping[str, float]:
        """The keys of the protocol that make the coupling stronger."""
        return strengths_of(self.rule)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Counted:
        """Return what the protocol begins with, and no sums."""
        known = self.rule.begin(neighborhood, weights)
        degree, size, width = len(neighborhood.neighbors), known.dual.size, len(self.rule.send(known))
        nothing = np.zeros((degree, width)), np.zeros((degree, size)), np.zeros(degree)
        return Counted(known, Sums(np.zeros((self.rounds, size)), 0.0, 0.0, *nothing))

    def adapt(self, state: Counted, samples: Samples) -> Counted:
        """See the samples as the protocol does, and add up the weights that are sent then."""
        known = self.rule.adapt(state.known, samples)
        return Counted(known, advanced(state.sums, state.sums.clock + 1.0, self._weights(known)))

    def send(self, state: Counted) -> Array:
        """Return what the protocol sends, the sum (n,), the clock and the largest age."""
        sums = state.sums
        return np.concatenate([self.rule.send(state.known), summed(sums), [sums.clock, sums.age]])

    def receive(self, state: Counted, received: Received, samples: Samples) -> Counted:
        """Find the dual that the sums say, and step by it."""
        known, rho = state.known, state.known.penalty
        weights = self._weights(known)
        sums = compared(state.sums, weights, received)
        there = sums.received > 0.0
        pull = rho * (weights - sums.vectors[there, : len(weights)]).sum(axis=0)
        dual = rho / (1.0 + 2.0 * sums.age) * sums.apart[there].sum(axis=0)
        # The protocol adds the newest pull, which is in the sums already.
        known = known._replace(dual=(dual - pull).reshape(known.dual.shape))
        as_received = Received(self.rule.send(known), sums.vectors, there.astype(np.float64))
        return Counted(self.rule.receive(known, as_received, samples), sums)

    def weights(self, state: Counted) -> Array:
        """Return the weights of the node's function."""
        return self.rule.weights(state.known)

    def _weights(self, known: Any) -> Array:
        return self.rule.send(known)[: known.dual.size]


def on_links(rule: AnyRule, links: Links, steady: bool, truthful: bool) -> AnyRule:
    """Return a protocol as it runs on some links: with sums for its duals where messages may be lost or late.

    What links round, blur, cut or withhold by a trigger would change sums more than weights: there both ends of an edge
    go by what was sent last, as COKE does, and nothing may be lost: where it may be the protocol is no longer tolerant.

    Parameters
    ----------
    rule : AnyRule
        The protocol.
    links : Links
        What happens to messages.
    steady, truthful : bool
        Whether all nodes and all edges are there in all rounds, and whether no node says anything but the truth.
    """
    if not isinstance(rule, DualRule) or not rule.tolerant or (links.ideal and steady):
        return rule
    exact = links.bits == EXACT and not links.noise.scale and links.clip == Clip() and not links.trigger.threshold
    if exact and truthful:
        return SummedDuals(rule, links.max_age + 2)
    kept = replace(links, quantization=Quantization(), noise=Links().noise, clip=Clip(), trigger=Trigger())
    fragile: Any = rule if kept.ideal and steady else replace(cast(Any, rule), tolerant=False)
    return cast(AnyRule, fragile)


def summed(sums: Sums) -> Array:
    """Return the newest sum, (n,)."""
    own: Array = sums.own[int(sums.clock) % len(sums.own)]
    return own


def advanced(sums: Sums, clock: float, weights: Array) -> Sums:
    """Return the sums of a later round, all rounds until then with the same weights."""
    own, first, last = sums.own.copy(), int(sums.clock), int(clock)
    begin = own[first % len(own)].copy()
    for round in range(max(first + 1, last - len(own) + 1), last + 1):
        own[round % len(own)] = begin + (round - first) * weights
    return sums._replace(own=own, clock=clock)


def compared(sums: Sums, weights: Array, received: Received) -> Sums:
    """Return the sums with what has arrived: the clock of the latest, how far sums are apart, and the largest age."""
    size, kept = len(weights), len(sums.own)
    clocks = received.vectors[:, CLOCK]
    new = np.flatnonzero((received.counts > 0.0) & (clocks > sums.received)).tolist()
    latest = max(new, key=lambda j: clocks[j], default=0)
    if new and clocks[latest] > sums.clock:
        begins = not sums.received.any()
        sums = advanced(sums, clocks[latest], weights)
        if begins:  # with a neighbour's sum in place of one that leaves out all that was before
            sums = sums._replace(own=sums.own + (received.vectors[latest, -2 - size : -2] - summed(sums)))
    vectors, apart, times = sums.vectors.copy(), sums.apart.copy(), sums.received.copy()
    for j in new:
        if sums.clock - clocks[j] < kept:
            vectors[j], times[j] = received.vectors[j, : vectors.shape[1]], clocks[j]
            apart[j] = sums.own[int(clocks[j]) % kept] - received.vectors[j, -2 - size : -2]
    ages = np.minimum(sums.clock - times[times > 0.0], float(kept))
    age = max([sums.age, *received.vectors[new, AGE].tolist(), *ages.tolist()])
    return sums._replace(age=2.0 ** np.ceil(np.log2(1.0 + age)) - 1.0, vectors=vectors, apart=apart, received=times)
