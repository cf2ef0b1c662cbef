"""Names of nodes from the data, and the search for nodes by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.graphs.given.names import (
    DIFFER,
    as_numbers,
    as_written,
    compared,
    folded,
    is_number,
    is_whole,
    pairs_alike,
    text,
)
from kernelswarm.graphs.given.names import Name as Name
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import nearest, number_of, shown, some


def in_order(names: AnyArray) -> AnyArray:
    """Return the distinct names of nodes in the order of a network's nodes.

    Whole numbers, also as text, are in increasing order; other text is in alphabetical order.

    Examples
    --------
    >>> in_order(np.array(["10", "9", "10"])).tolist(), in_order(np.array(["10", "b", "9"])).tolist()
    (['9', '10'], ['10', '9', 'b'])
    """
    found = np.unique(names)
    numbers = as_numbers(found.tolist())
    return found if numbers is None else found[np.argsort(np.array(numbers), kind="stable")]


def node_names(nodes: Sequence[int], names: AnyArray | None) -> dict[int, Name]:
    """Return the name of each node by its label; without names in the data, the label itself.

    Parameters
    ----------
    nodes : sequence of int
        The labels, sorted.
    names : array, optional
        `DataDescription.nodes`.

    Raises
    ------
    ValueError
        The numbers of names and nodes differ.

    Examples
    --------
    >>> import numpy as np
    >>> node_names([0, 1], np.array(["north", "south"]))
    {0: 'north', 1: 'south'}
    """
    if names is not None and len(names) != len(nodes):
        raise ValueError(
            f"the data names {number_of(len(names), 'node')}, and the network has {len(nodes)}: name each of them once"
        )
    return dict(zip(nodes, nodes if names is None else names.tolist(), strict=True))


def alike(ours: Iterable[object], theirs: Iterable[object]) -> str:
    """Return the end of a sentence on nearly equal names of two sides; empty without such names.

    Examples
    --------
    >>> alike(["ALABAMA", "NEW_YORK", 7], ["Alabama", "New York", "b"])
    '; "ALABAMA" and "Alabama", and 1 more pair, differ by case, blanks or letters such as _ alone'
    """
    pairs = pairs_alike(ours, theirs)
    if not pairs:
        return ""
    others = f", and {number_of(len(pairs) - 1, 'more pair')}," if len(pairs) > 1 else ""
    return f"; {' and '.join(map(shown, pairs[0]))}{others} {DIFFER}"


MELT = 'pandas\' frame.melt("time", var_name="node", value_name="y") makes a row for each node and time'
"""The remedy for a table with one column for each node."""


def columns_of_nodes(columns: Sequence[str], names: Sequence[Name]) -> str:
    """Return a sentence on data with one column for each node, recognized by name; empty for other data.

    At least three columns, and half of all columns, must have names of nodes other than 0, 1, 2, ...

    Parameters
    ----------
    columns : sequence of str
        The inputs and targets of data without a column of nodes' names.
    names : sequence of int or str
        The names of the network's nodes.

    Examples
    --------
    >>> columns_of_nodes(["12", "7", "31", "weekday"], [7, 12, 31, 90]).partition(",")[0]
    'the columns "12"'
    >>> columns_of_nodes(["0", "1", "2"], [0, 1, 2]), columns_of_nodes(["a", "b", "c"], ["d", "e"])
    ('', '')
    """
    if list(names) == list(range(len(names))):
        return ""
    theirs, ours = compared(columns, names)
    known = {*ours, *map(folded, names)}
    found = [name for name, own in zip(columns, theirs, strict=True) if own in known or folded(name) in known]
    if len(found) < max(3, len(columns) / 2):
        return ""
    return (
        f"the columns {', '.join(map(shown, found[:3]))}{', ...' if len(found) > 3 else ''} are called as nodes of the "
        f"network, and no column says which node a row is of: {MELT}; or rename them, where they are no nodes"
    )


def find_node(node: Hashable, names: Mapping[int, Name]) -> int:
    """Return the network label of a node that is given by its label or by its name.

    If a number is the label of one node and the name of another, only the name as text is accepted. A name of digits
    may be given without leading zeros if no other node has the same number.

    Parameters
    ----------
    node : int, str or hashable
        The label, the name, or the name as text; or the node of a graph whose nodes are neither numbers nor text.
    names : mapping of int to name
        `node_names`.

    Raises
    ------
    ValueError
        There is no such node, or the name is ambiguous.

    Examples
    --------
    >>> find_node("south", {0: "north", 1: "south"}), find_node(100, {0: 100, 1: 101}), find_node("1", {0: 1, 1: 2})
    (1, 0, 0)
    >>> find_node((0, 1), {0: "(0, 0)", 1: "(0, 1)"}), find_node(16, {0: "007", 1: "016"})
    (1, 1)
    """
    (found,) = find_nodes([node], names)
    return found


def find_nodes(nodes: Iterable[Hashable], names: Mapping[int, Name]) -> tuple[int, ...]:
    """Return the labels of several nodes; see `find_node`.

    Examples
    --------
    >>> find_nodes(["south", 0], {0: "north", 1: "south"})
    (1, 0)
    """
    named = {name: label for label, name in names.items()}
    texts = {str(name): label for label, name in names.items()}
    return tuple(_found(node, names, named, texts) for node in nodes)


def _found(node: Hashable, names: Mapping[int, Name], named: Mapping[Name, int], texts: Mapping[str, int]) -> int:
    called = text(int(node)) if is_whole(node) else text(node)  # type: ignore[call-overload]
    known = named.get(node) if isinstance(node, str) else None
    known = texts.get(called) if known is None else known
    if is_number(node) and node in names:
        label: int = int(node)  # type: ignore[call-overload]
        if known not in (None, label):
            raise RefusedKey(
                "node",
                f"= {node} is the label of the node named {names[label]} and the own name of the node with the "
                f'label {known}: give the name as text, "{names[label]}" or "{node}"',
            )
        return label
    if known is not None:
        return known
    (plain,) = as_written([called]).values()  # 7 for 7.0 in files
    if plain in named:
        return named[plain]
    ours, (wanted,) = compared(list(names.values()), [called])
    if ours.count(wanted) == 1:
        return list(names)[ours.index(wanted)]
    owns = [str(name) for name in names.values()]
    labels = f", or a label from {min(names)} to {max(names)}" if any(k != name for k, name in names.items()) else ""
    given = shown(node) if isinstance(node, int | str) else called
    raise ValueError(f"there is no node {given}: use one of {some(owns)}{labels}{nearest(called, owns)}")
