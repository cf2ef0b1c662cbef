"""What does not suit one another in a run: data, kernel, loss, steps, regularisation and defence."""

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

# Whether neighbours' points leave a node's own samples little room, where a learner keeps its newest points.

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


# Whether a defence that leaves out the farthest answers has anybody to leave out.

UNDEFENDED = "undefended"

TOO_FEW = 2
"""Most neighbours of a node for which trimmed means and medians leave out none."""


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


# Whether a mini-batch takes all rows of a node, so that a pass over them is a single step.

SINGLE_STEP = "single_step"


def single_step(plans: Sequence[AgentPlan], source: Source) -> dict[str, str]:
    """Warn, by ``SINGLE_STEP``, that a batch takes all rows of each node; empty if some node has more.

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


# Whether targets are in units that suit a loss which is not quadratic: it is not the same in every unit.

SMALL = 0.01
"""A threshold of errors below this share of the targets' deviation leaves hardly any error below it."""

APART = 30.0
"""How many times as large as another one's a target's deviation may be: a step of one size is then larger than all
that the other has."""

LOSS_IN_OTHER_UNITS = "loss_in_other_units"


def loss_units(loss: Loss, targets: Array) -> str:
    """Return a clause on why a loss does not suit the units of targets (n, q), or an empty text if it does.

    Where errors are larger than its threshold the derivative of a loss is the same however large they are, for each
    target alike. Steps, and what second-order learners make of a sample, then fit one size of targets.

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
    """Warn of the nodes' targets, by ``LOSS_IN_OTHER_UNITS``, with the remedy; empty if the loss suits them."""
    words = loss_units(loss, targets)
    return {LOSS_IN_OTHER_UNITS: f"{words}: standardize the targets, or scale each to deviation 1"} if words else {}


# Whether a learner whose functions are all above 0 was given targets below it.


NEGATIVE_SHARE = 0.01
"""The share of targets below 0 from which on a warning says so."""

ROUNDED = 1e-6
"""Targets that are 0 by themselves are rounded by less than this share of their deviation."""

TARGETS_BELOW_ZERO = "targets_below_zero"


def unreachable(learner: Learner, targets: Array, scaling: Variables) -> dict[str, str]:
    """Warn, by ``TARGETS_BELOW_ZERO``, that targets are below all functions; empty if there are none.

    Parameters
    ----------
    learner : Learner
        The experiment's.
    targets : Array
        What is learned from, (n, q).
    scaling : Variables
        What they stand for in the user's data.
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


# Whether the regularisation holds functions near 0, far below the targets.

LEAST_SHARE = 0.1
"""The pull of the regularisation towards 0, as a share of the loss's, from which on a warning says so."""

USUAL = 1e-6
"""The share that is no matter."""

STRONGLY_REGULARIZED = "strongly_regularized"


def held_down(strength: float, loss: Loss, outputs: int, targets: Array) -> tuple[str, float]:
    """Return a clause on a regularisation that holds functions near 0, with one that does not; else empty.

    A step moves f at a sample by eta g and shrinks it by eta lambda f. So a function as large as the targets is
    pulled to 0 by ``lambda s / r`` as much as to them, with s the targets' standard deviation and r the size of the
    loss's derivative at their best constant. Losses that grow more slowly than the squared one have the same r in
    every unit, and an s of its size.

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
    """Warn of the nodes' targets (n, q), by ``STRONGLY_REGULARIZED``, with the remedy; empty otherwise."""
    strength = float(getattr(learner, "regularization", 0.0))
    text, less = held_down(strength, learner.loss, outputs, targets)
    return {STRONGLY_REGULARIZED: f"learner.{text}: set it to {less:.1g}, or standardize the targets"} if text else {}


# All warnings about settings that do not suit one another, for complete runs.

NODES = 20
"""Nodes whose rows are looked at, at most."""


def unsuited(
    plans: Sequence[AgentPlan], rule: AnyRule, source: Source, rows: TrainingRows, report: Report
) -> dict[str, str]:
    """Return these warnings, a sentence each, by kind; empty without warnings.

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


# Whether compression undoes every step from f = 0, as the first samples tell before a run.

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
    """Warn of nodes whose first steps are all undone, with their number and the remedy; empty without such nodes."""
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
    """Return the keys that let a learner learn whose steps are all undone, from its table of keys.

    A larger step helps only where eps is a number: all other budgets grow with the step, most as fast as it.
    """
    budget, texts = learner.get("budget"), "lower learner.budget"
    if budget is not None:
        texts += f" = {shown(budget)}"
    if isinstance(budget, Mapping) and "epsilon" in budget:
        texts += f" or raise learner.step_size = {shown(learner['step_size'])}"
    return texts


# Whether a kernel tells points apart, and not all of them: its values between each point and its nearest one.

ASKED, AMONG = 100, 5000
"""Points whose nearest one is looked for, and points among which it is."""

FEWEST = 50
"""The number of points without a judgement: of few, the nearest may be far."""

NONE, ALL = 0.01, 0.999
"""kappa(x, y) as a share of sqrt(kappa(x, x) kappa(y, y)) below which a point learns nothing from another, and above
which two are one."""

MOST = 0.9
"""The share of the points that stands for all of them."""

NODES_ASKED = 8
"""Nodes whose points are looked at, at most."""

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
    # A point, or a copy of it that a stream repeats, is no neighbour of its own; repeated rows are not judged.
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
    """Return this fault for held-out points of some nodes and the kernel of the first one at fault, with the remedy.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand.
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
