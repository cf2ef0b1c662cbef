"""Which arrays agents move into, and whether they fit."""

from collections.abc import Mapping, Sequence

from kernelswarm.agents.compiled import drawing, population, vector_population
from kernelswarm.agents.compiled.arrays import outside_of
from kernelswarm.agents.compiled.population import Population
from kernelswarm.agents.compiled.rounds import live
from kernelswarm.agents.compiled.vector_population import VectorPopulation
from kernelswarm.agents.compiled.weathered_population import WeatheredPopulation, whole
from kernelswarm.agents.compiled.weathered_rounds import live_in_weather
from kernelswarm.agents.compiled.weathered_vector_population import WeatheredVectorPopulation
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.node import Node, Outgoing
from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.agents.node.vectors import VectorNode
from kernelswarm.agents.node.weathered import WeatheredAgent
from kernelswarm.agents.node.weathered_vectors import WeatheredVectorNode
from kernelswarm.agents.populations import stacked_population
from kernelswarm.agents.populations.stacked_population import StackedPopulation, copies_of, copies_sent
from kernelswarm.protocols.compiled import NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.contract import StackedRule
from kernelswarm.protocols.first_class import Compiled
from kernelswarm.protocols.ground.fulfilling import fulfils
from kernelswarm.protocols.states.contract import AnyRule, StateRule

AnyPopulation = Population | VectorPopulation | StackedPopulation


def obstacle(learners: Sequence[Learner], rule: AnyRule, ideal: bool = True, whole: bool = True) -> str | None:
    """Say what keeps nodes with these parts, and links and clocks that are ideal or not, out of compiled rounds.

    ``whole`` says whether every mini-batch is whole.
    """
    if not whole:
        return "samples that are lost or late on their way to the one learner"
    if fulfils(rule, StackedRule):
        if not ideal:
            return "copies over links and clocks that are not ideal"
        return stacked_population.obstacle(learners, rule)
    if not isinstance(rule, StateRule):
        return population.obstacle(learners, rule)
    return vector_population.obstacle(learners, rule)


def in_python(learners: Sequence[Learner], rule: AnyRule) -> str | None:
    """Name a part in plain Python that compiled rounds call; None where there is none."""
    for member in rule.members if fulfils(rule, StackedRule) else (rule,):
        try:
            if member.communicates:
                handed_over(member, "protocol")
        except NotCompiledError as cause:
            return str(cause)
    for learner in dict.fromkeys(learners):
        for kind, part in (("loss", learner.loss), ("kernel", getattr(learner, "kernel", None))):
            if part is not None and not hands_over(part):
                return f"the {kind} {type(part).__name__}"
    return None


def round_of_evaluations(ideal: bool) -> Compiled:
    """Return the compiled round of nodes that send evaluations, over links and by clocks that are ideal or not."""
    return live if ideal else live_in_weather


def populated(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> AnyPopulation:
    """Move nodes into arrays, with what they and the nodes that they hear sent last."""
    vectors = [node for node in nodes if isinstance(node, VectorNode)]
    if vectors:
        in_weather = [node for node in vectors if isinstance(node, WeatheredVectorNode)]
        return WeatheredVectorPopulation(in_weather, messages) if in_weather else VectorPopulation(vectors, messages)
    stacked = [node for node in nodes if isinstance(node, StackedAgent)]
    if stacked:
        return StackedPopulation(stacked, messages)
    agents = [node for node in nodes if isinstance(node, Agent)]
    weathered = [agent for agent in agents if isinstance(agent, WeatheredAgent)]
    return WeatheredPopulation(weathered, messages) if weathered else Population(agents, messages)


def prime(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> bool:
    """Ready nodes that have only sent their first points for arrays, where they need not answer one by one."""
    agents = [node for node in nodes if isinstance(node, Agent) and not isinstance(node, WeatheredAgent)]
    size = nodes[0].learner.batch_size
    if len(agents) < len(nodes) or not messages:
        return False
    return all(len(messages[node].points) == size for node in outside_of(agents)) and drawing.prime(agents)


def fits(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> bool:
    """Tell whether every node has learned its part of priming and every batch in flight is whole."""
    vectors = [node for node in nodes if isinstance(node, VectorNode)]
    if vectors:
        return vector_population.fits(vectors)
    stacked = [node for node in nodes if isinstance(node, StackedAgent)]
    if stacked:
        kinds = range(len(stacked[0].copies))
        return all(fits(copies_of(stacked, k), copies_sent(messages, k)) for k in kinds)
    agents = [node for node in nodes if isinstance(node, Agent)]
    size = agents[0].learner.batch_size
    for agent in agents:
        if agent.own is None or agent.following is None or agent.targets is None:
            return False
        if len(agent.own.points) != size or len(agent.following[0]) != size:
            return False
        if any(len(evaluation.points) != size for evaluation in agent.theirs):
            return False
    weathered = [agent for agent in agents if isinstance(agent, WeatheredAgent)]
    return whole(weathered) and all(len(messages[node].points) == size for node in outside_of(agents))
