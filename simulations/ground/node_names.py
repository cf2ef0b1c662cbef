"""The nodes of a network by the names that the data gives them, and a node found by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.ground.data_description import Labels
from kernelswarm.simulations.ground.wording import nearest, shown, some

Name = int | str
"""What a node is called: a whole number or text."""


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
