"""The network for a user's data: a file of their own, else of the nearest nodes, a ring, or a random one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.graphs.directed import who_asks
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.given.names import Name, as_key, compared
from kernelswarm.graphs.validation import as_network
from kernelswarm.simulations.core.messages import number_of, shown, some, toml
from kernelswarm.simulations.core.node_names import alike, columns_of_nodes, in_order
from kernelswarm.simulations.data.frames import are_names
from kernelswarm.simulations.data.gaps import are_gaps
from kernelswarm.simulations.data.guessing import Guess, guess
from kernelswarm.simulations.data.rows import Rows
from kernelswarm.simulations.data.suspicious import node_columns

LARGEST_RING = 30
"""Nodes of a ring, at most: around a larger one what nodes learn takes hundreds of rounds."""

MOST_PLACED = 1000
"""Nodes whose places are written into the file, at most."""

KILOMETRES = 111.195
"""Of a degree of latitude on a sphere of the radius 6371 km."""

DEGREES = re.compile(r"lat(itude)?|breite(ngrad)?"), re.compile(r"lon(g|gitude)?|lng|l(ä|ae)nge(ngrad)?")
PLACES = (
    DEGREES,
    (re.compile(r"east(ing)?|rechtswert|e_?utm|utm_?e"), re.compile(r"north(ing)?|hochwert|n_?utm|utm_?n")),
    (re.compile(r"(pos|coord)?_?x(_?(pos|coord))?"), re.compile(r"(pos|coord)?_?y(_?(pos|coord))?")),
)
"""The names, in any case, of columns with the origin of a row."""


class Chosen(NamedTuple):
    """A network for data.

    Parameters
    ----------
    table : str
        The lines of the table ``[topology]``.
    words : str
        What was chosen, and why.
    without : sequence of int or str
        Its nodes that have no rows.
    nodes : int
        How many nodes a given network has.
    """

    table: str
    words: str
    without: Sequence[Name] = ()
    nodes: int = 0


def chosen_network(rows: Rows, nodes: int) -> Chosen:
    """Choose a network for data of some nodes.

    Nodes that the rows name and place, by columns such as latitude and longitude or x and y, are adjacent to the four
    nearest ones; degrees are turned into kilometres. Others are a ring, or where there are many, joined at random: a
    ring of 142 nodes is 71 steps across.
    """
    places = _places(rows) if rows.ids is not None and 3 <= nodes <= MOST_PLACED else None
    if places is not None and rows.ids is not None:
        columns, found = places
        unit = "in km east and north of their middle, " if _are_degrees(columns) else ""
        called = " and ".join(map(shown, columns))
        # In quotes: a line break in a name would end the comment.
        named = zip(found.tolist(), map(toml, in_order(rows.ids).tolist()), strict=True)
        lines = [
            'name = "nearest_neighbors"',
            "neighbors = 4           # best on each node's own data; on those of all nodes erdos_renyi is",
            f"positions = [           # {unit}by {called}",
            *(f"    [{x:.6g}, {y:.6g}],  # {name}" for (x, y), name in named),
            "]",
        ]
        why = "which serve the data of a node's own; where each is to know those of all, take erdos_renyi"
        return Chosen("\n".join(lines), f"nearest_neighbors, by {called}, {why}")
    if nodes <= LARGEST_RING:
        return Chosen(f'name = "ring"\nnodes = {nodes}', "ring")
    across = f"since a ring of {nodes:,} would be {nodes // 2:,} steps across"
    return Chosen(f'name = "erdos_renyi"\nnodes = {nodes}', f"erdos_renyi, joined at random, {across}")


def given_network(rows: Rows, path: Path, written: str) -> Chosen:
    """Return a network that the user gives for data, and which of its nodes have no rows where these name their nodes.

    Parameters
    ----------
    rows : Rows
        The data.
    path : Path
        The file with the network.
    written : str
        The path as the experiment has it.

    Raises
    ------
    ValueError
        There is no network in the file, it lacks a node that the rows name, or the data have a column for each node.
    """
    network = as_network(read_graph(path), fresh=True)
    names: list[Name] = network.labels.tolist() if network.names is None else network.names
    table, words = f'name = "file"\npath = {toml(written)}', f"{path.name}, {number_of(len(names), 'node')}"
    if rows.ids is None:
        wide = columns_of_nodes((*rows.columns, *rows.target_columns), names)
        if wide:
            raise ValueError(wide)
        for each in rows.kinds:
            nearly = alike(names, each.words if each.kind == "words" else ())
            words += f"; {shown(each.name)} does not name them{nearly}" if nearly else ""
        return Chosen(table, words, nodes=len(names))
    named = in_order(rows.ids).tolist()
    known, wanted = compared(names, named)
    lacking = [str(name) for name, own in zip(named, wanted, strict=True) if own not in known]
    if lacking and not (network.names is None and len(names) == len(named)):  # then they are paired by place
        raise ValueError(
            f"network: {path.name} has no node {some(lacking)}, which the rows name: add it to the network, or leave "
            f"its rows out; its nodes are {some([str(name) for name in names])}{alike(names, lacking)}"
        )
    without = [name for name, own in zip(names, known, strict=True) if own not in wanted and not lacking]
    if without:
        called = some([str(name) for name in without])
        words += f", of which {called} {'has' if len(without) == 1 else 'have'} no rows: "
        words += "what they learn, they learn from their neighbours"
        where = {name: place for place, name in enumerate(names)}
        far = network.cut_off([where[name] for name in without])
        words += f"; no path leads to {some([str(names[place]) for place in far])} from a node with rows" if far else ""
    asked = who_asks(network, dict(zip(network.labels.tolist(), names, strict=True)))
    words += f"; {asked}" if asked else ""
    if not lacking:
        found = dict(zip(known, names, strict=True))
        pairs = ((name, found[own]) for name, own in zip(named, wanted, strict=True))
        zeros = [f"{name} is called {other}" for name, other in pairs if as_key(name) != as_key(other)]
        words += f"; {some(zeros)} there" if zeros else ""
    return Chosen(table, words, without, len(names))


def naming_columns(found: Guess, path: Path) -> list[str]:
    """Return the columns whose words are all names of nodes in a user's network; none where rows name their nodes.

    So are numbers of a column that is called as those that name nodes are, unless the network's are but places.

    Parameters
    ----------
    found : Guess
        The data, with the columns that hold too many words to be inputs.
    path : Path
        The file with the network.

    Raises
    ------
    ValueError
        There is no network in the file.
    """
    network = as_network(read_graph(path), fresh=True)
    names: list[Name] = network.labels.tolist() if network.names is None else network.names
    if names == list(range(len(names))) or found.rows.ids is not None:
        return []
    rows = found.rows
    words: dict[str, Sequence[Name]] = {each.name: each.words for each in rows.kinds if each.kind == "words"}
    numbered = node_columns(rows.columns, rows.points) if are_names(rows.columns) else ()
    for column in (column for column in numbered if column not in words):
        values = rows.points[:, rows.columns.index(column)]
        words[column] = np.unique(values[~np.isnan(values)]).astype(np.int64).tolist()
    for column in found.words:
        ids = guess(replace(found.file, node_column=column, drop=(), features=())).rows.ids
        words[column] = [] if ids is None else np.unique(ids).tolist()
    sides = {column: compared(names, values) for column, values in words.items() if len(values) > 1}
    return [column for column, (known, wanted) in sides.items() if set(wanted) <= set(known)]


def left_out_nodes(rows: Rows, left: Rows) -> str:
    """Return a sentence on nodes whose rows are all left out, or an empty text without such nodes."""
    if rows.ids is None or left.ids is None:
        return ""
    lost = [as_key(name) for name in in_order(rows.ids[~are_gaps(rows.ids)]).tolist() if name not in left.ids]
    if not lost:
        return ""
    return (
        f"{some(lost)} {'has' if len(lost) == 1 else 'have'} no row that is whole enough to learn from: a network of "
        "your own (--network) may have such nodes, which learn from their neighbours"
    )


def _places(rows: Rows) -> tuple[tuple[str, str], Array] | None:
    """Return the columns that say where nodes are, and each node's mean place, in its order; None without such ones."""
    called = {place: kind.name.strip().lower() for place, kind in enumerate(rows.held) if kind.kind == "number"}
    for first, second in PLACES:
        ones = [place for place, column in called.items() if first.fullmatch(column)]
        others = [place for place, column in called.items() if second.fullmatch(column)]
        if len(ones) == len(others) == 1 and rows.ids is not None:
            values = rows.points[:, [ones[0], others[0]]].astype(np.float64)
            whole = np.isfinite(values).all(axis=1)  # gaps are filled later, and say nothing of where a node is
            names = in_order(rows.ids)
            if not np.isin(names, rows.ids[whole]).all():
                return None
            found = np.array([values[whole & (rows.ids == name)].mean(axis=0) for name in names])
            columns = (rows.columns[ones[0]], rows.columns[others[0]])
            if len(np.unique(found, axis=0)) < 2:
                return None  # they do not tell nodes apart
            return columns, _in_kilometres(found) if _are_degrees(columns) else found
    return None


def _are_degrees(columns: tuple[str, str]) -> bool:
    return DEGREES[0].fullmatch(columns[0].strip().lower()) is not None


def _in_kilometres(found: Array) -> Array:
    """Return latitude and longitude, (V, 2), as kilometres east and north of their middle, (V, 2)."""
    turned = np.deg2rad(found[:, 1])
    middle = np.rad2deg(np.arctan2(np.sin(turned).mean(), np.cos(turned).mean()))  # also across 180 degrees
    east = (found[:, 1] - middle + 180.0) % 360.0 - 180.0
    north = found[:, 0] - found[:, 0].mean()
    return KILOMETRES * np.column_stack([east * np.cos(np.deg2rad(found[:, 0].mean())), north])
