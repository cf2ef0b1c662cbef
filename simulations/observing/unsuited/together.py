"""All that a run which came to its end says of what does not suit one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.simulations.observing.training_rows import TrainingRows
from kernelswarm.simulations.observing.unsuited.crowding import crowding
from kernelswarm.simulations.observing.unsuited.defence import undefended
from kernelswarm.simulations.observing.unsuited.few_steps import single_step
from kernelswarm.simulations.observing.unsuited.loss_units import in_other_units
from kernelswarm.simulations.observing.unsuited.positive import unreachable
from kernelswarm.simulations.observing.unsuited.strongly_regularized import strongly_regularized
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.round.measure import Report
from kernelswarm.simulations.streams.contract import Source
from kernelswarm.simulations.streams.pooled import members

NODES = 20
"""Nodes whose rows are looked at, at most."""


def unsuited(
    plans: Sequence[AgentPlan], rule: AnyRule, source: Source, rows: TrainingRows, report: Report
) -> dict[str, str]:
    """Return these warnings, a sentence each, by kind; empty where nothing is wrong.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand; the first one's learner stands for all where it is compared with targets.
    rule : AnyRule
        The protocol.
    source : Source
        The opened stream.
    rows : TrainingRows
        What the nodes learned from.
    report : Report
        Of the last evaluation.
    """
    learner, outputs = plans[0].learner, plans[0].outputs
    found = undefended(plans, rule) | crowding(plans, rule, report)
    if rule.offline is None:
        found |= single_step(plans, source)
    if learner.loss.task == "regression":
        targets = np.concatenate([rows.of(place, 0).targets for place in members(len(source.nodes), NODES)])
        found |= unreachable(learner, targets, source.description.targets)
        found |= in_other_units(learner.loss, targets) | strongly_regularized(learner, outputs, targets)
    return found
