"""Plots of the network: nodes coloured by risk, edges by the difference of their nodes or by delivered messages."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.graphs.layout import positions
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.learned import Learned
from kernelswarm.simulations.records.result import last_rows

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap, Normalize

    from kernelswarm.simulations.records.result import Result, Table

    Scales = tuple[Normalize | None, Normalize | None]

Edge = tuple[int, int]
SIDE = 270.0  # points, of the square that the network is drawn into
LABELLED = 60  # nodes; more labels would overlap
FITTING = 4  # characters of a node's name; longer names are below the node
MOST = 20  # characters of a name that are shown
BESIDE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}  # edges run under names below nodes
CROWD = 400  # nodes; more of them are small dots without rims, or they would cover the page
THREADS = 400  # edges; more are thinner and more transparent
DRAWN = 4000  # maximum number of edges; of more, evenly spaced ones are drawn


def final_risks(result: Result) -> dict[int, float]:
    """Return the last risk of each node on its own data; nodes without a risk are left out."""
    return node_risks(last_rows(result.nodes))


def node_risks(rows: Table) -> dict[int, float]:
    """Return the risk of each node from the rows of one round; nodes without a risk are left out."""
    if "risk" not in rows:
        return {}
    pairs = zip(rows["node"], rows["risk"], strict=True)
    return {int(node): float(risk) for node, risk in pairs if np.isfinite(risk)}


def over_pairs(rows: Table, column: str) -> dict[Edge, float]:
    """Return each edge's mean over both directions, from the rows of one round; edges without numbers are left out."""
    if column not in rows:
        return {}
    gathered: dict[Edge, list[float]] = {}
    for source, target, value in zip(rows["source"], rows["target"], rows[column], strict=True):
        if np.isfinite(value):
            edge = (min(int(source), int(target)), max(int(source), int(target)))
            gathered.setdefault(edge, []).append(float(value))
    return {edge: float(np.mean(values)) for edge, values in gathered.items()}


def delivered_shares(result: Result) -> dict[Edge, float]:
    """Return the share of delivered messages on each directed edge, without messages still under way.

    Keys are directed edges (source, target). Edges without messages are left out, and the result is empty if no message
    was lost or late.
    """
    rows = last_rows(result.edges)
    if "delivered" not in rows:
        return {}
    pairs = zip(rows["source"].tolist(), rows["target"].tolist(), share_delivered(rows).tolist(), strict=True)
    found = {(source, target): share for source, target, share in pairs if np.isfinite(share)}
    return found if min(found.values(), default=1.0) < 1.0 else {}


def share_delivered(edges: Table) -> Array:
    """Return delivered / (delivered + lost + late) for each row of the edges' table; NaN without messages of known
    fate.
    """
    arrived = np.asarray(edges["delivered"], dtype=np.float64)
    known = arrived + np.asarray(edges["lost"]) + np.asarray(edges["late"])
    shares = np.full(len(known), np.nan)
    np.divide(arrived, known, out=shares, where=known > 0)
    return shares


def model_differences(learned: Learned) -> dict[Edge, float]:
    """Return the mean square difference of each edge's two functions at the dictionary points of both.

    The differences are in the learner's units, like the measurements of edges.
    """
    known, unit = set(learned.nodes), learned.result.data.targets.scale
    found: dict[Edge, float] = {}
    for i, j in learned.result.graph.edges:
        if i == j or not {i, j} <= known:
            continue
        points = np.concatenate([learned.points(i), learned.points(j)])
        if len(points):
            gap = (learned.evaluate(i, points) - learned.evaluate(j, points)) / unit
            found[min(i, j), max(i, j)] = float(np.mean(np.sum(gap**2, axis=1)))
    return found


def drawn_edges(result: Result) -> list[Edge]:
    """Return the sorted edges to draw: all, or ``DRAWN`` evenly selected ones."""
    edges = sorted((min(edge), max(edge)) for edge in result.graph.edges)
    if len(edges) <= DRAWN:
        return edges
    return [edges[place] for place in np.linspace(0, len(edges) - 1, DRAWN).round().astype(int)]


def draw(
    axes: Axes,
    result: Result,
    risks: dict[int, float],
    differences: dict[Edge, float],
    duals: dict[Edge, float],
    delivered: dict[Edge, float] | None = None,
    size: float = 1.0,
    scales: Scales | None = None,
) -> tuple[ScalarMappable | None, ScalarMappable | None]:
    """Draw the network and return the quantities of the colour bars of nodes and edges; None for missing ones.

    The width of an edge increases with its dual. With ``delivered``, edges are coloured by the share of delivered
    messages instead of differences: each half of an edge shows the messages to the node at its end. The square, nodes
    and lines are ``size`` times as large as on the screen. ``scales`` of nodes and edges are computed from the values
    by default.
    """
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    crowded = len(result.graph) > CROWD
    places, diameter = arranged(result.graph)
    area = (diameter * SIDE * size) ** 2
    edges = drawn_edges(result)
    thin = min(1.0, (THREADS / max(len(edges), 1)) ** 0.5) * min(1.0, size + 0.2)
    strongest = max(duals.values(), default=0.0)
    widths = [thin * (1.5 + (3.0 * duals.get(edge, 0.0) / strongest if strongest > 0 else 0.0)) for edge in edges]
    # From light to dark, but not so light that small values are invisible.
    edge_map, node_map = (
        _middle(matplotlib.colormaps["YlOrBr"], 0.25, 0.95),
        _middle(matplotlib.colormaps["viridis"], 0.0, 1.0),
    )
    node_scale, edge_scale = (scale(risks.values()), scale(differences.values())) if scales is None else scales
    lines = np.array([(places[i], places[j]) for i, j in edges]).reshape(-1, 2, 2)
    edge_colors = _colors(edge_map, edge_scale, differences, edges, style.GREY)
    if delivered:
        edge_scale = Normalize(0.0, 1.0)
        directed = [*edges, *((j, i) for i, j in edges)]
        lines = np.array([((places[i] + places[j]) / 2, places[j]) for i, j in directed]).reshape(-1, 2, 2)
        edge_colors, widths = (
            _colors(edge_map, edge_scale, delivered, directed, style.GREY),
            [width + thin for width in 2 * widths],
        )
    edge_colors[:, 3] *= max(0.2, thin)
    axes.add_collection(LineCollection(list(lines), colors=edge_colors, linewidths=widths, zorder=1))
    nodes = sorted(places)
    faces = _colors(node_map, node_scale, risks, nodes, style.lighter(style.GREY, 0.5))
    spots = np.array([places[node] for node in nodes])
    axes.scatter(
        spots[:, 0],
        spots[:, 1],
        s=area,
        c=faces,
        edgecolors="none" if crowded else style.BLACK,
        linewidths=0.0 if crowded else 0.8,
        zorder=2,
    )
    if len(nodes) <= LABELLED * min(size, 1.0):
        _write_names(axes, style.node_names(result, MOST), nodes, spots, faces, area)
    axes.margins(0.08)
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="datalim")  # uses the whole box, also for a path
    bars = [
        ScalarMappable(norm, colors) if norm else None
        for norm, colors in ((node_scale, node_map), (edge_scale, edge_map))
    ]
    return bars[0], bars[1]


def _write_names(
    axes: Axes, names: Mapping[int, str], nodes: Sequence[int], spots: Array, faces: Array, area: float
) -> None:
    """Write the nodes' names onto the nodes, or below them if some names are too long."""
    inside = max(map(len, names.values())) <= FITTING
    for node, place, face in zip(nodes, spots, faces, strict=True):
        luminance = float(np.dot([0.299, 0.587, 0.114], face[:3]))
        axes.annotate(
            names[node],
            place,
            xytext=(0.0, 0.0 if inside else -0.5 * np.sqrt(area) - 1.0),
            textcoords="offset points",
            ha="center",
            va="center" if inside else "top",
            color="white" if inside and luminance < 0.55 else "black",
            fontsize=8 if area > 200 else 6 if area > 90 else 5,
            bbox=None if inside else BESIDE,
            zorder=3,
        )


def with_bars(axes: Axes, result: Result, learned: Learned | None) -> None:
    """Draw the network with one colour bar for the nodes' risk and one for the edges: differences, or deliveries.

    If differences were not measured, they are computed from the learned functions, if given. On small axes, nodes and
    edges are smaller and labels shorter.
    """
    box = axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())
    letter = 0.5 * float(axes.xaxis.label.get_fontsize()) / 72.0  # inches
    risks, differences = final_risks(result), over_pairs(last_rows(result.edges), "constraint")
    where = " at the node's samples"
    if not differences and learned is not None:
        differences, where = model_differences(learned), " at the dictionary points"
    duals, delivered = over_pairs(last_rows(result.edges), "dual"), delivered_shares(result)
    size = min(1.0, 72.0 * min(box.width, box.height) / SIDE)
    nodes, edges = draw(axes, result, risks, differences, duals, delivered, size)
    if nodes is not None:
        label = f"node: {style.column_label('risk', result.config, result.facts)}"
        label = label if len(label) * letter < 0.8 * box.height else "node: risk"
        _mark(axes.figure.colorbar(nodes, ax=axes, location="right", shrink=0.85, label=label), risks.values())
    if edges is not None:
        short = "edge: share of messages delivered" if delivered else "edge: mean square difference"
        more = where
        if delivered:
            more = " (the half at a node: of those to it)"
        elif any(edge not in differences for edge in drawn_edges(result)):
            more += "; grey: nothing was exchanged in the last rounds"
        if any(duals.values()):
            more += ", wider where the dual is larger"
        letters = max(8, int(0.9 * box.width / letter))  # in a line
        label = short + more if len(short + more) < 2.5 * letters else short
        lines = math.ceil(len(label) / letters)
        label = style.wrapped(label, min(letters, len(label) // lines + 6))  # lines of similar lengths
        bar = axes.figure.colorbar(edges, ax=axes, location="bottom", shrink=0.85, aspect=35, label=label)
        _mark(bar, (0.0, 1.0) if delivered else differences.values())


def _mark(bar: Colorbar, values: Collection[float]) -> None:
    """Set the ticks of a colour bar; if all values are equal, it shows this value only."""
    style.ticks(bar)
    low, high = min(values), max(values)
    if low == high:
        bar.set_ticks([low], labels=[f"{low:.3g}"])


def _colors(
    colors: Colormap, scale: Normalize | None, values: Mapping[Any, float], order: Sequence[Any], missing: Any
) -> Array:
    """Return the colours (n, 4) of nodes or edges."""
    from matplotlib.colors import to_rgba

    known = np.array([scale is not None and one in values for one in order], dtype=bool)
    found = np.tile(to_rgba(missing), (len(order), 1))
    if scale is not None and known.any():
        found[known] = colors(scale([values[one] for one in order if one in values]))
    return found


def arranged(graph: nx.Graph[int]) -> tuple[dict[int, Array], float]:
    """Return non-overlapping positions of the nodes, and their diameter as a share of the drawing's extent."""
    count = len(graph)
    area = 320.0 if count <= 30 else max(5000.0, min(30.0 * count, 12000.0)) / count  # points^2, of a square of SIDE
    diameter = area**0.5 / SIDE
    return _apart(positions(graph), diameter), diameter


def _apart(places: dict[int, tuple[float, float]], diameter: float) -> dict[int, Array]:
    """Push overlapping nodes apart by the smallest possible amount."""
    nodes = sorted(places)
    spots = np.array([places[node] for node in nodes], dtype=np.float64)
    extent = float(np.ptp(spots, axis=0).max()) or 1.0
    needed = 1.05 * diameter * extent
    order = np.array(nodes)
    for _ in range(100 if len(nodes) <= 400 else 0):
        # Differences from the row's to the column's node, one matrix per coordinate: numpy is slow along axes of length
        # 2.
        gaps = [side - side[:, None] for side in spots.T]
        distances = np.sqrt(gaps[0] * gaps[0] + gaps[1] * gaps[1])
        np.fill_diagonal(distances, np.inf)
        if distances.min() >= needed:
            break
        push = np.maximum(needed - distances, 0.0) / 2
        same = np.nonzero(distances == 0.0)
        distances[same] = np.sqrt(2.0)  # nodes at the same place separate along the diagonal
        lengths = np.maximum(distances, 1e-12)
        for side, gap in zip(spots.T, gaps, strict=True):
            gap[same] = np.sign(order[same[1]] - order[same[0]])
            side += 0.5 * np.sum(push * (gap / lengths), axis=0)
    return dict(zip(nodes, spots, strict=True))


def scale(values: Collection[float]) -> Normalize | None:
    """Return the scale of a colour bar: logarithmic if the values span decades; None without values."""
    from matplotlib.colors import LogNorm, Normalize

    if not values:
        return None
    numbers = np.array(list(values))
    low, high = float(numbers.min()), float(numbers.max())
    if low > 0 and style.spans_decades([numbers]):
        return LogNorm(low, high)
    if low == high:  # the scale of a single colour also needs an extent
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return Normalize(low, high)


def _middle(colors: Colormap, low: float, high: float) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"{colors.name} {low}-{high}", colors(np.linspace(low, high, 256)))
