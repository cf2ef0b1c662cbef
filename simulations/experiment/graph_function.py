"""Networks of the user's own: given as an object, or made by a function "module:function" in the experiment file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, number_of, shown
from kernelswarm.simulations.core.own_code import OwnCode
from kernelswarm.simulations.experiment.registry import find

if TYPE_CHECKING:
    from kernelswarm.graphs.adjacency import Graph

RANDOM = ("generator", "seed")
"""Arguments that follow the experiment's seed when the table does not give them."""

ATTEMPTS = 100


@dataclass(frozen=True)
class GraphFunction:
    """A call such as ``networkx:petersen_graph`` with the table's other keys as its arguments.

    It may return any form of a topology in Python: a graph, a matrix, edges, or a dict of neighbours.

    A function with an argument ``generator`` gets a numpy Generator, one with ``seed`` a whole number; both follow the
    experiment's seed, and such a function is called up to 100 times, until its network is connected.

    Parameters
    ----------
    function : str
        "module:function".
    arguments : dict
        The function's arguments.

    Raises
    ------
    ValueError
        The function does not take an argument, or lacks one.
    """

    function: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        accepted = self._accepted()
        open_ended = any(entry.kind is entry.VAR_KEYWORD for entry in accepted.values())
        for key, value in self.arguments.items():
            if key not in accepted and not open_ended:
                known = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
                raise RefusedKey(
                    key, f"= {shown(value)} is not an argument of {self.function}{nearest(key, accepted)} ({known})"
                )
        for key, entry in accepted.items():
            required = entry.default is entry.empty and entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)
            if required and entry.kind is entry.POSITIONAL_ONLY:
                raise ValueError(
                    f"{self.function} takes its arguments by position only: write a function with named ones"
                )
            if required and key not in self.arguments and key not in RANDOM:
                raise RefusedKey(key, f"is missing: {self.function} needs it")

    def build(self, generator: np.random.Generator) -> Graph:
        """Call the function; ValueError when it returns no form of a graph, or no connected one in all its draws."""
        # Actors read this file too, and have no use for networkx.
        import networkx as nx

        from kernelswarm.graphs.given.from_python import FORMS, graph_of
        from kernelswarm.graphs.random_families import draw_until_connected

        function = find("topology", self.function, "topology.name")
        random = [key for key in RANDOM if key in self._accepted() and key not in self.arguments]

        def draw() -> Graph:
            drawn = {"generator": generator, "seed": int(generator.integers(2**31))} if random else {}
            with OwnCode(f"calling {self.function}", ValueError, MemoryError):
                returned = function(**self.arguments, **{key: drawn[key] for key in random})
            what = f"{self.function} returned a {type(returned).__name__}"
            try:
                graph = graph_of(returned)
            except ValueError as error:
                raise ValueError(f"{what}, which {error}") from error
            if graph is None:
                raise ValueError(f"{what}: it must return {FORMS}")
            return graph

        graph = draw()
        if not random or graph.is_directed() or not len(graph) or nx.is_connected(graph):
            return graph.copy()  # what else is wrong with it, the validation of networks says
        return draw_until_connected(draw, ATTEMPTS, self.function, lambda last: "change its arguments")

    def _accepted(self) -> Mapping[str, inspect.Parameter]:
        # Decorators of networkx add keywords of their own to the signature that one sees from outside.
        return inspect.signature(inspect.unwrap(find("topology", self.function, "topology.name"))).parameters


def given_graph(topology: object) -> Graph | None:
    """Return the graph given as a topology, or None if the topology is a name, a table or a part."""
    if isinstance(topology, str) or (is_dataclass(topology) and not isinstance(topology, type)):
        return None
    from kernelswarm.graphs.given.from_python import graph_of  # networkx, for which actors have no use

    try:
        return graph_of(topology)
    except ValueError as error:
        raise InputError(f"topology: {error}") from error


def size_of(graph: Graph) -> str:
    """Return how many nodes and edges a graph has."""
    return f"{number_of(graph.number_of_nodes(), 'node')}, {number_of(graph.number_of_edges(), 'edge')}"
