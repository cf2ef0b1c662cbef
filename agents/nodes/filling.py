"""Functions that fill the arrays of compiled rounds from the agents."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from kernelswarm.agents.arithmetic import abi as compiled
from kernelswarm.agents.arithmetic.abi import (
    CompiledFeatureLearner,
    CompiledLearner,
    CompiledLoss,
    RepackedLearner,
)
from kernelswarm.agents.arithmetic.scratch import SPARE, States
from kernelswarm.agents.learners.contract import TeachableLearner
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.nodes.agent import Agent, LossyAgent
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    Buffers,
    Counts,
    Coupling,
    Kept,
    Kinds,
    Links,
    LossyWork,
    Mail,
    Received,
    Sums,
    Terms,
    Workspace,
    edges_at,
)
from kernelswarm.agents.nodes.inbox import SILENT, parted
from kernelswarm.agents.nodes.node import PRIMING, Node, Tally
from kernelswarm.agents.parts.plain_parts import compares_alike, loss_form
from kernelswarm.arrays import AnyArray, Array, Booleans, Integers
from kernelswarm.protocols.compiled import (
    ADVANCE,
    CONSTRAINT_VALUES,
    COUPLING_GRADIENT,
    COUPLING_GRADIENT_AT_NEIGHBOR,
    JUDGE,
    CompiledRule,
)
from kernelswarm.protocols.contract import Rule, fulfils
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.callbacks import array_of, keep_for
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.clocks import forgets
from kernelswarm.protocols.links.distortion import QUANTILE
from kernelswarm.protocols.links.faults import SpokenFaults
from kernelswarm.protocols.links.realization import NODE, Conditions, Realization, keys_of
from kernelswarm.protocols.replay import certainty_of, replay_of

NO_KEYS = np.zeros((0, 2), dtype=np.int64)
NO_BUFFERS = Buffers(np.zeros((0, 0, 0)), NO_KEYS, NO_KEYS, (0, 0), NO_KEYS, 0.0)


def coupling_of(rule: Rule, form: CompiledRule | None, links: Links) -> Coupling:
    """Return the functions and numbers of a protocol for these links."""
    symmetric, implicit = rule.form == "symmetric", rule.step == "implicit"
    if form is None:
        none = np.zeros(0, dtype=np.int64)
        return Coupling(np.full(5, NONE), none, np.zeros(0), 0, -1, -1, symmetric, implicit, False, False, 0.0)
    functions = [
        NONE if function is None else address(function, signature)
        for function, signature in (
            (form.coupling_gradient, COUPLING_GRADIENT),
            (form.coupling_gradient_at_neighbor, COUPLING_GRADIENT_AT_NEIGHBOR),
            (form.advance, ADVANCE),
            (form.constraint_values, CONSTRAINT_VALUES),
            (form.judge, JUDGE),
        )
    ]
    return Coupling(
        functions=array_of(functions),
        tools=array_of(form.tools),
        numbers=np.asarray(form.numbers, dtype=np.float64),
        rows=len(links.state) // max(len(links.other), 1),
        duals=-1 if form.duals is None else form.duals,
        tolerances=-1 if form.tolerances is None else form.tolerances,
        symmetric=symmetric,
        implicit=implicit,
        sends_duals=bool(rule.sends_duals),
        compares_losses=bool(rule.compares_losses),
        certainty=certainty_of(rule),
    )


def kinds_of(agents: Sequence[Node], forms: Sequence[CompiledLearner], certain: bool = False) -> Kinds:
    """Return the functions and numbers of the different learners; ``certain`` tells whether variances are sent."""
    places: dict[int, int] = {}
    first: list[int] = []
    for i, form in enumerate(forms):
        if id(form) not in places:
            places[id(form)] = len(first)
            first.append(i)
    functions, tools, numbers, loss_numbers = [], [], [], []
    for i in first:
        form, loss = forms[i], loss_form(agents[i].learner.loss)
        functions.append(addresses_of(form, loss))
        tools.append(form.tools)
        numbers.append(form.numbers(agents[i].state))
        loss_numbers.append(loss.numbers)
    losses = [agents[i].learner.loss for i in first]
    return Kinds(
        of=np.array([places[id(form)] for form in forms], dtype=np.int64),
        functions=places_of(functions),
        tools=places_of(tools),
        numbers=joined(numbers, np.float64),
        number_counts=np.array([len(entry) for entry in numbers], dtype=np.int64),
        loss_numbers=joined(loss_numbers, np.float64),
        loss_number_counts=np.array([len(entry) for entry in loss_numbers], dtype=np.int64),
        quadratic_curvature=np.array([loss.curvature if loss.quadratic else 0.0 for loss in losses], dtype=np.float64),
        curvature=np.array([loss.curvature for loss in losses], dtype=np.float64),
        gain=np.array([agents[i].learner.gain or 0.0 for i in first], dtype=np.float64),
        linear=np.array([agents[i].learner.linear for i in first], dtype=np.int64),
        apart=np.array([not compares_alike(agents[i].learner) for i in first], dtype=np.int64),
        reach=np.array([cast(TeachableLearner, agents[i].learner).reach if certain else 1.0 for i in first]),
    )


def addresses_of(form: CompiledLearner, loss: CompiledLoss) -> list[int]:
    """Return the addresses of a learner's and its loss's functions, in the order of the round's constants."""
    repack = address(form.repack, compiled.REPACK) if fulfils(form, RepackedLearner) else NONE
    place = address(form.place, compiled.PLACE) if fulfils(form, CompiledFeatureLearner) else NONE
    gradient = NONE if form.gradient is None else address(form.gradient, compiled.GRADIENT)
    return [
        address(form.evaluate, compiled.EVALUATE),
        address(form.inner, compiled.INNER),
        gradient,
        address(form.step, compiled.STEP),
        address(loss.values, compiled.LOSS_VALUES),
        address(loss.derivatives, compiled.LOSS_DERIVATIVES),
        repack,
        place,
    ]


def places_of(rows: Sequence[Sequence[int]]) -> Integers:
    """Return addresses as rows of one array, padded with zeros; the array keeps the functions alive."""
    found: Integers = joined(rows, np.int64)
    keep_for(found, [place for row in rows for place in row])
    return found


def joined(rows: Sequence[Any], kind: Any) -> Any:
    """Return vectors as rows of one array, padded with zeros."""
    matrix = np.zeros((len(rows), max(map(len, rows))), dtype=kind)
    for row, entry in zip(matrix, rows, strict=True):
        row[: len(entry)] = entry
    return matrix


def links_of(agents: Sequence[Node], places: Mapping[int, int], form: CompiledRule | None) -> Links:
    """Return the directed edges with their link states; nodes of other blocks have indices after the agents'."""
    start = np.cumsum([0] + [len(agent.neighbors) for agent in agents])
    other: list[int] = []
    reverse: list[int] = []
    state: list[Array] = [np.zeros(0)]
    leaving = int(start[-1])
    for agent in agents:
        for neighbor, slot in zip(agent.neighbors, agent.slots, strict=True):
            place = places[neighbor]
            other.append(place)
            if place < len(agents):
                reverse.append(int(start[place]) + slot)
            else:
                reverse.append(leaving)
                leaving += 1
        if form is not None and agent.neighbors:
            state.append(matrix_of(form, agent).reshape(-1))
    return Links(
        start=np.asarray(start, dtype=np.int64),
        other=np.array(other, dtype=np.int64),
        reverse=np.array(reverse, dtype=np.int64),
        state=np.concatenate(state),
        sent=np.zeros(leaving),
    )


def matrix_of(form: CompiledRule, agent: Node) -> Array:
    """Return the link state of a node with neighbours as a matrix (k, deg)."""
    packed = np.asarray(form.pack(agent.links), dtype=np.float64)
    return packed if packed.shape[1] > 1 else packed.repeat(len(agent.neighbors), axis=1)


def states_of(
    agents: Sequence[Node],
    forms: Sequence[CompiledLearner],
    capacities: Sequence[int],
    taken: Sequence[int] | Integers,
    packed: bool = False,
    spare: int = 0,
) -> States:
    """Move the agents' states into arrays, with room for ``capacities`` dictionary points.

    The states are rows of equal length or, with ``packed``, concatenated. ``spare`` numbers follow the last state, and
    if ``spare`` is above 0, there is room for a quarter more.
    """
    lengths = [
        form.length(agent.state, capacity) for agent, form, capacity in zip(agents, forms, capacities, strict=True)
    ]
    ends = np.cumsum(lengths if packed else [max(lengths)] * len(agents))
    room = spare + int(ends[-1]) // 4 if spare else 0
    storage = np.zeros((1, int(ends[-1]) + room) if packed else (len(agents), max(lengths)))
    begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    flat = storage.reshape(-1)
    counts: list[Integers] = []
    for begin, size, agent, form, capacity, points in zip(
        begins.tolist(), lengths, agents, forms, capacities, taken, strict=True
    ):
        form.move(agent.state, flat[begin : begin + size], capacity)
        counts.append(form.counts(agent.state, capacity, points))
    turn = np.zeros(2, dtype=np.int64)
    return States(storage, joined(counts, np.int64), begins, np.array(lengths, dtype=np.int64), turn)


def find_states(states: States, laid: Integers, agents: Sequence[Node], forms: Sequence[CompiledLearner]) -> None:
    """Update the agents' states after rounds have moved them; ``laid`` (V,) are their previous places."""
    storage = states.storage.reshape(-1)
    for i in np.flatnonzero(states.begins != laid).tolist():
        form, begin = cast("RepackedLearner", forms[i]), states.begins[i]  # checking its type would take longest
        capacity = int(states.counts[i, compiled.ROOM] + states.counts[i, compiled.ORDER])
        form.lay_out(agents[i].state, storage[begin : begin + states.lengths[i]], capacity)
    laid[:] = states.begins


def look_at(
    states: States,
    agents: Sequence[Node],
    forms: Sequence[CompiledLearner],
    repacked: Booleans,
    taken: Integers,
    reserves: Integers,
) -> None:
    """Maintain the states that request it, as steps in plain Python do at their end.

    States that are not repacked have room for ``reserves`` (V,) points in addition to a step's.
    """
    for i in np.flatnonzero(states.counts[:, compiled.WANTS] == compiled.LOOK).tolist():
        form, agent, counts = forms[i], agents[i], states.counts[i]
        state = agent.state
        form.sync(state, counts, 0)
        form.maintain(state)  # calls the kernel, which may raise: the node is found as "agent" on the stack
        capacity = int(counts[compiled.ORDER] + counts[compiled.ROOM]) if repacked[i] else int(taken[i] + reserves[i])
        known = form.counts(state, capacity, int(taken[i]))
        counts[: len(known)] = known


def sizes_ahead(
    agents: Sequence[Node],
    forms: Sequence[CompiledLearner],
    stepped: int | Integers,
    steps: int,
    samples: Integers | None = None,
    by_rounds: bool = False,
) -> Array:
    """Return the sizes of ``steps`` steps, (V, steps, k). ``stepped``, (V,) or one number, counts the last steps that
    the states do not include yet; ``samples`` (T, V), if given, are all points of the steps. The memory is ordered by
    nodes, or with ``by_rounds`` by rounds."""
    known: dict[tuple[int, int], Array] = {}  # most nodes have the same learner
    each: list[Array] = []
    before = [stepped] * len(agents) if isinstance(stepped, int) else stepped.tolist()
    for agent, form, uncounted in zip(agents, forms, before, strict=True):
        first = form.steps(agent.state) + uncounted
        if (id(form), first) not in known:
            known[id(form), first] = form.step_sizes(first, steps)
        each.append(known[id(form), first])
    most = max(own.shape[1] for own in each)
    sizes = np.zeros((steps, len(agents), most)).swapaxes(0, 1) if by_rounds else np.zeros((len(agents), steps, most))
    for i, (row, own, agent, form) in enumerate(zip(sizes, each, agents, forms, strict=True)):
        row[:, : own.shape[1]] = own
        if isinstance(form, PlainLearner):
            form.follow(agent.state, row, samples is None or bool(samples[:, i].any()))
    return sizes


def with_spare(orders: Sequence[int]) -> Integers:
    """Return the capacities that rounds give to states of these orders."""
    return np.asarray(np.add(orders, np.maximum(SPARE, np.floor_divide(orders, 4))), dtype=np.int64)


def zeros(names: str, sizes: Mapping[str, int], kind: Any = np.float64, value: int = 0) -> dict[str, Any]:
    """Return arrays by name, filled with ``value``; each name is followed by its shape: ``points SVn`` has
    ``sizes["S"]`` rows, and so on."""
    make: Any = partial(np.full, fill_value=value) if value else np.zeros  # pages of zeros are allocated when written
    each = (entry.split() for entry in names.split(", "))
    return {name: make([sizes[letter] for letter in shape], dtype=kind) for name, shape in each}


def nothing_received(agents: Sequence[Agent], links: Links, places: int) -> Received:
    """Return room for the messages of one round of the agents and the outside nodes, ``places`` in all."""
    size, outputs, answers = sent_points(agents), agents[0].outputs, len(links.sent)
    certain = bool(certainty_of(agents[0].rule))
    sizes = {"P": places, "A": answers, "n": size, "C": outputs, "c": places * certain, "a": answers * certain}
    found = zeros("values PnC, answers AnC, row_sums Pn, answer_row_sums An, variances cn, answer_variances an", sizes)
    return Received(**found, duals=links.sent)


def workspace(
    agents: Sequence[Agent], links: Links, points: int, rows: int, columns: int, sizes: int, ideal: bool
) -> Workspace:
    """Return the working memory of rounds for steps on up to ``points`` points with ``sizes`` step sizes, and ``rows``
    rows of up to ``columns`` columns."""
    first, widest = agents[0], int(np.diff(links.start).max(initial=0))
    taught = points if certainty_of(first.rule) else 0
    known = {"n": sent_points(agents), "p": first.width, "C": first.outputs, "N": points, "R": columns, "b": rows}
    known |= {"d": widest, "k": sizes, "t": taught, "o": 2 * first.outputs + 1}
    known |= {"l": 0 if ideal else widest, "v": 0 if ideal else taught}
    lossy = LossyWork(
        **zeros("answer_at l, earlier_at l, predicted_at l, values_at l", known, np.int64, ABSENT),
        **zeros("earlier_samples l, earlier_sent l, values_sent l", known, np.int64),
        **zeros("answer_share l, values_share l, duals l, answers lnC, pull lnC, bounds ln", known),
        **zeros("pair_row_sums n, variances v, answer_variances ln", known),
    )
    return Workspace(
        **zeros("points Np, rows bR, values NC, gradients NC, row_sums N, rates N, stiffness N, pull dnC", known),
        **zeros("bounds dn, pair_row_sums dn, pulling nC, constraint_values d, differences d, excess_loss d", known),
        **zeros("losses n, sizes k, taught to", known),
        lossy=lossy,
    )


def sent_points(agents: Sequence[Agent]) -> int:
    """Return the largest number of points that an agent sends in a round, samples and replayed points."""
    sizes = {agent.learner.batch_size for agent in agents}.union(*(agent.batch_sizes for agent in agents))
    return max(sizes) + replay_of(agents[0].rule).most


def buffers_of(agents: Sequence[Agent]) -> Buffers:
    """Move the agents' replay buffers into arrays, of which the buffers become views."""
    first = next((agent.buffer for agent in agents if agent.buffer is not None), None)
    if first is None:
        return NO_BUFFERS
    each = [agent.buffer or first for agent in agents]  # isolated nodes have none, and their rows are not read
    points, ranks = np.stack([buffer.points for buffer in each]), np.stack([buffer.ranks for buffer in each])
    counts, keys = np.stack([buffer.counts for buffer in each]), np.array([buffer.own_key for buffer in each])
    buffers = Buffers(points, ranks, counts, first.key, keys, float(first.replay.points))
    for agent, *own in zip(agents, *buffers[:3], strict=True):
        if agent.buffer is not None:
            agent.buffer.points, agent.buffer.ranks, agent.buffer.counts = own
    return buffers


def outside_of(agents: Sequence[Node]) -> list[int]:
    """Return the labels of the nodes of other blocks that send to these agents, sorted."""
    return sorted({other for agent in agents for other in agent.neighbors} - {agent.node for agent in agents})


def places_of_nodes(agents: Sequence[Node], outside: Sequence[int]) -> dict[int, int]:
    """Return the indices of these nodes by label, followed by the nodes outside."""
    return {label: place for place, label in enumerate([*(agent.node for agent in agents), *outside])}


def sums_of(agents: Sequence[Agent], edges: int) -> Sums:
    """Return the current sums of the agents."""
    tallies = [agent.tally for agent in agents]
    return Sums(
        np.array([tally.loss for tally in tallies], dtype=np.float64),
        np.array([tally.compression_error for tally in tallies], dtype=np.float64),
        np.array([agent.largest_target for agent in agents], dtype=np.float64),
        np.concatenate([np.zeros(0), *[tally.constraint_values for tally in tallies]])[:edges],
        np.concatenate([np.zeros(0), *[tally.violation for tally in tallies]])[:edges],
        np.array([agent.samples for agent in agents], dtype=np.float64),
        np.array([agent.distinct for agent in agents], dtype=np.float64),
    )


# The arrays of nodes on unreliable links, filled from the nodes.


class OnLinks(Protocol):
    """A node with links and a clock, for any content of messages."""

    node: int
    neighbors: tuple[int, ...]
    tally: Tally
    now: int
    round: int
    conditions: Any
    inbox: Any


class MessageLayout(NamedTuple):
    """The contents of a message.

    Attributes
    ----------
    size, width, outputs : int
        n, p and C: up to n points of p numbers, with C values each; a vector is one point without values.
    symmetric : bool
        Whether it contains the sender's own values.
    limited : bool
        Whether values have row sums.
    sends_duals : bool
        Whether it contains the dual variable of the edge.
    certain : bool
        Whether variances follow the row sums.
    """

    size: int
    width: int
    outputs: int
    symmetric: bool = False
    limited: bool = False
    sends_duals: bool = False
    certain: bool = False


def terms_of(agents: Sequence[OnLinks], links: Links, labels: Sequence[int]) -> Terms:
    """Return the settings of links and clock as numbers, without replay, for all nodes by ``labels``."""
    conditions: Conditions = agents[0].conditions
    table, key = conditions.links, conditions.key
    nodes = np.array(labels, dtype=np.int64)
    senders = nodes[links.other]
    receivers = np.repeat(nodes[: len(agents)], np.diff(links.start))
    faults = SpokenFaults(conditions.faults, labels)
    return Terms(
        max_age=table.max_age,
        reach=table.reach,
        memory=table.memory(conditions.transit),
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
    """Return the random losses, delays and sleep of the nodes and their edges; ``labels`` includes all nodes."""
    senders = np.array([labels[j] for j in links.other], dtype=np.int64)
    receivers = np.repeat([agent.node for agent in agents], np.diff(links.start))
    lengths = [agent.inbox.facts.distances for agent in agents]
    distances = None if any(entry is None for entry in lengths) else np.concatenate([np.zeros(0), *lengths])
    attributes = tuple(entry for agent in agents for entry in agent.inbox.facts.attributes)
    facts = EdgeFacts(senders, np.asarray(receivers, dtype=np.int64), distances, attributes)
    return Realization(agents[0].conditions, np.array(labels[: len(agents)], dtype=np.int64), facts)


def mail_of(agents: Sequence[OnLinks], links: Links, places: Mapping[int, int], layout: MessageLayout) -> Mail:
    """Return the messages of the agents' inboxes in slots."""
    first, now = agents[0], agents[0].now
    slots, nodes, edges, sent = first.inbox.reach + 1, len(places), len(links.other), len(links.sent)
    mail = empty_mail(slots, nodes, edges, sent, layout)
    own_parts = mail.own, mail.own_row_sums, mail.own_variances, mail.evaluated
    answer_parts = mail.answers, mail.answer_row_sums, mail.answer_variances, mail.answered_points
    for i, kept in enumerate(agent.inbox.arrays for agent in agents):
        if not kept:
            continue
        there = edges_at(links, i)
        mail.last[there], others = kept["inbox.last"], links.other[there][kept["inbox.known"]].tolist()
        for j, points in zip(others, parted("inbox.latest", kept), strict=True):
            mail.latest_sent[j], mail.latest[j, : len(points)] = len(points), points
        own, answers = iter(parted("inbox.own", kept)), iter(parted("inbox.answers", kept))
        known = (kept[f"inbox.{name}"].tolist() for name in ("heads", "there", "duals"))
        for head, (mine, theirs), dual, points in zip(*known, parted("inbox.points", kept), strict=True):
            e, at, due, carried, previous, answered = head
            e, then = there.start + e, at % slots
            sender, prompt, count = links.other[e], carried == at, len(points)
            (mail.points if prompt else mail.before)[then, sender, :count] = points
            (mail.sent if prompt else mail.evaluated)[then, sender] = count
            mail.carried[then, e], mail.previous[then, sender] = carried, previous
            mail.answered[then, e], mail.due[then, e] = answered, due
            if due >= now:
                mail.arriving[due % slots, e] += at >= PRIMING
            mail.duals[then, links.reverse[e]] = dual
            if mine:
                _put(next(own), then, sender, *own_parts)
            if theirs:
                _put(next(answers), then, e, *answer_parts)
    return mail


def sizes_of(layout: MessageLayout) -> dict[str, int]:
    """Return the sizes of a message: the maximum number of points, and the lengths of points and values."""
    return {"n": layout.size, "p": layout.width, "C": layout.outputs}


def empty_mail(slots: int, nodes: int, edges: int, sent: int, layout: MessageLayout) -> Mail:
    """Return empty slots for ``edges`` receiving edges and ``sent`` answering edges, including edges to nodes of other
    blocks."""
    known = sizes_of(layout) | {"S": slots, "V": nodes, "E": edges, "A": sent}
    known |= {"c": nodes * layout.certain, "a": sent * layout.certain, "s": nodes * layout.symmetric}
    return Mail(
        **zeros("points SVnp, own SVnC, own_row_sums SVn, own_variances Scn, before Ssnp, latest snp", known),
        **zeros("answers SAnC, answer_row_sums SAn, answer_variances San, duals SA", known),
        **zeros("samples SV, evaluated SV, latest_sent V, answered_points SA", known, np.int64),
        **zeros("deliveries SE, arriving SE", known, np.int64),
        **zeros("carried SE, last E, due SE", known, np.int64, ABSENT),
        **zeros("previous SV, answered SA", known, np.int64, SILENT),
        **zeros("sent SV", known, np.int64, layout.size),
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
    known = sizes_of(layout) | {"V": nodes, "E": edges, "M": memory, "b": samples, "q": targets, "R": columns, "2": 2}
    known |= {"N": (nodes + edges) * layout.size, "c": nodes * layout.certain, "e": edges * layout.certain}
    return Kept(
        **zeros("points VMnp, targets VMbq, predicted VMnC, own_points Vnp, own_targets Vbq, values VnC", known),
        **zeros("rows NR, row_sums Vn, variances cn, products V2, received_points Enp, received_values EnC", known),
        **zeros("received_row_sums En, received_variances en, last_sent_points Enp, last_sent_values EnC", known),
        **zeros("samples VM, sent VM, learning V, own_samples V, own_sent V, following V", known, np.int64),
        **zeros("received_sent E", known, np.int64),
        **zeros("drawn_at VM, begun V, received_at E, used E2, last_sent E", known, np.int64, ABSENT),
        **zeros("asks E, asked E, quiet E", known, np.bool_),
    )


def rows_by(arrays: Mapping[str, AnyArray], name: str, *parts: str) -> Iterator[tuple[Any, ...]]:
    """Yield numbers and, for each of them, the matrices of some parts, in the format of snapshots."""
    if name in arrays:
        yield from zip(arrays[name].tolist(), *(parted(name + part, arrays) for part in parts), strict=True)


def kept_of(agents: Sequence[LossyAgent], links: Links, columns: int) -> Kept:
    """Copy the samples, values and last messages of the agents into arrays."""
    first = agents[0]
    samples, memory = max(agent.learner.batch_size for agent in agents), first.inbox.memory + 1
    layout = MessageLayout(sent_points(agents), first.width, first.outputs, certain=certainty_of(first.rule) > 0.0)
    kept = empty_kept(len(agents), len(links.other), memory, layout, samples, first.targets.shape[1], columns)
    kept.learning[:], kept.following[:] = np.array([agent.sent_at for agent in agents], dtype=np.int64).T
    kept.asks[:] = [entry for agent in agents for entry in agent.inbox.asks]
    kept.asked[:] = [entry for agent in agents for entry in agent.inbox.asked]
    for i, agent in enumerate(agents):
        kept.own_sent[i], kept.own_samples[i] = len(agent.points), len(agent.targets)
        kept.own_points[i, : len(agent.points)] = agent.points
        kept.own_targets[i, : len(agent.targets)] = agent.targets
        for at, points, targets in rows_by(agent.memory, "lossy.drawn", "_points", "_targets"):
            place = i, at % memory
            kept.drawn_at[place], kept.sent[place], kept.samples[place] = at, len(points), len(targets)
            kept.points[place][: len(points)], kept.targets[place][: len(targets)] = points, targets
        for at, values in rows_by(agent.memory, "lossy.predicted", "_values"):
            kept.predicted[i, at % memory, : len(values)] = values
        for d, points in enumerate(agent.received_points):
            e, count = int(links.start[i]) + d, len(points)
            kept.received_at[e], kept.used[e], kept.quiet[e] = agent.received_at[d], agent.used[d], agent.quiet[d]
            kept.received_sent[e], kept.received_points[e, :count] = count, points
        for d, points, values in rows_by(agent.memory, "lossy.last_sent", "_points", "_values"):
            e, count = int(links.start[i]) + d, len(points)
            kept.last_sent[e] = count
            kept.last_sent_points[e, :count], kept.last_sent_values[e, :count] = points, values
    return kept


def counts_of(agents: Sequence[Node] | Sequence[OnLinks], links: Links) -> Counts:
    """Return the current counts of the agents."""
    known = {"V": len(agents), "E": len(links.other), "4": 4}
    names = "traffic E4, constraint_rounds E, learned V, completed V, cursor V, scalars V"
    counts = Counts(**zeros(names, known, np.int64), bytes=np.zeros(len(agents)))
    counts.completed[:] = [agent.round for agent in agents]
    for i, tally in enumerate(agent.tally for agent in agents):
        own = edges_at(links, i)
        counts.constraint_rounds[own] = tally.constraint_rounds
        if tally.traffic is not None:
            counts.traffic[own] = tally.traffic
    return counts


def _put(
    message: Array, slot: int, place: int, values: Array, row_sums: Array, variances: Array, counts: Integers
) -> None:
    """Copy a message's values (n, C), their number, and, if they are sent, row sums (n,) and variances (n,)."""
    outputs, count = values.shape[3], len(message)
    counts[slot, place], values[slot, place, :count] = count, message[:, :outputs]
    for part, column in zip((row_sums, variances), message.T[outputs:], strict=False):
        part[slot, place, :count] = column


def sealed(array: Array) -> Array:
    """Return a read-only copy."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def widened(rows: Array, columns: int) -> Array:
    """Return rows padded with zeros to ``columns`` columns; longer rows are unchanged."""
    wider = np.zeros((len(rows), max(columns, rows.shape[1])))
    wider[:, : rows.shape[1]] = rows
    return wider
