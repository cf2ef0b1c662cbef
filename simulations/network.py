"""From an experiment to the agents that will live it: the graph, the opened stream, one plan for each agent."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learner import Learner
from kernelswarm.graphs.validation import validate
from kernelswarm.protocols.contract import Neighborhood, Rule
from kernelswarm.simulations.block import AgentPlan
from kernelswarm.simulations.boxes import refuse_misfit
from kernelswarm.simulations.errors import InputError
from kernelswarm.simulations.experiment import Experiment
from kernelswarm.simulations.fitting import resolved
from kernelswarm.simulations.pooled import PooledSource
from kernelswarm.simulations.seeding import Role, generator
from kernelswarm.simulations.streams.contract import Source

Array = npt.NDArray[np.float64]


@dataclass
class Network:
    """Everything a backend needs, and what the driver keeps to measure with.

    Attributes
    ----------
    graph : networkx.Graph
        The validated topology.
    source : Source
        The opened stream; the agents draw from its sources.
    plans : list of AgentPlan
        One for each learner, in sorted order of the nodes.
    outputs : int
        C.
    rounds : int
        The rounds that the run will take: those asked for, or fewer where the data is used up before.
    experiment : Experiment
        The experiment with numbers in place of the words that its data turn into numbers.
    """

    graph: "nx.Graph[int]"
    source: Source
    plans: list[AgentPlan]
    outputs: int
    rounds: int
    experiment: Experiment


def open_network(experiment: Experiment) -> Network:
    """Build the graph, open the stream and plan the agents.

    Raises
    ------
    InputError
        When the parts do not fit one another; the message starts with the key at fault.
    """
    graph = build_graph(experiment)
    labels = sorted(graph.nodes)
    source = open_stream(experiment, graph)
    unknown = sorted({node for override in experiment.overrides for node in override.nodes} - set(labels))
    if unknown:
        raise InputError(
            f"node.nodes = {unknown} are not in the network: its labels run from {labels[0]} to {labels[-1]}"
        )
    rule = experiment.protocol
    learners = _learners(experiment, labels)
    outputs = {label: _outputs(learner, source, label) for label, learner in learners.items()}
    for place, label in enumerate(labels):
        refuse_misfit(learners.get(label, experiment.learner), source, place, label)
    if len(set(outputs.values())) > 1:
        raise InputError(
            f"learner.loss: the nodes' functions have different numbers of outputs, {sorted(set(outputs.values()))}"
        )
    experiment = resolved(experiment, source, labels)
    learners = _learners(experiment, labels)
    count = next(iter(outputs.values()))
    evaluated = list(zip(labels, source.nodes, strict=True))
    plans: list[AgentPlan] = []
    places = {label: place for place, label in enumerate(labels)}
    for label, place in places.items():
        if label not in learners:
            continue
        pooled = rule.pooled
        plans.append(
            AgentPlan(
                neighborhood=_neighborhood(graph, source, label, places, learners[label], alone=pooled),
                slots=() if pooled else _slots(graph, label),
                learner=learners[label],
                rule=rule,
                source=PooledSource(source.nodes) if pooled else source.nodes[place],
                inputs=source.inputs,
                outputs=count,
                evaluated=tuple(evaluated) if pooled else (evaluated[place],),
            )
        )
    for plan in plans:
        _refuse_instability(plan)
    rounds = experiment.rounds
    if source.lengths is not None:
        sizes = [learners.get(label, experiment.learner).batch_size for label in labels]
        rounds = min(rounds, max(-(-length // size) for length, size in zip(source.lengths, sizes, strict=True)))
    return Network(graph, source, plans, count, rounds, experiment)


def build_graph(experiment: Experiment) -> "nx.Graph[int]":
    """Build and validate the topology of an experiment; raises InputError where it is refused."""
    topology = experiment.topology
    try:
        if isinstance(topology, nx.Graph):
            return validate(topology)
        return validate(topology.build(generator(experiment.seed, Role.TOPOLOGY)))
    except InputError:
        raise
    except ValueError as refusal:
        raise InputError(f"topology: {refusal}") from refusal


def open_stream(experiment: Experiment, graph: "nx.Graph[int]") -> Source:
    """Open the stream of an experiment for the nodes of a graph; raises InputError where it is refused."""
    positions = nx.get_node_attributes(graph, "pos")
    labels = sorted(graph.nodes)
    locations = (
        np.array([positions[label] for label in labels], dtype=np.float64) if len(positions) == len(labels) else None
    )
    try:
        return experiment.stream.open(len(labels), experiment.seed, experiment.evaluation.local_samples, locations)
    except InputError:
        raise
    except ValueError as refusal:
        raise InputError(f"stream.{refusal}") from refusal


def _learners(experiment: Experiment, labels: list[int]) -> dict[int, Learner]:
    """Return the learner of each node that has one: of the first only, where samples are pooled."""
    if experiment.protocol.pooled:
        return {labels[0]: experiment.learner}
    return {label: experiment.learner_for(label) for label in labels}


def _outputs(learner: Learner, source: Source, label: int) -> int:
    try:
        return learner.loss.outputs(source.targets, source.classes)
    except ValueError as refusal:
        raise InputError(f"learner.loss of node {label} does not fit the stream: {refusal}") from refusal


def _slots(graph: "nx.Graph[int]", label: int) -> tuple[int, ...]:
    return tuple(sorted(graph.neighbors(other)).index(label) for other in sorted(graph.neighbors(label)))


def _neighborhood(
    graph: "nx.Graph[int]", source: Source, label: int, places: dict[int, int], learner: Learner, alone: bool
) -> Neighborhood:
    place = places[label]
    neighbors = () if alone else tuple(sorted(graph.neighbors(label)))
    others = [places[other] for other in neighbors]
    distances = differences = None
    if source.locations is not None:
        distances = np.linalg.norm(source.locations[others] - source.locations[place], axis=1)
    if source.differences is not None:
        differences = source.differences(place, others)
    return Neighborhood(label, neighbors, distances, differences, learner.loss.curvature)


def _refuse_instability(plan: AgentPlan) -> None:
    rule, learner = plan.rule, plan.learner
    degree = len(plan.neighborhood.neighbors) if rule.communicates else 0
    try:
        links = rule.init(plan.neighborhood)
    except ValueError as refusal:
        raise InputError(f"protocol: {refusal}") from refusal
    schedule = getattr(learner, "step_size", None)
    if rule.step != "explicit" or learner.gain is None or schedule is None:
        return
    stiffness = coupling_curvature(rule, links, degree, plan.outputs)
    curvature = learner.loss.curvature if learner.loss.quadratic else 0.0
    size = learner.batch_size * len(plan.evaluated)
    factor = schedule.largest / size * learner.gain * (curvature + stiffness)
    if factor >= 2.0:
        penalty = getattr(rule, "penalty", None)
        lower = "learner.step_size" + ("" if penalty is None else f" or protocol.penalty = {penalty:g}")
        raise InputError(
            f"learner.step_size = {schedule.largest:g} is unstable at node {plan.neighborhood.node} "
            f"with {degree} neighbours: the explicit step needs step_size / batch_size * (loss curvature "
            f"{curvature:g} + coupling {stiffness:g}) below 2, and it is {factor:.3g}: "
            f'lower {lower}, or use protocol.step = "implicit"'
        )


def coupling_curvature(rule: Rule, links: object, degree: int, outputs: int) -> float:
    """Return the curvature of a rule's coupling at a node's own samples before the first round."""
    if not degree:
        return 0.0
    return rule.couple(links, np.zeros((1, outputs)), np.zeros((degree, 1, outputs)))[1]
