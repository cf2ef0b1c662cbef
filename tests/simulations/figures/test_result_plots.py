"""Figures in Python: each returns its figure, draws what the tables hold, and takes axes of the user's."""

from __future__ import annotations

import struct
from typing import Any

import networkx as nx
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kernelswarm import InputError, simulate
from kernelswarm.simulations.figures.result_plots import ResultPlots
from kernelswarm.simulations.records.result import Result

NAMES = [name for name in vars(ResultPlots) if not name.startswith("_")]
KEYS: dict[str, Any] = {
    "topology": nx.cycle_graph(4),
    "stream": {"name": "sine_regression", "noise": 0.2},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}, "step_size": 0.2},
    "protocol": "proximity",
    "rounds": 30,
    "evaluate_every": 10,
}


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(**KEYS)


def axes() -> Any:
    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.subplots()


@pytest.mark.parametrize("name", NAMES)
def test_each_plot_returns_its_figure_and_takes_axes(result: Result, name: str) -> None:
    own = getattr(result.plot, name)()
    assert isinstance(own, Figure)
    picture = own._repr_png_()  # type: ignore[attr-defined]
    assert picture.startswith(b"\x89PNG") and len(picture) < 200_000
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 300
    ax = axes()
    assert getattr(result.plot, name)(ax=ax) is ax.figure
    assert ax.lines or ax.collections


@pytest.mark.parametrize(("inches", "columns"), [((3.0, 2.5), 1), ((6.0, 3.0), 2), ((7.0, 5.0), 1)])
def test_labels_of_a_network_stay_inside_its_figure(result: Result, inches: tuple[float, float], columns: int) -> None:
    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    figure.subplots(1, columns, squeeze=False)
    result.plot.network(figure.axes[0])
    figure.draw_without_rendering()
    labels = [label for ax in figure.axes[columns:] for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()]
    assert [label.get_text().partition(":")[0] for label in labels] == ["node", "edge"]
    for label in labels:
        box = label.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, label.get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, label.get_text()


def test_a_curve_is_the_mean_of_the_table(result: Result) -> None:
    ax = axes()
    result.plot.risk(ax)
    lines = {str(line.get_label()): line for line in ax.lines}
    samples = result.network["samples"]
    np.testing.assert_allclose(lines["own data"].get_ydata(), result.network["risk"])
    np.testing.assert_allclose(lines["pooled data"].get_ydata(), result.network["global_risk"])
    np.testing.assert_allclose(lines["own data"].get_xdata(), samples)
    ax = axes()
    result.plot.disagreement(ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.network["disagreement"])


def test_functions_are_those_of_the_models_beside_the_truth(result: Result) -> None:
    ax = axes()
    result.plot.functions(ax)
    labels = [line.get_label() for line in ax.lines]
    assert labels.count("truth") == 1 and "4 nodes" in labels
    curve = ax.lines[labels.index("4 nodes")]
    np.testing.assert_allclose(curve.get_ydata(), result.model(0).predict(np.asarray(curve.get_xdata())[:, None]))


def test_a_model_is_drawn_and_returns_its_figure(result: Result) -> None:
    assert isinstance(result.model(2).plot(), Figure)
    ax = axes()
    assert result.model(2).plot(ax, points=[[0.2], [0.4]], targets=[1.0, 2.0]) is ax.figure


@pytest.mark.parametrize("learner", ["newton", "polk"])
def test_the_band_of_a_model_is_its_interval(learner: str) -> None:
    """From the variance, and a conformal one."""
    keys = {**KEYS, "learner": {**KEYS["learner"], "name": learner}, "protocol": "isolated"}
    if learner == "newton":
        del keys["learner"]["step_size"]
    model, ax = simulate(**keys, evaluation={"level": 0.8}).model(1), axes()
    model.plot(ax)
    (band,) = (drawn for drawn in ax.collections if "band" in str(drawn.get_label()))
    assert band.get_label() == ("80% band" if learner == "polk" else "90% band")
    at, ends = band.get_paths()[0].vertices.T
    low, high = model.interval(at[:, None])
    assert (np.isclose(ends, low) | np.isclose(ends, high)).all() and len(at) > 100


def test_names_of_low_axes_are_broken_into_lines(result: Result) -> None:
    figure = Figure(figsize=(3.5, 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    for draw in (result.plot.model_order, result.plot.disagreement, result.plot.risk):
        draw(ax=ax)
        figure.draw_without_rendering()
        label = ax.yaxis.label.get_window_extent()
        assert label.y0 >= 0.0 and label.y1 <= figure.bbox.height


def test_many_samples_are_drawn_as_an_even_selection(result: Result) -> None:
    points = np.linspace(-1.0, 1.0, 20_001)[:, None]
    ax = axes()
    result.model(0).plot(ax, points, np.sin(points))
    (dots,) = (line for line in ax.lines if line.get_marker() == ".")
    drawn = np.asarray(dots.get_xdata())
    assert len(drawn) == 5000 and np.ptp(np.diff(drawn)) < 2e-4 and (drawn[0], drawn[-1]) == (-1.0, 1.0)
    with pytest.raises(InputError, match=r"targets have shape \(3,\) and must be one for each of 20001 points"):
        result.model(0).plot(ax, points, np.zeros(3))


def test_errors_that_are_all_zero_are_seen_and_no_number_below_zero_is_marked() -> None:
    data = (np.random.default_rng(0).uniform(size=(200, 1)), np.zeros(200))
    keys = {key: value for key, value in KEYS.items() if key != "stream"}
    exact = simulate(**{**keys, "data": data, "protocol": "consensus"})
    ax = axes()
    exact.plot.risk(ax=ax)
    assert ax.get_ylim()[0] < 0.0 < ax.get_ylim()[1] and not ax.lines[0].get_ydata().any()
    figure = exact.plot.network()
    figure.draw_without_rendering()
    marked = [
        label.get_text()
        for bar in figure.axes[1:]
        for axis in (bar.xaxis, bar.yaxis)
        for label in axis.get_majorticklabels()
        if label.get_text()
    ]
    assert marked == ["0", "0"]


def test_what_was_not_measured_and_what_is_no_axes_is_refused(result: Result) -> None:
    with pytest.raises(InputError, match="the run has no dual variables to draw: it measured round, "):
        simulate(**{**KEYS, "protocol": "isolated"}).plot.duals()
    alone = simulate(**{**KEYS, "topology": {"name": "ring", "nodes": 1}, "protocol": "isolated"})
    with pytest.raises(InputError, match=r"no disagreement to draw: it measured round, (?!.*disagreement)"):
        alone.plot.disagreement()
    with pytest.raises(InputError, match="no risk to draw: it was measured 1 time, and a curve takes two"):
        simulate(**{**KEYS, "rounds": 10}).plot.risk()
    with pytest.raises(InputError, match="ax is a int and must be matplotlib axes"):
        result.plot.risk(3)
    data = (np.random.default_rng(0).uniform(size=(80, 2)), np.arange(80.0))
    wide = simulate(**{key: value for key, value in KEYS.items() if key != "stream"}, data=data)
    with pytest.raises(InputError, match=r"have 2 inputs and 1 outputs.*result\.model\(node\)\.plot"):
        wide.plot.functions()
    classes = {"name": "gaussian_mixture", "inputs": 1, "classes": 2}
    learner = {**KEYS["learner"], "loss": "logistic"}
    with pytest.raises(InputError, match=r"decide between classes: draw one node's with result\.model\(node\)\.plot"):
        simulate(**{**KEYS, "stream": classes, "learner": learner}).plot.functions()


def test_functions_are_drawn_in_the_units_of_the_data() -> None:
    x = np.random.default_rng(0).uniform(5_000.0, 6_000.0, 300)
    pascal = 101_325.0 + 200.0 * np.sin(x / 100.0)
    result = simulate(
        data={"height": x, "pressure": pascal},
        target="pressure",
        topology={"name": "ring", "nodes": 3},
        learner="polk",
        protocol="consensus",
    )
    axes = result.plot.functions().axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "pressure")
    learned = [line for line in axes.lines if len(line.get_xdata()) == 400]  # type: ignore[arg-type]
    drawn = np.array([line.get_data() for line in learned])
    assert len(drawn) == 3 and 5_000.0 <= drawn[:, 0].min() < drawn[:, 0].max() <= 6_000.0
    wanted = np.stack([result.model(node).predict(drawn[node, 0][:, None]) for node in range(3)])
    np.testing.assert_allclose(drawn[:, 1], wanted, rtol=1e-9)
    assert np.abs(wanted - 101_325.0).max() < 400.0
