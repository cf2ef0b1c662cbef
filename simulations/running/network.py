"""From an experiment to its agents: the graph, the opened stream, one plan for each agent."""

import math
from collections.abc import Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from typing import Any, cast

import networkx as nx
import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import FeatureLearner, Learner, MixtureLearner, ScheduledLearner
from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.directed import asks
from kernelswarm.graphs.files import File, read_graph
from kernelswarm.graphs.validation import as_network
from kernelswarm.protocols.compiling import uncollected
from kernelswarm.protocols.contract import Neighborhood, Rule, StackedRule, strengths_of
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.parameters.contract import ParameterRule
from kernelswarm.protocols.parameters.summed_duals import on_links
from kernelswarm.protocols.replay import replay_of
from kernelswarm.protocols.unreliable.realization import Conditions
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.node_names import node_names
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build, describe
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.nodes.faulty import measured, spoken
from kernelswarm.simulations.nodes.listed import lists_nodes, with_labels, with_names
from kernelswarm.simulations.nodes.pairing import paired
from kernelswarm.simulations.nodes.without_data import by_name, opened_for_all, places_without_data
from kernelswarm.simulations.round.banded import with_bands
from kernelswarm.simulations.round.bearable_links import refuse_coarse, refuse_uncertain
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.round.conditions import link_conditions
from kernelswarm.simulations.round.failures import Asked
from kernelswarm.simulations.round.rewards import refuse_other_rewards
from kernelswarm.simulations.round.stackable import refuse_unstackable
from kernelswarm.simulations.running.boxes import refuse_misfit
from kernelswarm.simulations.running.footprint import Bounded, functions, messages, needs, require, shared_with
from kernelswarm.simulations.running.forecast import forecast, transit
from kernelswarm.simulations.running.resolving import resolved
from kernelswarm.simulations.streams.calendars import absences
from kernelswarm.simulations.streams.contract import Source
from kernelswarm.simulations.streams.pooled import PooledSource, members
from kernelswarm.simulations.streams.travelling import TravellingSamples

Array = npt.NDArray[np.float64]

LARGEST_GRAPH = 6 * 10**9
"""Bytes that the largest simulated network takes at most while it is made."""

NO_ATTRIBUTES: Mapping[str, Any] = {}
"""The attributes of most edges, shared by all: a kilobyte less for each node of a random geometric network."""


@dataclass
class Network:
    """Everything a backend needs, and what the driver keeps to measure with.

    Attributes
    ----------
    adjacency : Adjacency
        The validated topology.
    source : Source
        The opened stream; the agents draw from its sources.
    plans : list of AgentPlan
        One for each learner, in sorted order of the nodes; with ``most`` those of some nodes.
    outputs : int
        C.
    rounds : int
        The rounds of the run: those of the experiment, or fewer where the data is used up before.
    ends : list of int
        The rounds after which each node's data is used up; empty where it is endless.
    experiment : Experiment
        The experiment with its automatic keys resolved, and with labels in place of nodes' names.
    memory : float
        About the bytes that it takes, without dictionaries.
    """

    adjacency: Adjacency
    source: Source
    plans: list[AgentPlan]
    outputs: int
    rounds: int
    ends: list[int]
    experiment: Experiment
    memory: float

    @property
    def graph(self) -> Graph:
        """The topology as a networkx graph, made at the first use."""
        return self.adjacency.graph

    def described(self) -> Experiment:
        """Return the experiment with the names of the nodes that its keys list, as it is written."""
        if not lists_nodes(self.experiment):
            return self.experiment
        return with_names(self.experiment, node_names(self.adjacency.labels.tolist(), self.source.description.nodes))


def open_network(experiment: Experiment, most: int | None = None) -> Network:
    """Build the graph, open the stream and plan the agents.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    most : int, optional
        The largest number of agents to plan, evenly spaced ones; all of them when left out.

    Raises
    ------
    InputError
        The parts do not fit one another, or into the memory; the message starts with the key at fault.
    """
    # With one thread resolved keys have the same bits on every machine; on a busy one, threads that wait for one
    # another have taken eighty times as long.
    with uncollected(), one_thread():
        return _opened(experiment, most)


def _opened(experiment: Experiment, most: int | None) -> Network:
    built = build_topology(experiment)
    experiment = by_name(experiment, built)
    without = places_without_data(experiment, built)
    adjacency, source = paired(built, lambda network: open_stream(experiment, network), without)
    labels = adjacency.labels.tolist()
    if lists_nodes(experiment):
        experiment = with_labels(experiment, node_names(labels, source.description.nodes))
    learners = _learners(experiment, labels)
    size = experiment.learner.batch_size  # of every node, also for the one learner of pooled samples
    kinds = {id(learner): (learner, label) for label, learner in reversed(learners.items())}
    outputs = {_outputs(learner, source, label) for learner, label in kinds.values()}
    places = {label: place for place, label in enumerate(labels)}
    planned = labels if most is None else [labels[place] for place in members(len(labels), most)]
    for label in planned:
        refuse_misfit(learners.get(label, experiment.learner), source, places[label], label)
        refuse_other_rewards(learners.get(label, experiment.learner), source, label)
    if len(outputs) > 1:
        raise InputError(f"learner.loss: the nodes' functions have different numbers of outputs, {sorted(outputs)}")
    (count,) = outputs
    needed = needs(experiment, adjacency, source, count)
    require(experiment, needed)
    with Bounded("stream", experiment.stream):
        experiment = resolved(experiment, source, labels)
    needed += functions(experiment, adjacency, source, count)
    require(experiment, needed)
    rule, learners = experiment.protocol, _learners(experiment, labels)
    plans: list[AgentPlan] = []
    shared: dict[object, tuple[Any, ...]] = {}
    pooled = rule.pooled
    sizes = [size if pooled else learners[label].batch_size for label in labels]
    source = measured(experiment, source, labels, sizes)
    evaluated = list(zip(labels, source.nodes, strict=True))
    conditions, ends = _conditions(experiment, adjacency, source, labels, sizes)
    ideal = conditions.ideal
    steady = conditions.clock.ideal and conditions.timetable is None and conditions.absences is None
    rule = on_links(rule, conditions.links, steady, not conditions.faults)
    slots = {} if pooled else adjacency.slots(planned)
    pool = _pool(experiment, source, labels, conditions) if pooled else None
    with Bounded("stream", experiment.stream):  # targets may be compared between nodes
        for label in planned:
            if label not in learners:
                continue
            place = places[label]
            plans.append(
                AgentPlan(
                    neighborhood=_neighborhood(
                        adjacency, source, labels, place, learners, pooled, conditions.directed, count, shared
                    ),
                    slots=() if pooled else slots[label],
                    learner=learners[label],
                    rule=rule,
                    source=source.nodes[place] if pool is None else pool,
                    inputs=source.inputs,
                    outputs=count,
                    evaluated=tuple(evaluated) if pooled else (evaluated[place],),
                    steps=size * len(labels) // learners[label].batch_size if pooled else 1,
                    conditions=None if pooled or ideal else conditions,
                )
            )
    if replay_of(rule).points:
        key = cast(tuple[int, int], tuple(generator(experiment.seed, Role.REPLAY).integers(2**32, size=2).tolist()))
        plans = [replace(plan, neighborhood=replace(plan.neighborhood, key=key)) for plan in plans]
    plans = with_bands(experiment.evaluation, plans)
    _refuse_other_learners(plans)
    refuse_uncertain(plans)
    refuse_coarse(plans)
    for plan in plans:
        _refuse_instability(plan)
    if rule.communicates and not experiment.links.ideal:
        forecast(experiment.links, plans)  # refuses links that need what the edges do not have
        conditions = replace(conditions, transit=transit(experiment.links, plans))
        if conditions.transit > 1:
            plans = [replace(plan, conditions=plan.conditions and conditions) for plan in plans]
    with Bounded("links", experiment.links):
        kept = messages(experiment, adjacency, plans, source.targets)
    if kept is not None:
        needed.append(kept)
        require(experiment, needed)
    rounds = min([experiment.rounds, *([max(ends)] if ends else [])])
    return Network(adjacency, source, plans, count, rounds, ends, experiment, sum(need.bytes for need in needed))


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
    return conditions, ends


def build_topology(experiment: Experiment) -> Adjacency:
    """Build and validate the topology of an experiment; raises InputError where it is refused."""
    topology = experiment.topology
    with Asked("topology", topology):
        if isinstance(topology, nx.Graph):
            return as_network(topology, strict=experiment.strict)
        with Bounded("topology", topology, LARGEST_GRAPH):
            if isinstance(topology, File):
                return as_network(read_graph(topology.path, topology.format, experiment.strict), fresh=True)
            built = topology.build(generator(experiment.seed, Role.TOPOLOGY))
            return as_network(built, fresh=True, strict=experiment.strict)


def open_stream(experiment: Experiment, adjacency: Adjacency) -> Source:
    """Open the stream of an experiment for the nodes of a network; raises InputError where it is refused."""

    def opened(nodes: int, locations: Array | None) -> Source:
        with Asked("stream", experiment.stream, joint="."), Bounded("stream", experiment.stream):
            return experiment.stream.open(nodes, experiment.seed, experiment.evaluation.local_samples, locations)

    return opened_for_all(places_without_data(experiment, adjacency), adjacency, opened)


def _learners(experiment: Experiment, labels: Listed[int]) -> dict[int, Learner]:
    """Return the learner of each node; with pooled samples that of the first node alone.

    Its batch is then one of a node, or those of all nodes together.
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
        learner = build("learner", {**table, "batch_size": learner.batch_size * len(labels)}, "learner")
    return {labels[0]: learner}


def _pool(
    experiment: Experiment, source: Source, labels: Listed[int], conditions: Conditions
) -> PooledSource | TravellingSamples:
    """Return the samples of all nodes in the order in which they reach the one learner."""
    size, links = experiment.learner.batch_size, experiment.links
    alone = experiment.clock.ideal and conditions.absences is None
    if experiment.protocol.offline is not None or (links.ideal and alone):
        return PooledSource(source.nodes, size)
    with Asked("links", links, note="the one learner has no location, and its links have no attributes"):
        return TravellingSamples(source, size, labels, conditions)


def _outputs(learner: Learner, source: Source, label: int) -> int:
    try:
        return learner.loss.outputs(source.targets, source.classes)
    except ValueError as refusal:
        chosen = source.facts.get("task_chosen")  # where the stream had to choose between classes and quantities
        reason = "" if chosen is None else f"; {chosen}"
        raise InputError(f"learner.loss of node {label} does not fit the stream: {refusal}{reason}") from refusal


def _neighborhood(
    adjacency: Adjacency,
    source: Source,
    labels: Listed[int],
    place: int,
    learners: Mapping[int, Learner],
    alone: bool,
    directed: bool,
    outputs: int,
    shared: dict[object, tuple[Any, ...]],
) -> Neighborhood:
    label, known = labels[place], adjacency.attributes(labels[place])
    others = [] if alone else adjacency.around(place)
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
        distinct=source.lengths[place] // source.epochs if source.lengths and source.lengths[place] else math.inf,
        nodes=len(labels),
    )


def _refuse_other_learners(plans: Listed[AgentPlan]) -> None:
    """Refuse learners that have no weights of shared features where these are what nodes exchange."""
    rule = plans[0].rule
    name = part_name(rule)
    if fulfils(rule, StackedRule):
        refuse_unstackable(plans)
    if not fulfils(rule, ParameterRule):
        return
    first = plans[0]
    for learner, plan in {plan.learner: plan for plan in plans[::-1]}.items():
        node = plan.neighborhood.node
        mixture = fulfils(learner, MixtureLearner)
        if rule.mixes and not mixture:
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {node}: the protocol {name} mixes random features of '
                'several kernels: take learner.name = "raker", or the protocol diffusion with "random_features"'
            )
        if mixture != rule.mixes or not isinstance(learner, FeatureLearner):
            mixing = ', the protocol domkl with learner.name = "raker"' if mixture else ""
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {node}: the protocol {name} sends the weights of '
                'features that all nodes share: take learner.name = "random_features", "shared_nystroem" or "linear"'
                f"{mixing}, or the protocol consensus, which sends values"
            )
        if rule.quadratic and not learner.loss.quadratic:
            raise InputError(
                f'learner.loss = "{part_name(learner.loss)}" of node {node}: the protocol {name} solves least squares: '
                'take learner.loss = "squared", or the protocol diffusion or odkla, which take any loss'
            )
        mine, theirs = (part.learner.function(part.learner.init(part.inputs, part.outputs)) for part in (plan, first))
        if math.isnan(mine.distance(theirs)):
            raise InputError(
                f"learner: nodes {first.neighborhood.node} and {node} have other features, and the protocol {name} "
                "averages their weights: give all nodes the same kernel, number of features and learner.seed, or "
                "the same landmarks"
            )


def _refuse_instability(plan: AgentPlan) -> None:
    rule, learner, scheduled = plan.rule, plan.learner, plan.learner
    degree = len(plan.neighborhood.neighbors) if rule.communicates else 0
    with Asked("protocol", rule):
        links = plan.begin()
    if rule.step != "explicit" or learner.gain is None or not fulfils(scheduled, ScheduledLearner):
        return
    stiffness = 0.0
    if not (fulfils(rule, ParameterRule) or fulfils(rule, StackedRule)):
        with Asked("protocol", rule):
            stiffness = coupling_curvature(cast(Rule, rule), links, degree, plan.outputs)
    curvature = learner.loss.curvature if learner.loss.quadratic else 0.0
    factor = scheduled.step_size.largest / learner.batch_size * learner.gain * (curvature + stiffness)
    if factor >= 2.0:
        strengths = [f" or protocol.{key} = {value:g}" for key, value in strengths_of(rule).items() if value < math.inf]
        lower = "".join(["learner.step_size", *strengths])
        raise InputError(
            f"learner.step_size = {scheduled.step_size.largest:g} is unstable at node {plan.neighborhood.node} "
            f"with {degree} neighbours: the explicit step needs step_size / batch_size * (loss curvature "
            f"{curvature:g} + coupling {stiffness:g}) below 2, and it is {factor:.3g}: "
            f'lower {lower}, or use protocol.step = "implicit"'
        )


def coupling_curvature(rule: Rule, links: object, degree: int, outputs: int) -> float:
    """Return the curvature of a rule's coupling at a node's own samples before the first round."""
    if not degree:
        return 0.0
    return float(rule.coupling_gradient(links, np.zeros((1, outputs)), np.zeros((degree, 1, outputs))).curvatures.sum())
