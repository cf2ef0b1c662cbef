"""The locations of nodes in files: one attribute for each coordinate."""

from __future__ import annotations

from typing import Any

import networkx as nx

AXES = ("x", "y", "z")
ALONE = "pos"


def axes(count: int) -> list[str]:
    """Return the attributes that hold positions of so many coordinates.

    Examples
    --------
    >>> axes(1), axes(2), axes(5)
    (['pos'], ['x', 'y'], ['x', 'y', 'z', 'x4', 'x5'])
    """
    return [ALONE] if count == 1 else [*AXES[:count], *(f"x{axis}" for axis in range(4, count + 1))]


def gather(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Make ``pos`` of the coordinates that nodes have as numbers; returns the graph, which is changed."""
    every = [attributes for _, attributes in graph.nodes(data=True)]
    count = 2
    while every and all(map(_numbers(count + 1), every)):
        count += 1
    placed = [attributes for attributes in every if _numbers(count)(attributes)]
    if not placed:
        count, placed = 1, [attributes for attributes in every if _numbers(1)(attributes)]
    for attributes in placed:
        attributes["pos"] = tuple(attributes.pop(axis) for axis in axes(count))
    return graph


def _numbers(count: int) -> Any:
    """Return whether attributes hold so many coordinates, as a function of them."""
    known = axes(count)
    return lambda attributes: all(_is_number(attributes.get(axis)) for axis in known)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
