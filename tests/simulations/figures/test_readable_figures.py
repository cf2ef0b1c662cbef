"""Figures of what is hard to draw: long labels, failed runs, thousands of nodes, functions of several kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from kernelswarm import read_run, write_run
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import cells, curves, network, plots
from kernelswarm.simulations.figures.learned import rebuild
from kernelswarm.simulations.figures.sheet import Drawing, Sheet, look
from kernelswarm.simulations.records.outcome import gather
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from tests.simulations.figures.test_plots import SINE, believable, pictures


def failed(result: Result, rows: int, growing: bool = False) -> Result:
    """The same run, broken off after so many rows."""
    columns = {name: values[:rows].copy() for name, values in result.network.items()}
    if growing:
        columns["risk"] *= 100.0 ** np.arange(rows)
    summary = {**result.summary, "status": "failed", "reason": "node 1 diverged", "rounds": int(columns["round"][-1])}
    return replace(result, network=columns, summary=summary, models={})


def test_runs_with_little_in_common_stay_readable(tmp_path: Path, laid_out: list[Figure]) -> None:
    results = []
    for place, name in enumerate(["isolated", "consensus", "proximity", "isolated", "consensus", "proximity"]):
        kernel = {"name": "gaussian", "bandwidth": 0.1 + place / 7}
        learner = {
            "name": "polk",
            "kernel": kernel,
            "budget": {"parsimony": 0.01 + place / 700},
            "step_size": 0.1 + place / 77,
        }
        results.append(believable(name, {**SINE, "learner": learner}, evaluate_every=25 + place))
    plots.draw_many(results, tmp_path)
    (panel,) = cells.panels(gather(results), "risk")  # not a panel for each of them
    assert len(panel.curves) == 6
    assert laid_out
    for figure in laid_out:
        panels = [ax.get_window_extent() for ax in figure.axes]
        assert min(box.width for box in panels) > 150  # pixels: names leave room for what they name
        assert min(box.height for box in panels) > 150
        boxes = [legend.get_window_extent() for legend in figure.legends]
        boxes += [ax.title.get_window_extent() for ax in figure.axes if ax.get_title()]
        boxes += [box for ax in figure.axes if (box := ax.yaxis.get_tightbbox())]
        boxes += [ax.xaxis.label.get_window_extent() for ax in figure.axes]
        for box in boxes:
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
            assert not any(box.overlaps(panel.padded(-2)) for panel in panels)


def test_labels_say_only_what_tells_runs_apart() -> None:
    tables = [{**SINE["learner"], "kernel": {"name": "gaussian", "bandwidth": h}} for h in (0.1, 0.2)]
    results = [
        believable("consensus", {**SINE, "learner": table}, evaluate_every=5 * k) for k, table in enumerate(tables, 1)
    ]
    (panel,) = cells.panels(gather(results), "risk")
    assert [curve.label for curve in panel.curves] == ["polk, bandwidth = 0.1", "polk, bandwidth = 0.2"]
    alike = [believable("consensus", SINE, evaluate_every=k) for k in (5, 10)]
    (panel,) = cells.panels(gather(alike), "risk")
    assert [curve.label for curve in panel.curves] == ["evaluate_every = 5", "evaluate_every = 10"]


def test_runs_on_graphs_form_a_row_for_each_graph_whatever_words_become_of_each_seed(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"stream": "sine_regression", "learner": "polk", "protocol": "consensus", "rounds": 10}
    graphs = nx.path_graph(4), nx.complete_graph(4), nx.star_graph(3)
    results = [
        read_run(write_run(simulate(topology=graph, seed=seed, **parts), tmp_path / f"{place}{seed}"))
        for place, graph in enumerate(graphs)
        for seed in (0, 1)
    ]
    assert results[0].config["learner"]["kernel"] != results[1].config["learner"]["kernel"]
    assert results[0].summary["automatic"]["learner.kernel.bandwidth"] == "auto"
    found = gather(results)
    assert found.keys == ("topology",) and [(run.cell, run.seed) for run in found.runs] == [
        (cell, seed) for cell in range(3) for seed in (0, 1)
    ]
    assert [cell.labels[0] for cell in found.cells] == ["4 nodes, 3 edges", "4 nodes, 6 edges", "4 nodes, 3 edges (2)"]


def test_failed_runs_are_drawn_as_far_as_they_came(tmp_path: Path, sketched: list[Figure]) -> None:
    runs = [believable("consensus", seed=0), failed(believable("consensus", seed=1), 3)]
    runs += [failed(believable("isolated", seed=0), 4, growing=True)]
    plots.draw_many(runs, tmp_path)
    axes = sketched[0].axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["consensus (1 of 2 failed)", "isolated (failed)"]
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == 2
    assert all(line.is_dashed() for line in crosses)
    whole, broken = runs[0].network["risk"], runs[1].network["risk"]
    drawn = {len(line.get_ydata()): np.asarray(line.get_ydata()) for line in crosses}
    np.testing.assert_allclose(drawn.pop(3), broken)
    (wild,) = drawn.values()
    assert wild.max() == pytest.approx(2 * whole.max())  # it leaves the others readable
    assert axes.get_ylim()[1] < 3 * whole.max()


def test_a_comparison_of_failed_runs_only_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "COLUMNS", ("risk", "disagreement"))  # the others' figures are made as that of the risk
    runs = [failed(believable(name), 3, growing=True) for name in ("consensus", "isolated")]
    assert {"risk.png", "disagreement.png"} <= pictures(plots.draw_many(runs, tmp_path))


def crowd(nodes: int, edges: int) -> Result:
    result = believable(nodes=9)
    graph = nx.gnm_random_graph(nodes, edges, seed=1)
    places = np.random.default_rng(1).random((nodes, 2))
    nx.set_node_attributes(graph, dict(enumerate(map(tuple, places))), "pos")
    return replace(result, graph=graph)


def test_the_ink_of_a_network_does_not_grow_with_it() -> None:
    covered = []
    for nodes in (100, 400, 2000, 10_000):
        axes = Figure(figsize=(7.4, 5.6)).subplots()
        network.draw(axes, crowd(nodes, 5 * nodes), {}, {}, {})
        dots = next(drawn for drawn in axes.collections if isinstance(drawn, PathCollection))
        lines = next(drawn for drawn in axes.collections if isinstance(drawn, LineCollection))
        covered.append(nodes * dots.get_sizes()[0] / network.SIDE**2)
        count, colors = len(lines.get_segments()), np.asarray(lines.get_colors())
        assert count == min(5 * nodes, network.DRAWN)
        # A line across half the square, by its width and how much of what is behind it can be seen.
        assert count * np.mean(lines.get_linewidths()) * colors[0, 3] * network.SIDE / 2 < 5 * network.SIDE**2
    assert max(covered) < 0.2


def test_of_many_edges_an_even_selection_is_drawn_and_said(tmp_path: Path, laid_out: list[Figure]) -> None:
    result = crowd(300, 6000)
    edges = network.drawn_edges(result)
    assert len(set(edges)) == len(edges) == network.DRAWN
    assert set(edges) <= {(min(edge), max(edge)) for edge in result.graph.edges}
    shares = np.bincount([node for edge in edges for node in edge], minlength=300) / [d for _, d in result.graph.degree]
    assert shares.min() > 0.3
    few = crowd(30, 60)
    assert network.drawn_edges(few) == sorted((min(edge), max(edge)) for edge in few.graph.edges)
    with look():
        curves.network(Sheet(tmp_path, Drawing()), result, None)
    assert "4,000 of the 6,000 edges are drawn" in laid_out[-1].get_suptitle()


def test_regions_say_what_each_function_is_made_of(tmp_path: Path, sketched: list[Figure]) -> None:
    kernel = {"name": "gaussian", "bandwidth": 0.8}
    table = {
        "rounds": 20,
        "topology": {"name": "ring", "nodes": 3},
        "stream": {"name": "gaussian_mixture"},
        "learner": {"name": "random_features", "features": 30, "loss": "multiclass_logistic", "kernel": kernel},
        "protocol": {"name": "isolated"},
        "evaluation": {"local_samples": 20, "global_samples": 20},
        "node": [{"nodes": [1], "learner": {"name": "polk"}}],
    }
    result = simulate(Experiment.from_dict(table))
    points = len(rebuild(result).points(1))
    assert points
    plots.draw(result, tmp_path)
    titles = sorted(ax.get_title() for ax in sketched[-1].axes)
    assert [title.rpartition(", ")[2] for title in titles] == ["30 features", f"{points} points", "30 features"]


def test_the_constants_risk_is_a_line_beside_the_risk(tmp_path: Path, sketched: list[Figure]) -> None:
    result = believable("consensus", SINE)
    result.summary["final"]["constant_risk"] = 1.25
    plots.draw(result, tmp_path)
    risk, error = sketched[0].axes
    (line,) = [line for line in risk.lines if line.get_label() == "best constant, own data"]
    assert set(np.asarray(line.get_ydata())) == {1.25}
    assert "best constant, own data" not in error.get_legend_handles_labels()[1]
