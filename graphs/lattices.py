"""Lattices: grid and torus, given by their sides or by their number of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Array, Integers, from_edges
from kernelswarm.graphs.factors import factor_pair
from kernelswarm.graphs.layout import fit
from kernelswarm.graphs.topology import DEFAULT_NODES


@dataclass(frozen=True)
class Grid:
    """A rectangle of nodes, each adjacent to the next in its row and in its column; node = row * columns + column.

    Give ``rows`` and ``columns``, or ``nodes`` for the most square rectangle, or ``nodes`` and one side.

    Parameters
    ----------
    rows, columns : int, optional
        At least 1.
    nodes : int, optional
        ``rows * columns``; 20 when nothing is given.
    """

    rows: int | None = None
    columns: int | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.rows is self.columns is self.nodes is None:
            object.__setattr__(self, "nodes", DEFAULT_NODES)
        factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))

    def build(self, generator: np.random.Generator) -> Adjacency:
        nodes, rows, columns = factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))
        column, row = np.meshgrid(np.arange(columns), np.arange(rows))
        positions = fit(np.column_stack([column.ravel(), -row.ravel()]).astype(np.float64))
        return from_edges(nodes, _lattice(rows, columns, wrap=False), positions)


@dataclass(frozen=True)
class Torus(Grid):
    """A grid whose rows and columns close into rings, so that no node is at a border.

    A side of two nodes has one edge, not two parallel ones. The fields are those of ``Grid``; its positions
    are a ring of small rings, so that neighbors are near each other.

    Parameters
    ----------
    rows, columns : int, optional
        At least 1.
    nodes : int, optional
        ``rows * columns``; 20 when nothing is given.
    """

    def build(self, generator: np.random.Generator) -> Adjacency:
        nodes, rows, columns = factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))
        return from_edges(nodes, _lattice(rows, columns, wrap=True), _rings(rows, columns))


def _lattice(rows: int, columns: int, wrap: bool) -> Integers:
    """Return the edges along the rows and the columns, (E, 2); twice where a side of two nodes is closed."""
    node = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if wrap:
        pairs += [(node[:, -1], node[:, 0])] * (columns > 1) + [(node[-1], node[0])] * (rows > 1)
    return np.concatenate([np.column_stack([here.ravel(), there.ravel()]) for here, there in pairs])


def _rings(rows: int, columns: int) -> Array:
    """Return positions (rows * columns, 2): the longer side a ring, at each of its places a small ring of the other."""
    long, short = max(rows, columns), min(rows, columns)
    radius = float(np.clip(0.8 * np.sin(np.pi / long), 0.25, 0.45)) if short > 1 else 0.0
    large = 2 * np.pi * np.arange(long) / long
    small = 2 * np.pi * np.arange(short) / short + 0.3  # turned, so that edges do not cover one another
    x = np.cos(large) + radius * np.cos(small)[:, np.newaxis]
    y = np.sin(large) + radius * np.sin(small)[:, np.newaxis]
    if rows > columns:
        x, y = x.T, y.T
    return fit(np.column_stack([x.ravel(), y.ravel()]))
