"""Which networks can be lived through by nodes with copies of their learner."""

from collections.abc import Sequence
from dataclasses import replace

from kernelswarm.agents.functions.contract import Averageable
from kernelswarm.agents.learners.contract import ValueLearner
from kernelswarm.protocols.clocks.presence import forgets
from kernelswarm.protocols.fulfilling import fulfils
from kernelswarm.protocols.links.links import IDEAL
from kernelswarm.protocols.weather.weather import Conditions
from kernelswarm.simulations.experiment.naming import part_name
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.round.block import AgentPlan


def refuse_unstackable(plans: Sequence[AgentPlan]) -> None:
    """Refuse what nodes with copies of their learner do not know.

    Raises
    ------
    InputError
        The links change messages, the network changes, nodes forget, or the learner's functions have no mean.
    """
    name = part_name(plans[0].rule)
    conditions = plans[0].conditions
    if conditions is not None and not stackable(conditions):
        raise InputError(
            f"protocol.name = {name!r} knows links that lose and delay messages and clocks with memory, in an "
            "undirected network that stays: leave links.quantization, noise, clip, trigger and bandwidth, "
            'clock.memory = false and topology.schedule out, or take the protocol "proximity"'
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


def stackable(conditions: Conditions) -> bool:
    """Tell whether the weather is the same for all copies, and what they send is as alone."""
    links = conditions.links
    whole = replace(links, loss=IDEAL.loss, delay=IDEAL.delay).ideal
    return whole and conditions.timetable is None and not conditions.directed and not forgets(conditions.clock)
