"""Open an experiment: build the graph, open the stream and plan each agent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import networkx as nx
import numpy as np

from kernelswarm.agents.learners.contract import Learner, LearnerWithVariance, ValueLearner
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.arrays import Array
from kernelswarm.graphs.adjacency import Adjacency, Graph, SpanningTree, distances_from, from_edges, spanning_tree
from kernelswarm.graphs.directed import asks, is_directed
from kernelswarm.graphs.files import File, read_graph
from kernelswarm.graphs.schedules import Sequence
from kernelswarm.graphs.validation import as_network, require_sound
from kernelswarm.protocols.contract import Neighborhood, StackedRule, TreePlace, every_of, fulfils, spans
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.core.compiling import uncollected
from kernelswarm.protocols.links.realization import Conditions, Timetable
from kernelswarm.protocols.parameters.contract import AnyRule, InformedRule, ParameterRule
from kernelswarm.protocols.parameters.summed_duals import on_links
from kernelswarm.protocols.replay import replay_of
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.core.errors import InputError, shown
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.core.node_names import node_names
from kernelswarm.simulations.core.own_code import is_own
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Source, absences, opened
from kernelswarm.simulations.data.faulty import NoSamples
from kernelswarm.simulations.data.pooled import FloodedSource, PooledSource, TravellingSamples, members
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.failures import Asked
from kernelswarm.simulations.engine.matching import (
    refuse_coarse,
    refuse_failing,
    refuse_other_learners,
    refuse_other_rewards,
    refuse_silent,
    refuse_uncertain,
    refuse_unstable,
)
from kernelswarm.simulations.engine.nodes import (
    by_name,
    lists_nodes,
    measured,
    opened_for_all,
    paired,
    places_without_data,
    spoken,
    with_labels,
    with_names,
)
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.experiment.parts import build, describe
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.running.footprint import Bounded, functions, messages, needs, require, shared_with
from kernelswarm.simulations.running.forecast import forecast, transit
from kernelswarm.simulations.running.resolving import refuse_misfit, resolved, words

# The conditions of a round: links, clock and changing edges.


def link_conditions(experiment: Experiment, adjacency: Adjacency) -> Conditions:
    """Return the links, clock and changing edges of an experiment, with the key of their random numbers.

    Raises
    ------
    InputError
        The schedule does not fit the network.
    """
    first, second = generator(experiment.seed, Role.LINKS_AND_CLOCK).integers(2**32, size=2).tolist()
    timetable = None
    if not experiment.schedule.constant:
        schedule = experiment.schedule
        if isinstance(schedule, Sequence) and adjacency.names is not None:
            schedule = schedule.called(adjacency.names, adjacency.labels.tolist())
        timetable = Timetable(schedule, adjacency.labels, adjacency.edges, (first, second))
        with Asked("topology.schedule", experiment.schedule):
            timetable.rounds(0, 1, np.zeros(0, dtype=np.int64))
    return Conditions(experiment.links, experiment.clock, (first, second), timetable, is_directed(adjacency))


LARGEST_GRAPH = 6 * 10**9
"""Maximum bytes while the largest simulated network is built."""

NO_ATTRIBUTES: Mapping[str, Any] = {}
"""The attributes of most edges. Sharing one mapping saves a kilobyte per node of a random geometric network."""


@dataclass
class Network:
    """An opened experiment: the plans for the backend, and the data for evaluations.

    Attributes
    ----------
    adjacency : Adjacency
        The validated topology.
    source : Source
        The opened stream; the agents draw from its sources.
    plans : list of AgentPlan
        One plan for each learner, in sorted order of the nodes; a subset if ``most`` was given.
    outputs : int
        C.
    rounds : int
        Number of rounds of the run: the experiment's, or fewer if the data ends earlier.
    ends : list of int
        Number of rounds after which each node's data is used up; empty for endless data.
    experiment : Experiment
        The experiment with resolved automatic keys, and with labels in place of nodes' names.
    automatic : dict
        The words, such as "auto", that were replaced by numbers, by dotted keys.
    memory : float
        Estimated bytes, without dictionaries.
    """

    adjacency: Adjacency
    source: Source
    plans: list[AgentPlan]
    outputs: int
    rounds: int
    ends: list[int]
    experiment: Experiment
    automatic: dict[str, Any]
    memory: float

    @property
    def graph(self) -> Graph:
        """The topology as a networkx graph, built at the first access."""
        return self.adjacency.graph

    def described(self) -> Experiment:
        """Return the experiment with nodes' names in place of labels, as written by the user."""
        if not lists_nodes(self.experiment):
            return self.experiment
        return with_names(self.experiment, node_names(self.adjacency.labels.tolist(), self.source.description.nodes))


class _Parts(NamedTuple):
    """The opened parts of a network, from which its agents are planned."""

    experiment: Experiment
    adjacency: Adjacency
    source: Source
    labels: list[int]
    learners: dict[int, Learner]
    outputs: int
    conditions: Conditions


def open_network(experiment: Experiment, most: int | None = None) -> Network:
    """Build the graph, open the stream and plan the agents.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    most : int, optional
        Plan at most this many agents, at evenly spaced nodes. By default all agents are planned.

    Raises
    ------
    InputError
        The parts do not fit one another, or into the memory; the message starts with the key at fault.
    """
    # With one thread, resolved keys have the same bits on every machine. On a busy machine, waiting threads have taken
    # eighty times as long.
    with uncollected(), one_thread():
        return _opened(experiment, most)


def _opened(experiment: Experiment, most: int | None) -> Network:
    built = build_topology(experiment)
    experiment = by_name(experiment, built)
    without = places_without_data(experiment, built)
    adjacency, source = paired(built, lambda network: open_stream(experiment, network), without)
    labels = adjacency.labels.tolist()
    _refuse_own_learners(experiment)
    if lists_nodes(experiment):
        experiment = with_labels(experiment, node_names(labels, source.description.nodes))
    learners = _learners(experiment, source, labels)
    planned = range(len(labels)) if most is None else members(len(labels), most)
    outputs = _outputs_of_all(experiment, source, labels, learners, planned)
    needed = needs(experiment, adjacency, source, outputs)
    require(experiment, needed)
    given = experiment
    with Bounded("stream", experiment.stream):
        experiment = resolved(experiment, source, labels, float(adjacency.degrees.mean()))
    automatic = {} if experiment is given else words(given, experiment)
    needed += functions(experiment, adjacency, source, outputs)
    require(experiment, needed)
    learners, size = _learners(experiment, source, labels), experiment.learner.batch_size
    sizes = [size if experiment.protocol.pooled else learners[label].batch_size for label in labels]
    source = measured(experiment, source, labels, sizes)
    conditions, ends = _conditions(experiment, adjacency, source, labels, sizes)
    parts = _Parts(experiment, adjacency, source, labels, learners, outputs, conditions)
    with Bounded("stream", experiment.stream):  # may compare targets of all nodes
        plans = [_pooled_plan(parts)] if experiment.protocol.pooled else _plans(parts, planned)
    plans = with_bands(experiment.evaluation, plans)
    refuse_other_learners(plans)
    refuse_uncertain(plans)
    refuse_coarse(plans)
    refuse_silent(plans[0])
    for plan in plans:
        refuse_unstable(plan)
    if experiment.protocol.communicates and not experiment.links.ideal:
        forecast(experiment.links, plans)  # raises an error if edges lack attributes
        conditions = replace(conditions, transit=transit(experiment.links, plans))
        if conditions.transit > 1:
            plans = [replace(plan, conditions=plan.conditions and conditions) for plan in plans]
    with Bounded("links", experiment.links):
        kept = messages(experiment, adjacency, plans, source.targets)
    if kept is not None:
        needed.append(kept)
        require(experiment, needed)
    rounds = min([experiment.rounds, *([max(ends)] if ends else [])])
    memory = sum(need.bytes for need in needed)
    return Network(adjacency, source, plans, outputs, rounds, ends, experiment, automatic, memory)


def _conditions(
    experiment: Experiment, adjacency: Adjacency, source: Source, labels: list[int], sizes: list[int]
) -> tuple[Conditions, list[int]]:
    """Return the conditions of links, clock and nodes, and the rounds after which each node's data is used up."""
    rule, conditions, ends = experiment.protocol, link_conditions(experiment, adjacency), list[int]()
    if source.lengths is not None:
        ends = [-(-length // drawn) for length, drawn in zip(source.lengths, sizes, strict=True)]
    if source.calendars is not None and rule.offline is None:
        found, ends = absences(source.calendars, labels, source.epochs, sizes, experiment.rounds)
        conditions = replace(conditions, absences=found)
    if rule.communicates and not rule.pooled:
        conditions = replace(conditions, faults=spoken(experiment))
    if fulfils(rule, ParameterRule) and not spans(rule):
        conditions = replace(conditions, every=every_of(rule))
    return conditions, ends


def build_topology(experiment: Experiment) -> Adjacency:
    """Build and validate the topology of an experiment; raises InputError if it is invalid."""
    topology = experiment.topology
    with Asked("topology", topology):
        if isinstance(topology, nx.Graph):
            return as_network(topology, strict=experiment.strict)
        with Bounded("topology", topology, LARGEST_GRAPH):
            if isinstance(topology, File):
                return as_network(read_graph(topology.path, topology.format, experiment.strict), fresh=True)
            built = topology.build(generator(experiment.seed, Role.TOPOLOGY))
            if is_own(type(topology)) and isinstance(built, Adjacency):
                require_sound(built)
            return as_network(built, fresh=True, strict=experiment.strict)


def open_stream(experiment: Experiment, adjacency: Adjacency) -> Source:
    """Open the stream of an experiment for the nodes of a network; raises InputError if it is invalid."""

    def for_some(nodes: int, locations: Array | None) -> Source:
        with Asked("stream", experiment.stream, joint="."), Bounded("stream", experiment.stream):
            return opened(experiment.stream, nodes, experiment.seed, experiment.evaluation.local_samples, locations)

    return opened_for_all(places_without_data(experiment, adjacency), adjacency, for_some)


def _learners(experiment: Experiment, source: Source, labels: Listed[int]) -> dict[int, Learner]:
    """Return the learner of each node; if samples are pooled, one learner under the first node's label.

    Its mini-batch has the samples of one node, or of all nodes if the protocol is averaged.
    """
    if not experiment.protocol.pooled:
        return experiment.learners_for(labels)
    learner = experiment.learner
    if experiment.protocol.offline is not None:
        learner = experiment.learner_for(labels[0])
    elif experiment.protocol.averaged:
        table = describe(learner)
        if "batch_size" not in table:
            raise InputError(
                f"protocol.averaged = true makes one batch of all nodes' samples, and {type(learner).__name__} has no "
                "key batch_size: leave averaged out"
            )
        learner = build("learner", {**table, "batch_size": learner.batch_size * _drawing(source)}, "learner")
    return {labels[0]: learner}


def _drawing(source: Source) -> int:
    """Return the number of nodes with data, at least 1."""
    return sum(not isinstance(node, NoSamples) for node in source.nodes)


def _refuse_own_learners(experiment: Experiment) -> None:
    """Raise an error if nodes have learners of their own although one learner has the samples of all nodes."""
    for place, override in enumerate(experiment.overrides):
        if experiment.protocol.pooled and override.learner:
            raise InputError(
                f"node[{place}].learner = {shown(override.learner)}: the protocol {part_name(experiment.protocol)} has "
                "one function for all nodes, of which none has a learner of its own: leave this key out, set it in "
                "[learner], or take a protocol in which each node learns"
            )


def _pool(
    experiment: Experiment, source: Source, labels: Listed[int], conditions: Conditions
) -> PooledSource | TravellingSamples:
    """Return the samples of all nodes in the order of their arrival at the one learner."""
    size, links = experiment.learner.batch_size, experiment.links
    alone = experiment.clock.ideal and conditions.absences is None
    if experiment.protocol.offline is not None or (links.ideal and alone):
        return PooledSource(source.nodes, size)
    with Asked("links", links, note="the one learner has no location, and its links have no attributes"):
        return TravellingSamples(source, size, labels, conditions)


def _outputs_of_all(
    experiment: Experiment, source: Source, labels: Listed[int], learners: dict[int, Learner], planned: Listed[int]
) -> int:
    """Return the number of outputs of all functions; raises InputError if a learner does not fit the data."""
    kinds = {id(learner): (learner, label) for label, learner in reversed(learners.items())}
    outputs = {_outputs(learner, source, label) for learner, label in kinds.values()}
    for place in planned:
        label = labels[place]
        learner = learners.get(label, experiment.learner)
        refuse_misfit(learner, source, place, label)
        refuse_other_rewards(learner, source, label)
    if len(outputs) > 1:
        raise InputError(f"learner.loss: the nodes' functions have different numbers of outputs, {sorted(outputs)}")
    return outputs.pop()


def _outputs(learner: Learner, source: Source, label: int) -> int:
    try:
        return learner.loss.outputs(source.targets, source.classes)
    except ValueError as refusal:
        chosen = source.facts.get("task_chosen")  # the reason for the automatic task
        reason = "" if chosen is None else f"; {chosen}"
        raise InputError(f"learner.loss of node {label} does not fit the stream: {refusal}{reason}") from refusal


def _plans(parts: _Parts, planned: Listed[int]) -> list[AgentPlan]:
    """Return the plans of the agents at the ``planned`` places."""
    experiment, adjacency, source, labels, learners, outputs, conditions = parts
    steady = conditions.clock.ideal and conditions.timetable is None and conditions.absences is None
    rule = on_links(experiment.protocol, conditions.links, steady, not conditions.faults)
    key = (0, 0)
    if replay_of(rule).points or fulfils(rule, SummaryRule):
        key = cast(tuple[int, int], tuple(generator(experiment.seed, Role.REPLAY).integers(2**32, size=2).tolist()))
    shared: dict[object, tuple[Any, ...]] = {}
    unlike = None if conditions.ideal else conditions
    slots = adjacency.slots([labels[place] for place in planned])
    tree = None
    if spans(rule):
        refuse_failing(rule, replace(conditions, faults=spoken(experiment)))
        tree = spanning_tree(adjacency)
    plans = [
        AgentPlan(
            neighborhood=_neighborhood(parts, place, adjacency.around(place), key, shared, tree),
            slots=slots[labels[place]],
            learner=learners[labels[place]],
            rule=rule,
            source=source.nodes[place],
            inputs=source.inputs,
            outputs=outputs,
            targets=source.targets,
            evaluated=((labels[place], source.nodes[place]),),
            conditions=unlike,
        )
        for place in planned
    ]
    return plans if tree is None or not flooded_share(rule) else _flooded(parts, planned, plans, tree)


def _flooded(parts: _Parts, planned: Listed[int], plans: list[AgentPlan], tree: SpanningTree) -> list[AgentPlan]:
    """Return the plans of agents that learn from the samples of all nodes in their connected part."""
    experiment, adjacency, source, labels, learners, *_ = parts
    size, share = experiment.learner.batch_size, flooded_share(experiment.protocol)
    for label in labels:
        if learners[label].batch_size != size:
            raise InputError(
                f"learner.batch_size = {learners[label].batch_size} of node {label} and {size} of others: the protocol "
                "flooding has every node take a step on each one's mini-batch: give all the same"
            )
    keys = np.array(
        [generator(experiment.seed, Role.FLOODING, place).integers(2**32, size=2) for place in range(len(labels))]
    )
    network = from_edges(len(labels), tree.edges)
    found = []
    for place, plan in zip(planned, plans, strict=True):
        hops = distances_from(network.matrix, place)
        origins = np.lexsort((np.arange(len(hops)), hops))[(hops < 0).sum() :]
        flooded = FloodedSource(
            source,
            origins.tolist(),
            hops[origins].tolist(),
            size,
            adjacency.parts[0],
            int(network.degrees[place]),
            share,
            keys[origins],
        )
        distinct = sum(_distinct(source, origin) * (share if k else 1.0) for k, origin in enumerate(origins.tolist()))
        found.append(
            replace(
                plan,
                neighborhood=replace(plan.neighborhood, distinct=distinct),
                source=flooded,
                evaluated=((labels[place], flooded),),
                steps=adjacency.parts[0],
            )
        )
    return found


def _pooled_plan(parts: _Parts) -> AgentPlan:
    """Return the plan of the one agent that learns from all nodes' samples."""
    experiment, _, source, labels, learners, outputs, conditions = parts
    learner = learners[labels[0]]
    return AgentPlan(
        neighborhood=_neighborhood(parts, 0, [], (0, 0), {}),
        slots=(),
        learner=learner,
        rule=experiment.protocol,
        source=_pool(experiment, source, labels, conditions),
        inputs=source.inputs,
        outputs=outputs,
        targets=source.targets,
        evaluated=tuple(zip(labels, source.nodes, strict=True)),
        steps=experiment.learner.batch_size * _drawing(source) // learner.batch_size,
    )


def _neighborhood(
    parts: _Parts,
    place: int,
    others: Listed[int],
    key: tuple[int, int],
    shared: dict[object, tuple[Any, ...]],
    tree: SpanningTree | None = None,
) -> Neighborhood:
    """Return the neighborhood of the node at ``place``, whose neighbours have the places ``others``."""
    _, adjacency, source, labels, learners, outputs, conditions = parts
    label, known, directed = labels[place], adjacency.attributes(labels[place]), conditions.directed
    neighbors = tuple(map(labels.__getitem__, others))
    distances = differences = None
    if source.locations is not None:
        apart = source.locations[others] - source.locations[place]
        distances = np.sqrt((apart * apart).sum(axis=1))
    if source.differences is not None:
        differences = source.differences(place, others)
    return Neighborhood(
        label,
        neighbors,
        distances,
        differences,
        learners[label].loss.curvature,
        learners[label].batch_size,
        degrees=tuple(adjacency.degrees[others].tolist()),
        edges=shared_with(
            tuple(dict(known[other]) if known.get(other) else NO_ATTRIBUTES for other in neighbors), shared
        ),
        batch_sizes=shared_with(tuple(learners[other].batch_size for other in neighbors), shared),
        asks=tuple(asks(label, other, known[other]) for other in neighbors) if directed else (),
        asked=tuple(asks(other, label, known[other]) for other in neighbors) if directed else (),
        outputs=outputs,
        distinct=_distinct(source, place),
        key=key,
        nodes=len(labels),
        tree=None if tree is None else _place_in(tree, place, others),
    )


def _distinct(source: Source, place: int) -> float:
    """Return the number of a node's distinct samples: infinite for endless streams, 0 for nodes without data."""
    if source.lengths is None:
        return 0.0 if isinstance(source.nodes[place], NoSamples) else math.inf
    return source.lengths[place] // source.epochs


def _place_in(tree: SpanningTree, place: int, others: Listed[int]) -> TreePlace:
    """Return a node's place in a tree, with parent and children as indices into its neighbours ``others``."""
    parents = tree.parents[others].tolist()
    above = [k for k, other in enumerate(others) if other == tree.parents[place]]
    below = tuple(k for k, parent in enumerate(parents) if parent == place)
    return TreePlace(above[0] if above else -1, below, int(tree.depths[place]), int(tree.deepest[place]))


# Bands of a given level around predictions, from a function's variance or from a node's own errors.


def with_bands(evaluation: Evaluation, plans: Listed[AgentPlan]) -> list[AgentPlan]:
    """Return the agents' plans with the requested bands.

    Raises
    ------
    InputError
        A learner's function does not predict numeric targets, and has no band.
    """
    if not evaluation.level:
        return list(plans)
    known: dict[int, bool] = {}
    found = []
    for plan in plans:
        learner = plan.learner
        if id(learner) not in known:
            _refuse_bands(learner)
            known[id(learner)] = knows_variance(learner, plan.rule, plan.inputs, plan.outputs)
        conformally = evaluation.bands != "auto" or not known[id(learner)]
        pooled = evaluation.bands == "pooled" and plan.rule.communicates
        varying = evaluation.noise == "auto" and not conformally and not plan.sends_vectors
        found.append(replace(plan, level=evaluation.level, banded=conformally, pooled=pooled, varying=varying))
    return found


def knows_variance(learner: Learner, rule: AnyRule, inputs: int, outputs: int) -> bool:
    """Tell whether a node with these parts knows the variance of its function."""
    if fulfils(rule, SummaryRule):
        return learner.loss.task == "regression"
    if isinstance(rule, ParameterRule):
        return fulfils(rule, InformedRule)
    if fulfils(rule, StackedRule) or rule.offline is not None:
        return False
    state = learner.init(inputs, outputs)
    return fulfils(learner, LearnerWithVariance) and learner.posterior(state) is not None


def _refuse_bands(learner: Learner) -> None:
    loss = learner.loss
    if loss.task == "regression" and grid_of(loss) is None and not fulfils(learner, ValueLearner):
        return
    remedy = "predict_proba of its models gives probabilities" if loss.task != "regression" else "leave the key out"
    raise InputError(
        f"evaluation.level: a band lies around predictions of numbers, and the loss {loss} of {type(learner).__name__} "
        f"has none: {remedy}"
    )
