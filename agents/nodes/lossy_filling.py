"""The arrays of nodes on unreliable links: filled from the nodes, and the messages in them handed back."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelswarm.agents.nodes.agent import LossyAgent
from kernelswarm.agents.nodes.arrays import ABSENT, Counts, Kept, Links, Mail, Realized, Terms, ends_of
from kernelswarm.agents.nodes.filling import sent_points
from kernelswarm.agents.nodes.inbox import NO_ANSWER, SILENT, Packet, coarse
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.stacked import StackedAgent
from kernelswarm.agents.nodes.vectors import LossyVectorNode
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.clocks import forgets
from kernelswarm.protocols.links.distortion import EXACT, QUANTILE
from kernelswarm.protocols.links.faults import SpokenFaults
from kernelswarm.protocols.links.realization import NODE, Realization, keys_of
from kernelswarm.protocols.replay import certainty_of

LossyNode = LossyAgent | LossyVectorNode | StackedAgent
"""A node on unreliable links."""


class OnLinks(Protocol):
    """A node on links and with a clock, whatever it sends."""

    node: int
    conditions: Any
    inbox: Any


class MessageLayout(NamedTuple):
    """The contents of a message.

    Attributes
    ----------
    size, width, outputs : int
        Up to n points of p numbers with values of C; a vector is one point without values.
    symmetric : bool
        Whether the sender's own values are in it.
    limited : bool
        Whether values come with row sums.
    sends_duals : bool
        Whether the dual variable of the edge is in it.
    certain : bool
        Whether variances come behind the row sums.
    """

    size: int
    width: int
    outputs: int
    symmetric: bool = False
    limited: bool = False
    sends_duals: bool = False
    certain: bool = False


def terms_of(agents: Sequence[LossyNode], links: Links, labels: Sequence[int]) -> Terms:
    """Return the settings of links and clock as numbers, without replay; ``labels`` are those of all places."""
    conditions, inbox = agents[0].conditions, agents[0].inbox
    table, key = conditions.links, conditions.key
    nodes = np.array(labels, dtype=np.int64)
    senders = nodes[links.other]
    receivers = np.repeat(nodes[: len(agents)], np.diff(links.start))
    faults = SpokenFaults(conditions.faults, labels)
    return Terms(
        max_age=table.max_age,
        reach=inbox.reach,
        memory=inbox.memory,
        replays=False,
        carries_points=True,
        repeats=table.on_missing == "repeat",
        listens=conditions.clock.listens,
        forgets=forgets(conditions.clock),
        damping=float(table.damping),
        bits=table.bits,
        quantile=address(table.noise.quantile, QUANTILE),
        bound_on_points=float(table.clip.points),
        bound_on_values=float(table.clip.values),
        noise_on_points=float(table.noise_on("points")),
        noise_on_values=float(table.noise_on("values")),
        threshold=float(table.trigger.threshold),
        decay=float(table.trigger.decay),
        node_keys=keys_of(*key, nodes, np.full(len(nodes), NODE, dtype=np.int64)),
        edge_keys=keys_of(*key, senders, receivers),
        fault_start=faults.start,
        faults=faults.rows,
    )


def realization_of(agents: Sequence[OnLinks], links: Links, labels: Sequence[int]) -> Realization:
    """Return the random losses, delays and sleep of the nodes and their edges; ``labels`` are those of all places."""
    senders = np.array([labels[j] for j in links.other], dtype=np.int64)
    receivers = np.repeat([agent.node for agent in agents], np.diff(links.start))
    lengths = [agent.inbox.facts.distances for agent in agents]
    distances = None if any(entry is None for entry in lengths) else np.concatenate([np.zeros(0), *lengths])
    attributes = tuple(entry for agent in agents for entry in agent.inbox.facts.attributes)
    facts = EdgeFacts(senders, np.asarray(receivers, dtype=np.int64), distances, attributes)
    return Realization(agents[0].conditions, np.array(labels[: len(agents)], dtype=np.int64), facts)


def realized_from(realization: Realization, now: int) -> tuple[Realized, int]:
    """Return what links and clocks do in some rounds, and the place of round ``now`` there; they are ideal while the
    network is primed, without messages where later rounds lack some."""
    nodes, edges = len(realization.awake), len(realization.deliveries)
    if now < PRIMING:
        awake = np.ones((nodes, PRIMING), dtype=np.bool_)
        active = np.full((edges, PRIMING), realization.every == 1)
        return Realized(awake, np.zeros((edges, PRIMING), dtype=np.int64), active, -PRIMING), now
    place = realization.look(now - PRIMING)  # which may draw more rounds
    return Realized(realization.awake, realization.deliveries, realization.active, realization.first), place


def mail_of(agents: Sequence[LossyNode], links: Links, places: Mapping[int, int], layout: MessageLayout) -> Mail:
    """Return the messages of the agents' inboxes in slots."""
    first, now = agents[0], agents[0].now
    slots, nodes, edges, sent = first.inbox.reach + 1, len(places), len(links.other), len(links.sent)
    mail = empty_mail(slots, nodes, edges, sent, layout)
    own_parts = mail.own, mail.own_row_sums, mail.own_variances, mail.evaluated
    answer_parts = mail.answers, mail.answer_row_sums, mail.answer_variances, mail.answered_points
    for i, agent in enumerate(agents):
        for d in range(len(agent.neighbors)):
            e = int(links.start[i]) + d
            mail.last[e], latest = agent.inbox.last[d], agent.inbox.latest[d]
            if latest is not None:
                mail.latest_sent[links.other[e]] = len(latest)
                mail.latest[links.other[e], : len(latest)] = latest
            for at, packet in agent.inbox.packets[d].items():
                then, sender = at % slots, links.other[e]
                prompt, count = packet.carried == at, len(packet.points)
                (mail.points if prompt else mail.before)[then, sender, :count] = packet.points
                (mail.sent if prompt else mail.evaluated)[then, sender] = count
                mail.carried[then, e], mail.previous[then, sender] = packet.carried, packet.previous
                mail.answered[then, e], mail.due[then, e] = packet.answered, packet.due
                if packet.due >= now:
                    mail.arriving[packet.due % slots, e] += at >= PRIMING
                mail.duals[then, links.reverse[e]] = packet.dual
                _put(packet.own, then, sender, *own_parts)
                _put(packet.answer, then, e, *answer_parts)
    return mail


def send_again(
    mail: Mail,
    links: Links,
    realization: Realization,
    now: int,
    sends: Booleans,
    vectors: Array,
    asked: Booleans,
) -> None:
    """Put what nodes sent in the round before ``now`` in its slot: vectors (V, n) of those that sent any, (V,), on the
    edges, (E,), on which others ask for them."""
    if not now:
        return
    slot, (realized, place) = (now - 1) % len(mail.points), realized_from(realization, now - 1)
    mail.points[slot, : len(sends), 0][sends] = vectors[sends]
    mail.previous[slot, : len(sends)][sends] = NO_ANSWER
    mail.answered[slot, links.reverse[sends[ends_of(links)] & realized.active[:, place] & asked]] = NO_ANSWER
    mail.deliveries[slot] = realized.deliveries[:, place]


def empty_mail(slots: int, nodes: int, edges: int, sent: int, layout: MessageLayout) -> Mail:
    """Return slots without messages, for ``edges`` on which nodes receive and ``sent`` on which they answer, nodes of
    other blocks included."""
    size, width, outputs, certain = layout.size, layout.width, layout.outputs, layout.certain
    return Mail(
        points=np.zeros((slots, nodes, size, width)),
        sent=np.full((slots, nodes), size),
        samples=np.zeros((slots, nodes), dtype=np.int64),
        own=np.zeros((slots, nodes, size, outputs)),
        evaluated=np.zeros((slots, nodes), dtype=np.int64),
        own_row_sums=np.zeros((slots, nodes, size)),
        own_variances=np.zeros((slots, nodes * certain, size)),
        previous=np.full((slots, nodes), SILENT),
        before=np.zeros((slots, nodes if layout.symmetric else 0, size, width)),
        latest=np.zeros((nodes if layout.symmetric else 0, size, width)),
        latest_sent=np.zeros(nodes, dtype=np.int64),
        carried=np.full((slots, edges), ABSENT),
        last=np.full(edges, ABSENT),
        answers=np.zeros((slots, sent, size, outputs)),
        answer_row_sums=np.zeros((slots, sent, size)),
        answer_variances=np.zeros((slots, sent * certain, size)),
        answered_points=np.zeros((slots, sent), dtype=np.int64),
        answered=np.full((slots, sent), SILENT),
        duals=np.zeros((slots, sent)),
        deliveries=np.zeros((slots, edges), dtype=np.int64),
        due=np.full((slots, edges), ABSENT),
        arriving=np.zeros((slots, edges), dtype=np.int64),
    )


def empty_kept(
    nodes: int, edges: int, memory: int, layout: MessageLayout, samples: int, targets: int, columns: int
) -> Kept:
    """Return room for the samples of ``memory`` rounds (M) and for the messages received last.

    Parameters
    ----------
    nodes, edges, memory : int
        V, E and M.
    layout : MessageLayout
        The contents of a message.
    samples, targets, columns : int
        b, q and R.
    """
    size, width, outputs, certain = layout.size, layout.width, layout.outputs, layout.certain
    return Kept(
        points=np.zeros((nodes, memory, size, width)),
        targets=np.zeros((nodes, memory, samples, targets)),
        samples=np.zeros((nodes, memory), dtype=np.int64),
        sent=np.zeros((nodes, memory), dtype=np.int64),
        drawn_at=np.full((nodes, memory), ABSENT),
        predicted=np.zeros((nodes, memory, size, outputs)),
        learning=np.zeros(nodes, dtype=np.int64),
        own_points=np.zeros((nodes, size, width)),
        own_targets=np.zeros((nodes, samples, targets)),
        own_samples=np.zeros(nodes, dtype=np.int64),
        own_sent=np.zeros(nodes, dtype=np.int64),
        following=np.zeros(nodes, dtype=np.int64),
        begun=np.full(nodes, ABSENT),
        values=np.zeros((nodes, size, outputs)),
        rows=np.zeros(((nodes + edges) * size, columns)),
        row_sums=np.zeros((nodes, size)),
        variances=np.zeros((nodes * certain, size)),
        products=np.zeros((nodes, 2)),
        received_at=np.full(edges, ABSENT),
        received_points=np.zeros((edges, size, width)),
        received_sent=np.zeros(edges, dtype=np.int64),
        received_values=np.zeros((edges, size, outputs)),
        received_row_sums=np.zeros((edges, size)),
        received_variances=np.zeros((edges * certain, size)),
        used=np.full((edges, 2), ABSENT),
        asks=np.zeros(edges, dtype=np.bool_),
        asked=np.zeros(edges, dtype=np.bool_),
        quiet=np.zeros(edges, dtype=np.bool_),
        last_sent=np.full(edges, ABSENT),
        last_sent_points=np.zeros((edges, size, width)),
        last_sent_values=np.zeros((edges, size, outputs)),
    )


def kept_of(agents: Sequence[LossyAgent], links: Links, columns: int) -> Kept:
    """Copy the samples, values and last messages of agents."""
    first = agents[0]
    samples, memory = max(agent.learner.batch_size for agent in agents), first.inbox.memory + 1
    layout = MessageLayout(sent_points(agents), first.width, first.outputs, certain=certainty_of(first.rule) > 0.0)
    kept = empty_kept(len(agents), len(links.other), memory, layout, samples, first.targets.shape[1], columns)
    kept.learning[:], kept.following[:] = np.array([agent.sent_at for agent in agents], dtype=np.int64).T
    kept.asks[:] = [entry for agent in agents for entry in agent.asks]
    kept.asked[:] = [entry for agent in agents for entry in agent.asked]
    for i, agent in enumerate(agents):
        kept.own_sent[i], kept.own_samples[i] = len(agent.points), len(agent.targets)
        kept.own_points[i, : len(agent.points)] = agent.points
        kept.own_targets[i, : len(agent.targets)] = agent.targets
        for at, (points, targets) in agent.drawn.items():
            place = i, at % memory
            kept.drawn_at[place], kept.sent[place], kept.samples[place] = at, len(points), len(targets)
            kept.points[place][: len(points)], kept.targets[place][: len(targets)] = points, targets
        for at, values in agent.predicted.items():
            kept.predicted[i, at % memory, : len(values)] = values
        for d, points in enumerate(agent.received_points):
            e, count = int(links.start[i]) + d, len(points)
            kept.received_at[e], kept.used[e], kept.quiet[e] = agent.received_at[d], agent.used[d], agent.quiet[d]
            kept.received_sent[e], kept.received_points[e, :count] = count, points
            last_sent = agent.last_sent[d]
            if last_sent is not None:
                count = kept.last_sent[e] = len(last_sent.points)
                kept.last_sent_points[e, :count], kept.last_sent_values[e, :count] = last_sent
    return kept


def counts_of(agents: Sequence[LossyNode], links: Links) -> Counts:
    """Return the counts as they stand in the agents."""
    edges = len(links.other)
    traffic = np.zeros((edges, 4), dtype=np.int64)
    constraint_rounds = np.zeros(edges, dtype=np.int64)
    for i, agent in enumerate(agents):
        own = slice(int(links.start[i]), int(links.start[i + 1]))
        constraint_rounds[own] = agent.tally.constraint_rounds
        if agent.tally.traffic is not None:
            traffic[own] = agent.tally.traffic
    return Counts(
        traffic=traffic,
        constraint_rounds=constraint_rounds,
        learned=np.zeros(len(agents), dtype=np.int64),
        completed=np.array([agent.round for agent in agents], dtype=np.int64),
        cursor=np.zeros(len(agents), dtype=np.int64),
        scalars=np.zeros(len(agents), dtype=np.int64),
        bytes=np.zeros(len(agents)),
    )


def _put(
    message: Array | None, slot: int, place: int, values: Array, row_sums: Array, variances: Array, counts: Integers
) -> None:
    """Copy a message's values (n, C) and, where they are sent, row sums (n,) and variances (n,), and their number."""
    if message is not None:
        outputs, count = values.shape[3], len(message)
        counts[slot, place], values[slot, place, :count] = count, message[:, :outputs]
        if message.shape[1] > outputs:
            row_sums[slot, place, :count] = message[:, outputs]
        if message.shape[1] > outputs + 1:
            variances[slot, place, :count] = message[:, outputs + 1]


def packets_of(
    mail: Mail, links: Links, e: int, layout: MessageLayout, now: int, reach: int, bits: int
) -> dict[int, Packet]:
    """Return the messages of an edge that a node keeps before round ``now``, by the rounds in which they were sent."""
    slots, sender = len(mail.points), int(links.other[e])
    found: dict[int, Packet] = {}
    for at in range(max(0, now - 1 - reach), now - 1):
        slot = at % slots
        if mail.due[slot, e] == ABSENT:
            continue
        own = answer = None
        previous, answered = int(mail.previous[slot, sender]), int(mail.answered[slot, e])
        evaluated = slice(int(mail.evaluated[slot, sender]))
        if layout.symmetric and previous >= 0:
            own = _joined((slot, sender, evaluated), layout, mail.own, mail.own_row_sums, mail.own_variances)
        if answered >= 0:
            there = slot, e, slice(int(mail.answered_points[slot, e]))
            answer = _joined(there, layout, mail.answers, mail.answer_row_sums, mail.answer_variances)
        dual = float(mail.duals[slot, links.reverse[e]]) if layout.sends_duals else 0.0
        if bits != EXACT:
            dual = float(coarse(np.array([dual]))[0])
        carried = int(mail.carried[slot, e])
        points = mail.points[slot, sender, : mail.sent[slot, sender]]
        if carried == previous:
            points = mail.before[slot, sender, evaluated]
        found[at] = Packet(int(mail.due[slot, e]), carried, previous, answered, sealed(points), own, answer, dual)
    return found


def _joined(there: tuple[int, int, slice], layout: MessageLayout, values: Array, *behind: Array) -> Array:
    """Undo :func:`_put`."""
    columns = [part[there] for part in behind[: int(layout.limited) + int(layout.certain)]]
    return sealed(np.column_stack([values[there], *columns]))


def sealed(array: Array) -> Array:
    """Return a copy that is read-only."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def widened(rows: Array, columns: int) -> Array:
    """Return rows with zeros behind them up to ``columns`` columns, or as they are if they are longer."""
    wider = np.zeros((len(rows), max(columns, rows.shape[1])))
    wider[:, : rows.shape[1]] = rows
    return wider
