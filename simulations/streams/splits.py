"""How nodes come to differ: the names of the splits, and what a split draws for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import listed, nearest, shown
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.streams.contract import Array

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
