"""Random networks drawn again until they are connected, a bounded number of times."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx

from kernelswarm.graphs.topology import Graph


def require_attempts(attempts: int) -> None:
    """Refuse fewer than one draw."""
    if attempts < 1:
        raise ValueError(f"attempts = {attempts!r} must be at least 1: a network is drawn at least once")


def draw_until_connected(
    draw: Callable[[], Graph], attempts: int, setting: str, remedy: Callable[[Graph], str]
) -> Graph:
    """Return the first connected draw.

    Parameters
    ----------
    draw : callable
        Draws one graph; each call continues the same generator.
    attempts : int
        How many draws at most.
    setting : str
        The field and value to name when all fail, such as ``radius = 0.1``.
    remedy : callable
        Given the last draw, says what to change.

    Raises
    ------
    ValueError
        When no draw was connected.
    """
    for _ in range(attempts):
        graph = draw()
        if nx.is_connected(graph):
            return graph
    parts = sorted((len(part) for part in nx.connected_components(graph)), reverse=True)
    draws = "the only draw" if attempts == 1 else f"{attempts} draws"
    raise ValueError(
        f"{setting} gave no connected network of {len(graph)} nodes in {draws} (the last one fell into {len(parts)} "
        f"parts, the largest with {parts[0]} nodes): {remedy(graph)}"
    )
