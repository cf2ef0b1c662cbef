"""The arrays of nodes on links that are not ideal, filled from the nodes, and the messages in them handed back."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import CompiledLearner
from kernelswarm.agents.compiled.arrays import ABSENT, Air, Counts, Kept, Links, Terms, first_row
from kernelswarm.agents.compiled.filling import sent_points
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.node.inbox import SILENT, Packet, coarse
from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.agents.node.lossy_stacked import LossyStackedAgent
from kernelswarm.agents.node.lossy_vectors import LossyVectorNode
from kernelswarm.agents.node.node import PRIMING, Outgoing
from kernelswarm.protocols.clocks.presence import forgets
from kernelswarm.protocols.first_class import address
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.protocols.links.noises import QUANTILE
from kernelswarm.protocols.unreliable.faults import SpokenFaults
from kernelswarm.protocols.unreliable.realization import NODE, Realization, keys_of

Array = npt.NDArray[np.float64]

LossyNode = LossyAgent | LossyVectorNode | LossyStackedAgent
"""A node on links that are not ideal."""


class Letter(NamedTuple):
    """What a message holds.

    Attributes
    ----------
    size, width, outputs : int
        n points of p numbers with values of C; a vector is one point without values.
    symmetric : bool
        Whether the sender's own values are in it.
    limited : bool
        Whether values come with loads.
    sends_duals : bool
        Whether the dual variable of the edge is in it.
    """

    size: int
    width: int
    outputs: int
    symmetric: bool = False
    limited: bool = False
    sends_duals: bool = False


def terms_of(agents: Sequence[LossyNode], links: Links, labels: Sequence[int]) -> Terms:
    """Return in numbers what links do where nothing is replayed; ``labels`` are those of all places."""
    conditions, inbox = agents[0].conditions, agents[0].inbox
    table, key = conditions.links, conditions.key
    nodes = np.array(labels, dtype=np.int64)
    senders = nodes[links.other]
    hearers = np.repeat(nodes[: len(agents)], np.diff(links.start))
    faults = SpokenFaults(conditions.faults, labels)
    return Terms(
        max_age=table.max_age,
        reach=inbox.reach,
        memory=inbox.memory,
        replayed=0,
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
        edge_keys=keys_of(*key, senders, hearers),
        fault_start=faults.start,
        faults=faults.rows,
    )


def realization_of(agents: Sequence[LossyNode], links: Links, labels: Sequence[int]) -> Realization:
    """Return what links and clock do to the nodes and the edges on which they receive; ``labels`` are those of all
    places."""
    senders = np.array([labels[j] for j in links.other], dtype=np.int64)
    hearers = np.repeat([agent.node for agent in agents], np.diff(links.start))
    lengths = [agent.inbox.facts.distances for agent in agents]
    distances = None if any(entry is None for entry in lengths) else np.concatenate([np.zeros(0), *lengths])
    attributes = tuple(entry for agent in agents for entry in agent.inbox.facts.attributes)
    facts = EdgeFacts(senders, np.asarray(hearers, dtype=np.int64), distances, attributes)
    return Realization(agents[0].conditions, np.array(labels[: len(agents)], dtype=np.int64), facts)


def air_of(
    agents: Sequence[LossyNode],
    links: Links,
    places: Mapping[int, int],
    letter: Letter,
    messages: Mapping[int, Outgoing],
) -> Air:
    """Put what is on its way, and what has arrived, in slots."""
    first, now = agents[0], agents[0].now
    slots, nodes, edges, sent = first.inbox.reach + 1, len(places), len(links.other), len(links.sent)
    size, width, outputs = letter.size, letter.width, letter.outputs
    air = Air(
        points=np.zeros((slots, nodes, size, width)),
        own=np.zeros((slots, nodes, size, outputs)),
        own_row_sums=np.zeros((slots, nodes, size)),
        previous=np.full((slots, nodes), SILENT),
        before=np.zeros((slots, nodes if letter.symmetric else 0, size, width)),
        latest=np.zeros((nodes if letter.symmetric else 0, size, width)),
        carried=np.full((slots, edges), ABSENT),
        last=np.full(edges, ABSENT),
        answers=np.zeros((slots, sent, size, outputs)),
        answer_row_sums=np.zeros((slots, sent, size)),
        answered=np.full((slots, sent), SILENT),
        duals=np.zeros((slots, sent)),
        deliveries=np.zeros((slots, edges), dtype=np.int64),
        due=np.full((slots, edges), ABSENT),
        arriving=np.zeros((slots, edges), dtype=np.int64),
    )
    slot = (now - 1) % slots
    for label, place in places.items():
        message = messages[label]
        assert message.stamps is not None
        air.points[slot, place] = message.points
        air.previous[slot, place] = int(message.stamps[0])
        _put(message.own, air.own[slot, place], air.own_row_sums[slot, place])
    for i, agent in enumerate(agents):
        for d, (other, back) in enumerate(zip(agent.neighbors, agent.slots, strict=True)):
            e, message = int(links.start[i]) + d, messages[other]
            assert message.stamps is not None
            air.answered[slot, e] = int(message.stamps[1 + back])
            _put(message.answers[back], air.answers[slot, e], air.answer_row_sums[slot, e])
            if message.duals is not None:
                air.duals[slot, links.reverse[e]] = message.duals[back]
            air.deliveries[slot, e] = agent.inbox.delivery(d, now - 1)
            air.last[e], latest = agent.inbox.last[d], agent.inbox.latest[d]
            if latest is not None:
                air.latest[links.other[e]] = latest
            for at, packet in agent.inbox.packets[d].items():
                then, sender = at % slots, links.other[e]
                carriers = air.points if packet.carried == at else air.before
                carriers[then, sender] = packet.points
                air.carried[then, e], air.previous[then, sender] = packet.carried, packet.previous
                air.answered[then, e], air.due[then, e] = packet.answered, packet.due
                if packet.due >= now:
                    air.arriving[packet.due % slots, e] += at >= PRIMING
                air.duals[then, links.reverse[e]] = packet.dual
                _put(packet.own, air.own[then, links.other[e]], air.own_row_sums[then, links.other[e]])
                _put(packet.answer, air.answers[then, e], air.answer_row_sums[then, e])
            if letter.sends_duals:
                own = messages[agent.node].duals
                assert own is not None
                air.duals[slot, e] = own[d]
    # Answers to nodes elsewhere that were sent last: whoever asks what was sent is told from here.
    for i, agent in enumerate(agents):
        message = messages[agent.node]
        assert message.stamps is not None
        for d in range(len(agent.neighbors)):
            back = int(links.reverse[int(links.start[i]) + d])
            air.answered[slot, back] = int(message.stamps[1 + d])
            _put(message.answers[d], air.answers[slot, back], air.answer_row_sums[slot, back])
    return air


def kept_of(agents: Sequence[LossyAgent], forms: Sequence[CompiledLearner], links: Links, columns: int) -> Kept:
    """Copy what agents keep."""
    first = agents[0]
    size, nodes, edges, memory = sent_points(agents), len(agents), len(links.other), first.inbox.memory + 1
    samples = first.learner.batch_size
    width, outputs = first.width, first.outputs
    assert first.targets is not None
    kept = Kept(
        points=np.zeros((nodes, memory, size, width)),
        targets=np.zeros((nodes, memory, samples, first.targets.shape[1])),
        drawn_at=np.full((nodes, memory), ABSENT),
        predicted=np.zeros((nodes, memory, size, outputs)),
        learning=np.array([agent.sent_at[0] for agent in agents], dtype=np.int64),
        own_points=np.zeros((nodes, size, width)),
        own_targets=np.zeros((nodes, samples, first.targets.shape[1])),
        following=np.array([agent.sent_at[1] for agent in agents], dtype=np.int64),
        begun=np.full(nodes, ABSENT),
        values=np.zeros((nodes, size, outputs)),
        rows=np.zeros(((nodes + edges) * size, columns)),
        row_sums=np.zeros((nodes, size)),
        products=np.array([agent.own_products for agent in agents], dtype=np.float64),
        received_at=np.full(edges, ABSENT),
        received_points=np.zeros((edges, size, width)),
        received_values=np.zeros((edges, size, outputs)),
        received_row_sums=np.zeros((edges, size)),
        used=np.full((edges, 2), ABSENT),
        asks=np.array([entry for agent in agents for entry in agent.asks], dtype=np.bool_),
        asked=np.array([entry for agent in agents for entry in agent.asked], dtype=np.bool_),
        quiet=np.zeros(edges, dtype=np.bool_),
        last_sent=np.zeros(edges, dtype=np.bool_),
        last_sent_points=np.zeros((edges, size, width)),
        last_sent_values=np.zeros((edges, size, outputs)),
    )
    for i, agent in enumerate(agents):
        assert agent.own is not None and agent.targets is not None
        kept.own_points[i], kept.own_targets[i] = agent.own.points, agent.targets
        for at, (points, targets) in agent.drawn.items():
            kept.points[i, at % memory], kept.targets[i, at % memory] = points, targets
            kept.drawn_at[i, at % memory] = at
        for at, values in agent.predicted.items():
            kept.predicted[i, at % memory] = values
        keep_evaluated(agent, forms[i], i, int(links.start[i]), kept)
        for d, evaluation in enumerate(agent.theirs):
            e = int(links.start[i]) + d
            kept.received_at[e], kept.used[e], kept.quiet[e] = agent.received_at[d], agent.used[d], agent.quiet[d]
            kept.received_points[e] = evaluation.points
            last_sent = agent.last_sent[d]
            if last_sent is not None:
                kept.last_sent[e], kept.last_sent_points[e], kept.last_sent_values[e] = (
                    True,
                    last_sent.points,
                    last_sent.values,
                )
    return kept


def keep_evaluated(agent: LossyAgent, form: CompiledLearner, i: int, begin: int, kept: Kept) -> None:
    """Copy what an agent, node i with edges from ``begin`` on, has evaluated."""
    assert agent.own is not None
    size = kept.values.shape[1]
    kept.values[i], kept.products[i] = agent.own.values, agent.own_products
    if len(agent.row_sums):
        kept.row_sums[i] = agent.row_sums[:size]
    place = first_row(i, begin, size, True)
    for k, evaluation in enumerate((agent.own, *agent.theirs)):
        rows = form.rows(agent.state, evaluation) if isinstance(form, PlainLearner) else evaluation.rows
        kept.rows[place + k * size : place + (k + 1) * size, : rows.shape[1]] = rows
    for d, evaluation in enumerate(agent.theirs):
        e = begin + d
        kept.received_values[e] = evaluation.values
        if len(agent.row_sums) > size:
            kept.received_row_sums[e] = agent.row_sums[size * (1 + d) : size * (2 + d)]


def counts_of(agents: Sequence[LossyNode], links: Links) -> Counts:
    """Begin counting where the agents are."""
    edges = len(links.other)
    traffic = np.zeros((edges, 4), dtype=np.int64)
    constraint_rounds = np.zeros(edges, dtype=np.int64)
    for i, agent in enumerate(agents):
        own = slice(int(links.start[i]), int(links.start[i + 1]))
        assert agent.tally.traffic is not None
        traffic[own], constraint_rounds[own] = agent.tally.traffic, agent.tally.constraint_rounds
    return Counts(
        traffic=traffic,
        constraint_rounds=constraint_rounds,
        learned=np.zeros(len(agents), dtype=np.int64),
        completed=np.array([agent.round for agent in agents], dtype=np.int64),
        cursor=np.zeros(len(agents), dtype=np.int64),
        scalars=np.array([agent.tally.scalars_sent for agent in agents], dtype=np.int64),
        bytes=np.array([agent.tally.bytes_sent for agent in agents], dtype=np.float64),
    )


def _put(message: Array | None, values: Array, row_sums: Array) -> None:
    """Part what was sent into values (n, C) and, where they are sent, loads (n,)."""
    if message is not None:
        outputs = values.shape[1]
        values[:] = message[:, :outputs]
        if message.shape[1] > outputs:
            row_sums[:] = message[:, outputs]


def packets_of(air: Air, links: Links, e: int, letter: Letter, now: int, reach: int, bits: int) -> dict[int, Packet]:
    """Return the messages of an edge that a node keeps before round ``now``, by the rounds in which they were sent."""
    slots, sender = len(air.points), int(links.other[e])
    found: dict[int, Packet] = {}
    for at in range(max(0, now - 1 - reach), now - 1):
        slot = at % slots
        if air.due[slot, e] == ABSENT:
            continue
        own = answer = None
        previous, answered = int(air.previous[slot, sender]), int(air.answered[slot, e])
        if letter.symmetric and previous >= 0:
            own = _joined(air.own[slot, sender], air.own_row_sums[slot, sender], letter.limited)
        if answered >= 0:
            answer = _joined(air.answers[slot, e], air.answer_row_sums[slot, e], letter.limited)
        dual = float(air.duals[slot, links.reverse[e]]) if letter.sends_duals else 0.0
        if bits != EXACT:
            dual = float(coarse(np.array([dual]))[0])
        carried = int(air.carried[slot, e])
        points = sealed((air.before if carried == previous else air.points)[slot, sender])
        found[at] = Packet(int(air.due[slot, e]), carried, previous, answered, points, own, answer, dual)
    return found


def _joined(values: Array, row_sums: Array, limited: bool) -> Array:
    return sealed(np.column_stack([values, row_sums]) if limited else values)


def sealed(array: Array) -> Array:
    """Copy an array for good."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
