"""The arrays of compiled rounds, filled from the agents."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelswarm.agents.arithmetic import abi as compiled
from kernelswarm.agents.arithmetic.abi import (
    CompiledFeatureLearner,
    CompiledLearner,
    CompiledLoss,
    RepackedLearner,
    TaughtLearner,
)
from kernelswarm.agents.arithmetic.scratch import SPARE, States
from kernelswarm.agents.learners.contract import TeachableLearner
from kernelswarm.agents.nodes.agent import Agent
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    Buffers,
    Coupling,
    Kinds,
    Links,
    LossyWork,
    Received,
    Sums,
    Workspace,
)
from kernelswarm.agents.nodes.node import Node
from kernelswarm.agents.parts.plain_parts import compares_alike, loss_form
from kernelswarm.arrays import Array, Booleans, Integers
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
from kernelswarm.protocols.replay import certainty_of, replay_of

NO_KEYS = np.zeros((0, 2), dtype=np.int64)
NO_BUFFERS = Buffers(np.zeros((0, 0, 0)), NO_KEYS, NO_KEYS, (0, 0), NO_KEYS, 0.0)


def coupling_of(rule: Rule, form: CompiledRule | None, links: Links) -> Coupling:
    """Return the functions and the numbers of a protocol for these links."""
    none = Coupling(
        functions=np.full(5, NONE),
        tools=np.zeros(0, dtype=np.int64),
        numbers=np.zeros(0),
        rows=0,
        duals=-1,
        tolerances=-1,
        symmetric=rule.form == "symmetric",
        implicit=rule.step == "implicit",
        sends_duals=False,
        compares_losses=False,
        certainty=0.0,
    )
    if form is None:
        return none
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
    return none._replace(
        functions=array_of(functions),
        tools=array_of(form.tools),
        numbers=np.asarray(form.numbers, dtype=np.float64),
        rows=len(links.state) // max(len(links.other), 1),
        duals=-1 if form.duals is None else form.duals,
        tolerances=-1 if form.tolerances is None else form.tolerances,
        sends_duals=bool(rule.sends_duals),
        compares_losses=bool(rule.compares_losses),
        certainty=certainty_of(rule),
    )


def kinds_of(agents: Sequence[Node], forms: Sequence[CompiledLearner], certain: bool = False) -> Kinds:
    """Return the functions and numbers of the different learners; ``certain``: whether variances are sent."""
    places: dict[int, int] = {}
    first: list[int] = []
    for i, form in enumerate(forms):
        if id(form) not in places:
            places[id(form)] = len(first)
            first.append(i)
    functions, tools, numbers, loss_numbers = [], [], [], []
    for i in first:
        form, loss = forms[i], loss_form(agents[i].learner.loss)
        functions.append(addresses_of(form, loss, certain))
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


def addresses_of(form: CompiledLearner, loss: CompiledLoss, certain: bool = False) -> list[int]:
    """Return the addresses of a learner's functions and its loss's, in the order of the round."""
    repack = address(form.repack, compiled.REPACK) if fulfils(form, RepackedLearner) else NONE
    place = address(form.place, compiled.PLACE) if fulfils(form, CompiledFeatureLearner) else NONE
    gradient = NONE if form.gradient is None else address(form.gradient, compiled.GRADIENT)
    taught = address(cast(TaughtLearner, form).taught_step, compiled.TAUGHT_STEP) if certain else NONE
    return [
        address(form.evaluate, compiled.EVALUATE),
        address(form.inner, compiled.INNER),
        gradient,
        address(form.step, compiled.STEP),
        address(loss.values, compiled.LOSS_VALUES),
        address(loss.derivatives, compiled.LOSS_DERIVATIVES),
        repack,
        place,
        taught,
    ]


def places_of(rows: Sequence[Sequence[int]]) -> Integers:
    """Return addresses as rows of one array, with zeros behind the shorter ones; it keeps the functions there alive."""
    found: Integers = joined(rows, np.int64)
    keep_for(found, [place for row in rows for place in row])
    return found


def joined(rows: Sequence[Any], kind: Any) -> Any:
    """Return vectors as rows of one array, with zeros behind the shorter ones."""
    matrix = np.zeros((len(rows), max(map(len, rows))), dtype=kind)
    for row, entry in zip(matrix, rows, strict=True):
        row[: len(entry)] = entry
    return matrix


def links_of(agents: Sequence[Node], places: Mapping[int, int], form: CompiledRule | None) -> Links:
    """Return the directed edges with their link states; nodes of other blocks have places after the agents'."""
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
    """Move the agents' states into arrays, each with room for so many dictionary points.

    They lie in rows of one length or, ``packed``, one behind the other, with ``spare`` numbers behind the last and, if
    that is above 0, room for a quarter more.
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
    """Point the agents' states to where rounds have moved them; ``laid`` (V,) are their places before."""
    storage = states.storage.reshape(-1)
    for i in np.flatnonzero(states.begins != laid).tolist():
        form, begin = cast("RepackedLearner", forms[i]), states.begins[i]  # a check of its type would take longest
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
    """Maintain the states that ask for it, as steps in plain Python do at their end.

    States that are not repacked have room for ``reserves`` (V,) points beside those of a step.
    """
    for i in np.flatnonzero(states.counts[:, compiled.WANTS] == compiled.LOOK).tolist():
        form, agent, counts = forms[i], agents[i], states.counts[i]
        state = agent.state
        form.sync(state, counts, 0)
        form.maintain(state)  # asks the kernel, which may raise: who names the node looks for "agent" on the stack
        capacity = int(counts[compiled.ORDER] + counts[compiled.ROOM]) if repacked[i] else int(taken[i] + reserves[i])
        known = form.counts(state, capacity, int(taken[i]))
        counts[: len(known)] = known


def with_spare(orders: Sequence[int]) -> Integers:
    """Return the capacities that states of these orders are given, as rounds do."""
    return np.asarray(np.add(orders, np.maximum(SPARE, np.floor_divide(orders, 4))), dtype=np.int64)


def nothing_received(agents: Sequence[Agent], links: Links, places: int) -> Received:
    """Return room for the messages of a round, of the agents and the outside nodes, ``places`` in all."""
    size, outputs, answers = sent_points(agents), agents[0].outputs, len(links.sent)
    certain = bool(certainty_of(agents[0].rule))
    return Received(
        values=np.zeros((places, size, outputs)),
        answers=np.zeros((answers, size, outputs)),
        row_sums=np.zeros((places, size)),
        answer_row_sums=np.zeros((answers, size)),
        duals=links.sent,
        variances=np.zeros((places * certain, size)),
        answer_variances=np.zeros((answers * certain, size)),
    )


def workspace(
    agents: Sequence[Agent], links: Links, points: int, rows: int, columns: int, sizes: int, ideal: bool
) -> Workspace:
    """Return the working memory of rounds with steps on up to ``points`` points and ``sizes`` step sizes each; it has
    ``rows`` rows of up to ``columns`` columns."""
    first, widest, size = agents[0], int(np.diff(links.start).max(initial=0)), sent_points(agents)
    inputs, outputs, late = first.width, first.outputs, 0 if ideal else widest
    taught = points if certainty_of(first.rule) else 0
    return Workspace(
        points=np.zeros((points, inputs)),
        rows=np.zeros((rows, columns)),
        values=np.zeros((points, outputs)),
        gradients=np.zeros((points, outputs)),
        row_sums=np.zeros(points),
        rates=np.zeros(points),
        stiffness=np.zeros(points),
        pull=np.zeros((widest, size, outputs)),
        bounds=np.zeros((widest, size)),
        pair_row_sums=np.zeros((widest, size)),
        pulling=np.zeros((size, outputs)),
        constraint_values=np.zeros(widest),
        differences=np.zeros(widest),
        excess_loss=np.zeros(widest),
        losses=np.zeros(size),
        sizes=np.zeros(sizes),
        lossy=LossyWork(
            answer_at=np.full(late, ABSENT),
            answer_share=np.zeros(late),
            earlier_at=np.full(late, ABSENT),
            earlier_samples=np.zeros(late, dtype=np.int64),
            earlier_sent=np.zeros(late, dtype=np.int64),
            predicted_at=np.full(late, ABSENT),
            values_at=np.full(late, ABSENT),
            values_sent=np.zeros(late, dtype=np.int64),
            values_share=np.zeros(late),
            duals=np.zeros(late),
            answers=np.zeros((late, size, outputs)),
            pull=np.zeros((late, size, outputs)),
            bounds=np.zeros((late, size)),
            pair_row_sums=np.zeros(size),
            variances=np.zeros(0 if ideal else taught),
            answer_variances=np.zeros((late, size)),
        ),
        taught=np.zeros((taught, 2 * outputs + 1)),
    )


def sent_points(agents: Sequence[Agent]) -> int:
    """Return the largest number of points that an agent sends in a round, samples and replayed ones."""
    sizes = {agent.learner.batch_size for agent in agents}.union(*(agent.batch_sizes for agent in agents))
    return max(sizes) + replay_of(agents[0].rule).most


def buffers_of(agents: Sequence[Agent]) -> Buffers:
    """Move the agents' replay buffers into arrays; the buffers are views of these from then on."""
    first = next((agent.buffer for agent in agents if agent.buffer is not None), None)
    if first is None:
        return NO_BUFFERS
    each = [agent.buffer or first for agent in agents]  # a node alone has none: its row is not read
    points, ranks = np.stack([buffer.points for buffer in each]), np.stack([buffer.ranks for buffer in each])
    counts, keys = np.stack([buffer.counts for buffer in each]), np.array([buffer.own_key for buffer in each])
    buffers = Buffers(points, ranks, counts, first.key, keys, float(first.replay.points))
    for agent, *own in zip(agents, *buffers[:3], strict=True):
        if agent.buffer is not None:
            agent.buffer.points, agent.buffer.ranks, agent.buffer.counts = own
    return buffers


def outside_of(agents: Sequence[Node]) -> list[int]:
    """Return the labels of the nodes of other blocks that send to these, sorted."""
    return sorted({other for agent in agents for other in agent.neighbors} - {agent.node for agent in agents})


def sums_of(agents: Sequence[Agent], edges: int) -> Sums:
    """Return the sums as they stand in the agents."""
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
