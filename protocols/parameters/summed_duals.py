"""Dual variables of ADMM for lost or late messages: neighbours compare the sums of all weights that they have sent.

A node of ADMM adds its difference from each neighbour to its dual variable. The two ends of an edge add opposite
differences, so that all additions in the network cancel. If a message is lost, only one end adds its difference. The
imbalance then stays permanently, and the functions grow without bound. Here a message carries the sum of all weights
that its sender has sent so far, so that the next message that arrives compensates for all lost ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import handed_over, hands_over
from kernelswarm.protocols.contract import Neighborhood, SendsVectors, Step, strengths_of
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import Clip, Links, Quantization, Trigger
from kernelswarm.protocols.parameters.contract import (
    PHASE,
    AnyRule,
    CompiledParameterRule,
    CompiledPhase,
    ParameterRule,
    PhaseArguments,
    Received,
    Samples,
    phase_at,
    place_of,
)

LONG_LOOPS = True

CLOCK, AGE = 0, 1
"""Offsets of the numbers after the sum in a message: the sender's clock, and the largest age known to the sender."""

ADAPT_START, ADAPT, RECEIVE_START, RECEIVE, ROUNDS, OWN = range(6)
"""Indices among the numbers: the addresses of the protocol's functions, H, and the first of the protocol's numbers."""

KNOWN, SIZE, WIDTH, SENT, DUAL, PENALTY, DEGREE = range(7)
"""Indices in ``places``: the lengths of the protocol's state, of the dual and of the message; the indices of message,
dual and rho in that state; the number of neighbours."""
PLACES = 7


@runtime_checkable
class DualRule(ParameterRule, Protocol):
    """A protocol whose state has a ``dual``, of the shape of the weights that it sends first, and a ``penalty`` rho."""

    @property
    def tolerant(self) -> bool:
        """Whether the dual is computed from sums if links lose messages or deliver them late."""
        ...


class Sums(NamedTuple):
    """A node's sums, and the differences to its neighbours' sums."""

    own: Array  # (H, n) sums of the weights sent up to each of the last H rounds: round t at t modulo H
    message: Array  # the protocol's vector, the newest sum (n,), its round t, and the largest message age in the
    # network that is known to this node
    vectors: Array  # (deg, .) the newest vector of each neighbour
    apart: Array  # (deg, n) the own sum minus the neighbour's in the round of that vector
    received: Array  # (deg,) the round of that vector, 0 before the first
    places: Array  # (PLACES,) lengths and indices in the state's vector

    @property
    def clock(self) -> float:
        """The round of the newest own sum."""
        return float(self.message[CLOCK - 2])

    @property
    def age(self) -> float:
        """The largest message age in the network that is known to this node."""
        return float(self.message[AGE - 2])


class Counted(NamedTuple):
    """A node's state: the protocol's own state, and the sums."""

    known: Any
    sums: Sums


@dataclass(frozen=True)
class SummedDuals(SendsVectors):
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
    rule : DualRule
        The protocol.
    rounds : int
        H, the number of rounds for which a node keeps its own sums, at least 1: older messages are not used.
    """

    rule: DualRule
    rounds: int

    @property
    def step(self) -> Step:
        """The step of the protocol."""
        return self.rule.step

    @property
    def quadratic(self) -> bool:
        """Whether the protocol needs the squared loss."""
        return self.rule.quadratic

    @property
    def mixes(self) -> bool:
        """Whether the protocol mixes several kernels."""
        return self.rule.mixes

    @property
    def strengths(self) -> Mapping[str, float]:
        """The keys of the protocol that scale the coupling."""
        return strengths_of(self.rule)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Counted:
        """Return the protocol's first state, and sums of 0."""
        known = self.rule.begin(neighborhood, weights)
        sent, degree, size = self.rule.send(known), len(neighborhood.neighbors), known.dual.size
        length, own = sum(int(np.size(field)) for field in known), np.zeros((self.rounds, size))
        names = (handed_over(self.rule, "protocol").sent, "dual", "penalty") if hands_over(self.rule) else ()
        starts = [place_of(known, name).start for name in names] or [0, 0, 0]
        places = np.array([length, size, len(sent), *starts, degree], dtype=np.float64)
        nothing = np.zeros((degree, len(sent))), np.zeros((degree, size)), np.zeros(degree)
        return Counted(known, Sums(own, np.concatenate([sent, np.zeros(size + 2)]), *nothing, places))

    def adapt(self, state: Counted, samples: Samples) -> Counted:
        """Let the protocol adapt to the samples, and add the weights to be sent to the sum."""
        known, sums = self.rule.adapt(state.known, samples), copied(state.sums)
        width = sums.vectors.shape[1]
        sums.message[:width] = self.rule.send(known)
        advance(sums.own, sums.message, width, sums.clock + 1.0)
        return Counted(known, sums)

    def send(self, state: Counted) -> Array:
        """Return the protocol's vector, the sum (n,), the clock and the largest age."""
        return state.sums.message

    def receive(self, state: Counted, received: Received, samples: Samples) -> Counted:
        """Compute the dual from the sums, and let the protocol step with that dual."""
        known, sums = state.known, copied(state.sums)
        width, dual = sums.vectors.shape[1], np.empty(known.dual.size)
        compare(*sums[:5], received.vectors, received.counts)
        find_dual(*sums[1:5], known.penalty, dual)
        known = known._replace(dual=dual.reshape(known.dual.shape))
        there = (sums.received > 0.0).astype(np.float64)
        # The weights as sent, since the own sum may have advanced to a later round with the same weights.
        known = self.rule.receive(known, Received(sums.message[:width], sums.vectors, there), samples)
        return Counted(known, sums)

    def weights(self, state: Counted) -> Array:
        """Return the weights of the node's function."""
        return self.rule.weights(state.known)

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        rule: CompiledParameterRule = handed_over(self.rule, "protocol")
        starts = [NONE if phase is None or phase.start is None else address(phase.start, PHASE) for phase in both(rule)]
        ends = [NONE if phase is None else address(phase.finish, PHASE) for phase in both(rule)]
        found = [starts[0], ends[0], starts[1], ends[1], self.rounds]
        adapt = CompiledPhase(_adapt, None if starts[0] == NONE else _start_adapting)
        receive = CompiledPhase(_receive, None if starts[1] == NONE else _start_receiving)
        return CompiledParameterRule(receive, "message", np.concatenate([found, rule.numbers]), adapt)


def both(rule: CompiledParameterRule) -> tuple[CompiledPhase | None, CompiledPhase]:
    """Return the two phases of a protocol."""
    return rule.adapt, rule.receive


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
    if not isinstance(rule, DualRule) or not rule.tolerant or (links.ideal and steady):
        return rule
    exact = links.bits == EXACT and not links.noise.scale and links.clip == Clip() and not links.trigger.threshold
    if exact and truthful:
        return SummedDuals(rule, links.max_age + 2)
    kept = replace(links, quantization=Quantization(), noise=Links().noise, clip=Clip(), trigger=Trigger())
    fragile: Any = rule if kept.ideal and steady else replace(cast(Any, rule), tolerant=False)
    return cast(AnyRule, fragile)


def copied(sums: Sums) -> Sums:
    return Sums(*(field.copy() for field in sums))


@cached_njit
def advance(own: Array, message: Array, width: int, clock: float) -> None:
    """Advance to a later round, with the weights of the message in all rounds until then.

    Parameters
    ----------
    own : Array
        The sums of the last H rounds, (H, n), changed.
    message : Array
        The message; it begins with the weights (n,), and is changed after its first ``width`` numbers.
    width : int
        The length of the protocol's vector.
    clock : float
        The round.
    """
    kept, size = own.shape
    first, last = int(message[width + size + CLOCK]), int(clock)
    for round in range(max(first + 1, last - kept + 1), last + 1):
        for k in range(size):
            own[round % kept, k] = message[width + k] + (round - first) * message[k]
    for k in range(size):
        message[width + k] = own[last % kept, k]
    message[width + size + CLOCK] = clock


@cached_njit
def compare(
    own: Array,
    message: Array,
    vectors: Array,
    apart: Array,
    received: Array,
    arrived: ReadOnly,
    counts: ReadOnly,
) -> None:
    """Update the clock, the differences of sums and the largest age from the messages that have arrived.

    Parameters
    ----------
    own, message, vectors, apart, received : Array
        The fields of `Sums`, changed in place.
    arrived, counts : Array
        Messages (deg, .), and the weight of each, 0 without one (deg,).
    """
    (kept, size), (degree, width) = own.shape, vectors.shape
    behind = width + size
    latest, begins = -1, True
    for j in range(degree):
        begins = begins and received[j] == 0.0
        new = counts[j] > 0.0 and arrived[j, behind + CLOCK] > received[j]
        if new and (latest < 0 or arrived[j, behind + CLOCK] > arrived[latest, behind + CLOCK]):
            latest = j
    if latest >= 0 and arrived[latest, behind + CLOCK] > message[behind + CLOCK]:
        advance(own, message, width, arrived[latest, behind + CLOCK])
        if begins:  # take over the neighbour's sum, since the own sum lacks all earlier rounds
            for k in range(size):
                missing = arrived[latest, width + k] - message[width + k]
                message[width + k] += missing
                for h in range(kept):
                    own[h, k] += missing
    clock, age = message[behind + CLOCK], message[behind + AGE]
    for j in range(degree):
        time = arrived[j, behind + CLOCK]
        if counts[j] > 0.0 and time > received[j]:
            age = max(age, arrived[j, behind + AGE])
            if clock - time < kept:
                received[j] = time
                for k in range(width):
                    vectors[j, k] = arrived[j, k]
                for k in range(size):
                    apart[j, k] = own[int(time) % kept, k] - arrived[j, width + k]
        if received[j] > 0.0:
            age = max(age, min(clock - received[j], float(kept)))
    message[behind + AGE] = 2.0 ** math.ceil(math.log2(1.0 + age)) - 1.0


@cached_njit
def find_dual(
    message: ReadOnly, vectors: ReadOnly, apart: ReadOnly, received: ReadOnly, rho: float, dual: Array
) -> None:
    """Fill in the dual (n,) from the sums, without the newest difference, which the protocol adds itself."""
    size = len(dual)
    share = rho / (1.0 + 2.0 * message[len(message) - 2 + AGE])
    for k in range(size):
        difference, pull = 0.0, 0.0
        for j in range(len(received)):
            if received[j] > 0.0:
                difference += apart[j, k]
                pull += message[k] - vectors[j, k]
        dual[k] = share * difference - rho * pull


# The vector of a node's state: the protocol's own state, the fields of the sums, and ``places``.


@cached_njit
def inner(given: PhaseArguments, last_sent: ReadOnly, vectors: ReadOnly, counts: ReadOnly) -> PhaseArguments:
    """Return the arguments of a phase of the protocol, with the given vectors instead of the received ones."""
    length = int(given.state[len(given.state) - PLACES + KNOWN])
    return PhaseArguments(
        given.numbers[OWN:],
        given.state[:length],
        last_sent,
        vectors,
        counts,
        given.eta,
        given.weights,
        given.lambdas,
        given.features,
        given.targets,
        given.batch_size,
    )


@cached_njit
def _none(given: PhaseArguments) -> Array:
    """Return an empty array of vectors with the length of the protocol's own vector."""
    width = int(given.state[len(given.state) - PLACES + WIDTH])
    return np.empty((0, width))


@cached_njit
def _start_adapting(given: PhaseArguments) -> None:
    """Step from the protocol's own weights."""
    phase_at(int(given.numbers[ADAPT_START]))(inner(given, given.last_sent, _none(given), given.counts))


@cached_njit
def _start_receiving(given: PhaseArguments) -> None:
    """Step from the protocol's own weights."""
    phase_at(int(given.numbers[RECEIVE_START]))(inner(given, given.last_sent, _none(given), given.counts))


@cached_njit
def _adapt(given: PhaseArguments) -> None:
    """Let the protocol adapt to the samples, and add the weights to be sent to the sum."""
    state = given.state
    if int(given.numbers[ADAPT]) != NONE:
        phase_at(int(given.numbers[ADAPT]))(inner(given, given.last_sent, _none(given), given.counts))
    places = state[len(state) - PLACES :]
    size, width, sent = int(places[SIZE]), int(places[WIDTH]), int(places[SENT])
    begin, kept = int(places[KNOWN]), int(given.numbers[ROUNDS])
    own, begin = state[begin : begin + kept * size].reshape(kept, size), begin + kept * size
    message = state[begin : begin + width + size + 2]
    for k in range(width):
        message[k] = state[sent + k]
    advance(own, message, width, message[width + size + CLOCK] + 1.0)


@cached_njit
def _receive(given: PhaseArguments) -> None:
    """Compute the dual from the sums, and let the protocol step with that dual."""
    state = given.state
    places = state[len(state) - PLACES :]
    size, width, degree, at = int(places[SIZE]), int(places[WIDTH]), int(places[DEGREE]), int(places[DUAL])
    begin, kept = int(places[KNOWN]), int(given.numbers[ROUNDS])
    own, begin = state[begin : begin + kept * size].reshape(kept, size), begin + kept * size
    message, begin = state[begin : begin + width + size + 2], begin + width + size + 2
    vectors, begin = state[begin : begin + degree * width].reshape(degree, width), begin + degree * width
    apart, begin = state[begin : begin + degree * size].reshape(degree, size), begin + degree * size
    received = state[begin : begin + degree]
    compare(own, message, vectors, apart, received, given.vectors, given.counts)
    find_dual(message, vectors, apart, received, state[int(places[PENALTY])], state[at : at + size])
    there = np.zeros(degree)
    for j in range(degree):
        there[j] = 1.0 if received[j] > 0.0 else 0.0
    phase_at(int(given.numbers[RECEIVE]))(inner(given, message[:width], vectors, there))
