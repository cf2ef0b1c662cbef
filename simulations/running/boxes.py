"""Whether a learner's loss that integrates over a box fits the learner and the data."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import part_name
from kernelswarm.simulations.streams.contract import Array, NodeSource, Source

AT_ONCE = 4096
"""Rows of finite data that are looked at together."""


def refuse_misfit(learner: Learner, source: Source, place: int, label: int) -> None:
    """Refuse a loss with an integral where the learner leaves that out, or where points lie outside its box.

    Test points and all rows of finite data are looked at; endless data is taken at its test points' word.

    Raises
    ------
    InputError
        Starting with the key at fault.
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
