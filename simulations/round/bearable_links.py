"""Whether links bear what a protocol sends: variances where nothing changes values, sums where few bits are lost."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernelswarm.agents.learners.contract import TeachableLearner
from kernelswarm.protocols.contract import least_bits_of
from kernelswarm.protocols.core.certainty import certainty_of
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import Clip
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.protocols.parameters.summed_duals import DualRule, SummedDuals
from kernelswarm.protocols.unreliable.realization import Conditions
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.round.block import AgentPlan

FAILING = {
    "links": ("messages may be lost, late or changed", "leave links out"),
    "clock": ("nodes sleep", 'set clock.name = "synchronous"'),
    "topology.schedule": ("edges come and go", "leave topology.schedule out"),
    'fault.of = "messages"': ("faulty nodes send something else", 'set fault.of = "data"'),
    "topology": ("some edges are one-way", "make the network undirected"),
    "stream": ("some nodes have no sample in some rounds", "leave out the rows without a target"),
}
"""Why a tree does not bear the conditions of each key, and what to do."""


def refuse_uncertain(plans: Iterable[AgentPlan]) -> None:
    """Refuse learners that know no variance, and links and nodes that change values, where variances travel.

    The variance of a late or repeated message is right. That of a rounded, noisy or clipped one is not, nor that of a
    faulty node.

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
        conditions = plan.conditions
        if conditions is None:
            continue
        links = conditions.links
        for key, changes in (
            ("links.quantization", links.bits != EXACT),
            ("links.noise", links.noise.scale > 0.0),
            ("links.clip", links.clip != Clip()),
            ("fault", bool(conditions.faults)),
        ):
            if changes:
                raise InputError(
                    f"protocol.certainty = {ratio:g} takes a value to be as certain as it was where it was sent, and "
                    f"{key} changes it: leave out {key}, or set protocol.certainty = 0"
                )


def refuse_failing(rule: AnyRule, conditions: Conditions) -> None:
    """Refuse links, edges and nodes that may fail, where messages travel over a spanning tree.

    Raises
    ------
    InputError
        Names the key and the protocol.
    """
    for key, fails in (
        ("links", not conditions.links.ideal),
        ("clock", not conditions.clock.ideal),
        ("topology.schedule", conditions.timetable is not None),
        ('fault.of = "messages"', bool(conditions.faults)),
        ("topology", conditions.directed),
        ("stream", conditions.absences is not None),
    ):
        if fails:
            cause, remedy = FAILING[key]
            raise InputError(
                f"{key}: {cause}, and the protocol {part_name(rule)} sends everything once over a spanning tree, where "
                f"nothing may fail: {remedy}, or take another protocol"
            )


def refuse_silent(plan: AgentPlan) -> None:
    """Refuse messages in some rounds only where links hold others back, or where ADMM has to make up for lost ones.

    A trigger compares a vector with the newest, which may not have been sent. Duals from sums count messages of each
    round.

    Raises
    ------
    InputError
        Names both keys.
    """
    conditions = plan.conditions
    if conditions is None or conditions.every == 1:
        return
    every, trigger = f"protocol.every = {conditions.every}", conditions.links.trigger.threshold
    if trigger:
        raise InputError(f"{every} and links.trigger.threshold = {trigger:g} both hold messages back: leave one out")
    if isinstance(plan.rule, SummedDuals | DualRule) and not replace(conditions, every=1).ideal:
        raise InputError(
            f"{every}: the duals of ADMM miss what is lost between messages that are rounds apart: leave out links, "
            "clock, topology.schedule and faults of messages, or set protocol.every = 1"
        )


def refuse_coarse(plans: Sequence[AgentPlan]) -> None:
    """Refuse fewer bits than a protocol needs that sends on rounded numbers.

    Raises
    ------
    InputError
        Names the key, the protocol and the least number.
    """
    plan = plans[0]
    least = least_bits_of(plan.rule)
    if plan.conditions is None or plan.conditions.links.bits >= least:
        return
    raise InputError(
        f"links.quantization.bits = {plan.conditions.links.bits}: the protocol {part_name(plan.rule)} passes on sums "
        f"that were rounded before, and what is lost adds up: take {least} bits at least, or a protocol that "
        "rounds the sums of each round by themselves, such as drfgp"
    )
