"""How the data of nodes differ: the names of the splits, and the parameters that a split draws for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import listed, nearest, shown
from kernelswarm.simulations.core.seeding import Role, generator

#: iid: all nodes see one distribution. label_skew: class probabilities differ. patches: every node sees its own region
#: of the inputs. target_shift: every node's target has its own offset. sorted: blocks of finite data sorted by target.
Split = Literal["iid", "label_skew", "patches", "target_shift", "sorted"]

#: Why a split does not fit some streams.
REASONS = {
    "iid": "gives all nodes one distribution",
    "label_skew": "changes the probabilities of classes, and a regression has no classes",
    "patches": "gives each node its own region of the inputs",
    "target_shift": "adds an offset to a node's targets, which a class does not have and a field of functions includes",
    "sorted": "cuts rows of finite data into blocks, and generated data is endless",
}


def check_split(split: str, possible: Sequence[Split], data: str) -> None:
    """Refuse a split that is unknown or makes no sense for the data, called ``data`` in the message."""
    if split not in get_args(Split):
        names = listed([shown(name) for name in get_args(Split)])
        raise RefusedKey("split", f"= {shown(split)} must be {names}{nearest(split, get_args(Split))}")
    if split not in possible:
        raise RefusedKey(
            "split",
            f"= {shown(split)} {REASONS[split]}; it does not fit {data}: use "
            + listed([shown(name) for name in possible]),
        )


def intervals(low: float, high: float, nodes: int, overlap: float) -> Array:
    """Intervals of equal length L in order from low to high; neighbours share the share ``overlap`` of L.

        V L - (V - 1) overlap L = high - low

    so overlap 0 cuts [low, high] into V parts and overlap 1 gives all of it to everybody.

    Returns
    -------
    Array
        (V, 2): lower and upper ends.

    Examples
    --------
    >>> intervals(0.0, 1.0, 4, 0.4).round(3).tolist()
    [[0.0, 0.357], [0.214, 0.571], [0.429, 0.786], [0.643, 1.0]]
    """
    length = (high - low) / (nodes - (nodes - 1) * overlap)
    starts = low + np.arange(nodes) * (1.0 - overlap) * length
    ends = starts + length
    ends[-1] = high  # not a rounding error beyond it
    return np.column_stack([starts, ends])


def offsets(shift: float, nodes: int, seed: int) -> Array:
    """Offset of each node's target, independent N(0, shift^2), shape (V,)."""
    return shift * generator(seed, Role.SPLIT).standard_normal(nodes)


@dataclass(frozen=True, eq=False)
class ShiftDifferences:
    """Squared differences of targets that are alike but for their offsets, as `Source.differences` gives them."""

    shifts: Array  # (V,)

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        squares: Array = (self.shifts[position] - self.shifts[list(others)]) ** 2
        return squares


def class_probabilities(concentration: float, classes: int, nodes: int, seed: int) -> Array:
    """Class probabilities of each node, Dirichlet with all parameters ``concentration``: shape (V, classes)."""
    return generator(seed, Role.SPLIT).dirichlet(np.full(classes, concentration), size=nodes)


# Cut the space of inputs into one region per node: boxes of equal numbers of samples, by repeated cuts in two.

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows with a value below the threshold in one column go left, the others right."""

    column: int
    threshold: float
    left: Cut | int
    right: Cut | int


@dataclass(frozen=True, eq=False)
class Regions:
    """Boxes that fill the space, one per node.

    Parameters
    ----------
    root
        The cuts; a node's position where nothing is left to cut.
    lower, upper
        Corners of the nodes' boxes, (V, s); infinite where a box is open.
    """

    root: Cut | int
    lower: Array
    upper: Array

    def owners(self, rows: Array) -> Indices:
        """Position of the node whose box holds each row: (n, s) gives (n,)."""
        owners = np.empty(len(rows), dtype=np.intp)

        def descend(branch: Cut | int, indices: Indices) -> None:
            if isinstance(branch, int):
                owners[indices] = branch
                return
            left = rows[indices, branch.column] < branch.threshold
            descend(branch.left, indices[left])
            descend(branch.right, indices[~left])

        descend(self.root, np.arange(len(rows)))
        return owners


def cut_regions(rows: Array, nodes: int, least: int, locations: Array | None) -> Regions:
    """Cut the space so that every node gets as nearly as possible the same number of the given rows.

    Each step cuts the column in which the rows at hand spread most (relative to its spread over all rows) and divides
    nodes and rows in the same proportion. With two columns and locations, the nodes are divided along the same axis:
    western nodes get western rows. Otherwise they keep their order. Deterministic.

    Parameters
    ----------
    rows
        (n, s).
    nodes
        V >= 1.
    least
        Rows >= 1 every node must have.
    locations
        Positions (V, 2) of the nodes, if they have any.

    Raises
    ------
    ValueError
        If equal rows make it impossible; the text starts with ``split = 'patches'``.
    """
    lower, upper = np.full((nodes, rows.shape[1]), -np.inf), np.full((nodes, rows.shape[1]), np.inf)
    scales = rows.std(axis=0)
    scales[scales == 0.0] = 1.0
    axes = locations if rows.shape[1] == 2 else None

    def divide(indices: Indices, members: Indices) -> Cut | int:
        if len(members) == 1:
            return int(members[0])
        share = len(members) // 2
        part = rows[indices]
        for column in np.argsort(-part.std(axis=0) / scales, kind="stable").tolist():
            threshold = find_threshold(part[:, column], share, len(members) - share, least)
            if threshold is not None:
                break
        else:
            raise RefusedKey(
                "split",
                f'= "patches" cannot cut {len(indices)} rows into regions of {len(members)} nodes with at least '
                f"{least} row{'s' if least > 1 else ''} each, because too many of them are equal: use fewer nodes or "
                "other split_columns",
            )
        order = members if axes is None else members[np.argsort(axes[members, column], kind="stable")]
        below = part[:, column] < threshold
        upper[order[:share], column] = threshold
        lower[order[share:], column] = threshold
        return Cut(column, threshold, divide(indices[below], order[:share]), divide(indices[~below], order[share:]))

    root = divide(np.arange(len(rows)), np.arange(nodes))
    return Regions(root, lower, upper)


def find_threshold(values: Array, left: int, right: int, least: int) -> float | None:
    """Value that divides (n,) values nearest to the proportion left : right, at least ``least`` for each node.

    None when there is none. Only the ends of runs of equal values can be cut.
    """
    ordered = np.sort(values)
    ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # number of values below each possible threshold
    ends = ends[(ends >= least * left) & (ends <= len(values) - least * right)]
    if not len(ends):
        return None
    wanted = len(values) * left / (left + right)
    return float(ordered[ends[np.argmin(np.abs(ends - wanted))]])
