"""Which networks can be lived through by nodes with copies of their learner."""

from collections.abc import Sequence

from kernelswarm.agents.functions.contract import Averageable
from kernelswarm.agents.learners.contract import ValueLearner
from kernelswarm.protocols.fulfilling import fulfils
from kernelswarm.simulations.experiment.naming import part_name
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.round.block import AgentPlan


def refuse_unstackable(plans: Sequence[AgentPlan]) -> None:
    """Refuse what nodes with copies of their learner do not know.

    Raises
    ------
    InputError
        Messages or nodes may be absent, or the learner's functions have no mean.
    """
    name = part_name(plans[0].rule)
    if plans[0].conditions is not None:
        raise InputError(
            f"protocol.name = {name!r} knows ideal links, a network that stays and nodes that are always awake: leave "
            'links, clock and topology.schedule out and the graph undirected, or take the protocol "proximity"'
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
