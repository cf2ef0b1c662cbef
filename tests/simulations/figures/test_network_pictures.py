"""The picture of a network: no node hides another, and colours are those of what they stand for."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from kernelswarm.simulations.figures import network, style
from kernelswarm.simulations.records.result import MeasuredTable
from tests.simulations.figures.test_plots import believable


@pytest.mark.parametrize("spread", [1.0, 0.01, 0.0])
def test_nodes_do_not_cover_one_another(spread: float) -> None:
    result = believable(nodes=9)
    place = np.random.default_rng(1).random((9, 2))
    place[2:5] = place[2] + spread * (place[2:5] - place[2])
    nx.set_node_attributes(result.graph, dict(enumerate(map(tuple, place))), "pos")
    figure = Figure(figsize=(7.4, 5.6), layout="constrained")
    axes = figure.subplots()
    network.draw(axes, result, network.final_risks(result), {}, {})
    figure.draw_without_rendering()
    dots = [dot for dot in axes.collections if isinstance(dot, PathCollection)]
    centres = axes.transData.transform(np.asarray(dots[0].get_offsets()))  # pixels
    width = np.sqrt(dots[0].get_sizes()[0]) * figure.dpi / 72
    apart = np.linalg.norm(centres[:, None] - centres, axis=2) + 1e9 * np.eye(len(centres))
    assert apart.min() > 0.9 * width


def test_many_nodes_are_dots_without_rims_of_the_same_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    result = believable(nodes=9)
    risks = {node: 0.1 * node for node in range(8)}  # and one without

    def drawn() -> PathCollection:
        axes = Figure().subplots()
        network.draw(axes, result, risks, {(0, 1): 0.5}, {})
        return next(dots for dots in axes.collections if isinstance(dots, PathCollection))

    few = drawn()
    monkeypatch.setattr(network, "CROWD", 3)
    many = drawn()
    assert np.array_equal(many.get_facecolors(), few.get_facecolors())
    assert len(np.unique(np.asarray(few.get_facecolors()), axis=0)) == 9
    assert np.all(few.get_linewidths() > 0.0)
    assert np.all(many.get_linewidths() == 0.0)


def test_half_an_edge_has_the_colour_of_what_arrives_at_its_node() -> None:
    result = believable(nodes=4)
    rows = result.edges
    # From i to j there are 10 j messages more than arrive, of 40; the first rounds had lost them all.
    last = rows["round"] == max(rows["round"])
    arrived = np.where(last, 40 - 10 * rows["target"], 0)
    traffic = {"sent": np.full(len(last), 45), "delivered": arrived, "late": arrived * 0, "lost": 40 - arrived}
    result.edges = MeasuredTable({**rows, **traffic})
    shares = network.delivered_shares(result)
    assert shares == {(i, j): 1.0 - j / 4 for i, j in [*result.graph.edges, *((j, i) for i, j in result.graph.edges)]}
    axes = Figure().subplots()
    _, bar = network.draw(axes, result, {}, {(0, 1): 9.0}, {}, shares)
    assert bar is not None and bar.get_clim() == (0.0, 1.0)
    (halves,) = [lines for lines in axes.collections if isinstance(lines, LineCollection)]
    (dots,) = [dots for dots in axes.collections if isinstance(dots, PathCollection)]
    places = np.asarray(dots.get_offsets())
    assert len(halves.get_segments()) == 2 * result.graph.number_of_edges()
    for (_, end), color in zip(halves.get_segments(), halves.get_colors(), strict=True):
        node = int(np.argmin(np.linalg.norm(places - end, axis=1)))
        np.testing.assert_allclose(places[node], end)
        np.testing.assert_allclose(color, bar.to_rgba(1.0 - node / 4))


def test_links_that_lose_nothing_show_differences() -> None:
    result = believable()
    assert network.delivered_shares(result) == {}
    sent = np.full(len(result.edges["round"]), 45)
    result.edges = MeasuredTable({**result.edges, "sent": sent, "delivered": sent, "late": 0 * sent, "lost": 0 * sent})
    assert network.delivered_shares(result) == {}  # as of nodes that sleep


def test_long_names_that_begin_alike_stay_different() -> None:
    names = [f"station number {place} of the northern field" for place in range(12)]
    found = style.distinct(names, 20)
    assert len(set(found)) == 12 and max(map(len, found)) <= 20
    assert all(f"{place} " in name for place, name in enumerate(found))
    middles = [f"{side} field, sensor {place}" for side in ("northern", "southern") for place in range(3)]
    assert len(set(style.distinct(middles, 12))) == 6
    assert style.distinct(["one", "a name that is too long"], 9) == ["one", "a name t…"]
