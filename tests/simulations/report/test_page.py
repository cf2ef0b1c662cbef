"""The page of a run and of a comparison: what stands in it is what was measured, and nothing in it is markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kernelswarm.simulations.comparison.compare import compare, read
from kernelswarm.simulations.comparison.table_notes import HEADINGS
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.figures import plots, style
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.measurements import FOLDER, OnDisk
from kernelswarm.simulations.records.outcome import Comparison
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.report import learned, learning_curves, network, page, tables
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.report_page import Page, page_of, short, table
from tests.helpers.small_comparisons import PROTOCOLS, experiment

EVIL = "</script><b>&amp;<!--"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw_comparison", lambda comparison, folder, *how: [])  # a page has none of its figures
        return compare(experiment(), PROTOCOLS, 3, jobs=1, out=tmp_path_factory.mktemp("compared") / "all")


@pytest.fixture(params=["run", "comparison"])
def either(request: pytest.FixtureRequest) -> Path:
    if request.param == "run":
        found: Path = request.getfixturevalue("folder")
        return found
    place = request.getfixturevalue("compared").folder
    assert isinstance(place, Path)
    return place


def test_a_page_is_whole_and_asks_for_nothing(either: Path) -> None:
    found = page_of(either)
    assert {"html", "title", "h1", "main", "style", "script"} <= set(found.tags)
    assert not {"link", "img", "iframe", "object"} & set(found.tags)
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in found.attributes}
    text = (either / page.NAME).read_text(encoding="utf-8")
    assert not [word for word in ("http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest") if word in text]
    (policy,) = (value for name, value in found.attributes if name == "content" and "-src" in (value or ""))
    assert str(policy).startswith("default-src 'none'")
    own = len(text) - len(found.texts["script"][0])
    assert 10_000 < own < 300_000
    assert not list(either.glob(".*.part*"))


def words(column: str) -> str:
    """What tables, figures and the terminal call a column."""
    return column.replace("global_", "pooled_").replace("_", " ")


def test_the_tables_of_a_run_are_what_it_measured(folder: Path, result: Result) -> None:
    data = page_of(folder).data
    figures = table(data, "final")
    shown = dict(zip(figures["figure"], figures["value"], strict=True))
    for name in ("risk", "constant_risk", "error", "global_risk", "model_order", "disagreement", "bytes_sent"):
        assert shown[words(name)] == result.final[name]
    for name, rows in (("nodes", result.nodes), ("edges", result.edges)):
        last = rows["round"] == rows["round"].max()
        cells = table(data, name)
        assert len(cells) > 4
        for column, values in rows.items():
            if column != "round" and np.isfinite(values[last]).any():
                assert cells[words(column)] == [short(value, 6) for value in values[last]]


def test_the_curves_of_a_run_are_its_network_and_the_quantiles_of_its_nodes(folder: Path, result: Result) -> None:
    curves = page_of(folder).data["curves"]
    (learning_curve,) = curves["courses"]
    assert learning_curve["round"] == result.network["round"].tolist() == [10, 20, 30, 40]
    assert learning_curve["bytes_sent"] == result.network["bytes_sent"].tolist()
    panels = {panel["column"]: panel for panel in curves["panels"]}
    assert list(panels) == ["risk", "error", "disagreement", "model_order", "violation", "bytes_sent"]
    own, pooled = panels["risk"]["lines"]
    for line, column in ((own, "risk"), (pooled, "global_risk"), (panels["disagreement"]["lines"][0], "disagreement")):
        assert line["mean"] == [short(value, 6) for value in result.network[column]]
    for place, number in enumerate(learning_curve["round"]):
        values = result.nodes["risk"][result.nodes["round"] == number]
        assert own["low"][place] == short(float(np.quantile(values, 0.1)), 6)
        assert own["high"][place] == short(float(np.quantile(values, 0.9)), 6)
    proximity = learning_curves.LOOKS["proximity"][0]
    assert [line["color"] for line in panels["risk"]["lines"]] == [proximity, learning_curves.POOLED]
    assert {panels[name]["lines"][0]["color"] for name in panels} == {proximity}
    assert panels["risk"]["levels"] == [{"label": "best constant", "value": result.final["constant_risk"]}]


def test_the_network_of_a_run_has_every_node_and_edge_at_every_round(folder: Path, result: Result) -> None:
    data = page_of(folder).data["network"]
    assert data["names"] == [str(node) for node in sorted(result.graph.nodes)]
    assert {tuple(edge) for edge in data["edges"]} == {(min(edge), max(edge)) for edge in result.graph.edges}
    nodes = {column["name"]: column["values"] for column in data["node_columns"]}
    edges = {column["name"]: column["values"] for column in data["edge_columns"]}
    assert set(nodes) == set(network.NODE_COLUMNS)
    assert list(edges)[:2] == ["constraint", "dual"]
    rows = result.nodes
    measured = {(int(r), int(v)): risk for r, v, risk in zip(rows["round"], rows["node"], rows["risk"], strict=True)}
    for place, number in enumerate(data["rounds"]):
        assert nodes["risk"][place] == [short(measured[number, node], 4) for node in range(5)]
    rows = result.edges
    for place, number in enumerate(data["rounds"]):
        for (i, j), dual in zip(data["edges"], edges["dual"][place], strict=True):
            ends = ((rows["source"] == i) & (rows["target"] == j)) | ((rows["source"] == j) & (rows["target"] == i))
            of = rows["dual"][ends & (rows["round"] == number)]
            assert len(of) in (0, 2)
            assert dual == (short(float(of.mean()), 3) if len(of) else None)


def test_edges_show_the_share_of_messages_that_was_delivered(result: Result) -> None:
    experiment_ = experiment(protocol={"name": "proximity"}, links={"loss": 0.4})
    lossy = simulate(experiment_)
    shown, _ = network.of_run(lossy)
    columns = {column["name"]: column["values"] for column in shown["edge_columns"]}
    assert list(columns)[:3] == ["constraint", "dual", "share_delivered"]
    rows = lossy.edges
    last = rows["round"] == shown["rounds"][-1]
    for (i, j), share in zip(shown["edges"], columns["share_delivered"][-1], strict=True):
        both = last & (rows["source"] + rows["target"] == i + j) & (np.abs(rows["source"] - rows["target"]) == j - i)
        arrived, gone = rows["delivered"][both], rows["lost"][both] + rows["late"][both]
        assert share == short(float(np.mean(arrived / (arrived + gone))), 3)
        assert 0.2 < share < 1.0
    ideal, _ = network.of_run(result)
    assert "share_delivered" not in {column["name"] for column in ideal["edge_columns"]}


def test_no_node_of_the_network_covers_another() -> None:
    graph = nx.path_graph(8)
    nx.set_node_attributes(graph, {node: (0.3 + 1e-3 * (node % 4), float(node // 4)) for node in graph}, "pos")
    shown, _ = network.of_run(simulate(experiment(topology=graph, protocol="isolated", rounds=10)))
    places = np.column_stack([shown["x"], shown["y"]])
    gaps = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(8)
    assert gaps.min() >= shown["diameter"] * np.ptp(places, axis=0).max()


def test_functions_are_those_of_the_models(folder: Path, result: Result) -> None:
    functions = page_of(folder).data["functions"]
    ((low, high),) = functions["bounds"]
    grid = np.linspace(low, high, functions["size"])
    for node in range(5):
        shown = np.array(functions["values"][functions["of"][node]])
        np.testing.assert_allclose(shown, np.ravel(result.model(node).predict(grid[:, None])), rtol=5e-3, atol=5e-3)
        points = result.models[f"points_{node}"]
        assert functions["points"][functions["of"][node]] == [[short(x, 3) for x in row] for row in points]
    assert len(functions["truth"][0]) == functions["size"]


def test_what_would_be_too_much_is_left_out_and_said(
    folder: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = 5 * 3 + result.graph.number_of_edges() * 2
    monkeypatch.setattr(network, "NUMBERS", 3 * each)
    monkeypatch.setattr(learned, "VALUES", 2 * learned.CURVE)
    monkeypatch.setattr(learned, "DICTIONARY", 2)
    monkeypatch.setattr(learning_curves, "ROWS", 3)
    data = page_of(folder).data
    assert data["network"]["rounds"] == [10, 30, 40]
    assert [column["name"] for column in data["network"]["node_columns"]] == ["risk", "error", "model_order"]
    assert [column["name"] for column in data["network"]["edge_columns"]] == ["constraint", "dual"]
    assert any("not coloured by global_risk, global_error, violation, tolerance" in note for note in data["notes"])
    assert "The network is shown at 3 of the 4 evaluations: all would be too much." in data["notes"]
    assert data["functions"]["of"] == [0, None, None, None, 1]
    assert data["curves"]["courses"][0]["round"] == [10, 30, 40]
    assert data["curves"]["band"].endswith("; 3 of the 4 evaluations are drawn")
    assert [len(points) for points in data["functions"]["points"]] == [2, 2]
    assert "Of a dictionary the first 2 points are marked." in data["notes"]
    assert "The functions of 2 of the 5 nodes can be looked at." in data["notes"]


def test_text_of_files_stays_text(result: Result, tmp_path: Path) -> None:
    named = Result(
        {**result.config, "note": EVIL, "topology": {"name": EVIL}},
        result.graph,
        result.nodes,
        result.network,
        result.edges,
        result.models,
        {**result.summary, "verdict": {"worse_than_constant": EVIL}},
        DataDescription(nodes=np.array([f"{EVIL}{node}" for node in range(5)])),
    )
    found = page_of(run_folder.write(named, tmp_path / "run"))
    assert found.tags.count("script") == 2 and "b" not in found.tags
    assert EVIL in found.texts["title"][0] and EVIL in found.texts["h1"][0]
    assert found.data["network"]["names"] == [f"{EVIL}{node}" for node in range(5)]
    assert found.data["warnings"] == [EVIL]
    # Nor does the page's own program make markup of it.
    makes_markup = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "createContextualFragment",
        "eval(",
    )
    assert not [word for word in makes_markup if word in found.texts["script"][1]]
    assert EVIL in found.data["settings"]


def test_marks_of_the_template_in_a_text_are_no_marks(result: Result) -> None:
    content = {"title": "<!--script--><!--data-->", "kind": "run"}
    found = Page(page.as_html(content))
    assert found.texts["h1"] == [content["title"]]
    assert found.data == content


def test_what_is_missing_of_the_data_and_what_seems_to_be_is_said(tmp_path: Path) -> None:
    x = np.linspace(0.0, 1.0, 60)
    y = np.where(np.arange(60) % 7 == 0, np.nan, np.sin(5.0 * x))
    coded = np.where(np.arange(60) % 5 == 0, -999.0, x)
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 3}, "learner": "linear", "protocol": "isolated"}
    ran = simulate(data={"x": x, "z": coded, "y": y}, stream={"missing": "drop"}, rounds=5, **keys)
    data = page_of(run_folder.write(ran, tmp_path / "run")).data
    assert any(text.startswith("Of the data: 9 values missing of 60 rows, in y 9: ") for text in data["verdict"])
    assert any(text.startswith('-999 occurs 12 times in "z", far from other values') for text in data["warnings"])


def test_a_run_that_has_failed_says_so(result: Result, tmp_path: Path) -> None:
    summary = {"status": "failed", "reason": "node 3 diverged", "rounds": 7, "protocol": "proximity"}
    empty = {name: values[:0] for name, values in result.network.items()}
    failed = Result(result.config, result.graph, {}, empty, {}, {}, summary)
    data = page_of(run_folder.write(failed, tmp_path / "run")).data
    assert "failed after round 7" in data["verdict"][0] and "node 3 diverged" in data["verdict"][0]
    assert data["functions"] is None and data["curves"]["panels"] == []
    assert data["network"]["names"] == ["0", "1", "2", "3", "4"]


def test_the_tables_of_a_comparison_are_its_figures(compared: Comparison) -> None:
    assert compared.folder is not None
    data = page_of(compared.folder).data
    (shown,) = (table for table in data["tables"] if table["name"] == "rows")
    columns = {column["label"]: column for column in shown["columns"]}
    rows = compared.rows()
    assert columns["protocol"]["cells"] == ["isolated", "consensus"]
    for name, heading in HEADINGS.items():
        means = [row.mean[name] for row in rows]
        if np.isfinite(means).any():
            assert columns[heading]["cells"] == [mean if np.isfinite(mean) else None for mean in means]
    runs = table(data, "runs")
    assert runs["seed"] == [3, 4, 5] * 2
    assert runs["risk"] == [run.final["risk"] for run in compared.runs]
    assert all((compared.folder / place / "summary.json").is_file() for place in runs["folder"])
    pairs = table(data, "pairs")
    assert pairs["by"] == [one.mean for one in compared.differences()]


def test_the_curves_of_a_comparison_are_means_over_seeds(compared: Comparison) -> None:
    assert compared.folder is not None
    curves = page_of(compared.folder).data["curves"]
    panels = {panel["column"]: panel["lines"] for panel in curves["panels"]}
    for cell, line in enumerate(panels["risk"]):
        risks = np.array([run.network["risk"] for run in compared.runs if run.cell == cell])
        mean, deviation = risks.mean(axis=0), risks.std(axis=0, ddof=1)
        np.testing.assert_allclose(line["mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(line["low"], np.maximum(mean - deviation, risks.min(axis=0)), rtol=1e-5)
        np.testing.assert_allclose(line["high"], np.minimum(mean + deviation, risks.max(axis=0)), rtol=1e-5)
        sent = np.mean([run.network["bytes_sent"] for run in compared.runs if run.cell == cell], axis=0)
        np.testing.assert_allclose(curves["courses"][line["course"]]["bytes_sent"], sent, rtol=1e-5)
    assert [line["label"] for line in panels["bytes_sent"]] == ["consensus"]  # nothing is sent in isolation


def test_a_protocol_has_the_colour_of_its_figures() -> None:
    css = (Path(learning_curves.__file__).parent / "page.css").read_text()
    variables = dict(re.findall(r"--(\w+): (#\w+|var\(--text\))", css[: css.index("@media")]))
    palette = [variables[f"c{place}"] for place in range(9)]
    known = np.array([to_rgb(variables["text"] if color.startswith("var") else color) for color in palette])
    names = ["isolated", "consensus", "proximity", "centralized", "batch", "diffusion", "gossip", "stacking"]
    looks = learning_curves._looks(names)
    assert len({color for color, _ in looks}) == len(names)
    for name, (color, _) in zip(names, looks, strict=True):
        apart = np.linalg.norm(known - np.array(to_rgb(style.protocol_color(name, names))), axis=1)
        assert apart.argmin() == color != learning_curves.POOLED, name
    assert learning_curves._looks(["consensus", "consensus"]) == [(0, 0), (1, 1)]


def test_a_comparison_shows_the_network_of_each_row(compared: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared.folder is not None
    shown = page_of(compared.folder).data["networks"]
    assert [row["label"] for row in shown] == ["isolated, seed 3", "consensus, seed 3"]
    for row, run in zip(shown, (compared.runs[0], compared.runs[3]), strict=True):
        assert run.folder is not None
        whole, _ = network.of_run(run_folder.read(run.folder))
        assert row == {"label": row["label"], **json.loads(json.dumps(whole))}
    monkeypatch.setattr(network, "ROWS", 1)
    data = page_of(compared.folder).data
    assert len(data["networks"]) == 1 and "The networks of the first 1 rows are shown." in data["notes"]


def test_pooled_data_have_a_colour_that_no_protocol_has() -> None:
    names = [*style.PROTOCOLS, "diffusion", "gossip", "stacking", "multitask", "dkla", "hedge"]
    assert learning_curves.POOLED not in {color for color, _ in learning_curves._looks(names)}
    assert style.GREY not in {style.protocol_color(name, names) for name in names}


def test_small_means_have_the_form_of_the_others_in_their_column(
    compared: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = compared.rows()
    for risk, shown in ((1.66e-4, "0.000166 ± 0.000054"), (1.66e-12, "(1.66 ± 0.54)e-12")):
        small = replace(
            first, mean={**first.mean, "risk": risk}, deviation={**first.deviation, "risk": risk * 54 / 166}
        )
        monkeypatch.setattr(Comparison, "rows", lambda self, also=(), found=small: [found, second])
        column = next(one for one in tables.of_comparison(compared)[0]["columns"] if one["label"] == "risk")
        assert column["shown"][0] == shown and "e-" not in column["shown"][1]


@pytest.mark.usefixtures("sketched")
def test_runs_that_have_not_ended_are_said_to_have_failed(tmp_path: Path) -> None:
    place = tmp_path / "all"
    compare(experiment(), PROTOCOLS, 2, jobs=1, out=place)
    victim = read(place).runs[3].folder
    assert victim is not None
    (victim / "summary.json").unlink()
    data = page_of(place).data
    assert table(data, "runs")["failed"] == ["", "", "", "it has not ended"]
    assert any("1 did not end well" in sentence for sentence in data["verdict"])


def test_a_run_that_goes_on_is_shown_as_far_as_it_was_measured(result: Result, tmp_path: Path) -> None:
    place = run_folder.begin(result.config, result.graph, result.data, tmp_path / "run")
    assert place == tmp_path / "run"
    stored = OnDisk(place)
    tables = {"nodes": result.nodes, "network": result.network, "edges": result.edges}
    for number in (10, 20):
        stored.add(
            {
                name: {column: np.asarray(values)[rows["round"] == number] for column, values in rows.items()}
                for name, rows in tables.items()
            }
        )
    stored.tables()  # writes what waits
    data = page_of(place).data
    assert data["verdict"][0].startswith("The run has not ended: it was measured until round 20")
    assert data["network"]["rounds"] == [10, 20]
    assert data["functions"] is None
    risks = result.nodes["risk"][result.nodes["round"] == 20]
    assert table(data, "nodes")["risk"] == [short(value, 6) for value in risks]


def test_a_run_of_which_nothing_is_measured_yet_has_a_page(result: Result, tmp_path: Path) -> None:
    place = run_folder.begin(result.config, result.graph, result.data, tmp_path / "run")
    (place / FOLDER).mkdir()
    data = page_of(place).data
    assert data["network"]["rounds"] == [] and data["curves"]["panels"] == []
    assert data["network"]["names"] == ["0", "1", "2", "3", "4"]
