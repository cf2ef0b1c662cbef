"""The nodes with a band of the given level, from their variance or from their samples."""

from collections.abc import Sequence
from dataclasses import replace

from kernelswarm.agents.learners.contract import Learner, LearnerWithVariance, ValueLearner
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.protocols.parameters.contract import AnyRule, InformedRule, ParameterRule
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.experiment.experiment import Evaluation


def with_bands(evaluation: Evaluation, plans: Sequence[AgentPlan]) -> list[AgentPlan]:
    """Return the plans of agents with the bands that are asked for.

    Raises
    ------
    InputError
        A learner's function does not predict its targets, so that no band lies around it.
    """
    if not evaluation.level:
        return list(plans)
    known: dict[int, bool] = {}
    found = []
    for plan in plans:
        learner = plan.learner
        if id(learner) not in known:
            _refuse(learner)
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


def _refuse(learner: Learner) -> None:
    loss = learner.loss
    if loss.task == "regression" and grid_of(loss) is None and not fulfils(learner, ValueLearner):
        return
    remedy = "predict_proba of its models gives probabilities" if loss.task != "regression" else "leave the key out"
    raise InputError(
        f"evaluation.level: a band lies around predictions of numbers, and the loss {loss} of {type(learner).__name__} "
        f"has none: {remedy}"
    )
