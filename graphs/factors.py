"""The two sides of a network that is a product, rows by columns or cliques by members, from what the user gave."""

from __future__ import annotations

from math import isqrt

from kernelswarm.graphs.topology import DEFAULT_NODES, require_nodes
from kernelswarm.refused_key import RefusedKey


def factor_pair(
    nodes: int | None, first: int | None, second: int | None, names: tuple[str, str], smallest: int = 1
) -> tuple[int, int, int]:
    """Return ``(nodes, first, second)`` with ``nodes = first * second``, those left out worked out from the others.

    With ``nodes`` alone the two sides are as equal as its divisors allow, the first not above the second.

    Parameters
    ----------
    nodes, first, second : int or None
        What the user gave; without any, 20 nodes.
    names : pair of str
        The fields that hold the two sides, for the messages.
    smallest : int
        The smallest second side.

    Raises
    ------
    ValueError
        When the numbers contradict each other or make no rectangle.
    """
    for name, side, least in ((names[0], first, 1), (names[1], second, smallest)):
        if side is not None and side < least:
            raise RefusedKey(name, f"= {side!r} must be at least {least}")
    if nodes is None and first is not None and second is not None:
        nodes = first * second
        if nodes >= 1:
            require_nodes(nodes)
    if nodes is None:
        for name, side, other in ((names[0], first, names[1]), (names[1], second, names[0])):
            if side is not None:
                raise RefusedKey(name, f"= {side!r} is one side only: give {other} or nodes too")
        nodes = DEFAULT_NODES
    require_nodes(nodes, smallest, f"{names[1]} is at least {smallest}")
    if first is None and second is None:
        first = next(side for side in range(isqrt(nodes), 0, -1) if nodes % side == 0 and nodes // side >= smallest)
        if first == 1 and nodes > 4:
            raise RefusedKey(
                "nodes",
                f"= {nodes!r} is a prime number and has no two sides: use {nodes - 1} or {nodes + 1}, or give "
                f"{names[0]} and {names[1]}",
            )
    first = first if first is not None else nodes // (second or 1)
    second = second if second is not None else nodes // first
    if first * second != nodes:
        raise RefusedKey(
            "nodes",
            f"= {nodes!r} is not {names[0]} * {names[1]} = {first} * {second}: leave nodes out or make them agree",
        )
    if second < smallest:
        raise RefusedKey(names[1], f"= {second!r} must be at least {smallest}: lower {names[0]} or raise nodes")
    return nodes, first, second
