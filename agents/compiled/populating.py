"""Which arrays agents move into, and whether they fit."""

from collections.abc import Mapping, Sequence

from kernelswarm.agents.compiled.population import Population, outside_of
from kernelswarm.agents.compiled.weathered_population import WeatheredPopulation, whole
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.node import Outgoing
from kernelswarm.agents.node.weathered import WeatheredAgent


def populated(agents: Sequence[Agent], messages: Mapping[int, Outgoing]) -> Population:
    """Move agents into arrays, with what they and the nodes that they hear sent last."""
    weathered = [agent for agent in agents if isinstance(agent, WeatheredAgent)]
    return WeatheredPopulation(weathered, messages) if weathered else Population(agents, messages)


def fits(agents: Sequence[Agent], messages: Mapping[int, Outgoing]) -> bool:
    """Tell whether every agent has learned its part of priming and every batch in flight is whole."""
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
