"""Figures of one run and of several: what is drawn, that it can be read, and that it is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import cells, functions, plots, style
from kernelswarm.simulations.figures.learned import rebuild
from kernelswarm.simulations.records.outcome import gather
from kernelswarm.simulations.records.result import Result, Series, over_nodes
from kernelswarm.simulations.running.network import build_topology

MIXTURE = {
    "stream": {"name": "gaussian_mixture"},
    "learner": {"name": "polk", "loss": "multiclass_logistic", "kernel": {"name": "gaussian", "bandwidth": 0.8}},
}
SINE = {
    "stream": {"name": "sine_regression"},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
}
FIELD = {
    "stream": {"name": "sensor_field"},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
}


def believable(
    protocol: dict[str, Any] | str = "consensus",
    parts: dict[str, Any] = MIXTURE,
    seed: int = 0,
    nodes: int = 6,
    **keys: Any,
) -> Result:
    """A result with the course a real one has, made without running anything."""
    protocol = {"name": protocol} if isinstance(protocol, str) else protocol
    topology = {"name": "ring", "nodes": nodes}
    experiment = Experiment.from_dict({"topology": topology, "protocol": protocol, "seed": seed, **parts, **keys})
    graph = build_topology(experiment).graph
    random = np.random.default_rng(seed)
    rounds = np.arange(1, 9) * 25
    decay = 0.3 + 1.5 * np.exp(-rounds / 60)
    offset = {"isolated": 0.4, "consensus": 0.2, "proximity": 0.1}.get(protocol["name"], 0.0)
    spread = 0.05 * random.random((len(rounds), nodes))
    risk = decay[:, None] + offset + spread
    order = np.minimum(4 + rounds[:, None] / 20 + 3 * random.random((1, nodes)), 14).round()
    columns = {
        "risk": risk,
        "error": 0.4 * risk,
        "global_risk": 1.1 * risk,
        "global_error": 0.45 * risk,
        "model_order": order,
    }
    node_table = {
        "round": np.repeat(rounds, nodes),
        "node": np.tile(sorted(graph.nodes), len(rounds)),
        "samples": np.repeat(rounds, nodes).astype(float),
        **{name: values.ravel() for name, values in columns.items()},
    }
    proximity = protocol["name"] == "proximity"
    network_table = {
        "round": rounds,
        "samples": rounds.astype(float),
        **{name: values.mean(axis=1) for name, values in columns.items()},
        "disagreement": 0.5 * np.exp(-rounds / 40) + 1e-4,
        "violation": 0.2 * np.sqrt(rounds) if proximity else np.full(len(rounds), np.nan),
        "scalars_sent": rounds * 2.0 * graph.number_of_edges(),
        "seconds": rounds / 1000,
    }
    directed = sorted([*graph.edges, *((j, i) for i, j in graph.edges)])
    shape = (len(rounds), len(directed))
    nothing = np.full(shape, np.nan)
    drift = 0.1 * np.exp(-rounds[:, None] / 50) * (1 + random.random(shape))
    edge_columns = {
        "constraint": drift,
        "tolerance": np.full(shape, 0.02) if proximity else nothing,
        "dual": np.cumsum(0.01 * random.random(shape), axis=0) if proximity else nothing,
    }
    edge_table = {
        "round": np.repeat(rounds, len(directed)),
        "source": np.tile([i for i, _ in directed], len(rounds)),
        "target": np.tile([j for _, j in directed], len(rounds)),
        **{name: values.ravel() for name, values in edge_columns.items()},
    }
    if protocol["name"] == "isolated":
        edge_table = {}
    inputs, outputs = (2, 5) if parts["stream"] == MIXTURE["stream"] else (1, 1)
    models: dict[str, Any] = {}
    for node in graph.nodes if protocol["name"] != "centralized" else [min(graph.nodes)]:
        models[f"points_{node}"] = random.normal(size=(12, inputs)) if inputs == 2 else random.random((12, 1))
        models[f"weights_{node}"] = random.normal(size=(12, outputs))
    final = {name: float(values[-1]) for name, values in network_table.items()}
    summary = {"status": "done", "protocol": protocol["name"], "topology": "ring", "final": final}
    return Result(experiment.to_dict(), graph, node_table, network_table, edge_table, models, summary)


def pictures(paths: list[Path]) -> set[str]:
    """The names of the files, after a look at each: it can be decoded, is large enough to read and not blank."""
    for path in paths:
        pixels = imread(path)
        assert min(pixels.shape[:2]) >= 400, path
        ink = np.mean(pixels[..., :3].min(axis=2) < 0.9)
        assert 0.005 < ink < 0.9, f"{path}: {ink:.3f} of the pixels are drawn"
    return {path.name for path in paths}


def names(paths: list[Path]) -> set[str]:
    return {path.name for path in paths}


@pytest.fixture(scope="module")
def drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], list[Path]]:
    """Draw a run into a folder of its own, once for all tests."""

    @cache
    def draw(protocol: str, parts: str) -> list[Path]:
        run = believable(protocol, {"mixture": MIXTURE, "sine": SINE, "field": FIELD}[parts])
        return plots.draw(run, tmp_path_factory.mktemp("figures"))

    return draw


@pytest.mark.parametrize(
    ("protocol", "parts", "expected"),
    [
        ("proximity", "mixture", {"constraints.png", "disagreement.png", "regions.png"}),
        ("consensus", "sine", {"disagreement.png", "functions.png"}),
        ("centralized", "field", {"disagreement.png", "functions.png"}),
    ],
)
def test_every_figure_of_a_run_is_a_picture(
    protocol: str, parts: str, expected: set[str], drawn_once: Callable[[str, str], list[Path]]
) -> None:
    drawn = drawn_once(protocol, parts)
    assert pictures(drawn) == {"risk.png", "model_order.png", "network.png"} | expected
    assert sorted(drawn) == sorted(drawn[0].parent.iterdir())


OWN_LOSSES = """
from dataclasses import dataclass
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared

@dataclass(frozen=True)
class Softmax(MulticlassLogistic):
    pass

@dataclass(frozen=True)
class LogisticGrowth(Squared):
    pass
"""


@pytest.mark.usefixtures("sketched")
def test_what_a_loss_is_for_is_asked_of_the_loss_and_not_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_losses.py").write_text(OWN_LOSSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    softmax = {**MIXTURE, "learner": {**MIXTURE["learner"], "loss": "own_losses:Softmax"}}
    result = believable(parts=softmax)
    assert style.column_label("error", result.config) == "error (fraction misclassified)"
    assert "regions.png" in names(plots.draw(result, tmp_path / "softmax"))
    growth = {**SINE, "learner": {**SINE["learner"], "loss": "own_losses:LogisticGrowth"}}
    assert style.column_label("error", believable(parts=growth).config) == "error (mean square error)"
    assert "functions.png" in names(plots.draw(believable(parts=growth), tmp_path / "growth"))
    gone = {"learner": {"loss": "no_such_losses:Softmax"}}
    assert style.task(gone) == "regression"


def test_quantities_without_numbers_have_no_figure(tmp_path: Path) -> None:
    result = believable("isolated")
    result.models.clear()
    result.network["disagreement"][:] = np.nan
    for column in ("error", "global_error"):
        result.nodes[column][:] = np.nan
    assert pictures(plots.draw(result, tmp_path)) == {"risk.png", "model_order.png", "network.png"}


def test_same_result_gives_the_same_files_whatever_the_users_style(
    tmp_path: Path, drawn_once: Callable[[str, str], list[Path]]
) -> None:
    first = drawn_once("proximity", "mixture")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "savefig.dpi": 30}):
        second = plots.draw(believable("proximity"), tmp_path)
        assert matplotlib.rcParams["font.size"] == 20
    for one, other in zip(first, second, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_data_that_cannot_be_opened_is_named_in_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sketched: list[Figure]
) -> None:
    def refuse(*_: object) -> None:
        raise InputError("stream.path = gone.npz is not there")

    monkeypatch.setattr("kernelswarm.simulations.running.network.open_stream", refuse)
    assert "functions.png" in names(plots.draw(believable("consensus", SINE), tmp_path))
    title = sketched[-1].get_suptitle()
    assert "without truth and samples: stream.path = gone.npz is not there" in title
    assert "truth" not in sketched[-1].axes[0].get_legend_handles_labels()[1]


@pytest.mark.usefixtures("sketched")
def test_configuration_that_cannot_be_built_is_warned_about(tmp_path: Path) -> None:
    result = believable("consensus", SINE)
    result.config["learner"]["name"] = "a_learner_of_another_version"
    with pytest.warns(UserWarning, match="a_learner_of_another_version"):
        drawn = plots.draw(result, tmp_path)
    assert "functions.png" not in names(drawn)


def test_every_protocol_keeps_its_colour_in_any_company() -> None:
    names = ["isolated", "consensus", "proximity", "centralized", "batch"]
    alone = [style.strokes([name])[0] for name in names]
    assert style.strokes(names) == alone
    assert style.strokes(names[::-1]) == alone[::-1]
    for attribute in ("color", "dash", "marker"):  # each alone tells them apart
        assert len({getattr(stroke, attribute) for stroke in alone}) == len(names)
    assert style.strokes(["my_rules:Gossip", "consensus"])[0].color not in {stroke.color for stroke in alone}


def test_curves_that_share_a_marker_are_rare() -> None:
    names = ["isolated", "consensus", "consensus", "proximity", "proximity", "centralized"]
    assert len({stroke.marker for stroke in style.strokes(names)}) == len(names)


def test_curves_of_one_protocol_keep_its_hue_and_differ() -> None:
    strokes = style.strokes(["consensus"] * 4 + ["isolated"])
    assert to_hex(strokes[0].color) == to_hex(style.PROTOCOLS["consensus"][0])
    assert len({(to_hex(s.color), s.dash, s.marker) for s in strokes}) == 5
    assert all(np.argmax(to_rgb(s.color)) == 2 for s in strokes[:4])  # shades of blue


def test_bands_hold_the_mean_and_stay_among_the_courses() -> None:
    values = np.random.default_rng(3).lognormal(sigma=2.0, size=(40, 5))
    learning_curves = Series(np.arange(40.0), values)
    low, high = learning_curves.deviations()
    assert np.all(low <= learning_curves.mean) and np.all(learning_curves.mean <= high)
    assert np.all(low >= values.min(axis=1)) and np.all(high <= values.max(axis=1))
    wide = np.std(values, axis=1, ddof=1)
    np.testing.assert_allclose(high, np.minimum(values.mean(axis=1) + wide, values.max(axis=1)))
    one = Series(learning_curves.samples, values[:, :1])
    np.testing.assert_array_equal(one.deviations()[0], one.deviations()[1])


def test_band_of_a_run_holds_the_middle_of_its_nodes() -> None:
    result = believable(nodes=11)
    risk = over_nodes(result, "risk")
    assert risk is not None
    low, high = risk.quantiles()
    inside = (risk.values >= low[:, None]) & (risk.values <= high[:, None])
    np.testing.assert_array_equal(inside.sum(axis=1), 9)
    np.testing.assert_allclose(risk.mean, result.network["risk"])


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [
        ([1.0, 2.0, 3.0], False),
        ([0.001, 0.1, 10.0], True),
        ([0.0, *np.logspace(-4, 1, 9)], True),
        ([-1.0, 100.0], False),
    ],
)
def test_axes_are_logarithmic_where_values_span_decades(values: list[float], logarithmic: bool) -> None:
    axes = Figure().subplots()
    style.scale(axes, [np.array(values)])
    assert (axes.get_yscale() == "log") == logarithmic


def test_models_are_evaluated_with_the_kernel_of_their_own_node() -> None:
    override = {"nodes": [2], "learner": {"kernel": {"name": "laplacian", "bandwidth": 0.3}}}
    learned = rebuild(believable(node=[override]))
    points = np.random.default_rng(0).normal(size=(7, 2))
    for node in (1, 2):
        gaps = points[:, None] - learned.points(node)
        gaussian, laplacian = np.exp(-np.sum(gaps**2, -1) / (2 * 0.8**2)), np.exp(-np.abs(gaps).sum(-1) / 0.3)
        expected = (laplacian if node == 2 else gaussian) @ learned.weights(node)
        np.testing.assert_allclose(learned.evaluate(node, points), expected, rtol=1e-12)
        np.testing.assert_array_equal(learned.decide(node, points)[:, 0], expected.argmax(axis=1))


def test_regions_show_nodes_from_the_best_to_the_worst() -> None:
    risks = {0: 0.5, 1: 0.1, 2: 0.9, 3: 0.3, 4: 0.2}
    assert functions.chosen([0, 1, 2, 3, 4], risks, 3) == [1, 3, 2]
    assert functions.chosen([0, 1], risks, 6) == [1, 0]


def test_runs_that_differ_in_their_seed_are_one_curve(tmp_path: Path, figures: list[Figure]) -> None:
    results = [believable({"name": "consensus", "penalty": c}, seed=k) for c in (0.01, 0.1) for k in (0, 1, 2)]
    assert pictures(plots.draw_many(results, tmp_path)) == {
        f"{column}.png" for column in cells.COLUMNS if column != "violation"
    } | {
        "final.png",
        "differences.png",
    }
    labels = figures[0].axes[0].get_legend_handles_labels()[1]
    assert labels == ["consensus, penalty = 0.01", "consensus, penalty = 0.1"]
    (panel,) = cells.panels(gather(results), "risk")
    for curve, penalty in zip(panel.curves, (0.01, 0.1), strict=True):
        mine = [r.network["risk"] for r in results if r.config["protocol"]["penalty"] == penalty]
        np.testing.assert_allclose(curve.series.mean, np.mean(mine, axis=0))


def test_of_many_functions_some_are_drawn(
    tmp_path: Path, sketched: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "CURVES", 4)
    assert "functions.png" in names(plots.draw(believable("consensus", SINE), tmp_path))
    labels = [text.get_text() for figure in sketched for legend in figure.legends for text in legend.get_texts()]
    assert "4 of 6 nodes" in labels


@pytest.mark.usefixtures("sketched")
def test_one_folder_is_drawn_as_a_single_run(tmp_path: Path) -> None:
    assert "network.png" in names(plots.draw_many([believable("isolated")], tmp_path))


def test_networks_get_panels_and_protocols_share_them() -> None:
    results = [believable(name, nodes=count) for count in (4, 5) for name in ("isolated", "consensus")]
    found = cells.panels(gather(results), "risk")
    assert len(found) == 2
    assert [[curve.label for curve in panel.curves] for panel in found] == [["isolated", "consensus"]] * 2
    assert found[0].curves[0].stroke == found[1].curves[0].stroke


def test_titles_name_the_learner_of_a_run_and_the_one_that_all_share(tmp_path: Path, sketched: list[Figure]) -> None:
    def title(figure: Figure) -> str:
        return figure.get_suptitle().partition("\n")[0]

    linear = {**SINE, "learner": {"name": "linear"}}
    polk, other = believable("consensus", SINE), believable("consensus", linear)
    plots.draw(polk, tmp_path / "a")
    assert {title(figure) for figure in sketched} == {
        "consensus (symmetric) · ring, 6 nodes · sine regression · polk · seed 0"
    }
    shared = "consensus · ring, 6 nodes · sine regression"
    slow = believable("consensus", {**SINE, "learner": {**SINE["learner"], "step_size": 0.1}})
    for results, wanted in (([polk, other], shared), ([polk, slow], f"{shared} · polk")):
        comparison = gather(results)
        assert cells.caption(comparison) == wanted
        sketched.clear()
        plots.draw_comparison(comparison, tmp_path / "b")
        assert {title(figure) for figure in sketched} == {wanted}
    labels = {curve.label for curve in cells.panels(gather([polk, other]), "risk")[0].curves}
    assert len(labels) == 2 and any("linear" in label for label in labels)


def test_titles_call_own_data_by_its_file() -> None:
    table = {"stream": {"name": "file", "path": "data/wine.csv"}, "learner": {"name": "random_features"}}
    assert [style.called(table[part]) for part in table] == ["wine.csv", "random features"]
    assert style.called("sensor_field") == "sensor field"
