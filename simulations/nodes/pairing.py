"""The nodes of the network and the nodes of the data: by their names, or by places where one side has no others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import NAME, NUMBERED, Adjacency
from kernelswarm.graphs.directed import renumbered
from kernelswarm.graphs.given.names import Name, are_numbers, as_numbers, compared, key
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown, some
from kernelswarm.simulations.core.node_names import alike, columns_of_nodes, node_names
from kernelswarm.simulations.nodes.without_data import refuse_rows
from kernelswarm.simulations.streams.contract import Source
from kernelswarm.simulations.streams.rows.dealing import OtherNodesError


def paired(
    adjacency: Adjacency, opened: Callable[[Adjacency], Source], without: Collection[int] = ()
) -> tuple[Adjacency, Source]:
    """Open the stream for a network and give each node its name.

    Where graph and data have the same names, as text or as numbers, each node has the data of its name, and the
    network's nodes are in the order of the data's. Where the numbers of one side are 0 to V - 1, they are places and
    no names: nodes are then paired in their order. Where the data name no nodes, the names are the graph's.

    Parameters
    ----------
    adjacency : Adjacency
        The validated topology.
    opened : callable
        Opens the stream for a network.
    without : collection of int
        The places of nodes that have no data.

    Returns
    -------
    adjacency, source
        The network, whose nodes may have new labels, and its opened stream, whose description has the nodes' names.

    Raises
    ------
    InputError
        The stream is refused, graph and data name different nodes, or the data have a column for each node.
    """
    source = _opened(adjacency, opened, without)
    described = source.description.nodes
    if described is None:
        columns = (*source.description.inputs.names, *source.description.targets.names)
        wide = columns_of_nodes(columns, adjacency.names or adjacency.labels.tolist())
        if wide:
            raise InputError(f"stream: {wide}")
        if adjacency.names is None:
            return adjacency, source
        nodes = np.array(adjacency.names)
        source = replace(source, description=replace(source.description, nodes=nodes))
    else:
        names = described.tolist()
        order = _order(adjacency, names)
        same = order == list(range(len(order)))
        if not same or (_is_numbered(adjacency) and are_numbers(names)):
            adjacency = _reordered(adjacency, order, names)
        if not same and adjacency.positions is not None:
            source = opened(adjacency)
    _name(adjacency, source)
    return adjacency, source


def _opened(adjacency: Adjacency, opened: Callable[[Adjacency], Source], without: Collection[int]) -> Source:
    """Open the stream; where data and network name different numbers of nodes, the refusal lists the differences."""
    try:
        return opened(adjacency)
    except InputError as refusal:
        other = refusal.__cause__
        if not isinstance(other, OtherNodesError) or adjacency.names is None:
            raise
        refuse_rows(adjacency, sorted(without), other.names)
        expected = [name for place, name in enumerate(adjacency.names) if place not in without]
        raise InputError(_different(expected, other.names)) from refusal


def _order(adjacency: Adjacency, names: list[Name]) -> list[int]:
    """Return the places in the network of the nodes that the data name; InputError for other names."""
    labels, own = adjacency.labels.tolist(), adjacency.names
    numbered = _is_numbered(adjacency)
    places = list(range(len(labels)))
    for called in ([] if own is None else [own]) + ([] if numbered else [labels]):
        found = _places(called, names)
        if found is not None:
            return found
    shared = own is not None and not set.isdisjoint(*map(set, compared(own, names)))
    if own is not None and (numbered or shared):
        raise InputError(_different(own, names))
    if places not in (labels, as_numbers(names)):
        raise InputError(_different(labels, names))
    return places


def _places(called: Sequence[Name], names: Sequence[Name]) -> list[int] | None:
    """Return the place of each data name among the network's; None where the names differ."""
    known, wanted = compared(called, names)
    places = {name: place for place, name in enumerate(known)}
    if not (len(places) == len(known) == len(wanted) and places.keys() == set(wanted)):
        return None
    found = [places[name] for name in wanted]
    pairs = [(name, called[place]) for name, place in zip(names, found, strict=True)]
    zeros = [f"{name} is called {other}" for name, other in pairs if key(name) != key(other)]
    if zeros and list(called) != list(range(len(called))):  # those are places
        more = f", and {len(zeros) - 1} more alike" if len(zeros) > 1 else ""
        warnings.warn(f"data and network differ in zeros in front of names: {zeros[0]} there{more}", stacklevel=2)
    return found


def _different(ours: Sequence[Name], theirs: Sequence[Name]) -> str:
    """Return a text that lists the nodes of the network alone and those of the data alone."""
    called = compared(ours, theirs)
    both = set(called[0]) & set(called[1])
    alone, apart = (
        [str(name) for name, known in zip(names, texts, strict=True) if known not in both]
        for names, texts in zip((ours, theirs), called, strict=True)
    )
    remedy = (
        "give both the same names; or number the network's nodes from 0, with "
        'networkx.convert_node_labels_to_integers(graph, ordering="sorted"): they are then those of the data in the '
        "order of their names"
    )
    if not apart:
        listed = ", ".join(f'"{name}"' for name in alone[:3]) + (", ..." if len(alone) > 3 else "")
        remedy = (
            "leave these nodes out of the graph (in a file of edges a line of column titles reads as an edge), or have "
            f"them learn from their neighbours alone: [[node]] with nodes = [{listed}] and data = false"
        )
    elif not alone:
        remedy = "add these nodes to the graph, or leave their rows out of the data"
    elif len(ours) != len(theirs):
        remedy = "give both the same names"
    sides = ("the network alone has", alone), ("the data alone have", apart)
    found = ", and ".join(f"{side} {some(names)}" for side, names in sides if names)
    return f"topology and data name different nodes: {found}{alike(alone, apart)}: {remedy}"


def _is_numbered(adjacency: Adjacency) -> bool:
    """Tell whether nodes have names alone, so that their numbers have no meaning."""
    return adjacency.held is not None and NUMBERED in adjacency.held.graph


def _reordered(adjacency: Adjacency, order: Sequence[int], names: Sequence[Name]) -> Adjacency:
    """Return the network with its nodes in another order: by their numbers in the data, or as 0, 1, 2, ..."""
    labels = adjacency.labels.tolist()
    numeric = are_numbers(names)
    numbers = list(map(int, names)) if numeric else list(range(len(order)))
    if not _is_numbered(adjacency):
        assert adjacency.names is not None  # numbers are already in the order of the data's
        first = next(at for at, place in enumerate(order) if labels[place] != numbers[at])
        warnings.warn(
            f"the network's nodes are numbered anew, in the order of the names that the data have: "
            f"{shown(adjacency.names[order[first]])} is node {numbers[first]} now, and was {labels[order[first]]}",
            stacklevel=2,
        )
    graph = renumbered(adjacency.graph, {labels[place]: numbers[at] for at, place in enumerate(order)})
    graph.graph.pop(NUMBERED, None)
    if not numeric:
        graph.graph[NUMBERED] = True
    return Adjacency.of(graph)


def _name(adjacency: Adjacency, source: Source) -> None:
    """Give the nodes their names as the attribute ``name``."""
    try:
        names = node_names(adjacency.labels.tolist(), source.description.nodes)
    except ValueError as refusal:
        raise InputError(f"stream: {refusal}") from refusal
    nx.set_node_attributes(adjacency.graph, names, NAME)
