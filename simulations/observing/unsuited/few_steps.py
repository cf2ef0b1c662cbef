"""Whether a mini-batch takes all rows of a node, so that a pass over them is a single step."""

from __future__ import annotations

from collections.abc import Sequence

from kernelswarm.agents.learners.contract import ScheduledLearner
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.streams.contract import Source

SINGLE_STEP = "single_step"


def single_step(plans: Sequence[AgentPlan], source: Source) -> dict[str, str]:
    """Warn, by ``SINGLE_STEP``, that no node has more rows than a batch takes; empty where one has.

    A step of descent goes a part of the way, however many samples it is made of. Learners that solve for their
    weights are done with one.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand.
    source : Source
        The opened stream.
    """
    learner, size = plans[0].learner, plans[0].learner.batch_size
    if source.lengths is None or not fulfils(learner, ScheduledLearner) or not hasattr(learner, "regularization"):
        return {}
    rows = max(source.lengths) // source.epochs
    if not 1 < rows <= size:
        return {}
    passes = "the run is one step" if source.epochs == 1 else f"the run is {source.epochs:,} steps"
    return {
        SINGLE_STEP: f"{passes}: learner.batch_size = {size:,} takes all rows of a node, {rows:,} at most: lower it"
    }
