"""Whether neighbours' points leave a node's own samples little room, where a learner keeps its newest points."""

from __future__ import annotations

from collections.abc import Sequence

from kernelswarm.protocols.contract import StackedRule
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.round.measure import Report

OWN_CROWDED_OUT = "own_crowded_out"


def crowding(plans: Sequence[AgentPlan], rule: AnyRule, report: Report) -> dict[str, str]:
    """Warn, by ``OWN_CROWDED_OUT``, where full dictionaries hold neighbours' points in the place of own samples.

    In a symmetric form all points of a round enter, b own ones and b_j of each neighbour, and are as old as one
    another. So of B points at most B b / (b + sum_j b_j) are own samples.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand.
    rule : AnyRule
        The protocol.
    report : Report
        Of the last evaluation.
    """
    if not rule.communicates or rule.form != "symmetric" or fulfils(rule, StackedRule):
        return {}
    orders = dict(zip(report.nodes.tolist(), report.figures["model_order"].tolist(), strict=True))
    full: list[tuple[int, float]] = []
    for plan in plans:
        room = getattr(plan.learner, "budget_size", 0) if getattr(plan.learner, "keeps_newest", False) else 0
        here = plan.neighborhood
        if room and here.neighbors and orders.get(here.node, 0.0) >= room:
            full.append((room, here.batch_size / (here.batch_size + sum(here.batch_sizes))))
    if 2 * len(full) <= len(plans):
        return {}
    room, share = full[0][0], min(part for _, part in full)
    text = (
        f"neighbours' points crowd out own samples at {len(full):,} of {len(plans):,} nodes: of the newest "
        f"{room:,} points that each keeps at most {max(1, round(room * share)):,} are its own: raise "
        f'learner.budget_size to {round(room / share):,}, or set protocol.form = "one_sided"'
    )
    return {OWN_CROWDED_OUT: text}
