"""Networks from GraphML files and edge lists, and how other files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.files import FORMATS, File, read_graph
from kernelswarm.graphs.validation import validate


def edges(graph: nx.Graph[Any]) -> set[tuple[int, int]]:
    return {(min(edge), max(edge)) for edge in graph.edges}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match=r"^path = ") as refused:
        read_graph(path)
    assert str(path) in str(refused.value)
    return str(refused.value)


# --- edge lists


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n2 10\n",
        "0\t1\n1\t2\n2\t10",
        "0,1\n1, 2\n2 , 10\n",
        "0;1\r\n1;2\r\n2;10\r\n",
        "# a comment\n\n0 1 # the first\n   1 2\n2 10 {'weight': 3}\n",
        "source,target,weight\n0,1,0.5\n1,2,0.5\n2,10,0.5\n",
        "0 1\n1 0\n1 2\n2 1\n2 10\n10 2\n",
        "\ufeff0 1\n1 2\n2 10\n",
        "00 01\n1 +2\n2 10\n".replace("1 +2", "01 +2").replace("\n2 10", "\n+2 10"),
    ],
    ids=[
        "blanks",
        "tabs",
        "commas",
        "semicolons",
        "comments",
        "header",
        "both ways",
        "byte order mark",
        "zeros and signs",
    ],
)
def test_an_edge_list_is_read_in_any_of_its_spellings(tmp_path: Path, text: str) -> None:
    graph = read_graph(written(tmp_path, "net.txt", text))
    assert list(graph.nodes) == [0, 1, 2, 10]
    assert edges(graph) == {(0, 1), (1, 2), (2, 10)}


@pytest.mark.parametrize("suffix", [suffix for suffix, form in FORMATS.items() if form == "edge list"])
def test_every_suffix_of_edge_lists_is_read(tmp_path: Path, suffix: str) -> None:
    assert edges(read_graph(written(tmp_path, f"net{suffix.upper()}", "3 4\n"))) == {(3, 4)}


def test_what_networkx_writes_as_an_edge_list_is_read_back(tmp_path: Path) -> None:
    graph = nx.petersen_graph()
    nx.write_edgelist(graph, tmp_path / "petersen.edgelist")
    assert edges(read_graph(tmp_path / "petersen.edgelist")) == edges(graph)


def test_a_single_label_is_a_network_of_one_node(tmp_path: Path) -> None:
    assert list(read_graph(written(tmp_path, "one.txt", "7\n")).nodes) == [7]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no nodes"]),
        ("# nothing\n", ["no nodes"]),
        ("alice bob\nbob carol\n", ["node labels are integers here", "['alice', 'bob', 'carol']"]),
        ("0 1\n1 x\n", ["['x']"]),
        ("0 1.0\n", ["['1.0']"]),
        ("0 1\n1 ,\n", ["line 2 has an empty label"]),
        ("0 1\n01 2\n", ["'1' and '01' are the same integer"]),
        ("0 1\n2\n", ["isolated nodes [2]"]),
        ("0 1\n1 1\n", ["self loops at nodes [1]"]),
        ("0 1\n2 3\n", ["disconnected", "[0, 1]", "[2, 3]"]),
        ("-1 0\n", ["outside 0 to", "[-1]"]),
    ],
)
def test_edge_lists_that_hold_no_network_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    said = refusal(written(tmp_path, "net.txt", text))
    assert all(word in said for word in words), said


# --- GraphML


def test_graphml_is_read_with_integer_labels_and_attributes(tmp_path: Path) -> None:
    graph = nx.Graph([(10, 2), (2, 33)])
    nx.set_node_attributes(graph, {10: "roof", 2: "hall", 33: "yard"}, "site")
    graph.edges[2, 10]["length"] = 1.5
    nx.write_graphml(graph, tmp_path / "net.graphml")
    found = read_graph(tmp_path / "net.graphml")
    assert {node: found.nodes[node]["site"] for node in found} == {2: "hall", 10: "roof", 33: "yard"}
    assert found.edges[2, 10]["length"] == 1.5


@pytest.mark.parametrize("values", [(0.25, 0.75), (3, -4)], ids=["fractions", "whole numbers"])
def test_coordinates_in_graphml_are_positions(tmp_path: Path, values: tuple[float, float]) -> None:
    graph = nx.path_graph(2)
    for node in graph:
        graph.nodes[node].update(x=values[0] + node, y=values[1])
    nx.write_graphml(graph, tmp_path / "net.graphml")
    places = nx.get_node_attributes(read_graph(tmp_path / "net.graphml"), "pos")
    assert places == {0: values, 1: (values[0] + 1, values[1])}


def test_coordinates_that_are_no_numbers_stay_attributes(tmp_path: Path) -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, dict.fromkeys(graph, "left"), "x")
    nx.set_node_attributes(graph, dict.fromkeys(graph, "top"), "y")
    nx.write_graphml(graph, tmp_path / "net.xml")
    found = read_graph(tmp_path / "net.xml")
    assert found.nodes[0] == {"x": "left", "y": "top"}


def test_directed_graphml_says_who_asks_whom(tmp_path: Path) -> None:
    nx.write_graphml(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), tmp_path / "net.graphml")
    network = read_graph(tmp_path / "net.graphml")
    assert dict(network.edges) == {(0, 1): {"asks": "lower"}, (1, 2): {}}
    nx.write_graphml(network, tmp_path / "again.graphml")
    assert dict(read_graph(tmp_path / "again.graphml").edges) == dict(network.edges)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (nx.MultiGraph([(0, 1), (0, 1)]), ["multigraph", "[(0, 1)]"]),
        (nx.Graph([("n0", "n1")]), ["['n0', 'n1']"]),
        (nx.Graph(), ["no nodes"]),
        (nx.Graph([(0, 1), (1, 1)]), ["self loops at nodes [1]"]),
        (nx.empty_graph(2), ["isolated nodes [0, 1]"]),
    ],
    ids=["parallel", "labels", "empty", "loop", "isolated"],
)
def test_graphml_that_holds_no_network_is_refused(tmp_path: Path, graph: nx.Graph[Any], words: list[str]) -> None:
    nx.write_graphml(graph, tmp_path / "net.graphml")
    said = refusal(tmp_path / "net.graphml")
    assert all(word in said for word in words), said


@pytest.mark.parametrize("text", ["", "0 1\n", "<graphml>", "<html></html>", '<?xml version="1.0"?><graphml/>'])
def test_what_is_no_graphml_is_refused(tmp_path: Path, text: str) -> None:
    assert "not readable as GraphML" in refusal(written(tmp_path, "net.graphml", text))


# --- files


def test_a_missing_file_is_told_the_nearest_name(tmp_path: Path) -> None:
    written(tmp_path, "network.txt", "0 1\n")
    assert "did you mean 'network.txt'?" in refusal(tmp_path / "netwrok.txt")
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "network.txt")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "net.txt").mkdir()
    assert "cannot be read" in refusal(tmp_path / "net.txt")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_bytes(b"\xff\xfe\x00\x81")
    assert "UTF-8" in refusal(tmp_path / "net.csv")


@pytest.mark.parametrize("name", ["net.gml", "net", "net.graphml.gz"])
def test_unknown_suffixes_are_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(ValueError, match=r"^path = .* names no format: use one of \.graphml"):
        File(Path(name))


def test_file_is_a_topology(tmp_path: Path) -> None:
    path = written(tmp_path, "net.edges", "0 1\n1 2\n")
    topology = File(path)
    used, fresh = np.random.default_rng(0), np.random.default_rng(0)
    graph = topology.build(used)
    assert nx.utils.graphs_equal(graph, validate(nx.path_graph(3)))
    assert used.random() == fresh.random()
    assert File(str(path)) == topology  # type: ignore[arg-type]
    assert isinstance(topology.path, Path)
