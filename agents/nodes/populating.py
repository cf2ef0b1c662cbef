"""The choice of the arrays into which agents are moved."""

from collections.abc import Sequence

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.learners.plain_features import feature_form, learner_form
from kernelswarm.agents.nodes.agent import Agent
from kernelswarm.agents.nodes.node import Node
from kernelswarm.agents.nodes.passes import obstacle
from kernelswarm.agents.nodes.population import Population, population_of
from kernelswarm.agents.nodes.rounds import run_lossy_rounds, run_rounds
from kernelswarm.agents.nodes.stacked import StackedAgent
from kernelswarm.agents.nodes.stacked_population import StackedPopulation
from kernelswarm.agents.nodes.summaries import SummaryNode
from kernelswarm.agents.nodes.summaries_population import SummaryPopulation
from kernelswarm.agents.nodes.vector_population import VectorPopulation
from kernelswarm.agents.nodes.vectors import VectorNode
from kernelswarm.protocols.compiled import NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.protocols.core.addresses import Compiled
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.summaries import SummaryRule

AnyPopulation = Population | VectorPopulation | StackedPopulation | SummaryPopulation


def _in_plain_python(rule: AnyRule) -> str | None:
    """Return the name of a protocol without compiled functions, or None if it has them or sends nothing."""
    try:
        if rule.communicates and not fulfils(rule, SummaryRule):
            handed_over(rule, "protocol")
    except NotCompiledError as cause:
        return str(cause)
    return None


def in_python(learners: Sequence[Learner], rule: AnyRule) -> str | None:
    """Return the name of a part in plain Python that is called in compiled rounds, or None."""
    for asked in (rule, *(rule.members if fulfils(rule, StackedRule) else ())):
        cause = _in_plain_python(asked)
        if cause is not None:
            return cause
    form_of = feature_form if isinstance(rule, ParameterRule) else learner_form
    for learner in dict.fromkeys(learners):
        if isinstance(form_of(learner), PlainLearner):
            return obstacle(learner) or f"the learner {type(learner).__name__}"
        for kind in ("loss", "kernel", "budget", "dispersion", "mirror_map", "subspace_step", "censoring"):
            part = getattr(learner, kind, None)
            if part is not None and not hands_over(part):
                return f"the {kind.replace('_', ' ')} {type(part).__name__}"
    return None


def round_of_evaluations(ideal: bool) -> Compiled:
    """Return the compiled round of nodes that send evaluations, on ideal or unreliable links and clocks."""
    return run_rounds if ideal else run_lossy_rounds


def populated(nodes: Sequence[Node]) -> AnyPopulation:
    """Move nodes into arrays."""
    summaries = [node for node in nodes if isinstance(node, SummaryNode)]
    if summaries:
        return SummaryPopulation(summaries)
    vectors = [node for node in nodes if isinstance(node, VectorNode)]
    if vectors:
        return VectorPopulation(vectors)
    stacked = [node for node in nodes if isinstance(node, StackedAgent)]
    if stacked:
        return StackedPopulation(stacked)
    return population_of([node for node in nodes if isinstance(node, Agent)])
