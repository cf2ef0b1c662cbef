"""The memory of a simulation on this machine, estimated before anything large is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, cast

import numpy as np

from kernelswarm.agents.arithmetic.abi import RepackedLearner
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes.arrays import Mail
from kernelswarm.agents.nodes.filling import MessageLayout, empty_kept, empty_mail
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.links.realization import rounds_ahead
from kernelswarm.protocols.parameters.summed_duals import Counted, SummedDuals
from kernelswarm.protocols.replay import certainty_of, replay_of
from kernelswarm.simulations.core import machine
from kernelswarm.simulations.core.errors import InputError, shown
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.synthetic import CHUNK, HELD, SyntheticSource
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.comparing import Comparison
from kernelswarm.simulations.engine.failures import Asked
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.experiment.parts import describe

NUMBER = 8
"""Bytes of a number."""

AGENT = 8_000
"""Approximate bytes of an agent with its neighborhood and its stream, before the first round."""

LISTENER = 2_000
"""Approximate further bytes of an agent that receives over unreliable links or clocks."""

SOURCE = 2_700
"""Approximate bytes of one node's source at another node, without its samples."""

EDGE = 700
"""Approximate bytes of an edge with the messages of both its agents."""

COLUMNS = 12
"""Approximate number of measured columns with one row for each node and evaluation."""

ROWS = 10**6
"""A bound on the number of held-out rows of a node with finite data; the number itself is not known here."""

REMEDIES = {
    "topology": "take fewer nodes, or a sparser network",
    "learner.batch_size": "lower it",
    "learner.name": "take another learner, or fewer nodes",
    "protocol.form": 'take "one_sided", or a network in which no node has so many neighbours',
    "evaluate_every": "raise it",
    "protocol.name": "take another protocol, or fewer nodes",
    "links.max_age": "lower it: older messages are dropped",
}

TOO_LARGE = (
    "array is too big",
    "Maximum allowed dimension",
    "Maximum allowed size",
    "int too large to convert",
    "cannot fit 'int'",
)
"""The texts of numpy's ValueError and Python's OverflowError for arrays that no machine could hold."""


@dataclass(frozen=True)
class Need:
    """One need of memory of a simulation.

    Parameters
    ----------
    key : str
        The key of the experiment that decides its size.
    value : object
        The value of the key; None where several keys together decide.
    what : str
        The use of the memory, in the plural.
    bytes : float
        Its approximate size.
    """

    key: str
    value: object
    what: str
    bytes: float


def needs(experiment: Experiment, adjacency: Adjacency, source: Source, outputs: int) -> list[Need]:
    """Estimate a simulation's memory without dictionaries, whose growth is unknown.

    Parameters
    ----------
    experiment : Experiment
        The simulation.
    adjacency : Adjacency
        Its network.
    source : Source
        Its opened stream.
    outputs : int
        C, the nodes' outputs.
    """
    nodes, edges = adjacency.number_of_nodes(), adjacency.number_of_edges()
    rule, learner, evaluation = experiment.protocol, experiment.learner, experiment.evaluation
    size, columns = learner.batch_size, source.inputs + source.targets
    own = evaluation.local_samples if source.lengths is None else 0  # finite data is already in memory
    each = own * (columns + source.targets)
    samples = nodes * each
    if isinstance(getattr(source.nodes[0], "given", source.nodes[0]), SyntheticSource):
        samples = max(each, min(samples, HELD))  # further samples are drawn when they are used
    pooled = _pooled(evaluation, source)
    held = nodes if experiment.backend.elsewhere else Comparison(adjacency.labels, adjacency.labelled_edges).most
    step, learned, given = _step(experiment, adjacency)
    gram = 3 * learned**2 if getattr(learner, "kernel", None) is not None else 0
    moving = 3 * nodes * size * columns + 2 * edges * size * outputs * rule.communicates
    of_others = nodes**2 * (SOURCE + NUMBER * CHUNK * columns) if flooded_share(rule) else 0
    return [
        Need("protocol.name", "flooding", "the samples of all nodes at each node", of_others),
        Need(
            "topology",
            None,
            f"{nodes:,} agents and {edges:,} edges",
            AGENT * nodes * _copies(experiment) + EDGE * edges,
        ),
        Need(
            "evaluation.local_samples",
            evaluation.local_samples,
            "each node's held-out samples",
            NUMBER * samples,
        ),
        Need(
            "evaluation.global_samples",
            evaluation.global_samples,
            f"{held:,} nodes' values at the pooled samples",
            NUMBER * pooled * (held * outputs + columns),
        ),
        Need(
            step,
            given,
            f"steps on {learned:,} points" if gram else "the samples of a round",
            NUMBER * (gram * (rule.offline is None) + moving),
        ),
    ]


def messages(experiment: Experiment, adjacency: Adjacency, plans: Sequence[AgentPlan], targets: int) -> Need | None:
    """Estimate the memory of messages on unreliable links or clocks: one slot per round of ``max_age``.

    Parameters
    ----------
    experiment : Experiment
        The simulation.
    adjacency : Adjacency
        Its network.
    plans : sequence of AgentPlan
        Its agents.
    targets : int
        q, the numbers of a target.

    Returns
    -------
    Need or None
        None on ideal links: their messages are counted with the edges.
    """
    plan = plans[0]
    conditions, rule, learner = plan.conditions, plan.rule, experiment.learner
    if conditions is None:
        return None
    nodes, edges = adjacency.number_of_nodes(), 2 * adjacency.number_of_edges()
    links, slots = conditions.links, conditions.links.reach + 1
    size = learner.batch_size + replay_of(rule).most
    own = MessageLayout(size, plan.inputs, plan.outputs, certain=certainty_of(rule) > 0.0)
    layouts: list[
        tuple[MessageLayout, bool, bool]
    ] = []  # the layout of messages, whether samples are kept, and whether nodes communicate
    if plan.sends_vectors:
        layouts.append((MessageLayout(1, plan.vector_length(), 0), False, True))
    else:
        members: Any = rule.members if fulfils(rule, StackedRule) else (rule,)
        layouts += [(own._replace(symmetric=one.form == "symmetric"), True, one.communicates) for one in members]
        if len(members) > 1:
            layouts.append((MessageLayout(1, len(members), 0), False, True))
    taken = LISTENER * nodes * len(layouts)
    memory = links.memory(conditions.transit) + 1
    for layout, keeps, talks in layouts:
        received = edges * talks
        taken += _bytes(slots, nodes, received, partial(_mail, layout))
        if keeps:
            taken += _bytes(
                memory, nodes, received, lambda few, n, e: empty_kept(n, e, few, own, learner.batch_size, targets, 0)
            )
        # Losses, delays and sleep are drawn in advance for all nodes.
        taken += rounds_ahead(nodes, received) * (nodes + (NUMBER + 1) * received)
    if isinstance(rule, SummedDuals):
        begun = cast(Counted, plan.begin())
        taken += NUMBER * begun.weights.size * (nodes * rule.rounds + edges) + edges * begun.message.nbytes
    what = f"messages of the last {slots:,} rounds, with the samples that they are about,"
    return Need("links.max_age", links.max_age, what, taken)


def _mail(layout: MessageLayout, rounds: int, nodes: int, edges: int) -> Mail:
    return empty_mail(rounds, nodes, edges, edges, layout)


def _bytes(rounds: int, nodes: int, edges: int, arrays: Callable[[int, int, int], tuple[Any, ...]]) -> int:
    """Return the bytes of ``arrays`` for these rounds, nodes and edges, from calls for one of each."""
    taken = 0
    for count, n, e in ((nodes, 1, 0), (edges, 0, 1)):
        none, one = (sum(int(array.nbytes) for array in arrays(few, n, e)) for few in (0, 1))
        taken += count * (none + rounds * (one - none))
    return taken


def record(experiment: Experiment, adjacency: Adjacency, rounds: int) -> Need:
    """Estimate the memory of measurements if no run folder is written."""
    nodes, edges = adjacency.number_of_nodes(), adjacency.number_of_edges()
    rule = experiment.protocol
    evaluations = 1 if rule.offline is not None else -(-rounds // experiment.evaluate_every)
    cells = COLUMNS * nodes + 6 * edges * rule.communicates
    what = f"the measurements of {evaluations:,} evaluations, which stay in memory where no folder is written,"
    return Need("evaluate_every", experiment.evaluate_every, what, NUMBER * evaluations * cells)


def functions(experiment: Experiment, adjacency: Adjacency, source: Source, outputs: int) -> list[Need]:
    """Estimate the memory of the functions before the first round, and of one function's values at its samples.

    A kernel expansion reserves room for all points of a step, before compression.

    Raises
    ------
    InputError
        There is not enough memory for a single function.
    """
    learner, evaluation = experiment.learner, experiment.evaluation
    nodes = len(source.nodes)
    own = evaluation.local_samples if source.lengths is None else 0
    rows = max(learner.batch_size, _pooled(evaluation, source), own)
    with Asked("learner", learner), Bounded("learner", learner):
        state = learner.init(source.inputs, outputs)
        arrays, function = learner.snapshot(state).values(), learner.function(state)
    numbers = sum(array.size for array in arrays)
    length = max((len(array) for array in arrays if array.ndim), default=0)
    sizes = {key: value for key, value in describe(learner).items() if key != "batch_size"}
    key, value = largest("learner", sizes)
    what = f"the functions of {nodes:,} nodes with {numbers:,} numbers each, and their values at {rows:,} points"
    found = [Need(key, value, what, NUMBER * (2 * nodes * numbers * _copies(experiment) + rows * length))]
    if isinstance(function, Expansion) and experiment.protocol.offline is None:
        rule = experiment.protocol
        step, points, given = _step(experiment, adjacency)
        talking = rule.form == "symmetric" and rule.communicates
        each = (
            np.array([float(points)]) if rule.pooled else float(learner.batch_size) * (1 + talking * adjacency.degrees)
        )
        # nodes share the room for the points of a step, and need little else
        repacked = source.calendars is None and _repacked(experiment)
        room = points**2 if repacked else float((each**2).sum()) * _copies(experiment)
        what = f"{1 if repacked else len(each):,} functions with room for the points of a step, {points:,} at most,"
        found.append(Need(step, given, what, NUMBER * room))
    return found


def _repacked(experiment: Experiment) -> bool:
    """Return whether nodes that communicate over ideal links share the room for the points of a step."""
    if not (experiment.links.ideal and experiment.clock.ideal and experiment.schedule.constant):
        return False
    (form,) = learner_forms([experiment.learner])
    return fulfils(form, RepackedLearner) and not experiment.protocol.pooled


def _step(experiment: Experiment, adjacency: Adjacency) -> tuple[str, int, Any]:
    """Return the key that decides the largest number of points of a step, this number, and the key's value."""
    rule, size = experiment.protocol, experiment.learner.batch_size
    degree = int(adjacency.degrees.max()) if rule.communicates else 0
    learned = size * adjacency.number_of_nodes() if rule.averaged else size
    learned *= 1 + degree if rule.form == "symmetric" else 1
    return ("protocol.form", learned, rule.form) if size == 1 < learned else ("learner.batch_size", learned, size)


def _copies(experiment: Experiment) -> int:
    """Return the number of copies of the learner in each node."""
    rule = experiment.protocol
    return len(rule.members) if fulfils(rule, StackedRule) else 1


def require(experiment: Experiment, found: list[Need]) -> None:
    """Raise an error if a simulation needs more than the free memory; agents on other machines are not counted.

    Raises
    ------
    InputError
        The memory is too small; the message names the key with the largest need, that need and the free memory.
    """
    if experiment.backend.elsewhere:
        found = [need for need in found if need.key.startswith("eval")]
    room = machine.free()
    total = sum(need.bytes for need in found)
    if total <= max(0, room - machine.RESERVE_BYTES):
        return
    most = max(found, key=lambda need: need.bytes)
    taken, whole = in_words(most.bytes), in_words(total)
    others = "of memory" if taken == whole else f"of the {whole} of memory that the simulation takes"
    raise InputError(
        f"{most.key}{'' if most.value is None else f' = {shown(most.value)}'}: {most.what} take about "
        f"{taken} {others}, and {in_words(max(0, room))} are free, of which "
        f"{in_words(machine.RESERVE_BYTES)} stay for everything else: "
        f"{REMEDIES.get(most.key, 'lower it, or take fewer nodes')}"
    )


class Bounded:
    """A context in which a part creates arrays; memory errors become an InputError that names the part's largest key.

    Parameters
    ----------
    key : str
        The part's key in the experiment file.
    part : object
        The part.
    most : int, optional
        A limit in bytes, if it is lower than the free memory.
    """

    def __init__(self, key: str, part: Any, most: int | None = None) -> None:
        self._key, self._part = key, part
        self._room = machine.free() if most is None else min(machine.free(), most)
        self._limit = machine.limited(self._room)

    def __enter__(self) -> None:
        self._limit.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.__exit__(None, None, None)
        large = isinstance(error, ValueError | OverflowError) and any(text in str(error) for text in TOO_LARGE)
        if not large and not isinstance(error, MemoryError):
            return
        key, value = largest(self._key, describe(self._part))
        room = f"the {in_words(self._room)} that are free"
        raise InputError(f"{key} = {shown(value)} takes more memory than {room}: lower it") from error


def largest(key: str, table: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the largest number in a part's table with its dotted key; without numbers, the part's name.

    Seeds are left out, since they determine no size.

    Examples
    --------
    >>> largest("stream", {"name": "gaussian_mixture", "classes": 5, "inputs": 10**12})
    ('stream.inputs', 1000000000000)
    """
    numbers = dict(_numbers(key, table))
    if not numbers:
        return f"{key}.name", table.get("name", "")
    most = max(numbers, key=lambda entry: numbers[entry])
    return most, numbers[most]


def _pooled(evaluation: Evaluation, source: Source) -> int:
    """Return the maximum number of pooled samples."""
    endless = source.lengths is None
    return min(evaluation.global_samples, len(source.nodes) * (evaluation.local_samples if endless else ROWS))


def _numbers(key: str, value: Any) -> list[tuple[str, int]]:
    if isinstance(value, Mapping):
        return [found for name, entry in value.items() if name != "seed" for found in _numbers(f"{key}.{name}", entry)]
    if isinstance(value, list | tuple):
        return [(key, number) for entry in value for _, number in _numbers(key, entry)]
    return [(key, value)] if isinstance(value, int) and not isinstance(value, bool) else []


def in_words(count: float) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> in_words(800), in_words(1.25e6)
    ('800 bytes', '1.25 MB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def shared_with(entries: tuple[Any, ...], shared: dict[object, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return one shared tuple for all tuples of n identical entries: most nodes have identical neighbours."""
    first = entries[0] if entries else None
    if any(entry is not first for entry in entries):
        return entries
    return shared.setdefault((id(first), len(entries)), entries)
