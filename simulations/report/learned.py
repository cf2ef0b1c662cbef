"""The learned functions of the nodes, evaluated on a grid over one or two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures import functions, style
from kernelswarm.simulations.figures.learned import Learned, Reopened, rebuild, reopen
from kernelswarm.simulations.report.tables import COLOR, TABLE, numbers, some

if TYPE_CHECKING:
    from kernelswarm.simulations.records.result import Result


CURVE = 81
"""Number of points of a curve over one input."""

SIDE = 28
"""Number of points along each side of a plane over two inputs."""

VALUES = 160_000
"""Maximum number of values of all functions; beyond it, some nodes have no function in the page."""

DICTIONARY = 300
"""Maximum number of dictionary points of a node in the page."""


def of_run(result: Result) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the functions after the last round, and sentences on omitted functions and bands.

    Returns
    -------
    dict or None
        ``inputs`` and ``target``, the names of the axes; ``classes``, the names of classes for classifications;
        ``bounds`` of the grid, low and high for each input; ``size``, the number of points along each side; ``of``, the
        index in ``values`` of each node's function, or None, in the order of the labels; ``points``, the dictionaries;
        ``halves``, half the widths of bands of the ``level`` over one input, and ``unknown``, the ratio of posterior to
        prior standard deviation over two inputs, both in the form of ``values``, or None; ``truth``, the true
        functions, one for each node or one for all, if known. None if there is nothing to show.
    list of str
        Sentences on omitted content.
    """
    if not result.models:
        return None, []
    try:
        learned = rebuild(result)
    except InputError as error:
        return None, [f"The learned functions are not shown, their configuration cannot be built here: {error}"]
    if learned.inputs not in (1, 2):
        return None, [
            f"The learned functions are not shown: they take {learned.inputs} inputs, and a plot has room for two."
        ]
    stream = reopen(learned)
    bounds, grid = _grid(learned, stream)
    nodes = sorted(result.graph.nodes)
    owners = learned.nodes if len(learned.nodes) == len(nodes) else learned.nodes[:1]
    shown = [owners[place] for place in some(len(owners), max(VALUES // len(grid), 2))]
    place_of = {owner: place for place, owner in enumerate(shown)}
    decided = {owner: learned.decide(owner, grid) for owner in shown}
    truth, left = _truth(learned, stream, grid, len(nodes)), []
    if len(shown) < len(owners):
        left.append(f"The functions of {len(shown):,} of the {len(owners):,} nodes can be looked at.")
    if (outputs := next(iter(decided.values())).shape[1]) > 1:
        left.append(f"Of the {outputs} values of each function the first is shown.")
    if max(len(learned.points(owner)) for owner in shown) > DICTIONARY:
        left.append(f"Of a dictionary the first {DICTIONARY:,} points are marked.")
    if stream.source is None:
        left.append(f"The learned functions are shown without the truth: {stream.missing}")
    classifies = style.task(result.config) == "classification"
    return {
        "inputs": [result.data.inputs.name(place, f"input {place + 1}") for place in range(learned.inputs)],
        "target": "class" if classifies else result.data.targets.name(0, "target"),
        "classes": [result.data.class_name(k) for k in range(functions.class_count(learned, stream))]
        if classifies
        else None,
        "bounds": numbers(bounds, TABLE),
        "size": CURVE if learned.inputs == 1 else SIDE,
        "of": [place_of.get(learned.owner(node)) for node in nodes],
        "values": [numbers(decided[owner][:, 0], COLOR) for owner in shown],
        "halves": _halves(learned, shown, grid),
        "unknown": _unknown(learned, shown, grid),
        "level": f"{100.0 * learned.level:g}%",
        "points": [numbers(learned.points(owner)[:DICTIONARY], COLOR) for owner in shown],
        "truth": truth,
    }, left


def _grid(learned: Learned, stream: Reopened) -> tuple[list[tuple[float, float]], Array]:
    """Return the bounds of each input and the points (n, p) of the grid, the first input changing fastest."""
    if learned.inputs == 1:
        seen = functions.interval(learned, stream)[:, 0]
        low, high = float(seen[0]), float(seen[-1])
        return [(low, high)], np.linspace(low, high, CURVE)[:, None]
    left, right, bottom, top = functions.window(learned, stream)
    x, y = np.linspace(left, right, SIDE), np.linspace(bottom, top, SIDE)
    return [(left, right), (bottom, top)], np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _halves(learned: Learned, shown: list[int], grid: Array) -> list[list[Any]] | None:
    """Return half the width of each function's band over one input, or None for functions without bands."""
    found = [learned.half_width(owner, grid) for owner in shown] if learned.inputs == 1 else []
    known = [half[:, 0] for half in found if half is not None]
    return [numbers(half, COLOR) for half in known] if known and len(known) == len(shown) else None


def _unknown(learned: Learned, shown: list[int], grid: Array) -> list[list[Any]] | None:
    """Return the posterior over the prior deviation over two inputs, from 0 to 1, or None if unknown."""
    found = [learned.ignorance(owner, grid) for owner in shown] if learned.inputs == 2 else []
    known = [share for share in found if share is not None]
    return [numbers(share, COLOR) for share in known] if known and len(known) == len(shown) else None


def _truth(learned: Learned, stream: Reopened, grid: Array, nodes: int) -> list[list[Any]] | None:
    """Return the noise-free values of each node's first target over one input, or a single list if all are equal."""
    if learned.inputs != 1:
        return None
    found = []
    for position in range(nodes if nodes * len(grid) <= VALUES else 1):
        truth = stream.truth(position, grid)
        if truth is None:
            return None
        found.append(truth[:, 0])
    if all(np.array_equal(found[0], other) for other in found[1:]):
        found = found[:1] if nodes * len(grid) <= VALUES else []
    return [numbers(values, COLOR) for values in found] or None
