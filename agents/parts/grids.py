"""Grids of equal cells on a box: the points at which an integral over the box is estimated."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelswarm.arrays import Array, Booleans
from kernelswarm.refused_key import RefusedKey

MOST_CELLS = 100_000
"""The largest number of cells; with more, the kernel between all of them and a dictionary would take gigabytes."""


@dataclass(frozen=True)
class Grid:
    """The middles of equal cells that fill the box ``low <= x <= high``; the midpoint rule integrates with them.

    Parameters
    ----------
    low, high : tuple of float
        The corners of the box, one entry for each input, ``low < high``.
    cells : tuple of int
        The number of cells along each input, at least 1.

    Examples
    --------
    >>> grid = Grid((0.0,), (1.0,), (4,))
    >>> grid.points.ravel().tolist(), grid.volume
    ([0.125, 0.375, 0.625, 0.875], 0.25)
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    cells: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, tuple(float(entry) for entry in getattr(self, name)))
        object.__setattr__(self, "cells", tuple(self.cells))
        if not self.low:
            raise RefusedKey("low", "= [] must have one entry for each input of the points")
        for name, entries in (("high", self.high), ("cells", self.cells)):
            if len(entries) != len(self.low):
                raise RefusedKey(
                    name, f"= {list(entries)} must have as many entries as low = {list(self.low)}: one for each input"
                )
        if not all(math.isfinite(a) and math.isfinite(b) and a < b for a, b in zip(self.low, self.high, strict=True)):
            raise RefusedKey(
                "low",
                f"= {list(self.low)} must be below high = {list(self.high)} in every input, and both finite: "
                "give the corners of the box that the points lie in",
            )
        if min(self.cells) < 1:
            raise RefusedKey(
                "cells", f"= {list(self.cells)} must be at least 1 along every input: use 100 for one input"
            )
        if math.prod(self.cells) > MOST_CELLS:
            raise RefusedKey(
                "cells",
                f"= {list(self.cells)} are {math.prod(self.cells):,} in all, and must be at most {MOST_CELLS:,}: "
                "use fewer along each input",
            )
        if not self.volume > 0.0:
            raise RefusedKey("high", f"= {list(self.high)} leaves cells of no volume above low = {list(self.low)}")

    @property
    def inputs(self) -> int:
        """The dimension p of the box."""
        return len(self.low)

    @property
    def volume(self) -> float:
        """The volume h of one cell."""
        return math.prod((b - a) / count for a, b, count in zip(self.low, self.high, self.cells, strict=True))

    @cached_property
    def points(self) -> Array:
        """The middles u_j of the cells, (U, p), the last input running fastest; read-only."""
        sides = [
            a + (b - a) * (np.arange(count) + 0.5) / count
            for a, b, count in zip(self.low, self.high, self.cells, strict=True)
        ]
        points = np.ascontiguousarray(np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, self.inputs))
        points.flags.writeable = False
        return points

    def outside(self, points: Array) -> Booleans:
        """Return whether each of the ``points`` (n, p) lies outside the box: (n,)."""
        beyond = (points < np.array(self.low)) | (points > np.array(self.high))
        return np.asarray(beyond.any(axis=1), dtype=np.bool_)
