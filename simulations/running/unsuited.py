"""Warnings about settings that do not suit the data or one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.learners.contract import CompressingLearner, Learner, ScheduledLearner
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows, loss_derivatives
from kernelswarm.agents.parts.sample import spaced
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.data.contract import HeldOut, Source
from kernelswarm.simulations.data.pooled import members
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.experiment.parts import describe
from kernelswarm.simulations.running.baseline import TrainingRows, best_constant

# Dictionaries of the newest points in which neighbours' points leave little room for the node's own samples.

OWN_CROWDED_OUT = "own_crowded_out"


def crowding(plans: Sequence[AgentPlan], rule: AnyRule, report: Report) -> dict[str, str]:
    """Warn, by ``OWN_CROWDED_OUT``, if full dictionaries hold mostly neighbours' points.

    In a symmetric form, b own samples and b_j samples of each neighbour j enter the dictionary in each round. So at
    most B b / (b + sum_j b_j) of the newest B points are own samples.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans of the available nodes.
    rule : AnyRule
        The protocol.
    report : Report
        The report of the last evaluation.
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


# Nodes with too few neighbours for robust means.

UNDEFENDED = "undefended"

TOO_FEW = 2
"""Up to this number of neighbours, trimmed means and medians leave out none."""


def undefended(plans: Sequence[AgentPlan], rule: AnyRule) -> dict[str, str]:
    """Warn, by ``UNDEFENDED``, if most nodes have too few neighbours for trimmed means and medians.

    The mean and the median of two answers are equal, and contain half the error of a faulty answer. This value then
    replaces the sound neighbour's answer, too.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans of the available nodes.
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


# Mini-batches of all rows of a node, so that an epoch is a single step.

SINGLE_STEP = "single_step"


def single_step(plans: Sequence[AgentPlan], source: Source) -> dict[str, str]:
    """Warn, by ``SINGLE_STEP``, if a mini-batch takes all rows of every node.

    One gradient step does not reach the minimum, whatever its number of samples. Learners that solve for their weights
    need one step only, and are not warned about.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans of the available nodes.
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


# The units of targets for losses that are not quadratic and so depend on the unit.

SMALL = 0.01
"""A loss's threshold below this share of the targets' deviation makes nearly every error an outlier."""

APART = 30.0
"""Maximum ratio of two targets' deviations. Beyond it, a step that suits one target is larger than the range of the
other.
"""

LOSS_IN_OTHER_UNITS = "loss_in_other_units"


def loss_units(loss: Loss, targets: Array) -> str:
    """Return a clause on why a loss does not suit the units of targets (n, q), or an empty text if it does.

    For errors above the loss's threshold, the derivative does not depend on the error, and is the same for all targets.
    Then the steps of all learners, second-order ones included, suit targets of one size only.

    Examples
    --------
    >>> from kernelswarm.agents.parts.losses import Absolute, Huber, Squared
    >>> targets = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 1000.0]
    >>> loss_units(Squared(), targets), loss_units(Huber(), targets[:, :1])
    ('', '')
    >>> loss_units(Absolute(), targets)
    'deviations of the targets go from 0.97 to 945, and the loss has steps of one size for all'
    """
    if loss.quadratic or loss.task != "regression" or grid_of(loss) is not None:
        return ""
    deviations = targets.std(axis=0)
    deviations = deviations[deviations > 0.0]
    if not len(deviations):
        return ""
    least, largest = float(deviations.min()), float(deviations.max())
    threshold: float | None = getattr(loss, "threshold", None)
    if threshold is None and largest > APART * least:
        spread = f"{least:.3g} to {largest:.3g}"
        return f"deviations of the targets go from {spread}, and the loss has steps of one size for all"
    if threshold is not None and threshold < SMALL * largest:
        return (
            f"the loss's threshold = {threshold:g} is {threshold / largest:.1g} of the targets' deviation, "
            f"{largest:.3g}, so that nearly every error counts as an outlier's"
        )
    return ""


def in_other_units(loss: Loss, targets: Array) -> dict[str, str]:
    """Warn, by ``LOSS_IN_OTHER_UNITS``, if the loss does not suit the units of the targets."""
    words = loss_units(loss, targets)
    return {LOSS_IN_OTHER_UNITS: f"{words}: standardize the targets, or scale each to deviation 1"} if words else {}


# Negative targets for learners of positive functions.


NEGATIVE_SHARE = 0.01
"""The share of negative targets at which a warning begins."""

ROUNDED = 1e-6
"""Targets of 0 in the user's units differ from 0 by less than this share of their deviation after rounding."""

TARGETS_BELOW_ZERO = "targets_below_zero"


def unreachable(learner: Learner, targets: Array, scaling: Variables) -> dict[str, str]:
    """Warn, by ``TARGETS_BELOW_ZERO``, if a learner of positive functions has negative targets.

    Parameters
    ----------
    learner : Learner
        The experiment's.
    targets : Array
        The nodes' training targets, (n, q).
    scaling : Variables
        The names and scales of the targets in the user's data.
    """
    if not getattr(learner, "positive", False) or learner.loss.task != "regression":
        return {}
    below = float(np.mean(targets < 0.0))
    if below < NEGATIVE_SHARE:
        return {}
    remedy = "take a learner whose functions may be negative, or add a constant to the targets"
    if scaling.mean is not None and (scaling.raw(targets) > -ROUNDED * scaling.scale).all():
        remedy = "set stream.standardize_targets = false, by which they keep their own values, none below 0"
    return {
        TARGETS_BELOW_ZERO: f"{below:.0%} of the targets are below 0, where no function of this learner is: {remedy}"
    }


# Regularisation that keeps functions near 0.

LEAST_SHARE = 0.1
"""The ratio of the regularisation's pull towards 0 to the loss's pull at which a warning begins."""

USUAL = 1e-6
"""A harmless ratio."""

STRONGLY_REGULARIZED = "strongly_regularized"


def held_down(strength: float, loss: Loss, outputs: int, targets: Array) -> tuple[str, float]:
    """Return a clause on a regularisation that keeps functions near 0, and a smaller lambda; else an empty clause.

    A step moves f at a sample by eta g and shrinks it by eta lambda f. So for a function as large as the targets, the
    ratio of the pull towards 0 to the pull towards the targets is ``lambda s / r``, with s the targets' standard
    deviation and r the size of the loss's derivative at the best constant. For losses that grow more slowly than the
    squared loss, r is the same in every unit, and s grows with the unit.

    Parameters
    ----------
    strength : float
        lambda.
    loss : Loss
        The learner's.
    outputs : int
        C.
    targets : array, shape (n, q)
        What is learned from.
    """
    if not strength or loss.task != "regression" or grid_of(loss) is not None:
        return "", strength
    constant = best_constant(loss, outputs, HeldOut(np.zeros((len(targets), 1)), targets))
    slopes = loss_derivatives(loss, np.tile(constant, (len(targets), 1)), np.ascontiguousarray(targets))
    size = float(np.sqrt(np.mean(np.sum((targets - targets.mean(axis=0)) ** 2, axis=1))))
    slope = float(np.sqrt(np.mean(np.sum(slopes**2, axis=1))))
    if not strength * size >= LEAST_SHARE * slope > 0.0:
        return "", strength
    text = (
        f"regularization = {strength:g} holds functions down: it pulls those of the targets' size, {size:.3g}, "
        f"to 0 by {strength * size / slope:.2g} of what the loss pulls"
    )
    return text, USUAL * slope / size


def strongly_regularized(learner: Learner, outputs: int, targets: Array) -> dict[str, str]:
    """Warn, by ``STRONGLY_REGULARIZED``, if regularisation keeps functions near 0, far from the targets (n, q)."""
    strength = float(getattr(learner, "regularization", 0.0))
    text, less = held_down(strength, learner.loss, outputs, targets)
    return {STRONGLY_REGULARIZED: f"learner.{text}: set it to {less:.1g}, or standardize the targets"} if text else {}


# All warnings about unsuited settings of a complete run.

NODES = 20
"""Nodes whose rows are looked at, at most."""


def unsuited(
    plans: Sequence[AgentPlan], rule: AnyRule, source: Source, rows: TrainingRows, report: Report
) -> dict[str, str]:
    """Return the warnings about unsuited settings, one sentence each, by kind.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans of the available nodes. Only the first node's learner is compared with the targets.
    rule : AnyRule
        The protocol.
    source : Source
        The opened stream.
    rows : TrainingRows
        The nodes' training rows.
    report : Report
        The report of the last evaluation.
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


# Compression that undoes every step from f = 0, found from the first samples before a run.

STEPS = 64
"""Number of examined first steps."""


class FirstSteps(NamedTuple):
    """The steps from f = 0 on some samples.

    Attributes
    ----------
    largest : float
        The largest Hilbert norm of a step.
    budget : float
        eps, the norm of a change that compression may undo; 0 if it undoes nothing.
    """

    largest: float
    budget: float

    @property
    def undone(self) -> bool:
        """Tell whether compression undoes every step, so that f stays 0."""
        return 0.0 < self.largest <= self.budget


def first_steps(plan: AgentPlan) -> FirstSteps | None:
    """Compute ``max ||eta / b sum_k g_k kappa(x_k, .)||`` over batches of samples that a node never learns from.

    Returns
    -------
    FirstSteps or None
        None if the learner does not compress, its steps have another form, or there are no samples.
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


def warning(plans: Sequence[AgentPlan], names: Mapping[int, Name]) -> str:
    """Return a warning with the number of nodes whose first steps are all undone; empty without such nodes."""
    found = [(plan, steps) for plan in plans if (steps := first_steps(plan)) is not None and steps.undone]
    if not found:
        return ""
    plan, steps = found[0]
    where = "" if len(found) == len(plans) else f" at {len(found):,} of {len(plans):,} nodes that were looked at"
    return (
        f"nothing will be learned{where}: of the first steps of node {names[plan.neighborhood.node]} the largest moves "
        f"the function by {steps.largest:.3g}, and compression undoes changes within eps = {steps.budget:.3g}: "
        f"{remedy(describe(plan.learner))}"
    )


def remedy(learner: Mapping[str, Any]) -> str:
    """Return the remedy for a learner whose steps are all undone, from its table of keys.

    A larger step size helps only if eps is a number: all other budgets grow with the step size, most in proportion.
    """
    budget, texts = learner.get("budget"), "lower learner.budget"
    if budget is not None:
        texts += f" = {shown(budget)}"
    if isinstance(budget, Mapping) and "epsilon" in budget:
        texts += f" or raise learner.step_size = {shown(learner['step_size'])}"
    return texts


# Kernels that are too narrow or too wide for the points.

ASKED, AMONG = 100, 5000
"""Number of points whose nearest point is searched for, and number of points among which it is searched for."""

FEWEST = 50
"""Fewer points are not judged, since their nearest points may be far."""

NONE, ALL = 0.01, 0.999
"""Thresholds of kappa(x, y) / sqrt(kappa(x, x) kappa(y, y)): below the first, one point tells nothing of the other;
above the second, both points are the same to the kernel.
"""

MOST = 0.9
"""A fault is reported if it holds for this share of the points."""

NODES_ASKED = 8
"""Maximum number of nodes whose points are examined."""

ALONE, ALIKE = "points_alone", "points_alike"


def reach(kernel: Any, points: Array) -> tuple[str, str] | None:
    """Return a fault of a kernel's width for these points (n, p): `ALONE` or `ALIKE` and a sentence, or None.

    Kernels without a bandwidth are not judged.
    """
    if isinstance(getattr(kernel, "bandwidth", "none"), str) or len(points) < FEWEST:
        return None
    points = np.ascontiguousarray(points[spaced(len(points), AMONG)])
    chosen = spaced(len(points), ASKED)
    asked = np.ascontiguousarray(points[chosen])
    sizes = np.sqrt(kernel_diagonal(kernel, points))
    shares = kernel_rows(kernel, asked, points) / (sizes[chosen, np.newaxis] * sizes)
    # A point and its repetitions in the stream are not its own neighbours.
    others = np.array([(points != point).any(axis=1) for point in asked])
    if not others.any(axis=1).all():
        return None
    nearest = np.where(others, shares, -np.inf).max(axis=1)
    if np.mean(nearest < NONE) >= MOST:
        return ALONE, (
            f"the kernel leaves every point alone: of {len(points):,} points looked at, {np.mean(nearest < NONE):.0%} "
            f"have none at which kappa is {NONE:g} or more, so that nothing learned at one tells of another"
        )
    if np.mean(np.where(others, shares, np.inf).min(axis=1) > ALL) >= MOST:
        return ALIKE, (
            f"all points are alike to the kernel: of {len(points):,} points looked at no two have a kappa below "
            f"{ALL:g}, so that only functions which are nearly constant are learned"
        )
    return None


def finding(plans: Sequence[AgentPlan], names: Mapping[int, Name]) -> dict[str, str]:
    """Return the first fault of a kernel's width on the held-out points of nodes with one learner, and the remedy.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans of the available nodes.
    names : mapping
        The name of each node by its label.
    """
    plans_of: dict[Any, list[AgentPlan]] = {}
    for plan in plans:
        plans_of.setdefault(plan.learner, []).append(plan)
    for learner, own in plans_of.items():
        some = own[:: -(-len(own) // NODES_ASKED)]
        held_out = [np.array(plan.evaluated[0][1].held_out(0).points) for plan in some]
        kernel: Any = getattr(learner, "kernel", None)
        found = reach(kernel, np.concatenate(held_out)) if kernel is not None else None
        if found is not None:
            kind, words = found
            of = "" if learner == plans[0].learner else f" of node {names[own[0].neighborhood.node]}"
            change = "widen" if kind == ALONE else "shorten"
            return {kind: f'{words}: {change} learner.kernel.bandwidth{of}, or set it to "auto"'}
    return {}
