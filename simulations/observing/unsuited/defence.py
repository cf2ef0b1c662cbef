"""Whether a defence that leaves out the farthest answers has anybody to leave out."""

from __future__ import annotations

from collections.abc import Sequence

from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.simulations.round.block import AgentPlan

UNDEFENDED = "undefended"

TOO_FEW = 2
"""Neighbours of whom neither trimmed means nor medians leave one out."""


def undefended(plans: Sequence[AgentPlan], rule: AnyRule) -> dict[str, str]:
    """Warn, by ``UNDEFENDED``, that most nodes have too few neighbours for means without the farthest.

    The mean and the median of two answers are the same, and hold half of what a faulty one is off by. That then stands
    in the place of the sound one's, too.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand.
    rule : AnyRule
        The protocol.
    """
    defence = getattr(rule, "robust", "none")
    if defence not in ("trimmed", "median"):
        return {}
    few = sum(0 < len(plan.neighborhood.neighbors) <= TOO_FEW for plan in plans)
    if 2 * few <= len(plans):
        return {}
    text = (
        f'protocol.robust = "{defence}" defends nobody at {few:,} of {len(plans):,} nodes, which have at most '
        f"{TOO_FEW} neighbours: none can be left out, and a faulty answer stands for sound ones too: take "
        'robust = "trust" or "clipped", or a network of higher degrees'
    )
    return {UNDEFENDED: text}
