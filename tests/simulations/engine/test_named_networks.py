"""Nodes of any graph keep their names: in tables, models, files and keys, and whoever names them is understood."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

import kernelswarm as ks
from kernelswarm.graphs.given.names import as_key
from kernelswarm.simulations.core.node_names import find_node
from kernelswarm.simulations.data.text import entries
from kernelswarm.simulations.engine.nodes import with_labels, with_names
from tests.helpers.command_line import SMALL, commands

RUN: dict[str, Any] = {
    "stream": "sine_regression",
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}},
    "protocol": "consensus",
    "rounds": 10,
}
OF_DATA = {key: value for key, value in RUN.items() if key != "stream"}
FAMILIES = sorted(nx.florentine_families_graph())


def shuffled(graph: nx.Graph[Any], seed: int = 0) -> nx.Graph[Any]:
    """Return the graph with its nodes and edges inserted in another order."""
    random, found = np.random.default_rng(seed), type(graph)()
    nodes, edges = list(graph), list(graph.edges)
    found.add_nodes_from(nodes[place] for place in random.permutation(len(nodes)))
    found.add_edges_from(edges[place] for place in random.permutation(len(edges)))
    return found


def test_names_are_in_every_part_of_a_result() -> None:
    result = ks.simulate(topology=nx.florentine_families_graph(), **RUN)
    assert list(result.node_names.values()) == FAMILIES
    assert result.nodes["name"].tolist() == FAMILIES
    assert result.model("Medici").node == "Medici"
    assert dict(result.graph.nodes(data="name")) == dict(enumerate(FAMILIES))
    with pytest.raises(ks.InputError, match=r'no node "Medicci".*did you mean "Medici"'):
        result.model("Medicci")


@pytest.mark.parametrize(
    ("graph", "node", "name"),
    [
        (nx.grid_2d_graph(2, 3), (0, 1), "(0, 1)"),
        (nx.grid_2d_graph(2, 3), (np.int64(1), 2), "(1, 2)"),
        (nx.path_graph([0.5, 1.5, True]), 1.5, "1.5"),
        (nx.path_graph([-2, -1, 5]), -1, -1),
        (nx.path_graph(["a", 1, (2,)]), (2,), "(2,)"),
        (nx.path_graph(["<b>", "R&D", '"q"', "Zürich"]), "R&D", "R&D"),
    ],
    ids=str,
)
def test_a_node_is_found_by_what_it_is_in_the_graph(
    tmp_path: Path, graph: nx.Graph[Any], node: Any, name: int | str
) -> None:
    folder = ks.run(topology=graph, folder=tmp_path / "run", **RUN).folder
    for source in (ks.read_run(folder), folder):
        assert ks.load_model(source, node=node).node == name
    assert ks.read_run(folder).model(node).node == name


def test_whole_numbers_keep_their_bits_and_have_no_names() -> None:
    graph = nx.relabel_nodes(nx.cycle_graph(5), {4: 40})
    result = ks.simulate(topology=graph, **RUN)
    assert sorted(result.graph) == [0, 1, 2, 3, 40] and "name" not in result.nodes and result.data.nodes is None


@pytest.mark.parametrize(
    ("named", "held"),
    [(str, str), (str, int), (int, str), (lambda node: f"s{node}", str)],
    ids=["text", "text and numbers", "numbers and text", "names"],
)
def test_data_go_to_the_node_of_their_name(named: Any, held: Any) -> None:
    graph = shuffled(nx.relabel_nodes(nx.path_graph(12), named))
    whose = np.arange(360) % 12
    inputs = np.random.default_rng(0).random((360, 1))
    targets = 100.0 * (whose == 2)  # which has rank 4 among the texts in alphabetical order
    node = np.array([named(one) for one in whose])
    node = node.astype(held)
    run = {**OF_DATA, "protocol": "isolated", "rounds": 20}
    result = ks.simulate(topology=graph, data=(inputs, targets, node), **run)
    labels = {as_key(name): label for label, name in result.node_names.items()}
    for one in (2, 3, 10):
        label, around = labels[as_key(named(one))], {as_key(named(other)) for other in (one - 1, one + 1)}
        assert (result.model(str(result.node_names[label])).predict([[0.5]])[0] > 25.0) == (one == 2)
        assert {as_key(result.node_names[other]) for other in result.graph[label]} == around


def test_positions_and_askers_follow_their_nodes_to_the_order_of_the_data() -> None:
    graph = nx.DiGraph([((2,), (10,)), ((10,), (1,)), ((1,), (2,))])  # 1 < 2 < 10, and "(1,)" < "(10,)" < "(2,)"
    nx.set_node_attributes(graph, {node: (float(node[0]), 0.0) for node in graph}, "pos")
    node = np.array(["(1,)", "(2,)", "(10,)"])[np.arange(90) % 3]
    data = (np.random.default_rng(0).random((90, 1)), np.zeros(90), node)
    result = ks.simulate(topology=graph, data=data, **OF_DATA)
    assert list(result.node_names.values()) == ["(1,)", "(10,)", "(2,)"]
    assert result.adjacency.positions is not None and result.adjacency.positions[:, 0].tolist() == [1.0, 10.0, 2.0]
    asks = {(i, j): known["asks"] for i, j, known in result.graph.edges(data=True)}
    assert asks == {(0, 1): "higher", (0, 2): "lower", (1, 2): "higher"}


def test_data_of_other_names_are_refused() -> None:
    data = (np.random.default_rng(0).random((30, 1)), np.zeros(30), np.array(["a", "b", "d"])[np.arange(30) % 3])
    with pytest.raises(ks.InputError, match="name different nodes: the network alone has c, and the data alone have d"):
        ks.simulate(topology=nx.path_graph(["a", "b", "c"]), data=data, **OF_DATA)
    places = (*data[:2], np.arange(30) % 3)  # no order of the graph's names is known to be that of numbers
    with pytest.raises(ks.InputError, match="the network alone has a, b, c, and the data alone have 0, 1, 2"):
        ks.simulate(topology=nx.path_graph(["a", "b", "c"]), data=places, **OF_DATA)
    with pytest.raises(ks.InputError, match=r"the network alone has target: leave .* a line of column titles"):
        ks.simulate(topology=nx.path_graph(["a", "b", "target", "d"]), data=data, **OF_DATA)
    with pytest.raises(ks.InputError, match=r"nodes: the data alone have d: add these nodes to the graph"):
        ks.simulate(topology=nx.path_graph(["a", "b"]), data=data, **OF_DATA)


COMPOSED, PARTED = "Orl\u00e9ans", "Orle\u0301ans"


@pytest.mark.parametrize("form", ["arrays", "csv", "parquet"])
def test_two_spellings_of_a_letter_are_one_name(form: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    node = np.array([COMPOSED, "Nice", PARTED])[np.arange(90) % 3]
    table = {"x": random.random(90), "y": random.random(90), "node": node}
    keys: dict[str, Any] = {"data": (table["x"][:, None], table["y"], node)}
    assert entries(pyarrow.chunked_array([node.tolist()])).words == ["Nice", COMPOSED]  # as inputs and classes too
    if form != "arrays":
        path = tmp_path / f"towns.{form}"
        {"csv": csv.write_csv, "parquet": parquet.write_table}[form](pyarrow.table(table), path)
        keys = {"stream": {"name": "file", "path": str(path)}}
    result = ks.simulate(topology=nx.Graph([(PARTED, "Nice")]), **keys, **OF_DATA)
    assert list(result.node_names.values()) == ["Nice", COMPOSED]
    assert find_node(PARTED, result.node_names) == find_node(COMPOSED, result.node_names) == 1
    with pytest.raises(ks.InputError, match=r"two nodes with the text .*'Orle\\u0301ans' .*: rename one"):
        ks.simulate(topology=nx.Graph([(PARTED, "Nice"), ("Nice", COMPOSED)]), **keys, **OF_DATA)


def test_a_number_that_is_a_label_and_another_nodes_name_is_refused() -> None:
    whose = np.arange(120) % 12
    data = (np.random.default_rng(0).random((120, 1)), np.zeros(120), (whose + 1).astype(str))
    result = ks.simulate(topology=nx.path_graph(12), data=data, **OF_DATA)
    with pytest.raises(ks.InputError, match=r'node = 2 is the label of the node named 3.*"3" or "2"'):
        result.model(2)
    assert result.model("2").node == "2"


def test_keys_that_list_nodes_take_names(tmp_path: Path) -> None:
    own = {"node": [{"nodes": ["Medici", "Strozzi"], "learner": {"batch_size": 3}}]}
    clock = {"name": "joining", "within": 0, "nodes": ["Pazzi", 0], "rounds": [5, 8]}
    keys = {**RUN, **own, "clock": clock, "checkpoint_every": 5}
    graph = nx.florentine_families_graph()
    done = ks.run(topology=graph, folder=tmp_path / "run", **keys)
    samples = dict(zip(done.result.nodes["name"].tolist(), done.result.nodes["samples"].tolist(), strict=True))
    assert {name: count for name, count in samples.items() if count != 10} == {
        "Medici": 30,
        "Strozzi": 30,
        "Pazzi": 5,
        "Acciaiuoli": 2,
    }
    resumed = ks.resume(done.folder, ["rounds=20"]).result
    assert list(resumed.node_names.values()) == FAMILIES
    assert resumed.summary["digest"] == ks.simulate(topology=graph, **{**keys, "rounds": 20}).summary["digest"]
    with pytest.raises(ks.InputError, match=r'^node.nodes: there is no node "Medicci"'):
        ks.simulate(topology=graph, **RUN, node=[{"nodes": ["Medicci"], "learner": {"batch_size": 3}}])
    with pytest.raises(ks.InputError, match="names a node twice, by its label and by its name"):
        ks.simulate(topology=graph, **{**keys, "clock": {**clock, "nodes": ["Acciaiuoli", 0]}})


def test_keys_are_run_by_labels_and_written_by_names() -> None:
    names = {0: 1, 1: 2, 2: 3}
    written = ks.build_experiment(
        topology="ring",
        **RUN,
        node=[{"nodes": ["1", 3, 0], "learner": {"batch_size": 3}}, {"nodes": ["2"], "learner": {"batch_size": 2}}],
        clock={"name": "joining", "nodes": ["2"], "rounds": [5]},
    )
    with pytest.raises(ks.InputError, match="names a node twice, by its label and by its name"):
        with_labels(written, names)
    ambiguous = ks.build_experiment(topology="ring", **RUN, node=[{"nodes": [1], "learner": {"batch_size": 3}}])
    with pytest.raises(ks.InputError, match=r'^node.nodes: node = 1 is the label of the node named 2.*"2" or "1"'):
        with_labels(ambiguous, names)
    override = replace(written.overrides[0], nodes=("1", 3))
    run = with_labels(replace(written, overrides=(override, written.overrides[1])), names)
    assert [override.nodes for override in run.overrides] == [(0, 2), (1,)]
    assert with_names(run, names).to_dict()["node"][0]["nodes"] == ["1", "3"]
    assert with_labels(with_names(run, names), names) == run
    assert with_names(run, {0: 0, 1: 1, 2: 2}) == run


def test_networks_that_take_turns_name_their_nodes(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("source,target\nb,a\na,d\nd,c\n", encoding="utf-8")
    (tmp_path / "first.csv").write_text("source,target\na,b\n", encoding="utf-8")
    (tmp_path / "second.csv").write_text("source,target\nc,d\nd,a\n", encoding="utf-8")
    schedule = {"name": "sequence", "paths": [str(tmp_path / "first.csv"), str(tmp_path / "second.csv")]}
    topology = {"name": "file", "path": str(tmp_path / "all.csv"), "schedule": schedule}
    result = ks.simulate(topology=topology, **RUN)
    assert result.nodes["name"].tolist() == ["a", "b", "c", "d"]
    assert result.network["messages"].tolist() == [5 * 2 + 5 * 4]
    (tmp_path / "second.csv").write_text("source,target\nb,d\n", encoding="utf-8")
    with pytest.raises(ks.InputError, match=r"has the edge \('b', 'd'\)"):
        ks.simulate(topology=topology, **RUN)


@pytest.mark.parametrize(
    "words", [("check",), ("run", "--quiet", "--no-figures", "--out", "run")], ids=["check", "run"]
)
def test_a_command_says_once_what_became_of_a_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.csv").write_text("Zürich,Bonn\nBonn,Bonn\nUlm,Bonn\n", encoding="utf-8")
    text = SMALL.replace('name = "ring"\nnodes = 3', 'name = "file"\npath = "net.csv"')
    text += '\n[[node]]\nnodes = ["Ulm"]\nlearner.step_size = 0.1\n'
    Path("experiment.toml").write_text(text, encoding="utf-8")
    done = commands(capsys)(words[0], "experiment.toml", *words[1:])
    assert done.code == 0
    (warning,) = [line for line in done.err.splitlines() if "self loops" in line]
    assert warning.startswith("kernelswarm: warning: the network has self loops at nodes ['Bonn']: dropped")
