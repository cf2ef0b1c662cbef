"""Matching of the network's nodes and the data's nodes, by name or by place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.graphs.adjacency import NAME, NUMBERED, Adjacency
from kernelswarm.graphs.directed import renumbered
from kernelswarm.graphs.given.names import Name, are_numbers, as_key, as_numbers, compared, text
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.links.clocks import JoiningClock
from kernelswarm.protocols.links.faults import Fault
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError, shown, some
from kernelswarm.simulations.core.node_names import alike, columns_of_nodes, find_nodes, in_order, node_names
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.dealing import OtherNodesError
from kernelswarm.simulations.data.faulty import among_others, with_faults
from kernelswarm.simulations.experiment.experiment import Experiment, Override

# Keys of an experiment that list nodes: labels or names in the file, and labels in a run.

Nodes = tuple[Name, ...]


def lists_nodes(experiment: Experiment) -> bool:
    """Tell whether an experiment has keys that list nodes."""
    return bool(experiment.overrides or experiment.faults) or fulfils(experiment.clock, JoiningClock)


def with_labels(experiment: Experiment, names: Mapping[int, Name]) -> Experiment:
    """Return the experiment with network labels in all keys that list nodes.

    A number is a label, or a name if no node has this label; text is a name.

    Parameters
    ----------
    experiment : Experiment
        The experiment, which is returned unchanged if it lists no nodes.
    names : mapping of int to name
        The name of each label of the network.

    Raises
    ------
    InputError
        There is no such node, or a number is the label of one node and the name of another.
    """

    def found(nodes: Nodes, path: str) -> Nodes:
        try:
            labels = find_nodes(nodes, names)
        except ValueError as refusal:
            raise InputError(f"{path}: {refusal}") from refusal
        if len(set(labels)) < len(set(nodes)):
            raise InputError(f"{path} = {list(nodes)} names a node twice, by its label and by its name: name each once")
        return labels

    return _with_nodes(experiment, found)


def with_names(experiment: Experiment, names: Mapping[int, Name]) -> Experiment:
    """Undo `with_labels` for a file: return the experiment with nodes' names, as text, if there are any."""

    def called(nodes: Nodes, path: str) -> Nodes:
        return tuple(node if names[int(node)] == node else str(names[int(node)]) for node in nodes)

    return _with_nodes(experiment, called)


def _with_nodes(experiment: Experiment, changed: Callable[[Nodes, str], Nodes]) -> Experiment:
    overrides = tuple(
        replace(override, nodes=changed(override.nodes, "node.nodes")) for override in experiment.overrides
    )
    faults = tuple(replace(fault, nodes=changed(fault.nodes, "fault.nodes")) for fault in experiment.faults)
    joining: Any = experiment.clock
    if fulfils(experiment.clock, JoiningClock):
        joining = replace(joining, nodes=changed(experiment.clock.nodes, "clock.nodes"))
    return replace(experiment, overrides=overrides, faults=faults, clock=joining)


# Nodes without data: a stream of the other nodes is extended to all nodes.


def without_data(experiment: Experiment) -> list[Name]:
    """Return the nodes with ``data = false`` in tables ``[[node]]``, as written in the file."""
    return [node for override in experiment.overrides if not override.data for node in override.nodes]


def by_name(experiment: Experiment, adjacency: Adjacency) -> Experiment:
    """Return the experiment with the names of the nodes without data, if the network has names.

    Matching may renumber the nodes in the order of the data's names, so that labels change their meaning.

    Raises
    ------
    InputError
        There is no such node, or no other one.
    """
    if adjacency.names is None or not without_data(experiment):
        return experiment

    def named(override: Override) -> Override:
        if override.data:
            return override
        places = places_without_data(replace(experiment, overrides=(override,)), adjacency)
        return replace(override, nodes=tuple(text(name) for name in _called(adjacency, places)))

    return replace(experiment, overrides=tuple(map(named, experiment.overrides)))


def places_without_data(experiment: Experiment, adjacency: Adjacency) -> list[int]:
    """Return the places of the nodes with ``data = false`` in tables ``[[node]]``, increasing.

    Raises
    ------
    InputError
        There is no such node, or no other one.
    """
    nodes = without_data(experiment)
    if not nodes:
        return []
    labels = adjacency.labels.tolist()
    names: dict[int, Name] = dict(zip(labels, labels if adjacency.names is None else adjacency.names, strict=True))
    own = [node for node in nodes if node not in names]  # the others are labels
    try:
        found = {*find_nodes(own, names), *(int(node) for node in nodes if node in names)}
    except ValueError as refusal:
        raise InputError(f"node.nodes: {refusal}") from refusal
    if len(found) == len(labels):
        raise InputError("node.data = false for every node of the network leaves nothing to learn from: leave one out")
    places: list[int] = np.searchsorted(adjacency.labels, sorted(found)).tolist()
    return places


def opened_for_all(
    places: Sequence[int], adjacency: Adjacency, opened: Callable[[int, Array | None], Source]
) -> Source:
    """Open a stream for the nodes with data, and extend it by the nodes without data.

    If both the data and the network name their nodes, all nodes are in the order of these names.

    Parameters
    ----------
    places : sequence of int
        The nodes without data.
    adjacency : Adjacency
        The network.
    opened : callable
        Opens the stream, given the number of nodes and their locations, (V, d) or None.

    Raises
    ------
    InputError
        The data have rows of a node with ``data = false``.
    """
    count, locations = adjacency.number_of_nodes(), adjacency.positions
    if not places:
        return opened(count, locations)
    kept = np.setdiff1d(np.arange(count), places)
    source = opened(len(kept), None if locations is None else locations[kept])
    order = np.full(count, -1)
    order[kept] = np.arange(len(kept))
    described = source.description.nodes
    if described is not None:
        names = _named(described, _called(adjacency, places), order if adjacency.names is None else None)
        refuse_rows(adjacency, places, described.tolist())
        if adjacency.names is not None:
            known = {as_key(name): place for place, name in enumerate(described.tolist())}
            order = np.array([known.get(as_key(name), -1) for name in names.tolist()])
        source = replace(source, description=replace(source.description, nodes=names))
    if locations is not None and (source.locations is None or locations.shape[1:] != source.locations.shape[1:]):
        locations = None
    return among_others(source, order.tolist(), locations)


def refuse_rows(adjacency: Adjacency, places: Sequence[int], named: Sequence[Name]) -> None:
    """Raise an error for rows of nodes with ``data = false``, also with another spelling of the name."""
    others = {as_key(name) for name in _called(adjacency, range(adjacency.number_of_nodes()))}
    without = _called(adjacency, places)
    others -= set(map(as_key, without))
    rows = {as_key(name): name for name in named if as_key(name) not in others}
    for name in without:
        nearly = alike([name], rows.values())
        if as_key(name) in rows or nearly:
            same = "it" if as_key(name) in rows else f"another node{nearly}"
            raise InputError(
                f"node.data = false says that node {name} has no data, and the data have rows of {same}: leave the "
                "node out of that table, or its rows out of the data"
            )


def _called(adjacency: Adjacency, places: Sequence[int]) -> list[Name]:
    names: Sequence[Name] = adjacency.labels.tolist() if adjacency.names is None else adjacency.names
    return [names[place] for place in places]


def _named(described: AnyArray, others: Sequence[Name], order: AnyArray | None) -> AnyArray:
    """Return the names of all nodes, by ``order``, with -1 for nodes without data, or sorted."""
    together: list[Name] = [*described.tolist(), *others]
    if not all(isinstance(name, int) for name in together):
        together = [text(name) for name in together]
    if order is None:
        return in_order(np.array(together))
    with_data, without = iter(together[: len(described)]), iter(together[len(described) :])
    return np.array([next(without) if place < 0 else next(with_data) for place in order.tolist()])


def paired(
    adjacency: Adjacency, opened: Callable[[Adjacency], Source], without: Collection[int] = ()
) -> tuple[Adjacency, Source]:
    """Open the stream for a network, and match the nodes of both.

    If graph and data have the same names, as text or as numbers, each node gets the data of its name, and the network's
    nodes are sorted like the data's. If the nodes of one side are the numbers 0 to V - 1, these are places, and nodes
    are matched in order. If the data do not name their nodes, the graph's names are used.

    Parameters
    ----------
    adjacency : Adjacency
        The validated topology.
    opened : callable
        Opens the stream for a network.
    without : collection of int
        The places of nodes without data.

    Returns
    -------
    adjacency, source
        The network, whose nodes may have new labels, and its opened stream, whose description has the nodes' names.

    Raises
    ------
    InputError
        The stream is invalid, graph and data name different nodes, or the data have a column for each node.
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
        found = _order(adjacency, names)
        order = list(range(len(names))) if found is None else found
        same = order == list(range(len(order)))
        if not same or (_is_numbered(adjacency) and are_numbers(names)):
            adjacency = _reordered(adjacency, order, names)
        if not same and adjacency.positions is not None:
            source = opened(adjacency)
        if found is None and adjacency.labels.tolist() != as_numbers(names):
            source = replace(source, facts={**source.facts, "pairing_of_nodes": _in_words(adjacency, names)})
    _name(adjacency, source)
    return adjacency, source


def _opened(adjacency: Adjacency, opened: Callable[[Adjacency], Source], without: Collection[int]) -> Source:
    """Open the stream; if data and network have different numbers of names, the error lists the differences."""
    try:
        return opened(adjacency)
    except InputError as refusal:
        other = refusal.__cause__
        if not isinstance(other, OtherNodesError) or adjacency.names is None:
            raise
        refuse_rows(adjacency, sorted(without), other.names)
        expected = [name for place, name in enumerate(adjacency.names) if place not in without]
        raise InputError(_different(expected, other.names)) from refusal


def _in_words(adjacency: Adjacency, names: list[Name]) -> str:
    """Return a sentence on nodes that were matched with names by order alone, with the first three and the last."""
    pairs = [f"{label} is {name}" for label, name in zip(adjacency.labels.tolist(), names, strict=True)]
    shown_ones = [*pairs[:3], *(["..."] if len(pairs) > 4 else []), *pairs[max(3, len(pairs) - 1) :]]
    kinds = "increasing" if as_numbers(names) is not None else "alphabetical"
    of_names = f"the {kinds} order" if names == in_order(np.array(names)).tolist() else "the order"
    return f"{', '.join(shown_ones)}: by place, the numbers and {of_names} of the names in the data"


def _order(adjacency: Adjacency, names: list[Name]) -> list[int] | None:
    """Return the network's places of the nodes named by the data, or None for matching by place."""
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
    return None


def _places(called: Sequence[Name], names: Sequence[Name]) -> list[int] | None:
    """Return the index of each data name among the network's names, or None if the names differ."""
    known, wanted = compared(called, names)
    places = {name: place for place, name in enumerate(known)}
    if not (len(places) == len(known) == len(wanted) and places.keys() == set(wanted)):
        return None
    found = [places[name] for name in wanted]
    pairs = [(name, called[place]) for name, place in zip(names, found, strict=True)]
    zeros = [f"{name} is called {other}" for name, other in pairs if as_key(name) != as_key(other)]
    if zeros and list(called) != list(range(len(called))):  # those are places
        more = f", and {len(zeros) - 1} more alike" if len(zeros) > 1 else ""
        warnings.warn(f"data and network differ in zeros in front of names: {zeros[0]} there{more}", stacklevel=2)
    return found


def _different(ours: Sequence[Name], theirs: Sequence[Name]) -> str:
    """Return a text that lists the nodes of the network alone and the nodes of the data alone."""
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
    """Tell whether nodes are known by names only, so that their numbers have no meaning."""
    return adjacency.held is not None and NUMBERED in adjacency.held.graph


def _reordered(adjacency: Adjacency, order: Sequence[int], names: Sequence[Name]) -> Adjacency:
    """Return the network with nodes in another order, numbered as in the data or as 0, 1, 2, ..."""
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


# The effect of the tables ``[[fault]]`` on a network: wrong data, and the sound nodes.


def measured(experiment: Experiment, source: Source, labels: Sequence[int], batch_sizes: Sequence[int]) -> Source:
    """Return an opened stream with the faults of nodes.

    Parameters
    ----------
    experiment : Experiment
        The experiment, with resolved keys and with labels for nodes.
    source : Source
        The true data.
    labels, batch_sizes : sequence of int
        Of each node.

    Raises
    ------
    InputError
        A fault does not fit the data, or all nodes are faulty.
    """
    for place, fault in enumerate(experiment.faults):
        try:
            fault.refuse(source.classes)
        except RefusedKey as refusal:
            raise InputError(refusal.at(f"fault[{place}]")) from refusal
    if experiment.faults and not sound(experiment, labels).any():
        raise InputError(
            "fault.nodes names every node, and the network's figures are means over sound ones: leave one out at least"
        )
    return with_faults(source, experiment.faults, labels, batch_sizes, experiment.seed)


def spoken(experiment: Experiment) -> tuple[Fault, ...]:
    return tuple(fault for fault in experiment.faults if fault.of == "messages")


def sound(experiment: Experiment, labels: Sequence[int]) -> Booleans:
    """Tell whether each node is sound, that is, in no table of faults, (V,)."""
    named = {node for fault in experiment.faults for node in fault.nodes}
    return np.array([label not in named for label in labels], dtype=np.bool_)
