"""Whether nodes can tell one another how certain they are, where a protocol has them do so."""

from collections.abc import Iterable

from kernelswarm.agents.learners.contract import TeachableLearner
from kernelswarm.protocols.core.certainty import certainty_of
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.round.block import AgentPlan


def refuse_uncertain(plans: Iterable[AgentPlan], ideal: bool) -> None:
    """Refuse learners that know no variance, and links or clocks that are not ideal, where variances travel.

    Raises
    ------
    InputError
        Names the key, the learner and its node.
    """
    for plan in plans:
        ratio = certainty_of(plan.rule)
        if not ratio:
            return
        if not fulfils(plan.learner, TeachableLearner):
            raise InputError(
                f"protocol.certainty = {ratio:g}: the learner {part_name(plan.learner)} of node "
                f'{plan.neighborhood.node} does not know how certain it is: take learner.name = "newton", "rls" or '
                '"krls", or set protocol.certainty = 0'
            )
        if not ideal:
            raise InputError(
                f"protocol.certainty = {ratio:g} needs links and a clock that are ideal: set it to 0, or leave out "
                "links, clock and topology.schedule"
            )
