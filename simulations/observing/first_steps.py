"""Whether compression undoes every step from f = 0, as the first samples tell before a run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.learners.contract import CompressingLearner
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.experiment.parts import describe
from kernelswarm.simulations.round.block import AgentPlan

STEPS = 64
"""First steps that are looked at."""


class FirstSteps(NamedTuple):
    """The steps from f = 0 on some samples.

    Attributes
    ----------
    largest : float
        The largest Hilbert norm of a step.
    budget : float
        eps, the norm that compression may undo; 0 where it undoes nothing.
    """

    largest: float
    budget: float

    @property
    def undone(self) -> bool:
        """Whether every one of them is undone, so that f stays 0."""
        return 0.0 < self.largest <= self.budget


def first_steps(plan: AgentPlan) -> FirstSteps | None:
    """Compute ``max ||eta / b sum_k g_k kappa(x_k, .)||`` over batches of samples that a node never learns from.

    Returns
    -------
    FirstSteps or None
        None where the learner does not compress, its steps are of another form, or there are no samples.
    """
    learner = plan.learner
    if not isinstance(learner, CompressingLearner) or not learner.linear:
        return None
    state, size = learner.init(plan.inputs, plan.outputs), learner.batch_size
    held_out = plan.evaluated[0][1].held_out(0)
    points, targets = np.array(held_out.points), np.array(held_out.targets)
    largest = 0.0
    for start in range(0, min(len(points), STEPS * size) - size + 1, size):
        own = learner.evaluate(state, points[start : start + size])
        weights = learner.eta(state) / size * learner.gradient(state, own, targets[start : start + size])
        largest = max(largest, float(np.sum(weights * (learner.inner(state, own) @ weights))) ** 0.5)
    return FirstSteps(largest, learner.compression_budget(state)) if largest else None


def warning(plans: Sequence[AgentPlan]) -> str:
    """Warn with the number of nodes whose first steps are all undone, and the remedy; empty where there is none."""
    found = [(plan, steps) for plan in plans if (steps := first_steps(plan)) is not None and steps.undone]
    if not found:
        return ""
    plan, steps = found[0]
    where = "" if len(found) == len(plans) else f" at {len(found):,} of {len(plans):,} nodes that were looked at"
    return (
        f"nothing will be learned{where}: of the first steps of node {plan.neighborhood.node} the largest moves the "
        f"function by {steps.largest:.3g}, and compression undoes what is within eps = {steps.budget:.3g}: "
        f"{remedy(describe(plan.learner))}"
    )


def remedy(learner: Mapping[str, Any]) -> str:
    """Return the keys that let a learner learn whose steps are all undone, from its table of keys.

    A larger step helps only where eps is a number: all other budgets grow with the step, most as fast as it.
    """
    budget, texts = learner.get("budget"), "lower learner.budget"
    if budget is not None:
        texts += f" = {shown(budget)}"
    if isinstance(budget, Mapping) and "epsilon" in budget:
        texts += f" or raise learner.step_size = {shown(learner['step_size'])}"
    return texts
