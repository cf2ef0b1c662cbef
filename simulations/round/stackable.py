"""The networks in which nodes may have several copies of their learner."""

from collections.abc import Sequence
from dataclasses import replace

from kernelswarm.agents.functions.contract import Averageable
from kernelswarm.agents.learners.contract import ValueLearner
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.links.links import IDEAL, Links
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.round.block import AgentPlan


def refuse_unstackable(plans: Sequence[AgentPlan]) -> None:
    """Refuse links and learners that nodes with several copies of their learner do not support.

    Raises
    ------
    InputError
        A message of several copies does not support the links, or the learner's functions have no mean.
    """
    name = part_name(plans[0].rule)
    conditions = plans[0].conditions
    if conditions is not None and not stackable(conditions.links):
        raise InputError(
            f'protocol.name = "{name}" sends the values of several functions in one message, and the shares of these, '
            "which neither noise nor triggers are made for: leave links.noise, clip, trigger and bandwidth out, or "
            'take the protocol "proximity"'
        )
    for learner, plan in {plan.learner: plan for plan in plans[::-1]}.items():
        function = learner.function(learner.init(plan.inputs, plan.outputs))
        if fulfils(learner, ValueLearner) or not fulfils(function, Averageable):
            reason = "rewards are no targets" if fulfils(learner, ValueLearner) else "its functions have no mean"
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {plan.neighborhood.node}: the protocol {name} answers '
                f"with the mean of several functions, weighed by what they predict, and {reason}: take a kernel "
                'expansion, such as "polk" or "newton", or "random_features", or the protocol "proximity"'
            )


def stackable(links: Links) -> bool:
    """Tell whether links lose, delay and round messages, and nothing else."""
    return replace(links, loss=IDEAL.loss, delay=IDEAL.delay, quantization=IDEAL.quantization).ideal
