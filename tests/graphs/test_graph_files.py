"""Networks from files of every format, and how other files are refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.files import File, read_graph
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
        "0 +1\n+1 +2\n+2 10\n",
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
        "signs",
    ],
)
def test_an_edge_list_is_read_in_any_of_its_spellings(tmp_path: Path, text: str) -> None:
    graph = read_graph(written(tmp_path, "net.txt", text))
    assert list(graph.nodes) == [0, 1, 2, 10]
    assert edges(graph) == {(0, 1), (1, 2), (2, 10)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no nodes"]),
        ("# nothing\n", ["no nodes"]),
        ("0 1\n1 ,\n", ["line 2 has an empty label"]),
        ("0 1\n1.0 2\n", ["'1' and '1.0' are the same number"]),
        ("0 1\n1.23457E+16 2\n", ["'1.23457E+16' is one of several whole numbers"]),
        (",a,a\na,0,1\na,1,0\n", ["two columns are called 'a'"]),
    ],
)
def test_edge_lists_that_hold_no_network_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    message = refusal(written(tmp_path, "net.txt", text))
    assert all(word in message for word in words), message


# --- GraphML


@pytest.mark.parametrize("text", ["", "0 1\n", "<graphml>", "<html></html>", '<?xml version="1.0"?><graphml/>'])
def test_what_is_no_graphml_is_refused(tmp_path: Path, text: str) -> None:
    assert "not readable as GraphML" in refusal(written(tmp_path, "net.graphml", text))


# --- files


def test_a_missing_file_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    written(tmp_path, "network.txt", "0 1\n")
    assert "did you mean 'network.txt'?" in refusal(tmp_path / "netwrok.txt")
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "network.txt")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_bytes(b"\x89PNG\r\n\x00\x81")
    assert "UTF-8" in refusal(tmp_path / "net.csv")


@pytest.mark.parametrize("name", ["net.gmx", "net", "net.graphml.zip", "net.gz"])
def test_unknown_suffixes_are_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(ValueError, match=r"^path = .* names no format: use one of \.graphml"):
        File(Path(name))


def test_file_is_a_topology(tmp_path: Path) -> None:
    path = written(tmp_path, "net.edges", "0 1\n1 2\n")
    topology = File(path)
    used, fresh = np.random.default_rng(0), np.random.default_rng(0)
    graph = topology.build(used)
    assert File(path, "edge list").build(used).edges == graph.edges
    assert nx.utils.graphs_equal(graph, validate(nx.path_graph(3)))
    assert used.random() == fresh.random()
    assert File(str(path)) == topology  # type: ignore[arg-type]
    assert isinstance(topology.path, Path)


# --- every format


def market(graph: nx.Graph[Any], path: Path) -> None:
    scipy.io.mmwrite(path, nx.to_scipy_sparse_array(graph, nodelist=sorted(graph)))


def node_link(graph: nx.Graph[Any], path: Path) -> None:
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")), encoding="utf-8")


def cytoscape(graph: nx.Graph[Any], path: Path) -> None:
    path.write_text(json.dumps(nx.cytoscape_data(graph)), encoding="utf-8")


def ordered(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Return the edges alone, of nodes in order: the format has no more."""
    plain = nx.Graph()
    plain.add_nodes_from(range(len(graph)))
    plain.add_edges_from(graph.edges)
    return plain


WRITERS: dict[str, Callable[[nx.Graph[Any], Path], None]] = {
    "net.graphml": nx.write_graphml,
    "net.gml": nx.write_gml,
    "net.gexf": nx.write_gexf,
    "net.json": node_link,
    "cytoscape.json": cytoscape,
    "net.adjlist": lambda graph, path: nx.write_adjlist(graph, path, delimiter=","),
    "list.txt": lambda graph, path: nx.write_adjlist(graph, path, delimiter=","),
    "multiline.txt": nx.write_multiline_adjlist,
    "net.csv": lambda graph, path: nx.write_edgelist(graph, path, delimiter=",", data=False),
    "net.edgelist": nx.write_edgelist,
    "net.net": nx.write_pajek,
    "weights.edges": lambda graph, path: nx.write_weighted_edgelist(graph, path, delimiter="\t"),
}
MATRICES: dict[str, Callable[[nx.Graph[Any], Path], None]] = {
    "net.mtx": market,
    "sparse.npz": lambda graph, path: scipy.sparse.save_npz(path, nx.to_scipy_sparse_array(graph, nodelist=range(34))),
    "dense.npz": lambda graph, path: np.savez(path, adjacency=nx.to_numpy_array(graph, nodelist=range(34))),
    "net.mat": lambda graph, path: scipy.io.savemat(
        path, {"A": nx.to_numpy_array(graph, nodelist=range(34)), "xy": np.zeros((34, 2)), "Fs": 8.0}
    ),
    "sparse.mat": lambda graph, path: scipy.io.savemat(
        path, {"A": scipy.sparse.csc_matrix(nx.to_scipy_sparse_array(graph, nodelist=range(34)))}
    ),
    "net.g6": lambda graph, path: nx.write_graph6(ordered(graph), path),
    "headless.g6": lambda graph, path: nx.write_graph6(ordered(graph), path, header=False),
    "net.s6": lambda graph, path: nx.write_sparse6(ordered(graph), path),
    "net.npy": lambda graph, path: np.save(path, nx.to_numpy_array(graph, nodelist=range(34))),
    "matrix.txt": lambda graph, path: np.savetxt(path, nx.to_numpy_array(graph, nodelist=range(34))),
    "zeros.csv": lambda graph, path: np.savetxt(
        path, nx.to_numpy_array(graph, nodelist=range(34), weight=None), fmt="%d", delimiter=","
    ),
    "list.txt": nx.write_adjlist,
}


@pytest.mark.parametrize("codes", [0, 1, 15], ids=["families", "a code among them", "codes with zeros in front"])
@pytest.mark.parametrize("name", WRITERS)
def test_names_come_out_of_every_format_as_they_went_in(tmp_path: Path, name: str, codes: int) -> None:
    graph, path = nx.florentine_families_graph(), tmp_path / name
    graph = nx.relabel_nodes(graph, {family: f"{place:05}" for place, family in enumerate([*graph][:codes])})
    nx.set_edge_attributes(graph, 2.5, "weight")
    WRITERS[name](graph, path)
    network = Adjacency.of(read_graph(path))
    assert network.names == sorted(graph)
    names = dict(enumerate(network.names or []))
    assert {frozenset((names[i], names[j])) for i, j in network.graph.edges} == set(map(frozenset, graph.edges))


@pytest.mark.parametrize("name", [*MATRICES, *(name for name in WRITERS if name != "list.txt")])
def test_numbers_come_out_of_every_format_as_they_went_in(tmp_path: Path, name: str) -> None:
    graph, path = nx.karate_club_graph(), tmp_path / name
    (WRITERS | MATRICES)[name](graph, path)
    network = read_graph(path)
    assert list(network.nodes) == list(range(34)) and edges(network) == edges(graph)


def compressed(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


@pytest.mark.parametrize("name", ["dense.npz", "list.txt"])
def test_a_compressed_file_is_read_as_what_is_in_it(tmp_path: Path, name: str) -> None:
    MATRICES[name](nx.karate_club_graph(), tmp_path / name)
    assert edges(read_graph(compressed(tmp_path / name))) == edges(nx.karate_club_graph())


def test_what_is_not_compressed_is_refused(tmp_path: Path) -> None:
    assert "not compressed with gzip" in refusal(written(tmp_path, "net.txt.gz", "0 1\n"))
    cut = compressed(written(tmp_path, "net.txt", "0 1\n" * 400))
    cut.write_bytes(cut.read_bytes()[:-9])
    assert "not compressed with gzip" in refusal(cut)


YED = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
<key for="node" id="d6" yfiles.type="nodegraphics"/><graph edgedefault="undirected" id="G">
<node id="n0"><data key="d6"><y:ShapeNode><y:Geometry height="30.0" width="30.0" x="5.0" y="1.5"/>
<y:NodeLabel>South\nroof</y:NodeLabel><y:Shape type="rectangle"/></y:ShapeNode></data></node>
<node id="n1"><data key="d6"><y:ShapeNode><y:Geometry height="30.0" width="30.0" x="-2.0" y="0.0"/>
<y:NodeLabel>North &lt;hall&gt; &amp; co</y:NodeLabel><y:Shape type="rectangle"/></y:ShapeNode></data></node>
<edge id="e0" source="n0" target="n1"/></graph></graphml>"""
GEPHI = """<?xml version='1.0' encoding='UTF-8'?>
<gexf xmlns="http://gexf.net/1.3" version="1.3" xmlns:viz="http://gexf.net/1.3/viz">
<graph defaultedgetype="undirected" mode="static"><nodes>
<node id="0" label="Myriel"><viz:size value="10.0"/><viz:position x="-2.5" y="3.5" z="0.0"/></node>
<node id="1" label="Napoleon"><viz:position x="4.0" y="0.5"/></node>
</nodes><edges><edge id="0" source="0" target="1" weight="2.0"/></edges></graph></gexf>"""


def test_the_files_of_yed_and_gephi_have_labels_and_places(tmp_path: Path) -> None:
    drawn = Adjacency.of(read_graph(written(tmp_path, "yed.graphml", YED)))
    assert drawn.names == ["North <hall> & co", "South roof"]
    assert drawn.positions is not None and drawn.positions.tolist() == [[-2.0, 0.0], [5.0, 1.5]]
    found = Adjacency.of(read_graph(written(tmp_path, "gephi.gexf", GEPHI)))
    assert found.names == ["Myriel", "Napoleon"] and found.labels.tolist() == [0, 1]
    assert found.positions is not None and found.positions.tolist() == [[-2.5, 3.5], [4.0, 0.5]]


# --- lists that might be something else


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0: 1 2\n1: 2\n2:\n", {(0, 1), (0, 2), (1, 2)}),
        ("0 1 3\n1 0 2\n2 1 3\n3 0 2\n", {(0, 1), (1, 2), (2, 3), (0, 3)}),
        ("0 1 2 3\n1\n2\n3\n", {(0, 1), (0, 2), (0, 3)}),
        ("0 1 5\n1 2 3\n2 3 7\n", {(0, 1), (1, 2), (2, 3)}),
        ("0 1 .5\n0 2\n", {(0, 1), (0, 2)}),
        ("0;1;0,5\n1;2;0,25\n", {(0, 1), (1, 2)}),
        ("0 1 0,5\n1 2 0,25\n", {(0, 1), (1, 2)}),
        ("% of KONECT\n1 2\n2 3\n", {(1, 2), (2, 3)}),
        ("id,source,target\n7,0,1\n8,1,2\n", {(0, 1), (1, 2)}),
        ("0 1 0\n1 0 1\n0 1 0\n", {(0, 1), (1, 2)}),
        ("0 1 2 9\n3 4 5 9\n", None),
        ("0 1 2 3\n", None),
        ("0 1 2\n1 2 3\n2 3 0\n3 0 1\n", None),
        ("0 1 2\n0 3\n3 4\n", None),
        ("a b c\nb d\n12 e f\n", None),
    ],
)
def test_kinds_of_lists_are_distinguished_or_refused(
    tmp_path: Path, text: str, wanted: set[tuple[int, int]] | None
) -> None:
    path = written(tmp_path, "net.txt", text)
    if wanted is not None:
        assert edges(read_graph(path)) == wanted
        return
    message = refusal(path)
    assert 'format = "edge list" or format = "adjacency list"' in message
    listed = read_graph(path, "adjacency list")
    assert edges(read_graph(path, "edge list")) != edges(listed) and len(listed) >= 4


@pytest.mark.parametrize(
    ("text", "names", "pairs"),
    [
        ('"New York" "San José"\n"San José" Łódź\n', ["New York", "San José", "Łódź"], {(0, 1), (1, 2)}),
        ("from,to\nNew York,San José\nSan José,Łódź\n", ["New York", "San José", "Łódź"], {(0, 1), (1, 2)}),
        (",a,b,c\na,0,1,0\nb,1,0,1\nc,0,1,0\n", ["a", "b", "c"], {(0, 1), (1, 2)}),
        ("-1 0\n0 x\n", ["-1", "0", "x"], {(0, 1), (1, 2)}),
        ("a b\nb 12\n12 c\n", ["12", "a", "b", "c"], {(0, 2), (0, 3), (1, 2)}),
        ("a b\nc 12\nd c\n", ["12", "a", "b", "c", "d"], {(0, 3), (1, 2), (3, 4)}),
    ],
)
def test_names_in_lists(tmp_path: Path, text: str, names: list[str], pairs: set[tuple[int, int]]) -> None:
    network = Adjacency.of(read_graph(written(tmp_path, "net.txt", text)))
    assert network.names == names and edges(network.graph) == pairs


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("net.gml", "graph [ node [ id 0 ", "not readable as GML"),
        ("net.gexf", "<gexf>", "not readable as GEXF"),
        ("net.json", "[1, 2]", "not readable as node-link JSON"),
        ("net.json", '{"edges": []}', "it holds neither nodes nor adjacency but edges"),
        ("net.mtx", "0 1\n", "not readable as Matrix Market"),
        ("net.npz", "0 1\n", "not readable as npz"),
        ("net.npy", "0 1\n", "not readable as npy"),
        ("net.mat", "0 1\n", "not readable as MATLAB"),
        ("net.net", "0 1\n", "line 1, '0 1': it stands in none of the sections"),
        ("net.g6", "0 1\n", "not readable as graph6"),
        ("net.s6", "", "not readable as graph6"),
        ("net.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 2 1.0\n", "this one is 2 x 3"),
    ],
)
def test_other_contents_than_the_suffix_says_are_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    assert words in refusal(written(tmp_path, name, text))


def test_a_format_is_one_of_those_there_are() -> None:
    with pytest.raises(ValueError, match="format = 'pickle' must be one of auto, edge list"):
        File(Path("net"), "pickle")  # type: ignore[arg-type]
    assert File(Path("net"), "edge list").format == "edge list"


def test_places_in_pajek_files_are_positions(tmp_path: Path) -> None:
    text = '*Vertices 3\n1 "a" 0.1 0.2 box\n2 "b" 0.3 0.9 box\n3 "c" 0.5 0.5 box\n*Edges\n1 2 4\n2 3 1\n'
    network = Adjacency.of(read_graph(written(tmp_path, "net.net", text)))
    assert network.names == ["a", "b", "c"] and edges(network.graph) == {(0, 1), (1, 2)}
    np.testing.assert_array_equal(network.positions, [[0.1, 0.2], [0.3, 0.9], [0.5, 0.5]])


def test_a_matlab_file_of_two_matrices_is_refused(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "net.mat", {"A": np.eye(3), "W": np.ones((4, 4))})
    assert "it holds 2 square arrays of A, W" in refusal(tmp_path / "net.mat")


# --- projects, pairs, and what is no file


PROJECT = """*Network trade
*Vertices 3
1 "a"
2 "b"
3 "c"
*Edges
1 2
2 3

*Partition of continents
*Vertices 3
1
1
2
"""


def test_the_network_of_a_project_is_read(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, "trade.paj", PROJECT))
    assert edges(graph) == {(0, 1), (1, 2)}
    assert "it holds 2 networks" in refusal(written(tmp_path, "two.paj", PROJECT + PROJECT))


@pytest.mark.parametrize("many", [2, 3, 7])
@pytest.mark.parametrize("called", ["edge_index", "edges"])
def test_arrays_of_pairs_are_edges_both_ways_up(tmp_path: Path, many: int, called: str) -> None:
    pairs = np.array([(k, k + 1) for k in range(many)])
    forms = [pairs.T] if many > 2 or called == "edge_index" else [pairs]
    if many > 2:
        forms.append(pairs)
    for form in forms:
        np.savez(tmp_path / "net.npz", **{called: form})
        assert edges(read_graph(tmp_path / "net.npz")) == set(map(tuple, pairs.tolist()))


def test_addresses_and_folders_are_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "net.graphml").mkdir()
    assert "Is a directory: name a file in it" in refusal(tmp_path / "net.graphml")
    with pytest.raises(ValueError, match="download the file, and give its path"):
        read_graph("https://example.org/net.graphml")
