"""Which arrays agents move into, and whether they fit."""

from collections.abc import Mapping, Sequence

from kernelswarm.agents.compiled import drawing, vector_population
from kernelswarm.agents.compiled.filling import outside_of, sent_points
from kernelswarm.agents.compiled.lossy_population import LossyPopulation, whole
from kernelswarm.agents.compiled.lossy_rounds import run_lossy_rounds
from kernelswarm.agents.compiled.lossy_vector_population import LossyVectorPopulation
from kernelswarm.agents.compiled.population import Population
from kernelswarm.agents.compiled.rounds import run_rounds
from kernelswarm.agents.compiled.vector_population import VectorPopulation
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.forms import learner_form
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.agents.node.lossy_stacked import LossyStackedAgent
from kernelswarm.agents.node.lossy_vectors import LossyVectorNode
from kernelswarm.agents.node.node import Node, Outgoing
from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.agents.node.vectors import VectorNode
from kernelswarm.agents.populations import stacked_population
from kernelswarm.agents.populations.lossy_stacked_population import LossyStackedPopulation
from kernelswarm.agents.populations.stacked_population import StackedPopulation, members_of, members_sent
from kernelswarm.protocols.compiled import NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.contract import StackedRule
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.first_class import Compiled
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.replay import replay_of

AnyPopulation = Population | VectorPopulation | StackedPopulation | LossyStackedPopulation


def obstacle(learners: Sequence[Learner], rule: AnyRule, ideal: bool = True, banded: bool = False) -> str | None:
    """Say what keeps nodes with these parts, and links and clocks that are ideal or not, out of compiled rounds.

    Data that end are no obstacle; on links that are not ideal and of vectors, nodes leave compiled rounds for good
    then. ``banded`` says whether they keep conformal bands.
    """
    if banded and (not ideal or isinstance(rule, ParameterRule)):
        what = "vectors" if isinstance(rule, ParameterRule) else "links that are not ideal"
        return f"conformal bands beside {what}"
    if isinstance(rule, ParameterRule):
        return vector_population.obstacle(learners, rule)
    if not ideal and 0.0 < replay_of(rule).points < 1.0:
        return "points that are replayed at a rate on links that are not ideal"
    if not ideal and len({learner.batch_size for learner in learners}) > 1:
        return "batch sizes that differ from node to node on links that are not ideal"
    return stacked_population.obstacle(rule) if fulfils(rule, StackedRule) else None


def in_python(learners: Sequence[Learner], rule: AnyRule) -> str | None:
    """Name a part in plain Python that compiled rounds call; None where there is none."""
    for member in rule.members if fulfils(rule, StackedRule) else (rule,):
        try:
            if member.communicates:
                handed_over(member, "protocol")
        except NotCompiledError as cause:
            return str(cause)
    for learner in dict.fromkeys(learners):
        if isinstance(learner_form(learner), PlainLearner):
            return f"the learner {type(learner).__name__}"
        for kind, part in (("loss", learner.loss), ("kernel", getattr(learner, "kernel", None))):
            if part is not None and not hands_over(part):
                return f"the {kind} {type(part).__name__}"
    return None


def round_of_evaluations(ideal: bool) -> Compiled:
    """Return the compiled round of nodes that send evaluations, over links and by clocks that are ideal or not."""
    return run_rounds if ideal else run_lossy_rounds


def populated(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> AnyPopulation:
    """Move nodes into arrays, with what they and the nodes that they hear sent last."""
    vectors = [node for node in nodes if isinstance(node, VectorNode)]
    if vectors:
        on_lossy_links = [node for node in vectors if isinstance(node, LossyVectorNode)]
        return (
            LossyVectorPopulation(on_lossy_links, messages) if on_lossy_links else VectorPopulation(vectors, messages)
        )
    stacked = [node for node in nodes if isinstance(node, StackedAgent)]
    if stacked:
        late = [node for node in stacked if isinstance(node, LossyStackedAgent)]
        return LossyStackedPopulation(late, messages) if late else StackedPopulation(stacked, messages)
    agents = [node for node in nodes if isinstance(node, Agent)]
    lossy = [agent for agent in agents if isinstance(agent, LossyAgent)]
    return LossyPopulation(lossy, messages) if lossy else Population(agents, messages)


def prime(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> bool:
    """Ready nodes that have only sent their first points for arrays, where they need not answer one by one."""
    agents = [node for node in nodes if isinstance(node, Agent) and not isinstance(node, LossyAgent)]
    return bool(messages) and len(agents) == len(nodes) and drawing.prime(agents, messages)


def fits(nodes: Sequence[Node], messages: Mapping[int, Outgoing]) -> bool:
    """Tell whether every node has learned its part of priming, and, of vectors and on links that are not ideal, every
    batch in flight is whole."""
    vectors = [node for node in nodes if isinstance(node, VectorNode)]
    if vectors:
        return vector_population.fits(vectors)
    late = [node for node in nodes if isinstance(node, LossyStackedAgent)]
    if late:
        return all(_all_there(members_of(late, k), members_sent(messages, k)) for k in range(len(late[0].ensemble)))
    if any(node.own is None or node.following is None or node.targets is None for node in nodes):
        return False
    lossy = [node for node in nodes if isinstance(node, LossyAgent)]
    return not lossy or _all_there(lossy, messages)


def _all_there(agents: Sequence[Agent], messages: Mapping[int, Outgoing]) -> bool:
    """Tell whether every batch of agents on links that are not ideal is whole, in flight and in what they keep."""
    samples, size = agents[0].learner.batch_size, sent_points(agents)
    sent = [messages[node].points for node in outside_of(agents)]
    for agent in agents:
        if agent.own is None or agent.following is None or agent.targets is None:
            return False
        following, targets = agent.following
        if len(agent.targets) != samples or len(targets) != samples:
            return False
        sent += [agent.own.points, following, *(evaluation.points for evaluation in agent.theirs)]
    late = [agent for agent in agents if isinstance(agent, LossyAgent)]
    return all(len(points) == size for points in sent) and whole(late)
