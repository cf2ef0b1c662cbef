"""The nodes of a network by the names that the data gives them, and a node found by its name."""

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
    """Return the different names of nodes in the order of a network's nodes.

    Whole numbers are in increasing order, also where text holds them; other text is in alphabetical order.

    Examples
    --------
    >>> in_order(np.array(["10", "9", "10"])).tolist(), in_order(np.array(["10", "b", "9"])).tolist()
    (['9', '10'], ['10', '9', 'b'])
    """
    found = np.unique(names)
    numbers = as_numbers(found.tolist())
    return found if numbers is None else found[np.argsort(np.array(numbers), kind="stable")]


def node_names(nodes: Sequence[int], names: AnyArray | None) -> dict[int, Name]:
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
        raise ValueError(
            f"the data names {number_of(len(names), 'node')}, and the network has {len(nodes)}: name each of them once"
        )
    return dict(zip(nodes, nodes if names is None else names.tolist(), strict=True))


def alike(ours: Iterable[object], theirs: Iterable[object]) -> str:
    """Return the end of a sentence on nearly equal names of two sides, or an empty text without such names.

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
"""What to do about a table with a column for each node."""


def columns_of_nodes(columns: Sequence[str], names: Sequence[Name]) -> str:
    """Return a sentence on data with a column for each node, recognized by names, or an empty text for other data.

    So it is where at least three columns, and half of all, are called as nodes that are more than places.

    Parameters
    ----------
    columns : sequence of str
        Inputs and targets of data that have no column with the names of nodes.
    names : sequence of int or str
        What the network's nodes are called.

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
    """Return the label in the network of a node that is given by this label or by its own name.

    A number may be the label of one node and the own name of another; then only the name as text is understood. A name
    of digits is found without the zeros in front of it too, if no other node has the same number.

    Parameters
    ----------
    node : int, str or hashable
        Label, own name, or own name as text; of a graph whose nodes are neither numbers nor text, the node itself.
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
    >>> find_node((0, 1), {0: "(0, 0)", 1: "(0, 1)"}), find_node(16, {0: "007", 1: "016"})
    (1, 1)
    """
    (found,) = find_nodes([node], names)
    return found


def find_nodes(nodes: Iterable[Hashable], names: Mapping[int, Name]) -> tuple[int, ...]:
    """Return the labels of several nodes, each found as `find_node` finds it; raises ValueError as it does.

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
    (plain,) = as_written([called]).values()  # 7 where files write 7.0
    if plain in named:
        return named[plain]
    ours, (wanted,) = compared(list(names.values()), [called])
    if ours.count(wanted) == 1:
        return list(names)[ours.index(wanted)]
    owns = [str(name) for name in names.values()]
    labels = f", or a label from {min(names)} to {max(names)}" if any(k != name for k, name in names.items()) else ""
    given = shown(node) if isinstance(node, int | str) else called
    raise ValueError(f"there is no node {given}: use one of {some(owns)}{labels}{nearest(called, owns)}")
