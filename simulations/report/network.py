"""The network of a page: positions of nodes, edges, and columns of both at the evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.network import arranged, drawn_edges, share_delivered
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.outcome import label
from kernelswarm.simulations.records.result import repeated
from kernelswarm.simulations.report.learning_curves import over_nodes
from kernelswarm.simulations.report.tables import COLOR, MANY, finite, number, numbers, some

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result, Table


NODE_COLUMNS = ("risk", "error", "model_order", "global_risk", "global_error")
"""The columns available as colours of nodes."""

EDGE_COLUMNS = {
    "constraint": "mean square difference",
    "dual": "dual",
    "share_delivered": "share of messages delivered",
    "violation": "violation (sum of h - gamma)",
    "tolerance": "tolerance",
}
"""Names of columns available as colours of edges; other columns of the edges' table keep their names."""

KEYS = ("round", "source", "target")

ROWS = 12
"""Maximum number of rows of a comparison with a network in the page."""

FIRST = {"nodes": 3, "edges": 2}
"""Numbers of columns that are kept if all columns at all rounds would be too many values."""

NUMBERS = 600_000
"""Maximum number of values of nodes and edges, about 4 MB; beyond it, rounds are left out."""


def of_run(result: Result, most: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the network of a run, and sentences on omitted content.

    Edges are undirected: each has the mean of its two directed edges. There are at most ``most`` values, by default
    ``NUMBERS``.

    Returns
    -------
    dict
        ``names`` and positions ``x``, ``y`` of the nodes in the order of their labels, their ``diameter`` as a share of
        the drawing's extent; ``edges`` as pairs of indices of nodes; ``rounds``; and the values of ``node_columns`` and
        ``edge_columns``, one list for each round.
    list of str
        Sentences on omitted content.
    """
    nodes = sorted(result.graph.nodes)
    (places, diameter), at = arranged(result.graph), {node: place for place, node in enumerate(nodes)}
    edges = [(i, j) for i, j in drawn_edges(result) if i != j]
    once = [name for name in NODE_COLUMNS if name not in repeated([result.nodes])]
    of_nodes = [name for name in once if name in result.nodes and finite(result.nodes[name])]
    of_links: Table = result.edges
    if "delivered" in of_links:
        of_links = {**of_links, "share_delivered": share_delivered(of_links)}
    of_edges = [name for name in of_links if name not in KEYS and finite(of_links[name])]
    of_edges.sort(key=lambda name: [*EDGE_COLUMNS, name].index(name))
    every = np.unique(result.nodes["round"]) if "round" in result.nodes else np.empty(0, dtype=np.int64)
    left, most = [], NUMBERS if most is None else most
    if len(every) * (len(nodes) * len(of_nodes) + len(edges) * len(of_edges)) > most:
        dropped = [*of_nodes[FIRST["nodes"] :], *of_edges[FIRST["edges"] :]]
        of_nodes, of_edges = of_nodes[: FIRST["nodes"]], of_edges[: FIRST["edges"]]
        if dropped:
            left.append(f"The network is not coloured by {', '.join(dropped)}: with all of them it would be too much.")
    each = len(nodes) * len(of_nodes) + len(edges) * len(of_edges)
    rounds = every[some(len(every), most // max(each, 1))]
    table = {
        "rounds": numbers(rounds),
        "names": [str(result.node_names[node]) for node in nodes],
        "x": numbers([places[node][0] for node in nodes], MANY),
        "y": numbers([places[node][1] for node in nodes], MANY),
        "diameter": number(diameter, MANY),
        "edges": [[at[i], at[j]] for i, j in edges],
        "node_columns": [
            {
                "name": name,
                "label": style.column_label(name, result.config, result.facts),
                "values": numbers(over_nodes(result.nodes, name, rounds, nodes), MANY),
            }
            for name in of_nodes
        ],
        "edge_columns": [
            {
                "name": name,
                "label": EDGE_COLUMNS.get(name, name.replace("_", " ")),
                "values": numbers(over_edges(of_links, name, rounds, edges), COLOR),
            }
            for name in of_edges
        ],
    }
    if len(rounds) < len(every):
        left.append(
            f"The network is shown at {len(rounds):,} of the {len(every):,} evaluations: all would be too much."
        )
    if len(edges) < (count := result.graph.number_of_edges()):
        left.append(f"{len(edges):,} of the {count:,} edges are drawn.")
    return table, left


def of_comparison(comparison: Comparison) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the network of the first run of each row, with the row's ``label``, and sentences on omitted parts."""
    found, left = list[dict[str, Any]](), dict[str, None]()
    for place, cell in enumerate(comparison.cells[:ROWS]):
        run = next((run for run in comparison.done(place) if run.folder is not None), None)
        if run is not None and run.folder is not None:
            table, texts = of_run(run_folder.read(run.folder), NUMBERS // min(len(comparison.cells), ROWS))
            name = label(comparison, cell.labels, range(len(comparison.keys))) or cell.protocol
            found.append({"label": f"{name}, seed {run.seed}", **table})
            left |= dict.fromkeys(texts)
    if len(comparison.cells) > ROWS:
        left[f"The networks of the first {ROWS} rows are shown."] = None
    return found, list(left)


def over_edges(table: Table, column: str, rounds: AnyArray, edges: list[tuple[int, int]]) -> Array:
    """Return a column of the edges' table as a matrix (rounds, edges), with the mean of both directions, or NaN.

    Parameters
    ----------
    table : mapping of str to array
        One row for each round and directed edge.
    column : str
        The column.
    rounds : array
        The rounds, in ascending order.
    edges : list of (int, int)
        The sorted undirected edges, smaller label first.
    """
    sums, counts = np.zeros((len(rounds), len(edges))), np.zeros((len(rounds), len(edges)))
    if not sums.size:
        return sums
    source, target = np.asarray(table["source"]), np.asarray(table["target"])
    low, high = np.minimum(source, target), np.maximum(source, target)
    stride = int(max(high.max(initial=0), max(j for _, j in edges))) + 1
    known = np.array([i * stride + j for i, j in edges])
    keys = low * stride + high
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    row = np.minimum(np.searchsorted(rounds, table["round"]), len(rounds) - 1)
    values = np.asarray(table[column], dtype=np.float64)
    wanted = (known[place] == keys) & (rounds[row] == table["round"]) & np.isfinite(values)
    np.add.at(sums, (row[wanted], place[wanted]), values[wanted])
    np.add.at(counts, (row[wanted], place[wanted]), 1.0)
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
