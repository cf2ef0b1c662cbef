"""Nodes of a network that have no data: the others' stream opened for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.given.names import Name, key, text
from kernelswarm.simulations.core.data_description import Labels
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.node_names import find_nodes, in_order
from kernelswarm.simulations.experiment.experiment import Experiment, Override
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.without_data import among_others


def without_data(experiment: Experiment) -> list[Name]:
    """Return the nodes with ``data = false`` in tables ``[[node]]``, as they are written."""
    return [node for override in experiment.overrides if not override.data for node in override.nodes]


def by_name(experiment: Experiment, adjacency: Adjacency) -> Experiment:
    """Return the experiment with the own names of the nodes without data, where the network has some.

    Pairing may number the nodes anew, in the order of the data's names: a label then means another node.

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
    """Open a stream for the nodes that have data, and return it with those among them that have none.

    Where the data name their nodes and the network's have names too, all are in the order of these names.

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
            known = {key(name): place for place, name in enumerate(described.tolist())}
            order = np.array([known.get(key(name), -1) for name in names.tolist()])
        source = replace(source, description=replace(source.description, nodes=names))
    if locations is not None and (source.locations is None or locations.shape[1:] != source.locations.shape[1:]):
        locations = None
    return among_others(source, order.tolist(), locations)


def refuse_rows(adjacency: Adjacency, places: Sequence[int], named: Sequence[Name]) -> None:
    """Refuse data with rows of nodes that have ``data = false``; raises InputError."""
    rows = {key(name) for name in named}
    for name in _called(adjacency, places):
        if key(name) in rows:
            raise InputError(
                f"node.data = false says that node {name} has no data, and the data have rows of it: leave the node "
                "out of that table, or its rows out of the data"
            )


def _called(adjacency: Adjacency, places: Sequence[int]) -> list[Name]:
    names: Sequence[Name] = adjacency.labels.tolist() if adjacency.names is None else adjacency.names
    return [names[place] for place in places]


def _named(described: Labels, others: Sequence[Name], order: Labels | None) -> Labels:
    """Return the names of all nodes, by ``order``, with -1 for nodes without data, or sorted."""
    together: list[Name] = [*described.tolist(), *others]
    if not all(isinstance(name, int) for name in together):
        together = [text(name) for name in together]
    if order is None:
        return in_order(np.array(together))
    with_data, without = iter(together[: len(described)]), iter(together[len(described) :])
    return np.array([next(without) if place < 0 else next(with_data) for place in order.tolist()])
