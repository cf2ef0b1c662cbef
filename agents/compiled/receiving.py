"""How messages set out, arrive and are found, for agents in arrays: the compiled form of what an inbox does."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.compiled.arrays import Links
from kernelswarm.agents.compiled.lossy_arrays import ABSENT, Air, Counts, Terms
from kernelswarm.agents.node.inbox import ANSWERS, DELIVERED, LOST_ON_THE_WAY, OWN, POINTS, SILENT, TOO_LATE
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.protocols.compiling import ReadOnly, force_inline, inline_always, njit_no_refcount
from kernelswarm.protocols.links.distortion import EXACT, distort, rounded_up
from kernelswarm.protocols.unreliable.realization import LOST

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@njit_no_refcount
def receive(
    links: Links, air: Air, counts: Counts, symmetric: bool, terms: Terms, awake: Booleans, place: int, now: int
) -> None:
    """Let the messages of the round before set out, disturbed as the links do, and those that are due arrive."""
    sent, traffic, slots = now - 1, counts.traffic, air.points.shape[0]
    slot = sent % slots
    own_priming = sent >= PRIMING
    noise_on_points, noise_on_values = terms.noise_on_points, terms.noise_on_values
    bound_on_points, bound_on_values = terms.bound_on_points, terms.bound_on_values
    clipped = min(bound_on_points, bound_on_values) < np.inf
    if terms.bits != EXACT or clipped or noise_on_points > 0.0 or noise_on_values > 0.0:
        quantile, bits = terms.quantile, terms.bits
        for j in range(air.points.shape[1]):
            first, second = terms.node_keys[j, 0], terms.node_keys[j, 1]
            points, own = air.points[slot, j], air.own[slot, j]
            distort(points, bound_on_points, noise_on_points, quantile, bits, first, second, sent, POINTS)
            if symmetric:
                distort(own, bound_on_values, noise_on_values, quantile, bits, first, second, sent, OWN)
                coarsen(air.own_row_sums[slot, j], bits)
        for e in range(air.due.shape[1]):
            first, second = terms.edge_keys[e, 0], terms.edge_keys[e, 1]
            changed_values = air.answers[slot, e]
            distort(changed_values, bound_on_values, noise_on_values, quantile, bits, first, second, sent, ANSWERS)
            if symmetric:
                coarsen(air.answer_row_sums[slot, e], bits)
    if symmetric:
        for j in range(air.points.shape[1]):
            if air.previous[slot, j] != SILENT:
                copy_matrix(air.latest[j], air.before[slot, j])
                copy_matrix(air.points[slot, j], air.latest[j])
    for e in range(air.due.shape[1]):
        air.due[slot, e] = ABSENT
        if air.answered[slot, e] == SILENT:
            continue
        previous = air.previous[slot, links.other[e]]
        # Own values at points that the edge has not carried would be about nothing known: it carries them now.
        apart = symmetric and previous >= 0 and air.last[e] != previous
        air.carried[slot, e] = previous if apart else sent
        air.last[e] = sent
        delivery = air.deliveries[slot, e]
        if delivery == LOST:
            traffic[e, LOST_ON_THE_WAY] += own_priming
        elif delivery > terms.max_age:
            traffic[e, TOO_LATE] += own_priming
        else:
            air.due[slot, e] = now + delivery
            air.arriving[(now + delivery) % slots, e] += own_priming
    for i in range(len(links.start) - 1):
        received = awake[i, place] or terms.listens
        for e in range(links.start[i], links.start[i + 1]):
            traffic[e, DELIVERED if received else LOST_ON_THE_WAY] += air.arriving[now % slots, e]
            air.arriving[now % slots, e] = 0
            if not received:
                for then in range(slots):
                    if air.due[then, e] == now:
                        air.due[then, e] = ABSENT


@njit_no_refcount
def coarsen(numbers: Array, bits: int) -> None:
    """Round row sums up to what is sent of them."""
    if bits != EXACT:
        for k in range(len(numbers)):
            if 0.0 < numbers[k] < np.inf:
                numbers[k] = rounded_up(numbers[k])


@force_inline
def has_arrived(air: Air, e: int, sent: int, slot: int, now: int, reach: int) -> bool:
    """Tell whether the message of a round, in its slot, has arrived on an edge, and is kept."""
    if sent < 0 or sent < now - reach or sent >= now:
        return False
    due = air.due[slot, e]
    return bool(due != ABSENT and due <= now)


@inline_always
def before(slot: int, slots: int) -> int:
    """Return the slot of the round before: a remainder takes as long as a row of kernels."""
    return slot - 1 if slot > 0 else slots - 1


@inline_always
def points_of(air: Air, slot: int, e: int, sender: int) -> ReadOnly:
    """Return the points that an edge carries in the message in a slot."""
    points: ReadOnly = air.points[slot, sender]
    if air.carried[slot, e] == air.previous[slot, sender]:
        points = air.before[slot, sender]
    return points


@force_inline
def find_answer(air: Air, terms: Terms, drawn_at: Integers, used: int, e: int, now: int) -> int:
    """Return the round of the newest message whose answer can be learned from, or ABSENT.

    ``drawn_at`` (M,) are the rounds of the samples that the node remembers.
    """
    slot = now % air.due.shape[0]
    for sent in range(now - 1, max(now - 2 - terms.max_age, -1), -1):
        slot = before(slot, air.due.shape[0])
        if not has_arrived(air, e, sent, slot, now, terms.reach):
            continue
        answered = air.answered[slot, e]
        if answered < 0 or answered < now - terms.memory or drawn_at[answered % len(drawn_at)] != answered:
            continue
        return ABSENT if sent == used and not terms.repeats else sent
    return ABSENT


@force_inline
def find_values(air: Air, terms: Terms, used: int, e: int, sender: int, now: int) -> int:
    """Return the round of the newest message whose sender's own values can be learned from, or ABSENT."""
    slots = air.due.shape[0]
    slot = now % slots
    for sent in range(now - 1, max(now - 2 - terms.max_age, -1), -1):
        slot = before(slot, slots)
        if not has_arrived(air, e, sent, slot, now, terms.reach):
            continue
        previous = air.previous[slot, sender]
        if air.carried[slot, e] != previous:
            there = previous % slots
            if not has_arrived(air, e, previous, there, now, terms.reach) or air.carried[there, e] != previous:
                continue
        return ABSENT if sent == used and not terms.repeats else sent
    return ABSENT
