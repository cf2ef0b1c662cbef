"""The nodes of a network by the names that the data gives them, and a node found by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.ground.data_description import Labels
from kernelswarm.simulations.ground.wording import nearest, shown, some

Name = int | str
"""What a node is called: a whole number or text."""


def in_order(names: Labels) -> Labels:
    """Return the different names of nodes in the order in which they are those of a network's nodes.

    Whole numbers are in increasing order, also where text holds them; other text is in alphabetical order.

    Examples
    --------
    >>> in_order(np.array(["10", "9", "10"])).tolist(), in_order(np.array(["10", "b", "9"])).tolist()
    (['9', '10'], ['10', '9', 'b'])
    """
    found = np.unique(names)
    numbers = _as_numbers(found.tolist())
    return found if numbers is None else found[np.argsort(np.array(numbers), kind="stable")]


def refuse_other_nodes(nodes: Sequence[int], names: Labels, own: Mapping[int, Any]) -> None:
    """Refuse data whose nodes are not those of the network, which are paired in their order.

    A network's nodes and the data's are the same ones where both have the same names, as text or as numbers. Where one
    side counts from 0, it says places and no names.

    Parameters
    ----------
    nodes : sequence of int
        The labels of the network, sorted.
    names : array
        The names in the data, `in_order`.
    own : mapping
        Names that the network itself has for its nodes beside the labels; empty where it has none.

    Raises
    ------
    ValueError
        They are others, or in another order.
    """
    said = [str(name) for name in names.tolist()]
    called = [str(own[node]) for node in nodes] if own else []
    numbers = _as_numbers(said)
    if called == said or (numbers == list(nodes) and set(called) != set(said)):
        return
    if set(called) == set(said):
        wrong = next(place for place, name in enumerate(called) if name != said[place])
        raise ValueError(
            f"the network names its node {nodes[wrong]} {shown(called[wrong])}, and in the order of the names "
            f"({some(said)}) it is {shown(said[wrong])}: number the network's nodes in this order, with "
            'networkx.convert_node_labels_to_integers(graph, ordering="sorted"), or give the graph with the names for '
            "nodes in Python"
        )
    if set(called) & set(said):
        raise ValueError(_different(called, said))
    places = list(range(len(nodes)))
    if places not in (list(nodes), numbers):
        raise ValueError(_different([str(node) for node in nodes], said))


def node_names(nodes: Sequence[int], names: Labels | None) -> dict[int, Name]:
    """Return the own name of each node by its label in the network; the label itself where the data names none.

    Parameters
    ----------
    nodes : sequence of int
        The labels, sorted.
    names : array, optional
        `DataDescription.nodes`.

    Raises
    ------
    ValueError
        There are more or fewer names than nodes.

    Examples
    --------
    >>> import numpy as np
    >>> node_names([0, 1], np.array(["north", "south"]))
    {0: 'north', 1: 'south'}
    """
    if names is not None and len(names) != len(nodes):
        raise ValueError(f"the data names {len(names)} nodes, and the network has {len(nodes)}: name each of them once")
    return dict(zip(nodes, nodes if names is None else names.tolist(), strict=True))


def find_node(node: Name, names: Mapping[int, Name]) -> int:
    """Return the label in the network of a node that is given by this label or by its own name.

    A number may be the label of one node and the own name of another; then only the name as text is understood.

    Parameters
    ----------
    node : int or str
        Label, own name, or own name as text.
    names : mapping of int to name
        `node_names`.

    Raises
    ------
    ValueError
        There is no such node, or it may be two.

    Examples
    --------
    >>> find_node("south", {0: "north", 1: "south"}), find_node(100, {0: 100, 1: 101}), find_node("1", {0: 1, 1: 2})
    (1, 0, 0)
    """
    named = [label for label, name in names.items() if name == node]
    if isinstance(node, str):
        named = named or [label for label, name in names.items() if str(name) == node]
    elif node in names and named not in ([], [node]):
        raise RefusedKey(
            "node",
            f"= {node} is the label of the node named {names[int(node)]} and the own name of the node with the "
            f'label {named[0]}: give the name as text, "{names[int(node)]}" or "{node}"',
        )
    elif node in names:
        named = [int(node)]
    if named:
        return named[0]
    known = [str(name) for name in names.values()]
    labels = f", or a label from {min(names)} to {max(names)}" if any(k != name for k, name in names.items()) else ""
    raise ValueError(f"there is no node {shown(node)}: use one of {some(known)}{labels}{nearest(str(node), known)}")


def find_nodes(nodes: Sequence[Name], names: Mapping[int, Name]) -> tuple[int, ...]:
    """Return the labels of several nodes, each found as `find_node` finds it; raises ValueError as it does.

    Examples
    --------
    >>> find_nodes(["south", 0], {0: "north", 1: "south"})
    (1, 0)
    """
    named = {name: label for label, name in names.items()}
    texts = {str(name): label for label, name in names.items()}
    found = []
    for node in nodes:
        known = named.get(node, texts.get(node) if isinstance(node, str) else None)
        if isinstance(node, int) and node in names:
            known = node if known in (None, node) else None
        found.append(find_node(node, names) if known is None else known)
    return tuple(found)


def _as_numbers(names: Sequence[Any]) -> list[int] | None:
    """Return the whole numbers that all names are, each another one; None where they are not."""
    if not all(isinstance(name, int) or (isinstance(name, str) and re.fullmatch("[0-9]+", name)) for name in names):
        return None
    numbers = [int(name) for name in names]
    return numbers if len(set(numbers)) == len(numbers) else None


def _different(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """Say of which nodes the network is, and of which the data."""
    single = next((name for name in ours if name not in theirs), ours[0])
    return (
        f"the network has the nodes {some(ours)}, and the data name {some(theirs)}: {single} is not in the data, and "
        "nodes of different names are not paired. Give both the same names; or number the network's nodes from 0, with "
        'networkx.convert_node_labels_to_integers(graph, ordering="sorted"): they are then those of the data in the '
        "order of their names"
    )
