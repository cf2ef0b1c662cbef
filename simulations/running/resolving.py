"""Replace words such as "auto" in an experiment by numbers, from a sample of its nodes' training data."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.resolving import Owners, automatic_keys, resolved_learner, resolved_rule
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.agents.parts.schedules import Auto
from kernelswarm.arrays import Array
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.simulations.core.errors import InputError, number_of, shown
from kernelswarm.simulations.core.own_code import OwnCode, is_own
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import NodeSource, Source
from kernelswarm.simulations.data.pooled import members
from kernelswarm.simulations.experiment.changes import entries, laid_over, value_at
from kernelswarm.simulations.experiment.experiment import Experiment, Override
from kernelswarm.simulations.experiment.parts import build, describe, in_short
from kernelswarm.simulations.experiment.registry import part_name

POINTS = 1000
"""Approximate number of samples over all nodes; each sampled node gives at least one mini-batch."""

NODES = 50
"""Maximum number of sampled nodes."""

IN_THE_END = 10**9
"""A step number at which decreasing step sizes have settled."""


class ScaleWarning(UserWarning):
    """A scale of step sizes has the effect of a smaller one."""


def resolved(experiment: Experiment, source: Source, labels: list[int], neighbors: float) -> Experiment:
    """Return an experiment with numbers in place of words such as "auto" in its learners, protocol and faults.

    All nodes share one sample, so that words become the same numbers at all nodes and their functions live in one
    space. Sampling changes no training data, since the sources' states are restored.

    Parameters
    ----------
    experiment : Experiment
        The experiment. It is returned as it is if it has no such words.
    source : Source
        Its opened stream.
    labels : list of int
        The nodes' labels in sorted order, aligned with the source's nodes.
    neighbors : float
        The mean number of a node's neighbours.

    Raises
    ------
    InputError
        A learner does not fit the data.
    """
    experiment = _seeded(experiment)
    overridden = {node for override in experiment.overrides if override.learner for node in override.nodes}
    without = tuple(replace(override, learner={}) for override in experiment.overrides if not override.data)
    own = {label: experiment.learner_for(label) for label in labels if label in overridden}
    groups: dict[str, tuple[Learner, list[int]]] = {}  # nodes with equal learners have equal tables
    for label, learner in own.items():
        groups.setdefault(repr(describe(learner)), (learner, []))[1].append(label)
    learners = [experiment.learner, *(learner for learner, _ in groups.values())]
    for learner in learners:
        _refuse_other_inputs(learner, source)
    if not any(automatic_keys(part) for part in (*learners, experiment.protocol, *experiment.faults)):
        return experiment
    points, targets, owners = drawn(source, max(learner.batch_size for learner in learners))
    rule = experiment.protocol
    steps = len(labels) if rule.pooled and rule.offline is None and not rule.averaged else 1
    steps += round(flooded_share(rule) * (len(labels) - 1))
    # The largest step size limits the coupling of explicit steps.
    settles = rule.step != "explicit" or not rule.communicates

    def numbers(learner: Learner) -> Learner:
        def found(learner: Learner) -> Learner:
            return _resolved(learner, points, targets, owners, source, steps, settles)

        return _with_scale(learner, found)

    learner = numbers(experiment.learner)
    return replace(
        experiment,
        learner=learner,
        protocol=_resolved_protocol(rule, learner, points, targets, owners, source, neighbors),
        overrides=tuple(Override(tuple(nodes), describe(numbers(learner))) for learner, nodes in groups.values())
        + without,
        faults=tuple(
            fault.resolved(points if fault.of == "inputs" else targets, source.classes is not None)
            for fault in experiment.faults
        ),
    )


def _seeded(experiment: Experiment) -> Experiment:
    """Return an experiment with a number in place of the learners' seed "auto", the same at all nodes.

    The number is a multiple of 2^32, since members of mixtures have consecutive seeds, which must not occur in another
    experiment. It is taken modulo 2^63 - 1, since experiment files hold 64 bits.
    """
    given: Any = experiment.learner
    seed = (experiment.seed << 32) % (2**63 - 1)

    def asks(learner: Any) -> bool:
        return getattr(learner, "seed", None) == "auto"

    learner = replace(given, seed=seed) if asks(given) else given
    overrides = tuple(
        replace(override, learner={**override.learner, "seed": seed})
        if override.learner and asks(build("learner", laid_over(describe(learner), override.learner), "learner"))
        else override
        for override in experiment.overrides
    )
    if learner is given and overrides == experiment.overrides:
        return experiment
    return replace(experiment, learner=learner, overrides=overrides)


def words(given: Experiment, found: Experiment) -> dict[str, Any]:
    """Return the words of one experiment that are numbers in another, by dotted keys."""
    numbers = found.to_dict()
    return {
        key: word
        for key, word in entries(given.to_dict())
        if not isinstance(word, list) and value_at(numbers, key) != word
    }


def drawn(source: Source, batch_size: int) -> tuple[Array, Array, Owners]:
    """Draw about a thousand samples from all or from evenly spaced nodes, and restore the sources' states.

    Returns
    -------
    tuple of Array
        Points (n, p), targets (n, q) and the places of their nodes (n,), node by node.

    Raises
    ------
    InputError
        There are no samples, or a user's source fails.
    """
    most = max(1, min(NODES, 4 * POINTS // batch_size))
    places = members(len(source.nodes), most)
    share = max(-(-POINTS // len(places)), batch_size)
    found = []
    for place in places:
        what = f"drawing {share:,} samples of node {place}, from which words such as auto become numbers,"
        with OwnCode(what, MemoryError):
            found.append(_sample(source, place, share))
    points, targets = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    owners = np.repeat(places, [len(points) for points, _ in found])
    new = _first_time(points, targets, owners)
    points, targets, owners = points[new], targets[new], owners[new]
    if not len(points):
        raise InputError('learner: "auto" and other words need training data, and the stream has none: give numbers')
    return points, targets, owners


def _first_time(points: Array, targets: Array, owners: Owners) -> Owners:
    """Return the indices of each node's distinct rows: repeated rows would look noise-free."""
    rows = np.column_stack([points.reshape(len(points), -1), targets.reshape(len(points), -1), owners])
    _, places = np.unique(rows, axis=0, return_index=True)
    return np.sort(places)


def _sample(source: Source, place: int, count: int) -> tuple[Array, Array]:
    """Return a node's first samples; for rows in the order of time, a random choice from all its rows.

    The first days may differ from later ones, and evenly spaced rows might share the hour of the day.
    """
    node = source.nodes[place]
    rows = 0 if source.lengths is None or not source.in_order else source.lengths[place] // source.epochs
    if rows <= count:
        return _looked_at(node, count)
    points, targets = _looked_at(node, rows)
    some = np.sort(generator(0, Role.SPLIT, 4, place).choice(rows, count, replace=False))
    return points[some], targets[some]


def _looked_at(node: NodeSource, count: int) -> tuple[Array, Array]:
    if hasattr(node, "state") and hasattr(node, "restore"):
        state = node.state()
        found = node.draw(count)
        node.restore(state)
        return found
    return copy.deepcopy(node).draw(
        count
    )  # a user's source without checkpoints; copies of large data would take memory


def _resolved(
    learner: Learner, points: Array, targets: Array, owners: Owners, source: Source, steps: int, settles: bool
) -> Learner:
    try:
        outputs = learner.loss.outputs(source.targets, source.classes)
        parts = learner, learner.loss, getattr(learner, "kernel", learner)
        own = any(is_own(type(part)) for part in parts)
        with OwnCode("turning words such as auto into numbers", ValueError, ArithmeticError) if own else nullcontext():
            return resolved_learner(learner, points, targets, outputs, owners, steps, settles)
    except ValueError as refusal:
        raise InputError(f"learner: {refusal}") from refusal


def _with_scale(learner: Learner, resolved: Callable[[Learner], Learner]) -> Learner:
    """Return the resolved learner; warn if the scale of its step size has the effect of a smaller scale."""
    found, step = resolved(learner), getattr(learner, "step_size", None)
    if not isinstance(step, Auto) or step.scale <= 1.0 or step == getattr(type(learner), "step_size", None):
        return found
    one = resolved(replace(learner, step_size=replace(step, scale=1.0)))  # type: ignore[type-var]
    ended: list[Any] = [each.step_size for each in (found, one)]  # type: ignore[attr-defined]
    acts = ended[0].at(IN_THE_END) / ended[1].at(IN_THE_END)
    if acts < 0.995 * step.scale:
        warnings.warn(
            f"learner.step_size.scale = {step.scale:g} acts as {acts:.3g}: larger steps take more of a sample's error "
            f"than is stable. Take at most {acts:.3g}, or give a number for step_size, which is taken as it is",
            ScaleWarning,
            stacklevel=2,
        )
    return found


def _resolved_protocol(
    rule: AnyRule,
    learner: Learner,
    points: Array,
    targets: Array,
    owners: Owners,
    source: Source,
    neighbors: float,
) -> AnyRule:
    try:
        outputs = learner.loss.outputs(source.targets, source.classes)
        return resolved_rule(rule, learner, points, targets, outputs, owners, neighbors)
    except ValueError as refusal:
        raise InputError(f"protocol: {refusal}") from refusal


def _refuse_other_inputs(learner: Learner, source: Source) -> None:
    kernel = getattr(learner, "kernel", None)
    inputs = getattr(kernel, "inputs", None)
    if inputs is not None and inputs != source.inputs:
        lengths = getattr(kernel, "bandwidth", ())
        if not isinstance(lengths, tuple):
            raise InputError(
                f"learner.kernel = {in_short(kernel)} takes {number_of(inputs, 'input')}, and the stream has "
                f"{source.inputs}"
            )
        raise InputError(
            f"learner.kernel.bandwidth = {shown(lengths)} has {inputs} entries, and the stream has "
            f"{number_of(source.inputs, 'input')}: give one length for each input, or one number for all"
        )


# Checks of losses with an integral over a box against the learner and the data.

AT_ONCE = 4096
"""Number of rows of finite data that are read at a time."""


def refuse_misfit(learner: Learner, source: Source, place: int, label: int) -> None:
    """Raise an error if a loss has an integral that the learner ignores, or if points lie outside its box.

    Test points and all rows of finite data are checked; of endless data the test points only.

    Raises
    ------
    InputError
        The loss does not fit; the message starts with the key at fault.
    """
    grid = grid_of(learner.loss)
    if grid is None:
        return
    name = part_name(learner.loss)
    if not getattr(learner, "integrates", False):
        raise InputError(
            f'learner.loss = "{name}" has an integral over a box in it, and the steps of {part_name(learner)} (node '
            f'{label}) would leave it out: use learner.name = "spppot"'
        )
    mean = source.description.targets.mean
    if mean is not None and np.any(mean):
        raise InputError(
            f'stream.task: learner.loss = "{name}" takes the number of events of each row, and the stream standardizes '
            'targets: set stream.task = "events"'
        )
    if grid.inputs != source.inputs:
        raise InputError(
            f"learner.loss.low = {list(grid.low)} must have {source.inputs} entries, one for each input of the stream; "
            "so must high and cells"
        )
    node = source.nodes[place]
    _refuse_outside(grid, node.held_out(0).points, label)
    if source.lengths is not None:
        _look_through(grid, node, label)


def _look_through(grid: Grid, node: NodeSource, label: int) -> None:
    start = node.state()
    while True:
        points, targets = node.draw(AT_ONCE)
        if not len(points):
            break
        _refuse_outside(grid, points, label)
        if targets.min() < 0.0:
            raise InputError(
                f"stream: node {label} has a row with the target {targets.min():g}, and a target is the number of "
                'events at a point: use numbers >= 0, or stream.task = "events" for one event a row'
            )
    node.restore(start)


def _refuse_outside(grid: Grid, points: Array, label: int) -> None:
    outside = np.flatnonzero(grid.outside(points))
    if len(outside):
        raise InputError(
            f"learner.loss.high: the box from {list(grid.low)} to {list(grid.high)} must hold all points, and node "
            f"{label} has {points[outside[0]].tolist()} outside it: set low and high around the data, or leave such "
            "rows out of it"
        )
