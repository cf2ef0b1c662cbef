"""The arrays of a population, filled from its agents."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import signatures as compiled
from kernelswarm.agents.arithmetic.signatures import CompiledLearner, CompiledLoss
from kernelswarm.agents.compiled.rounds import Coupling, Kinds, Links, Messages, States, Sums
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.node import Node, Outgoing
from kernelswarm.protocols.compiled import ADVANCE, COUPLE, COUPLE_BACK, GAPS, CompiledRule, handed_over
from kernelswarm.protocols.contract import Exchange, Rule
from kernelswarm.protocols.first_class import NONE, Integers, address

Array = npt.NDArray[np.float64]


def rule_form(rule: Exchange) -> CompiledRule | None:
    """Return what a protocol hands over; None where nothing is asked of it, since its nodes hear nobody."""
    form: CompiledRule | None = handed_over(rule, "protocol") if rule.communicates else None
    if form is not None and rule.form == "symmetric" and form.couple_back is None:
        raise ValueError(f"{type(rule).__name__}.compiled needs couple_back: the symmetric form takes it")
    return form


def coupling_of(rule: Rule, form: CompiledRule | None, links: Links) -> Coupling:
    """Return the functions and the numbers of a protocol, whose links are these."""
    symmetric, implicit = rule.form == "symmetric", rule.step == "implicit"
    nothing = np.zeros(0, dtype=np.int64)
    if form is None:
        return Coupling(
            functions=np.full(4, NONE),
            tools=nothing,
            numbers=np.zeros(0),
            rows=0,
            duals=-1,
            tolerances=-1,
            symmetric=symmetric,
            implicit=implicit,
            sends_duals=False,
            compares_losses=False,
        )
    functions = [
        NONE if function is None else address(function, signature)
        for function, signature in (
            (form.couple, COUPLE),
            (form.couple_back, COUPLE_BACK),
            (form.advance, ADVANCE),
            (form.gaps, GAPS),
        )
    ]
    return Coupling(
        functions=np.array(functions, dtype=np.int64),
        tools=np.array(form.tools, dtype=np.int64),
        numbers=np.asarray(form.numbers, dtype=np.float64),
        rows=len(links.state) // max(len(links.other), 1),
        duals=-1 if form.duals is None else form.duals,
        tolerances=-1 if form.tolerances is None else form.tolerances,
        symmetric=symmetric,
        implicit=implicit,
        sends_duals=bool(rule.sends_duals),
        compares_losses=bool(rule.compares_losses),
    )


def learner_forms(learners: Sequence[Learner]) -> list[CompiledLearner]:
    """Return what each learner hands over, the same object for equal learners."""
    found: dict[Learner, CompiledLearner] = {}
    for learner in learners:
        if learner not in found:
            found[learner] = handed_over(learner, "learner")
    return [found[learner] for learner in learners]


def kinds_of(agents: Sequence[Node], forms: Sequence[CompiledLearner]) -> Kinds:
    """Return the functions and the numbers of the different learners."""
    places: dict[int, int] = {}
    first: list[int] = []
    for i, form in enumerate(forms):
        if id(form) not in places:
            places[id(form)] = len(first)
            first.append(i)
    functions, tools, numbers, loss_numbers = [], [], [], []
    for i in first:
        form, loss = forms[i], agents[i].learner.loss
        functions.append(addresses_of(form, handed_over(loss, "loss")))
        tools.append(np.array(form.tools, dtype=np.int64))
        numbers.append(form.numbers(agents[i].state))
        loss_numbers.append(handed_over(loss, "loss").numbers)
    losses = [agents[i].learner.loss for i in first]
    return Kinds(
        of=np.array([places[id(form)] for form in forms], dtype=np.int64),
        functions=np.array(functions, dtype=np.int64),
        tools=joined(tools, np.int64),
        numbers=joined(numbers, np.float64),
        number_counts=np.array([len(entry) for entry in numbers], dtype=np.int64),
        loss_numbers=joined(loss_numbers, np.float64),
        loss_number_counts=np.array([len(entry) for entry in loss_numbers], dtype=np.int64),
        quadratic_curvature=np.array([loss.curvature if loss.quadratic else 0.0 for loss in losses], dtype=np.float64),
        curvature=np.array([loss.curvature for loss in losses], dtype=np.float64),
        gain=np.array([agents[i].learner.gain or 0.0 for i in first], dtype=np.float64),
        linear=np.array([agents[i].learner.linear for i in first], dtype=np.int64),
    )


def addresses_of(form: CompiledLearner, loss: CompiledLoss) -> list[int]:
    """Return the addresses of a learner's functions and its loss's, in the order of the round."""
    gradient = NONE if form.gradient is None else address(form.gradient, compiled.GRADIENT)
    return [
        address(form.evaluate, compiled.EVALUATE),
        address(form.inner, compiled.INNER),
        gradient,
        address(form.step, compiled.STEP),
        address(loss.values, compiled.LOSS_VALUES),
        address(loss.derivatives, compiled.LOSS_DERIVATIVES),
    ]


def joined(rows: Sequence[Any], kind: Any) -> Any:
    """Return vectors as rows of one array, with zeros behind the shorter ones."""
    matrix = np.zeros((len(rows), max(map(len, rows))), dtype=kind)
    for row, entry in zip(matrix, rows, strict=True):
        row[: len(entry)] = entry
    return matrix


def links_of(agents: Sequence[Node], places: Mapping[int, int], form: CompiledRule | None) -> Links:
    """Return the edges, with what the agents know of them; nodes of other blocks have places after the agents'."""
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
            state.append(np.asarray(form.pack(agent.links), dtype=np.float64).reshape(-1))
    return Links(
        start=np.asarray(start, dtype=np.int64),
        other=np.array(other, dtype=np.int64),
        reverse=np.array(reverse, dtype=np.int64),
        state=np.concatenate(state),
        sent=np.zeros(leaving),
    )


def states_of(
    agents: Sequence[Node],
    forms: Sequence[CompiledLearner],
    capacities: Sequence[int],
    taken: Sequence[int],
    packed: bool = False,
) -> States:
    """Move the agents' states into arrays, each with room for so many dictionary points.

    They lie in rows of one length, or, packed, one behind the other.
    """
    lengths = [
        form.length(agent.state, capacity) for agent, form, capacity in zip(agents, forms, capacities, strict=True)
    ]
    begins = np.zeros(len(agents) + 1, dtype=np.int64)
    begins[1:] = np.cumsum(lengths if packed else [max(lengths)] * len(agents))
    storage = np.zeros((1, begins[-1]) if packed else (len(agents), max(lengths)))
    flat = storage.reshape(-1)
    counts: list[Integers] = []
    for begin, size, agent, form, capacity, points in zip(
        begins.tolist(), lengths, agents, forms, capacities, taken, strict=False
    ):
        form.move(agent.state, flat[begin : begin + size], capacity)
        counts.append(form.counts(agent.state, capacity, points))
    return States(storage, joined(counts, np.int64), begins)


def no_messages(agents: Sequence[Agent], links: Links, places: int) -> Messages:
    """Return room for what is in flight between agents and the outside nodes, which are ``places`` together, but for
    rows."""
    size, outputs, answers = agents[0].learner.batch_size, agents[0].outputs, len(links.sent)
    return Messages(
        values=np.zeros((places, size, outputs)),
        answers=np.zeros((answers, size, outputs)),
        rows=np.zeros((1, 0)),
        row_begins=np.zeros(len(agents) + 1, dtype=np.int64),
        loads=np.zeros((places, size)),
        answer_loads=np.zeros((answers, size)),
        products=np.zeros((len(agents), 2)),
    )


def sums_of(agents: Sequence[Agent], edges: int) -> Sums:
    """Start the sums where the agents' stand."""
    tallies = [agent.tally for agent in agents]
    return Sums(
        np.array([tally.loss for tally in tallies], dtype=np.float64),
        np.array([tally.compression_error for tally in tallies], dtype=np.float64),
        np.array([agent.largest_target for agent in agents], dtype=np.float64),
        np.concatenate([np.zeros(0), *[tally.gaps for tally in tallies]])[:edges],
        np.concatenate([np.zeros(0), *[tally.violation for tally in tallies]])[:edges],
        np.array([agent.samples for agent in agents], dtype=np.float64),
        np.array([agent.distinct for agent in agents], dtype=np.float64),
    )


def hear(messages: Messages, links: Links, e: int, message: Outgoing, slot: int) -> bool:
    """Take in what the outside neighbour at the end of edge e sent; False where its batch is not whole."""
    _, size, outputs = messages.values.shape
    answer = message.answers[slot] if message.answers else None
    if answer is None or len(answer) != size or len(message.points) != size:
        return False
    messages.answers[e] = answer[:, :outputs]
    if message.own is not None:
        messages.values[links.other[e]] = message.own[:, :outputs]
        if message.own.shape[1] > outputs:
            messages.loads[links.other[e]] = message.own[:, outputs]
            messages.answer_loads[e] = answer[:, outputs]
    if message.duals is not None:
        links.sent[links.reverse[e]] = message.duals[slot]
    return True
