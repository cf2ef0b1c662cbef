"""Nodes without data learn from their neighbours alone, and nothing is measured on data that they do not have."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import kernelswarm as ks
from kernelswarm.simulations.data.faulty import NoSamples
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import build_topology, open_network, open_stream
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.equality import same

STATIONS = nx.Graph([("north", "gateway"), ("gateway", "hut"), ("hut", "south"), ("south", "attic")])
ROWLESS = [{"nodes": ["gateway", "attic"], "data": False}]
PATH: dict[str, Any] = {
    "topology": nx.path_graph(5),
    "stream": {"name": "sine_regression", "noise": 0.3},
    "learner": {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.3}},
    "protocol": {"name": "consensus", "penalty": 5.0},
    "rounds": 40,
    "node": [{"nodes": [1, 4], "data": False}],
}
WITH_DATA = (0, 2, 3)


def described(**tables: Any) -> Experiment:
    return Experiment.from_dict({**PATH, **tables})


def readings(folder: Path, *names: str) -> Path:
    """Write rows of some stations, each with inputs that no other has."""
    lines = ["station,x,y"]
    for place, name in enumerate(names):
        lines += [f"{name},{place + k / 40},{math.sin(place + k / 40)}" for k in range(40)]
    path = folder / "readings.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def of_file(path: Path, **tables: Any) -> Experiment:
    stream = {"name": "file", "path": str(path), "node_column": "station", "standardize": False}
    return described(topology=STATIONS, stream=stream, node=ROWLESS, rounds=20, **tables)


def test_the_others_draw_what_a_network_of_them_alone_draws() -> None:
    source = open_network(described()).source
    alone = PATH["stream"]
    wanted = open_stream(
        described(topology=nx.path_graph(3), stream=alone, node=[]),
        build_topology(described(topology=nx.path_graph(3), node=[])),
    )
    for place, own in zip(WITH_DATA, wanted.nodes, strict=True):
        assert same(source.nodes[place].draw(50), own.draw(50))
    for place in (1, 4):
        points, targets = source.nodes[place].draw(50)
        assert points.shape == (0, 1) and targets.shape == (0, 1)
        assert len(source.nodes[place].held_out(7).points) == 0
    assert source.truth is not None and wanted.truth is not None
    points = np.linspace(0.0, 1.0, 9)[:, None]
    np.testing.assert_array_equal(source.truth(2, points, 3), wanted.truth(1, points, 3))
    assert np.isnan(source.truth(1, points, 3)).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_go_to_the_nodes_that_they_name(tmp_path: Path, reverse: bool) -> None:
    names = ["south", "hut", "north"]
    network = open_network(of_file(readings(tmp_path, *(reversed(names) if reverse else names))))
    called = network.adjacency.names
    assert called is not None and sorted(called) == sorted(STATIONS)
    each = dict(zip(called, network.source.nodes, strict=True))
    for place, name in enumerate(reversed(names) if reverse else names):
        points = each[str(name)].draw(1000)[0]
        assert len(points) and (np.floor(points) == place).all()
    for name in ("gateway", "attic"):
        assert isinstance(each[name], NoSamples)
    edges = {frozenset(called[place] for place in edge) for edge in network.adjacency.edges.tolist()}
    assert edges == {frozenset(edge) for edge in STATIONS.edges}


@pytest.mark.parametrize("placed", [False, True])
def test_a_label_means_the_node_that_had_it_before_nodes_were_numbered_anew(tmp_path: Path, placed: bool) -> None:
    graph: nx.Graph[Any] = nx.path_graph(4)
    nx.set_node_attributes(graph, {0: "b", 1: "gate", 2: "a", 3: "c"}, "name")
    if placed:
        nx.set_node_attributes(graph, {k: (float(k), 0.0) for k in graph}, "pos")
    tables = of_file(readings(tmp_path, "a", "b", "c")).to_dict()
    network = None
    with pytest.warns(UserWarning, match="numbered anew"):
        network = open_network(
            Experiment.from_dict({**tables, "topology": graph, "node": [{"nodes": [1], "data": False}]})
        )
    assert network.adjacency.names == ["a", "b", "c", "gate"]
    assert [isinstance(source, NoSamples) for source in network.source.nodes] == [False, False, False, True]
    assert network.experiment.overrides[0].nodes == (3,)
    assert sorted(network.adjacency.edges.tolist()) == [[0, 2], [0, 3], [1, 3]]


@pytest.mark.parametrize("protocol", ["consensus", "centralized", "batch"])
def test_nothing_is_measured_where_nothing_is_known(protocol: str, tmp_path: Path) -> None:
    names = ("north", "hut", "south")
    result = simulate(of_file(readings(tmp_path, *names), protocol=protocol, evaluation={"level": 0.9}))
    last = {name: column[-5:] for name, column in result.nodes.items()}
    rowless = np.isin(last["name"], ["gateway", "attic"])
    assert rowless.sum() == 2
    assert np.isnan(last["risk"][rowless]).all() and np.isfinite(last["risk"][~rowless]).all()
    assert np.isfinite(last["global_risk"]).all()
    assert (last["samples"][rowless] == 0).all() and (last["samples"][~rowless] > 0).all()
    assert result.final["risk"] == pytest.approx(last["risk"][~rowless].mean(), rel=1e-12)
    assert result.final["global_risk"] == pytest.approx(last["global_risk"].mean(), rel=1e-12)
    assert result.summary["used_up"] is None or result.summary["used_up"]["first"] > 0


@pytest.mark.parametrize("protocol", ["centralized", {"name": "centralized", "averaged": True}, "batch"])
def test_one_learner_of_all_samples_has_those_of_the_nodes_with_data_alone(protocol: Any) -> None:
    found = [
        simulate(described(topology={"name": "complete", "nodes": nodes}, protocol=protocol, node=node, rounds=12))
        for nodes, node in ((3, []), (4, [{"nodes": [3], "data": False}]))
    ]
    for array, other in zip(*(one.models.values() for one in found), strict=True):
        np.testing.assert_array_equal(array, other)
    assert found[1].nodes["samples"][-4:].tolist() == [*found[0].nodes["samples"][-3:], 0]


def test_replay_carries_what_is_known_past_a_node_without_data() -> None:
    graph = nx.path_graph(4)
    errors, verdicts = {}, {}
    for replay in (0, 1):
        protocol = {"name": "consensus", "penalty": 10.0, "replay": replay}
        node = [{"nodes": [2, 3], "data": False}]
        result = simulate(described(topology=graph, protocol=protocol, node=node, rounds=400))
        errors[replay], verdicts[replay] = result.nodes["global_error"][-4:], result.verdict
    assert errors[0][2] < 0.5 * errors[0][3]  # a neighbour of data learns at that neighbour's samples
    assert errors[1][3] < 0.2 * errors[0][3]
    assert "nothing reached 1 of 2 nodes without data: set protocol.replay = 1" in verdicts[0]["nothing_reached"]
    assert "nothing_reached" not in verdicts[1]
    alone = simulate(described(protocol="isolated"))
    assert "take a protocol that sends something" in alone.verdict["nothing_reached"]
    one_sided = simulate(described(protocol={"name": "consensus", "form": "one_sided"}))
    assert 'set protocol.form = "symmetric"' in one_sided.verdict["nothing_reached"]
    apart = nx.disjoint_union(nx.path_graph(3), nx.path_graph(2))
    nodes = [{"nodes": [1, 3, 4], "data": False}]
    weights = simulate(described(topology=apart, node=nodes, protocol="diffusion", learner="linear"))
    found = weights.verdict["nothing_reached"]
    assert "nothing reached 2 of 3 nodes" in found and "no path leads to them from a node with data" in found
    assert "replay" not in found and "penalty" not in found  # which diffusion has not


def test_a_run_on_disk_is_resumed_and_read(tmp_path: Path) -> None:
    path = readings(tmp_path, "north", "hut", "south")
    run(of_file(path, checkpoint_every=5), tmp_path / "run")
    table = (tmp_path / "run" / "config.toml").read_text()
    assert "data = false" in table and '"gateway"' in table
    longer = resume(tmp_path / "run", ["rounds=30"]).result
    assert longer.summary["digest"] == simulate(replace(of_file(path), rounds=30)).summary["digest"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["nodes"] == 5
    model = ks.load_model(tmp_path / "run", node="gateway")
    assert np.isfinite(model.predict([[0.3]])).all()


def test_check_says_how_many_there_are_and_counts_the_others_samples() -> None:
    text = as_text(examine(described()))
    assert any(line.split() == ["nodes", "without", "data", "2"] for line in text.splitlines())
    assert any(line.split() == ["samples", "a", "round", "3"] for line in text.splitlines())


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            {"node": [{"nodes": [0, 1, 2, 3, 4], "data": False}]},
            "every node of the network leaves nothing to learn from",
        ),
        ({"node": [{"nodes": [9], "data": False}]}, "there is no node 9"),
        (
            {"node": [{"nodes": [1]}]},
            r"node\[0\]\.learner = {} changes nothing: give keys of the learner, or data = false",
        ),
        ({"node": [{"nodes": [], "data": False}]}, "must name at least one node"),
    ],
)
def test_what_cannot_be_is_refused(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ks.InputError, match=words):
        open_network(described(**tables))


def test_rows_of_a_node_that_is_said_to_have_none_are_refused(tmp_path: Path) -> None:
    for names in (["north", "hut", "south", "attic"], ["north", "hut", "attic"]):
        with pytest.raises(ks.InputError, match="node attic has no data, and the data have rows of it"):
            open_network(of_file(readings(tmp_path, *names)))


def test_the_remedy_for_nodes_that_data_do_not_name_works(tmp_path: Path) -> None:
    experiment = of_file(readings(tmp_path, "north", "hut", "south"))
    with pytest.raises(ks.InputError, match=r"the network alone has .*attic") as refused:
        open_network(Experiment.from_dict({**experiment.to_dict(), "topology": STATIONS, "node": []}))
    text = str(refused.value)
    nodes = json.loads(text[text.index("nodes = ") + 8 : text.rindex(" and data")])
    table = [{"nodes": nodes, "data": False}]
    open_network(Experiment.from_dict({**experiment.to_dict(), "topology": STATIONS, "node": table}))


@pytest.mark.parametrize(
    ("robust", "of_file"), [("trimmed", False), ("median", True), ("clipped", False), ("trust", True)]
)
def test_no_defence_keeps_a_node_without_data_from_learning(robust: str, of_file: bool) -> None:
    """Reach is measured on own targets: without any, nobody is out of reach."""
    data = {"node": np.repeat(np.arange(1, 6), 60), "x": np.tile(np.linspace(0.0, 1.0, 60), 5)[:, None]}
    stream = {"data": {**data, "y": np.sin(6.0 * data["x"][:, 0])}} if of_file else {"stream": PATH["stream"]}
    result = simulate(
        topology=nx.complete_graph(6),
        learner="newton",
        protocol={"name": "consensus", "penalty": 1.0, "robust": robust},
        node=[{"nodes": [0], "data": False}],
        rounds=60,
        **stream,
    )
    points = np.linspace(0.1, 0.9, 9)[:, None]
    own, *others = (result.model(node).predict(points) for node in range(6))
    mean = np.mean(others, axis=0)
    assert np.mean((own - mean) ** 2) < 0.2 * np.var(mean)
