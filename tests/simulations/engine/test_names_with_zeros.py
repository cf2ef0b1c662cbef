"""A name that is written with zeros in front is a name, wherever it stands, and is found where one side lost them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest
from pyarrow import csv

from kernelswarm import load_model, read_run, run, simulate
from tests.helpers.command_line import Command, commands

CODES = ["01646500", "01638500", "2100", "00012"]
GRAPH: nx.Graph[str] = nx.path_graph(CODES)  # type: ignore[assignment, arg-type]
IN_ORDER = sorted(CODES, key=int)
SHORT = {code: int(code) for code in CODES}


def rows(names: list[Any], count: int = 240, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    x = random.normal(size=count)
    return {"station": [names[k % len(names)] for k in range(count)], "x": x, "y": np.sin(x)}


def write(path: Path, names: list[Any], header: str = "station", seed: int = 0) -> Path:
    table = pyarrow.table(rows(names, seed=seed)).rename_columns([header, "x", "y"])
    csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    return path


def keys(path: Path, topology: Any, **stream: Any) -> dict[str, Any]:
    stream = {"name": "file", "path": str(path), "target": "y", "node_column": "station", **stream}
    return {"stream": stream, "topology": topology, "learner": "polk", "protocol": "consensus", "rounds": 4}


@pytest.mark.parametrize("header", ["station", " station "])
def test_names_are_in_tables_models_and_files_as_the_data_write_them(tmp_path: Path, header: str) -> None:
    found = keys(write(tmp_path / "data.csv", CODES, header), GRAPH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = read_run(run(**found, folder=tmp_path / "run").folder)
    assert list(result.node_names.values()) == IN_ORDER
    assert result.nodes["name"][:4].tolist() == IN_ORDER
    assert load_model(tmp_path / "run", node="00012").node == "00012"
    assert list(nx.get_node_attributes(nx.read_graphml(tmp_path / "run/graph.graphml"), "name").values()) == IN_ORDER


@pytest.mark.parametrize("side", ["data", "network"])
def test_both_meet_where_one_has_lost_the_zeros_and_it_is_said_once(tmp_path: Path, side: str) -> None:
    names = list(SHORT.values()) if side == "data" else CODES
    graph: Any = GRAPH if side == "data" else nx.relabel_nodes(GRAPH, SHORT)
    path = write(tmp_path / "data.csv", names)
    with pytest.warns(UserWarning, match="differ in zeros in front of names: .* there, and 2 more alike") as caught:
        result = simulate(**keys(path, graph))
    assert len(caught) == 1
    assert list(result.node_names.values()) == sorted(names, key=int)
    pairs = {frozenset(int(result.node_names[node]) for node in edge) for edge in result.graph.edges}
    assert pairs == {frozenset((SHORT[one], SHORT[other])) for one, other in GRAPH.edges}
    for node in ("01646500", "1646500", 1646500):  # found by either
        assert int(result.model(node).node) == 1646500


def test_places_are_no_names_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", ["00", "01", "02"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(simulate(**keys(path, nx.path_graph(3))).node_names.values()) == ["00", "01", "02"]


@pytest.mark.parametrize(("first", "second"), [(CODES, SHORT.values()), (SHORT.values(), CODES)], ids=["test", "rows"])
def test_test_rows_are_those_of_the_node_of_their_name(tmp_path: Path, first: Any, second: Any) -> None:
    path, test = write(tmp_path / "data.csv", list(first)), write(tmp_path / "test.csv", list(second), seed=1)
    same = write(tmp_path / "same.csv", list(first), seed=1)
    one, other = (simulate(**keys(path, nx.path_graph(4), test_path=str(each))) for each in (test, same))
    assert one.final["risk"] == other.final["risk"] and list(one.node_names.values()) == sorted(first, key=int)


def test_a_node_is_named_in_a_table_with_its_zeros_or_without(tmp_path: Path) -> None:
    found = keys(write(tmp_path / "data.csv", CODES), GRAPH)
    digests = {
        simulate(**found, node=[{"nodes": [name], "learner": {"step_size": 0.01}}]).summary["digest"]
        for name in ("00012", "12")
    }
    assert len(digests) == 1 and simulate(**found).summary["digest"] not in digests


def test_numbers_without_a_zero_in_front_are_numbers(tmp_path: Path) -> None:
    for names in ([0, 1, 10], ["0.0", "1.0", "10.0"], [" 0", "1 ", "10"]):
        result = simulate(**keys(write(tmp_path / "data.csv", list(names)), nx.path_graph(3)))
        assert list(result.node_names.values()) == [0, 1, 10]
    large = [str(2**63 + k) for k in range(3)]  # no type of numbers tells them apart: they are text
    result = simulate(**keys(write(tmp_path / "data.csv", large), nx.path_graph(3)))
    assert list(result.node_names.values()) == large


def test_names_that_differ_in_zeros_only_are_said_to_be_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call: Command = commands(capsys)
    write(tmp_path / "data.csv", ["7", "007", "8"])
    answer = call("init", "--data", "data.csv", "--nodes", "station")
    assert answer.code == 0 and 'nodes "007", "7" are called alike' in answer.out


@pytest.mark.parametrize("short", ["data", "network", "none"])
def test_init_finds_the_column_of_codes_by_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, short: str
) -> None:
    monkeypatch.chdir(tmp_path)
    call: Command = commands(capsys)
    write(tmp_path / "data.csv", list(SHORT.values()) if short == "data" else CODES)
    graph = nx.relabel_nodes(GRAPH, {code: str(SHORT[code]) for code in CODES}) if short == "network" else GRAPH
    Path("net.csv").write_text("from,to\n" + "\n".join(map(",".join, graph.edges)))
    answer = call("init", "--data", "data.csv", "--network", "net.csv")
    assert answer.code == 0 and '"station" says which node a row is of' in answer.out
    assert ("00012" in answer.out) == (short != "none")
    assert call("check", "experiment.toml").code == 0
