"""Messages between agents in arrays: disturbing, delivering and finding them; the compiled form of an inbox."""

import numpy as np

from kernelswarm.agents.arithmetic.abi import inner_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line, line_of, rows_of, table, table_of
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    INNER,
    Counts,
    Gathered,
    Links,
    LossyExchange,
    Mail,
    Network,
    Own,
    Terms,
    first_row,
)
from kernelswarm.agents.nodes.inbox import ANSWERS, DELIVERED, LOST_ON_THE_WAY, OWN, POINTS, SILENT, TOO_LATE
from kernelswarm.agents.nodes.learning import evaluate_in, learner_of
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.compiling import force_inline, inline_always, njit_no_refcount
from kernelswarm.protocols.coupling import pair_row_sums_in
from kernelswarm.protocols.links.distortion import EXACT, distort, rounded_up
from kernelswarm.protocols.links.faults import misreport_in
from kernelswarm.protocols.links.realization import LOST


@njit_no_refcount
def receive(
    links: Links, mail: Mail, counts: Counts, symmetric: bool, terms: Terms, awake: Booleans, place: int, now: int
) -> None:
    """Send the messages of the previous round over the links, which disturb them, and deliver the due ones."""
    sent, traffic, slots = now - 1, counts.traffic, mail.points.shape[0]
    slot = sent % slots
    own_priming = sent >= PRIMING
    if len(terms.faults):
        misreport_all(links, mail, symmetric, terms, slot, sent)
    noise_on_points, noise_on_values = terms.noise_on_points, terms.noise_on_values
    bound_on_points, bound_on_values = terms.bound_on_points, terms.bound_on_values
    clipped = min(bound_on_points, bound_on_values) < np.inf
    if terms.bits != EXACT or clipped or noise_on_points > 0.0 or noise_on_values > 0.0:
        quantile, bits = terms.quantile, terms.bits
        for j in range(mail.points.shape[1]):
            first, second = terms.node_keys[j, 0], terms.node_keys[j, 1]
            points, own = sent_points(mail, slot, j), own_values(mail, slot, j)
            if terms.replays:  # replayed points already have noise, and are only rounded
                samples = rows_of(points, 0, mail.samples[slot, j])
                distort(samples, bound_on_points, noise_on_points, quantile, EXACT, first, second, sent, POINTS)
                distort(points, np.inf, 0.0, quantile, bits, first, second, sent, POINTS)
            else:
                distort(points, bound_on_points, noise_on_points, quantile, bits, first, second, sent, POINTS)
            if symmetric:
                distort(own, bound_on_values, noise_on_values, quantile, bits, first, second, sent, OWN)
                coarsen(line_of(mail.own_row_sums, slot * mail.own.shape[1] + j, len(own)), bits)
        for e in range(mail.due.shape[1]):
            first, second = terms.edge_keys[e, 0], terms.edge_keys[e, 1]
            changed_values = answered_values(mail, slot, e)
            distort(changed_values, bound_on_values, noise_on_values, quantile, bits, first, second, sent, ANSWERS)
            if symmetric:
                there = slot * mail.answers.shape[1] + e
                coarsen(line_of(mail.answer_row_sums, there, len(changed_values)), bits)
    if symmetric:
        for j in range(mail.points.shape[1]):
            if mail.previous[slot, j] != SILENT:
                room, points = mail.points.shape[2], sent_points(mail, slot, j)
                before_these = table_of(mail.before, slot * mail.points.shape[1] + j, room)
                copy_matrix(table_of(mail.latest, j, mail.latest_sent[j]), before_these)
                copy_matrix(points, table_of(mail.latest, j, room))
                mail.latest_sent[j] = len(points)
    for e in range(mail.due.shape[1]):
        mail.due[slot, e] = ABSENT
        if mail.answered[slot, e] == SILENT:
            continue
        previous = mail.previous[slot, links.other[e]]
        # The receiver does not know the points of these own values, so the edge carries them now.
        apart = symmetric and previous >= 0 and mail.last[e] != previous
        mail.carried[slot, e] = previous if apart else sent
        mail.last[e] = sent
        delivery = mail.deliveries[slot, e]
        if delivery == LOST:
            traffic[e, LOST_ON_THE_WAY] += own_priming
        elif delivery > terms.max_age:
            traffic[e, TOO_LATE] += own_priming
        else:
            mail.due[slot, e] = now + delivery
            mail.arriving[(now + delivery) % slots, e] += own_priming
    for i in range(len(links.start) - 1):
        received = awake[i, place] or terms.listens
        for e in range(links.start[i], links.start[i + 1]):
            traffic[e, DELIVERED if received else LOST_ON_THE_WAY] += mail.arriving[now % slots, e]
            mail.arriving[now % slots, e] = 0
            if not received:
                for then in range(slots):
                    if mail.due[then, e] == now:
                        mail.due[then, e] = ABSENT


@njit_no_refcount
def misreport_all(links: Links, mail: Mail, symmetric: bool, terms: Terms, slot: int, sent: int) -> None:
    """Apply the message faults of a round to the values or vectors sent by faulty nodes."""
    start, vectors = terms.fault_start, mail.answers.shape[3] == 0
    for j in range(mail.points.shape[1]):
        rows = terms.faults[start[j] : start[j + 1]]
        if len(rows):
            first, second = terms.node_keys[j, 0], terms.node_keys[j, 1]
            if vectors:
                misreport_in(sent_points(mail, slot, j), rows, first, second, sent, POINTS)
            elif symmetric:
                misreport_in(own_values(mail, slot, j), rows, first, second, sent, OWN)
    for e in range(mail.due.shape[1]):
        rows = terms.faults[start[links.other[e]] : start[links.other[e] + 1]]
        if len(rows):
            first, second = terms.edge_keys[e, 0], terms.edge_keys[e, 1]
            misreport_in(answered_values(mail, slot, e), rows, first, second, sent, ANSWERS)


@inline_always
def sent_points(mail: Mail, slot: int, j: int) -> Array:
    """Return the points of node j's message in a slot."""
    return table_of(mail.points, slot * mail.points.shape[1] + j, mail.sent[slot, j])


@inline_always
def own_values(mail: Mail, slot: int, j: int) -> Array:
    """Return the values of node j's message in a slot, at the points of its previous message."""
    return table_of(mail.own, slot * mail.own.shape[1] + j, mail.evaluated[slot, j])


@inline_always
def answered_values(mail: Mail, slot: int, e: int) -> Array:
    """Return the answers of the message on an edge in a slot."""
    return table_of(mail.answers, slot * mail.answers.shape[1] + e, mail.answered_points[slot, e])


@njit_no_refcount
def coarsen(numbers: Array, bits: int) -> None:
    """Round row sums up to numbers with few bits, unless messages are exact."""
    if bits != EXACT:
        for k in range(len(numbers)):
            if 0.0 < numbers[k] < np.inf:
                numbers[k] = rounded_up(numbers[k])


@force_inline
def has_arrived(mail: Mail, e: int, sent: int, slot: int, now: int, reach: int) -> bool:
    """Tell whether the message of a round has arrived on an edge and is still kept."""
    if sent < 0 or sent < now - reach or sent >= now:
        return False
    due = mail.due[slot, e]
    return bool(due != ABSENT and due <= now)


@force_inline
def newest_arrived(mail: Mail, e: int, now: int, rounds: int, reach: int) -> int:
    """Return the round of the newest message that has arrived on an edge in the last ``rounds`` rounds, or ABSENT."""
    slots = mail.due.shape[0]
    slot = now % slots
    for sent in range(now - 1, max(now - 1 - rounds, -1), -1):
        slot = before(slot, slots)
        if has_arrived(mail, e, sent, slot, now, reach):
            return sent
    return ABSENT


@inline_always
def before(slot: int, slots: int) -> int:
    """Return the slot of the previous round, without a remainder, which takes as long as a row of kernels."""
    return slot - 1 if slot > 0 else slots - 1


@inline_always
def carried_points(mail: Mail, slot: int, e: int, sender: int) -> Array:
    """Return the points carried by an edge in the message in a slot."""
    points = sent_points(mail, slot, sender)
    if mail.carried[slot, e] == mail.previous[slot, sender]:
        points = table_of(mail.before, slot * mail.points.shape[1] + sender, mail.evaluated[slot, sender])
    return points


@force_inline
def find_answer(mail: Mail, terms: Terms, drawn_at: Integers, used: int, e: int, now: int) -> int:
    """Return the round of the newest message with a usable answer, or ABSENT.

    ``drawn_at`` (M,) holds the rounds of the points that the node keeps.
    """
    slot = now % mail.due.shape[0]
    for sent in range(now - 1, max(now - 2 - terms.max_age, -1), -1):
        slot = before(slot, mail.due.shape[0])
        if not has_arrived(mail, e, sent, slot, now, terms.reach):
            continue
        answered = mail.answered[slot, e]
        if answered < 0 or answered < now - terms.memory or drawn_at[answered % len(drawn_at)] != answered:
            continue
        if not mail.answered_points[slot, e]:
            continue
        return ABSENT if sent == used and not terms.repeats else sent
    return ABSENT


@force_inline
def find_values(mail: Mail, terms: Terms, used: int, e: int, sender: int, now: int) -> int:
    """Return the round of the newest message with usable own values of its sender, or ABSENT."""
    slots = mail.due.shape[0]
    slot = now % slots
    for sent in range(now - 1, max(now - 2 - terms.max_age, -1), -1):
        slot = before(slot, slots)
        if not has_arrived(mail, e, sent, slot, now, terms.reach):
            continue
        previous = mail.previous[slot, sender]
        if not mail.evaluated[slot, sender]:
            continue
        if mail.carried[slot, e] != previous:
            there = previous % slots
            if not has_arrived(mail, e, previous, there, now, terms.reach) or mail.carried[there, e] != previous:
                continue
        return ABSENT if sent == used and not terms.repeats else sent
    return ABSENT


@force_inline
def gather_arrived(i: int, now: int, network: Network, own: Own, exchange: LossyExchange) -> Gathered:
    """Find the messages for node i's step, and concatenate its points: own points, points of neighbours whose values
    have arrived, and earlier own points with late answers."""
    links, coupling, work, kept, mail = network.links, network.coupling, network.work, exchange.kept, exchange.mail
    size, begin, lossy, degree = own.sent[0, i], links.start[i], work.lossy, links.start[i + 1] - links.start[i]
    fresh, late, whole = find_answers(i, now, network, exchange)
    row, taken = first_row(i, begin, own.values.shape[1]), size
    copy_matrix(table_of(kept.own_points, i, size), work.points)
    copy_matrix(rows_of(kept.rows, row, size), work.rows)
    copy_matrix(table_of(kept.values, i, size), work.values)
    row += size
    if coupling.symmetric:
        for d in range(degree):
            e = begin + d
            sent, place = find_neighbor_values(d, e, now, network, exchange), row
            row += kept.received_sent[e]
            if sent == ABSENT:
                whole = False
                continue
            slot, j, count = sent % mail.points.shape[0], links.other[e], lossy.values_sent[d]
            previous = mail.previous[slot, j]
            if previous == kept.received_at[e]:
                copy_matrix(table_of(kept.received_points, e, count), rows_of(work.points, taken, count))
                copy_matrix(rows_of(kept.rows, place, count), rows_of(work.rows, taken, count))
                copy_matrix(table_of(kept.received_values, e, count), rows_of(work.values, taken, count))
            else:
                whole = False
                if mail.carried[slot, e] != previous:
                    slot = previous % mail.points.shape[0]
                evaluate_further(i, taken, carried_points(mail, slot, e, j), network)
            taken += count
    prompt = taken
    for d in range(degree if late else 0):
        if lossy.earlier_at[d] != ABSENT:
            evaluate_further(i, taken, table_of(kept.points, lossy.earlier_at[d], lossy.earlier_sent[d]), network)
            taken += lossy.earlier_sent[d]
    if coupling.implicit and degree and taken:
        sum_received_rows(i, Gathered(taken, prompt), fresh, whole and late == 0, network, own, exchange)
    return Gathered(taken, prompt)


@force_inline
def evaluate_further(i: int, taken: int, points: Array, network: Network) -> None:
    """Append points to node i's step, and evaluate its function there."""
    work, count = network.work, len(points)
    behind = rows_of(work.points, taken, count)
    copy_matrix(points, behind)
    evaluate_in(i, behind, rows_of(work.rows, taken, count), rows_of(work.values, taken, count), network)


@force_inline
def find_answers(i: int, now: int, network: Network, exchange: LossyExchange) -> tuple[int, int, bool]:
    """Find the answers for node i's step; returns the numbers of prompt and late answers, and whether every neighbour
    has answered."""
    links, lossy = network.links, network.work.lossy
    mail, kept, _, terms = exchange
    begin, memory, slots, edges = links.start[i], kept.points.shape[1], mail.points.shape[0], mail.answers.shape[1]
    fresh, late, whole = 0, 0, True
    for d in range(links.start[i + 1] - begin):
        e = begin + d
        lossy.answer_at[d], lossy.earlier_at[d], lossy.predicted_at[d] = ABSENT, ABSENT, ABSENT
        lossy.earlier_sent[d], sent = 0, ABSENT
        if kept.asks[e] and kept.own_sent[i]:
            sent = find_answer(mail, terms, line_of(kept.drawn_at, i, memory), kept.used[e, 0], e, now)
        if sent == ABSENT:
            whole = False
            continue
        kept.used[e, 0] = sent
        lossy.answer_at[d] = (sent % slots) * edges + e
        lossy.answer_share[d] = 1.0 / (1.0 + terms.damping * (now - 1 - sent))
        answered = mail.answered[sent % slots, e]
        if answered == kept.learning[i]:
            fresh += 1
            continue
        late += 1
        lossy.earlier_at[d] = i * memory + answered % memory
        lossy.earlier_samples[d] = kept.samples[i, answered % memory]
        lossy.earlier_sent[d] = kept.sent[i, answered % memory]
        if answered != kept.following[i]:
            lossy.predicted_at[d] = lossy.earlier_at[d]
    return fresh, late, whole


@force_inline
def find_neighbor_values(d: int, e: int, now: int, network: Network, exchange: LossyExchange) -> int:
    """Find usable own values of a node's d-th neighbour, on edge e; returns the round in which they were sent, or
    ABSENT."""
    links, lossy = network.links, network.work.lossy
    mail, kept, _, terms = exchange
    slots, j, sent = mail.points.shape[0], links.other[e], ABSENT
    lossy.values_at[d], lossy.values_sent[d] = ABSENT, 0
    if kept.asked[e]:
        sent = find_values(mail, terms, kept.used[e, 1], e, j, now)
    if sent == ABSENT:
        return ABSENT
    kept.used[e, 1] = sent
    lossy.values_at[d] = (sent % slots) * mail.own.shape[1] + j
    lossy.values_sent[d] = mail.evaluated[sent % slots, j]
    lossy.values_share[d] = 1.0 / (1.0 + terms.damping * (now - 1 - sent))
    dual = mail.duals[sent % slots, links.reverse[e]] if network.coupling.sends_duals else 0.0
    lossy.duals[d] = rounded_up(dual) if terms.bits != EXACT and 0.0 < dual < np.inf else dual
    return sent


@force_inline
def sum_received_rows(
    i: int, gathered: Gathered, fresh: int, whole: bool, network: Network, own: Own, exchange: LossyExchange
) -> None:
    """Fill in the row sums at the points of node i's step, and its variances if they are sent.

    The sent row sums are used if the step is on the same points (``whole``); otherwise the node computes row sums with
    ``fresh`` prompt answers.
    """
    links, coupling, work, kept = network.links, network.coupling, network.work, exchange.kept
    size, taken, begin, certain = own.sent[0, i], gathered.taken, links.start[i], network.coupling.certainty > 0.0
    row_sums, variances = line(work.row_sums, 0, taken), line(work.lossy.variances, 0, taken if certain else 0)
    if whole:
        for k in range(size):
            row_sums[k] = kept.row_sums[i, k]
            if certain:
                variances[k] = kept.variances[i, k]
        at = size
        if coupling.symmetric:
            for d in range(links.start[i + 1] - begin):
                for k in range(work.lossy.values_sent[d]):
                    row_sums[at + k] = kept.received_row_sums[begin + d, k]
                    if certain:
                        variances[at + k] = kept.received_variances[begin + d, k]
                at += work.lossy.values_sent[d]
        return
    tools, numbers, state, counts, _ = learner_of(i, network)
    gram = table(network.scratch, 0, taken, taken)
    inner_at(network.kinds.functions[network.kinds.of[i], INNER])(
        tools,
        numbers,
        state,
        counts,
        rows_of(work.points, 0, taken),
        rows_of(work.rows, 0, taken),
        rows_of(work.values, 0, taken),
        gram,
    )
    pair_row_sums_in(gram, size, fresh, own.step_sizes[i, own.steps[i], 0], row_sums)
    for k in range(len(variances)):
        variances[k] = gram[k, k] / network.kinds.reach[network.kinds.of[i]]
