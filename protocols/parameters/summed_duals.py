"""Dual variables of ADMM for lost or late messages: neighbours compare the sums of all weights that they have sent.

A node of ADMM adds its difference from each neighbour to its dual variable. The two ends of an edge add opposite
differences, so that all additions in the network cancel. If a message is lost, only one end adds its difference. The
imbalance then stays permanently, and the functions grow without bound. Here a message carries the sum of all weights
that its sender has sent so far, so that the next message that arrives compensates for all lost ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood, Step, strengths_of
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import Clip, Links, Quantization, Trigger
from kernelswarm.protocols.parameters.contract import (
    PHASE,
    AnyRule,
    PhaseArguments,
    Received,
    packed,
    phase_at,
    place_of,
)
from kernelswarm.protocols.parameters.neighbours import Tolerant
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors, Page, Seen, compiled_page

LONG_LOOPS = True

CLOCK, AGE = -2, -1
"""Indices of the last numbers of a message: the sender's clock, and the largest age known to the sender."""

KNOWN, SENT, DUAL, PENALTY = range(4)
"""Indices in ``places``: the length of the protocol's state, and where its vector, its dual and rho begin in it."""

ROUNDS, ADAPT, RECEIVE, OWN = range(4)
"""Indices among the keys: H, the addresses of the protocol's phases, and the first of the protocol's numbers."""


class Counted(NamedTuple):
    """A node's state."""

    weights: Annotated[Array, "LC"]  # of the protocol
    message: Annotated[Array, "n"]  # see `Sums`
    places: Annotated[Array, "4"]
    memory: Annotated[Array, "E"]  # the protocol's state, and the other arrays of `Sums`


class Sums(NamedTuple):
    """A node's sums, and the differences to its neighbours' sums."""

    own: Array  # (H, n) sums of the weights sent up to each of the last H rounds: round t at t modulo H
    message: Array  # the protocol's vector, the newest sum (n,), its round t, and the largest message age in the
    # network that is known to this node
    newest: Array  # (deg, .) the newest message of each neighbour, zeros before the first
    apart: Array  # (deg, n) the own sum minus the neighbour's in the round of that message


@cached_njit
def parts_of(keys: tuple[float, ...], state: Counted) -> tuple[Array, Sums]:
    """Return the protocol's state as a vector, and the sums."""
    size, length, rounds, memory = state.weights.size, len(state.message), int(keys[ROUNDS]), state.memory
    first = int(state.places[KNOWN])
    own = memory[first : first + rounds * size].reshape(rounds, size)
    others = first + rounds * size
    degree = (len(memory) - others) // (length + size)
    apart = others + degree * length
    newest = memory[others:apart].reshape(degree, length)
    return memory[:first], Sums(own, state.message, newest, memory[apart:].reshape(degree, size))


@cached_njit
def advance(sums: Sums, clock: float) -> None:
    """Advance to a later round, with the weights of the message in all rounds until then."""
    (kept, size), message = sums.own.shape, sums.message
    weights, total = message[:size], message[-size - 2 : CLOCK]
    first, last = int(message[CLOCK]), int(clock)
    for round in range(max(first + 1, last - kept + 1), last + 1):
        sums.own[round % kept] = total + (round - first) * weights
    total[:] = sums.own[last % kept]
    message[CLOCK] = clock


@cached_njit
def compare(sums: Sums, received: Received) -> None:
    """Update the clock, the differences of sums and the largest age from the messages that have arrived."""
    own, message, newest, apart = sums
    arrived, (kept, size) = received.vectors, own.shape
    total, totals = message[-size - 2 : CLOCK], arrived[:, -size - 2 : CLOCK]
    new = (received.counts > 0.0) & (arrived[:, CLOCK] > newest[:, CLOCK])
    times = np.where(new, arrived[:, CLOCK], 0.0)
    if len(times) and times.max() > message[CLOCK]:
        latest, begins = np.argmax(times), not np.any(newest[:, CLOCK])
        advance(sums, times[latest])
        if begins:  # take over the neighbour's sum, since the own sum lacks all earlier rounds
            missing = totals[latest] - total
            total += missing
            own += missing
    clock, age = message[CLOCK], message[AGE]
    for j in range(len(times)):
        if new[j]:
            age = max(age, arrived[j, AGE])
            if clock - times[j] < kept:
                newest[j] = arrived[j]
                apart[j] = own[int(times[j]) % kept] - totals[j]
        if newest[j, CLOCK] > 0.0:
            age = max(age, min(clock - newest[j, CLOCK], float(kept)))
    message[AGE] = 2.0 ** math.ceil(math.log2(1.0 + age)) - 1.0


@cached_njit
def dual_of(sums: Sums, rho: float) -> Array:
    """Return the dual (n,) from the sums, without the newest difference, which the protocol adds itself."""
    size, message = sums.own.shape[1], sums.message
    difference, pull = np.zeros(size), np.zeros(size)
    for j in range(len(sums.newest)):
        if sums.newest[j, CLOCK] > 0.0:
            difference += sums.apart[j]
            pull += message[:size] - sums.newest[j, :size]
    dual: Array = rho / (1.0 + 2.0 * message[AGE]) * difference - rho * pull
    return dual


@cached_njit
def let(phase: float, keys: tuple[float, ...], state: Counted, received: Received, samples: Seen) -> None:
    """Change the protocol's state by one of its phases."""
    known, moved = parts_of(keys, state)[0], samples.stepped if len(samples.stepped) else state.weights
    phase_at(int(phase))(
        PhaseArguments(
            np.array(keys)[OWN:],
            known,
            received.last_sent,
            received.vectors,
            received.counts,
            samples.eta,
            moved.reshape(-1),
            samples.lambdas,
            samples.features,
            samples.targets,
            samples.batch_size,
        )
    )
    state.weights.reshape(-1)[:] = known[: state.weights.size]


def add_up(keys: tuple[float, ...], state: Counted, samples: Seen) -> Counted:
    """Let the protocol adapt to the samples, and add the weights to be sent to the sum."""
    known, sums = parts_of(keys, state)
    width, sent, nothing = len(state.message) - state.weights.size - 2, int(state.places[SENT]), np.zeros(0)
    if keys[ADAPT] != NONE:
        let(keys[ADAPT], keys, state, Received(nothing, np.zeros((0, width)), nothing), samples)
    state.message[:width] = known[sent : sent + width]
    advance(sums, state.message[CLOCK] + 1.0)
    return state


def follow(keys: tuple[float, ...], state: Counted, received: Received, samples: Seen) -> Counted:
    """Compute the dual from the sums, and let the protocol step with that dual."""
    known, sums = parts_of(keys, state)
    size, dual = state.weights.size, int(state.places[DUAL])
    width = len(state.message) - size - 2
    compare(sums, received)
    known[dual : dual + size] = dual_of(sums, known[int(state.places[PENALTY])])
    there = np.where(sums.newest[:, CLOCK] > 0.0, 1.0, 0.0)
    # The weights as sent, since the own sum may have advanced to a later round with the same weights.
    let(keys[RECEIVE], keys, state, Received(state.message[:width], sums.newest[:, :width].copy(), there), samples)
    return state


@dataclass(frozen=True)
class SummedDuals(NumpyVectors):
    """A protocol of ADMM whose dual variables come from sums of weights.

    With the weights theta and the sums ``S_i(t) = theta_i(1) + ... + theta_i(t)`` of the weights that node i has sent,

        gamma_i = rho / (1 + 2 A) sum_j (S_i(t_j) - S_j(t_j))

    t_j is the round of the newest message from node j. A is the largest age of any message in the network at the time
    of its use, rounded up to 1, 3, 7, 15, ...; each message carries the largest age known to its sender. The factor
    1 / (1 + 2 A) is needed because integral feedback with delay is unstable if gain times delay is large. If all
    messages arrive in the next round, gamma_i equals the dual variable of the protocol itself. For neighbours without a
    new message the last message is used.

    Rounds are counted by a logical clock (Lamport, 1978): a node that receives a later round than its own advances to
    that round, as if it had sent the same weights in between. A node that restarts takes over a neighbour's sum. A
    message has twice as many weights, plus two numbers. Vaidya, Hadjicostis and Dominguez-Garcia (2011) use sums
    instead of increments for averages on lossy links. Their use for ADMM's dual variables is tested here, not proved.

    Parameters
    ----------
    rule : Tolerant
        The protocol.
    rounds : int
        H, the number of rounds for which a node keeps its own sums, at least 1: older messages are not used.
    """

    rule: Tolerant
    rounds: int

    @property
    def step(self) -> Step:  # type: ignore[override]
        """The step of the protocol."""
        return self.rule.step

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        """Whether the protocol needs the squared loss."""
        return self.rule.quadratic

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        """Whether the protocol mixes several kernels."""
        return self.rule.mixes

    @property
    def strengths(self) -> Mapping[str, float]:
        """The keys of the protocol that scale the coupling."""
        return strengths_of(self.rule)

    @property
    def page(self) -> Page:
        """The protocol's functions, between those of the sums."""
        return Page(Counted, "message", follow, add_up, self.rule.page.adapt_steps, self.rule.page.receive_steps)

    @property
    def keys(self) -> tuple[float, ...]:
        """H, the addresses of the protocol's phases, and its numbers."""
        form = compiled_page(self.rule)
        adapt, receive = (NONE if each is None else address(each.finish, PHASE) for each in (form.adapt, form.receive))
        return float(self.rounds), float(adapt), float(receive), *self.rule.keys

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Counted:
        """Return the protocol's first state, and sums of 0."""
        rule: Any = self.rule
        known, size = rule.begin(neighborhood, weights), weights.size
        message, vector = np.concatenate([rule.send(known), np.zeros(size + 2)]), packed(known)
        starts = [place_of(known, name).start for name in (rule.page.sent, "dual", "penalty")]
        sums = np.zeros(self.rounds * size + len(neighborhood.neighbors) * (len(message) + size))
        places = np.array([len(vector), *starts], dtype=np.float64)
        return Counted(known.weights, message, places, np.concatenate([vector, sums]))


def on_links(rule: AnyRule, links: Links, steady: bool, truthful: bool) -> AnyRule:
    """Return the form of a protocol for some links: with sums for its dual variables if messages may be lost or late.

    Rounding, noise, clipping and triggers change sums more than weights. On such links both ends of an edge use the
    vector sent last, as in COKE, and no message may be lost. If such links also lose messages, the returned protocol is
    not tolerant.

    Parameters
    ----------
    rule : AnyRule
        The protocol.
    links : Links
        The links.
    steady, truthful : bool
        Whether all nodes and edges are present in all rounds, and whether no node has message faults.
    """
    if not isinstance(rule, Tolerant) or not rule.tolerant or (links.ideal and steady):
        return rule
    exact = links.bits == EXACT and not links.noise.scale and links.clip == Clip() and not links.trigger.threshold
    of_page = type(rule).adapt == NumpyVectors.adapt and type(rule).receive == NumpyVectors.receive
    if exact and truthful and of_page:
        return SummedDuals(rule, links.max_age + 2)
    kept = replace(links, quantization=Quantization(), noise=Links().noise, clip=Clip(), trigger=Trigger())
    fragile: Any = rule if kept.ideal and steady else replace(cast(Any, rule), tolerant=False)
    return cast(AnyRule, fragile)
