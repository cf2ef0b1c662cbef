"""Random networks drawn again until they are connected, a bounded number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import networkx as nx

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.ranges import Range

ATTEMPTS = Range("[1, inf)", "a network is drawn at least once")

Drawn = TypeVar("Drawn", Adjacency, Graph)


def draw_until_connected(
    draw: Callable[[], Drawn], attempts: int, setting: str, remedy: Callable[[Drawn], str]
) -> Drawn:
    """Return the first connected draw.

    Parameters
    ----------
    draw : callable
        Draws one network; each call continues the same generator.
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
        drawn = draw()
        if drawn.is_connected if isinstance(drawn, Adjacency) else nx.is_connected(drawn):
            return drawn
    if isinstance(drawn, Adjacency):
        parts = drawn.parts
    else:
        parts = sorted((len(part) for part in nx.connected_components(drawn)), reverse=True)
    draws = "the only draw" if attempts == 1 else f"{attempts} draws"
    raise ValueError(
        f"{setting} gave no connected network of {drawn.number_of_nodes()} nodes in {draws} (the last one fell into "
        f"{len(parts)} parts, the largest with {parts[0]} nodes): {remedy(drawn)}"
    )
