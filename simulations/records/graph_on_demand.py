"""A networkx graph that is made when somebody looks at it: of a million nodes it takes a minute and gigabytes."""

from __future__ import annotations

from typing import Any

from kernelswarm.graphs.adjacency import Adjacency, Graph


class GraphOnDemand:
    """The field of a dataclass that is given a network in either form, and is a networkx graph to who reads it."""

    def __get__(self, holder: Any, kind: type | None = None) -> Graph:
        if holder is None:
            raise AttributeError("the field has no default")  # as dataclasses ask for it
        given = holder.__dict__["graph"]
        return given.graph if isinstance(given, Adjacency) else given

    def __set__(self, holder: Any, given: Graph | Adjacency) -> None:
        holder.__dict__["graph"] = given


def adjacency_of(holder: Any) -> Adjacency:
    """Return the network that such a field was given, as arrays."""
    return Adjacency.of(holder.__dict__["graph"])
