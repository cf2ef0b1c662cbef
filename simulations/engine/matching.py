"""Refusals of learners, links and steps that do not match the protocol of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from kernelswarm.agents.functions.contract import Averageable, Function
from kernelswarm.agents.learners.contract import (
    FeatureLearner,
    Learner,
    MixtureLearner,
    ScheduledLearner,
    TeachableLearner,
    ValueLearner,
)
from kernelswarm.agents.learners.linear_in_features import LinearInFeatures
from kernelswarm.agents.nodes.summaries import fits_cells
from kernelswarm.protocols.contract import Rule, StackedRule, fulfils, least_bits_of, strengths_of
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import IDEAL, Clip, Links
from kernelswarm.protocols.links.realization import Conditions
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.parameters.neighbours import Tolerant
from kernelswarm.protocols.parameters.summed_duals import SummedDuals
from kernelswarm.protocols.replay import certainty_of
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.core.errors import InputError, listed, shown
from kernelswarm.simulations.core.own_code import is_own
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.failures import Asked
from kernelswarm.simulations.experiment.registry import part_name


def refuse_other_learners(plans: Sequence[AgentPlan]) -> None:
    """Refuse learners that do not match the protocol: a protocol of vectors needs weights of shared features.

    Raises
    ------
    InputError
        Names the learner, its node and the protocol.
    """
    first = plans[0]
    rule, name = first.rule, part_name(first.rule)
    for learner, plan in {plan.learner: plan for plan in plans[::-1]}.items():
        if is_own(type(learner)):
            _refuse_incomplete(learner, plan)
    if fulfils(rule, StackedRule):
        _refuse_unstackable(plans)
    if fulfils(rule, SummaryRule):
        _refuse_without_cells(plans)
    if not fulfils(rule, ParameterRule):
        return
    for learner, plan in {plan.learner: plan for plan in plans[::-1]}.items():
        node = plan.neighborhood.node
        mixture = fulfils(learner, MixtureLearner)
        if rule.mixes and not mixture:
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {node}: the protocol {name} mixes random features of '
                'several kernels: take learner.name = "raker", or the protocol diffusion with "random_features"'
            )
        if mixture != rule.mixes or not isinstance(learner, FeatureLearner):
            mixing = ', the protocol domkl with learner.name = "raker"' if mixture else ""
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {node}: the protocol {name} sends the weights of '
                'features that all nodes share: take learner.name = "random_features", "shared_nystroem" or "linear"'
                f"{mixing}, or the protocol consensus, which sends values"
            )
        if rule.quadratic and not learner.loss.quadratic:
            raise InputError(
                f'learner.loss = "{part_name(learner.loss)}" of node {node}: the protocol {name} solves least squares: '
                'take learner.loss = "squared", or the protocol diffusion or odkla, which take any loss'
            )
        mine, theirs = (part.learner.function(part.learner.init(part.inputs, part.outputs)) for part in (plan, first))
        if math.isnan(mine.distance(theirs)):
            raise InputError(
                f"learner: nodes {first.neighborhood.node} and {node} have other features, and the protocol {name} "
                "averages their weights: give all nodes the same kernel, number of features and learner.seed, or "
                "the same landmarks"
            )


def _refuse_incomplete(learner: Learner, plan: AgentPlan) -> None:
    """Raise an error if a user's learner returns functions without a method that the run needs."""
    function = learner.function(learner.init(plan.inputs, plan.outputs))
    wanted = [name for name in vars(Function) if not name.startswith("_")]
    wanted += ["coefficients", "features", "shrunk"] if isinstance(learner, LinearInFeatures) else []
    lacking = [name for name in wanted if not hasattr(function, name)]
    if lacking:
        raise InputError(
            f'learner.name = "{part_name(learner)}" of node {plan.neighborhood.node}: its functions, of the class '
            f"{type(function).__name__}, lack {listed(lacking)}: agents/functions/contract.py says what each is"
        )


def _refuse_unstackable(plans: Sequence[AgentPlan]) -> None:
    """Refuse links that messages of several copies do not support, and learners whose functions have no mean."""
    name = part_name(plans[0].rule)
    conditions = plans[0].conditions
    if conditions is not None and not _stackable(conditions.links):
        raise InputError(
            f'protocol.name = "{name}" sends the values of several functions and their mixture weights in one message, '
            "without noise or triggers: leave links.noise, clip, trigger and bandwidth out, or "
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


def _refuse_without_cells(plans: Sequence[AgentPlan]) -> None:
    """Refuse learners that cannot be fitted to weighted means of samples, and links that change the numbers in them."""
    name = part_name(plans[0].rule)
    conditions = plans[0].conditions
    if conditions is not None:
        links = conditions.links
        borne = replace(links, loss=IDEAL.loss, delay=IDEAL.delay, noise=IDEAL.noise, clip=IDEAL.clip)
        if not borne.ideal:
            raise InputError(
                f'protocol.name = "{name}" passes means on from node to node, and a change by a link would go on for '
                "ever: leave links.quantization, trigger and bandwidth out"
            )
        if (links.noise.scale or links.clip != IDEAL.clip) and plans[0].learner.loss.task != "regression":
            raise InputError(
                f'protocol.name = "{name}" sends shares of classes, which neither noise nor clipping suits: leave '
                "links.noise and links.clip out"
            )
    for learner, plan in {plan.learner: plan for plan in plans[::-1]}.items():
        node, loss = plan.neighborhood.node, part_name(learner.loss)
        if loss not in ("squared", "logistic", "multiclass_logistic"):
            raise InputError(
                f'learner.loss = "{loss}" of node {node}: the protocol {name} fits functions to means of samples, '
                'which suffice for the squared loss, and for "logistic" and "multiclass_logistic" by counts: take one '
                'of these, or the protocol "consensus"'
            )
        if not fits_cells(learner, plan.inputs, plan.outputs):
            raise InputError(
                f'learner.name = "{part_name(learner)}" of node {node}: the protocol {name} fits a sum of kernels or '
                'of fixed features: take "newton", "polk", "krls", "rls", "random_features" or "linear", or the '
                'protocol "consensus"'
            )
        walk = getattr(learner, "process_noise", 0.0)
        if walk > 0.0:
            raise InputError(
                f"learner.process_noise = {shown(walk)} of node {node}: the cells of the protocol "
                f"{name} are means of samples, and no weights walk there: set learner.forgetting instead, or take the "
                'protocol "consensus"'
            )
        if getattr(learner, "forgetting", 1.0) == "auto":
            raise InputError(
                f'learner.forgetting = "auto" of node {node}: the cells of the protocol {name} forget by a number, '
                'such as 0.99, or not at all: set learner.forgetting, or take the protocol "consensus"'
            )


def _stackable(links: Links) -> bool:
    """Tell whether links only lose, delay and round messages."""
    return replace(links, loss=IDEAL.loss, delay=IDEAL.delay, quantization=IDEAL.quantization).ideal


def refuse_unstable(plan: AgentPlan) -> None:
    """Refuse explicit steps whose stability rule is broken before the first round.

    Raises
    ------
    InputError
        Names the step size, the node and the rule.
    """
    rule, learner, scheduled = plan.rule, plan.learner, plan.learner
    degree = len(plan.neighborhood.neighbors) if rule.communicates else 0
    with Asked("protocol", rule):
        links = plan.begin()
    if rule.step != "explicit" or learner.gain is None or not fulfils(scheduled, ScheduledLearner):
        return
    stiffness = 0.0
    if not (fulfils(rule, ParameterRule) or fulfils(rule, StackedRule)):
        with Asked("protocol", rule):
            stiffness = _coupling_curvature(cast(Rule, rule), links, degree, plan.outputs)
    curvature = learner.loss.curvature if learner.loss.quadratic else 0.0
    factor = scheduled.step_size.largest / learner.batch_size * learner.gain * (curvature + stiffness)
    if factor >= 2.0:
        strengths = [f" or protocol.{key} = {value:g}" for key, value in strengths_of(rule).items() if value < math.inf]
        lower = "".join(["learner.step_size", *strengths])
        raise InputError(
            f"learner.step_size = {scheduled.step_size.largest:g} is unstable at node {plan.neighborhood.node} "
            f"with {degree} neighbours: the explicit step needs step_size / batch_size * (loss curvature "
            f"{curvature:g} + coupling {stiffness:g}) below 2, and it is {factor:.3g}: "
            f'lower {lower}, or use protocol.step = "implicit"'
        )


def _coupling_curvature(rule: Rule, links: object, degree: int, outputs: int) -> float:
    """Return the curvature of a rule's coupling at a node's own samples before the first round."""
    if not degree:
        return 0.0
    return float(rule.coupling_gradient(links, np.zeros((1, outputs)), np.zeros((degree, 1, outputs))).curvatures.sum())


# Whether links suit the messages of a protocol: variances need unchanged values, sums need many bits.

FAILING = {
    "links": ("messages may be lost, late or changed", "leave links out"),
    "clock": ("nodes sleep", 'set clock.name = "synchronous"'),
    "topology.schedule": ("edges come and go", "leave topology.schedule out"),
    'fault.of = "messages"': ("faulty nodes send something else", 'set fault.of = "data"'),
    "topology": ("some edges are one-way", "make the network undirected"),
    "stream": ("some nodes have no sample in some rounds", "leave out the rows without a target"),
}
"""Reasons why a tree does not support the conditions of each key, and remedies."""


def refuse_uncertain(plans: Iterable[AgentPlan]) -> None:
    """Raise an error for unsuited learners, links and nodes if messages contain variances.

    Learners must know a variance, and values must arrive unchanged. The variance of a late or repeated message is
    correct, but not the variance of a rounded, noisy or clipped message, or of a faulty node.

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
    """Raise an error for links, edges and nodes that may fail if messages use a spanning tree.

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
    """Raise an error for messages in some rounds only, with a trigger or with ADMM on unreliable links.

    A trigger compares a vector with the newest one, which may not have been sent. Duals computed from sums count the
    messages of each round.

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
    if isinstance(plan.rule, SummedDuals | Tolerant) and not replace(conditions, every=1).ideal:
        raise InputError(
            f"{every}: the duals of ADMM miss steps between messages that are rounds apart: leave out links, "
            "clock, topology.schedule and faults of messages, or set protocol.every = 1"
        )


def refuse_coarse(plans: Sequence[AgentPlan]) -> None:
    """Raise an error for too few bits if a protocol forwards rounded numbers.

    Raises
    ------
    InputError
        The message names the key, the protocol and the minimum number.
    """
    plan = plans[0]
    least = least_bits_of(plan.rule)
    if plan.conditions is None or plan.conditions.links.bits >= least:
        return
    raise InputError(
        f"links.quantization.bits = {plan.conditions.links.bits}: the protocol {part_name(plan.rule)} passes on sums "
        f"that were rounded before, and the losses add up: take {least} bits at least, or a protocol that "
        "rounds the sums of each round by themselves, such as drfgp"
    )


# Whether data suit a learner of a value function, whose targets are rewards.


def refuse_other_rewards(learner: Learner, source: Source, label: int) -> None:
    """Refuse rewards with another discount than the learner's, or with their mean subtracted.

    Raises
    ------
    InputError
        Starting with the key at fault.
    """
    if not fulfils(learner, ValueLearner):
        return
    if source.discount is not None and source.discount != learner.discount:
        raise InputError(
            f"learner.discount = {learner.discount:g} of node {label} must be stream.discount = {source.discount:g}: "
            "the values that it is measured against are of that discount: make them the same"
        )
    mean = source.description.targets.mean
    if mean is not None and np.any(mean):
        raise InputError(
            f'stream.standardize_targets moves rewards by their mean, and learner.name = "{part_name(learner)}" (node '
            f"{label}) learns discounted sums of rewards, which move by more: set stream.standardize_targets = false"
        )
