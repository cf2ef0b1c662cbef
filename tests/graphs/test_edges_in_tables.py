"""Edges as tables of other programs have them: names of columns, numbers of lines, encodings."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pytest

from kernelswarm.graphs.files import File, read_graph
from kernelswarm.graphs.given.from_python import graph_of

STATIONS = {("Speyer", "Worms"), ("Worms", "Mainz"), ("Mainz", "Köln")}


def pairs(path: Path) -> set[frozenset[str]]:
    graph = read_graph(path)
    names = graph.nodes(data="name")
    return {frozenset((str(names[i]), str(names[j]))) for i, j in graph.edges}


def table(header: str, line: str) -> str:
    return "\n".join([header, *(line.format(k, *edge) for k, edge in enumerate(sorted(STATIONS), start=1))]) + "\n"


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("FID,FROM_NODE,TO_NODE,LENGTH_M", "{0},{1},{2},5500.0"),
        ("OBJECTID,Shape_Leng,FromNode,ToNode", "{0},77.5,{1},{2}"),
        ("FNODE_,TNODE_,LPOLY_", "{1},{2},{0}"),
        ("length_km;from_station;to_station", "5{0},2;{1};{2}"),
        ("from_km,to_km,upstream_gauge,downstream_gauge", "{0},9,{1},{2}"),
        ("FID,Anfang,Ende,WKT", '{0},{1},{2},"LINESTRING (8.0 49.0, 8.1 49.1)"'),
        (",a,b,km", "{0},{1},{2},5.5"),
        ("Anfang;Ende;km", "{1};{2};5{0},2"),
    ],
)
def test_the_ends_are_found_beside_other_columns(tmp_path: Path, header: str, line: str) -> None:
    (tmp_path / "river.csv").write_text(table(header, line), encoding="utf-8")
    assert pairs(tmp_path / "river.csv") == {frozenset(edge) for edge in STATIONS}


def test_a_node_and_the_one_below_it_are_no_number_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "river.csv").write_text("id,below,km\n1,2,5.5\n2,3,8.1\n3,4,2.5\n", encoding="utf-8")
    graph = read_graph(tmp_path / "river.csv")
    assert sorted(map(sorted, graph.edges)) == [[1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-32", "utf-8-sig"])
def test_a_table_in_another_encoding_is_read_and_what_is_guessed_is_said(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "river.csv").write_text(table("from;to", "{1};{2}"), encoding=encoding)
    if encoding == "cp1252":
        with pytest.warns(UserWarning, match="not in UTF-8: read as cp1252"):
            found = pairs(tmp_path / "river.csv")
    else:
        found = pairs(tmp_path / "river.csv")
    assert found == {frozenset(edge) for edge in STATIONS}


@pytest.mark.parametrize("suffix", [".graphml", ".gexf"])
def test_xml_is_read_in_the_encoding_that_it_declares(tmp_path: Path, suffix: str) -> None:
    kind = '<graph edgedefault="undirected">'
    ends = '<edges><edge id="0" source="Köln" target="Århus"/></edges>' if suffix == ".gexf" else ""
    nodes = "<nodes><node id='Köln' label='Köln'/><node id='Århus' label='Århus'/></nodes>" if ends else ""
    body = f"<gexf xmlns='http://www.gexf.net/1.2draft'>{kind.replace('edgedefault', 'defaultedgetype')}{nodes}{ends}"
    if suffix == ".graphml":
        body = f"<graphml xmlns='http://graphml.graphdrawing.org/xmlns'>{kind}<node id='Köln'/><node id='Århus'/>"
        body += "<edge source='Köln' target='Århus'/>"
    text = f'<?xml version="1.0" encoding="ISO-8859-1"?>{body}</graph></{suffix[1:]}>'
    (tmp_path / f"net{suffix}").write_text(text, encoding="latin-1")
    assert pairs(tmp_path / f"net{suffix}") == {frozenset(("Köln", "Århus"))}


def test_records_in_json_are_edges(tmp_path: Path) -> None:
    records = [{"from_station": one, "to_station": other, "km": 3.0} for one, other in sorted(STATIONS)]
    (tmp_path / "river.json").write_text(json.dumps(records), encoding="utf-8")
    assert pairs(tmp_path / "river.json") == {frozenset(edge) for edge in STATIONS}
    (tmp_path / "none.json").write_text('[{"a": 1, "b": 2, "c": 3}]', encoding="utf-8")
    with pytest.raises(ValueError, match="the columns a, b, c, and none of them says where edges begin and end"):
        read_graph(tmp_path / "none.json")


def test_a_frame_says_its_ends_in_the_same_words() -> None:
    frame = pyarrow.table({"km": [1.0], "FROM_NODE": ["Speyer"], "TO_NODE": ["Worms"]})
    graph = graph_of(frame)
    assert graph is not None and list(graph.edges) == [("Speyer", "Worms")]
    graph = graph_of(frame.append_column("Type", [["Directed"]]))
    assert graph is not None and graph.is_directed() and list(graph.edges) == [("Speyer", "Worms")]


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".feather"])
def test_tables_of_other_kinds_are_refused_with_what_to_save_them_as(suffix: str) -> None:
    with pytest.raises(ValueError, match=r"save its edges as \.csv, with the columns source and target"):
        File(Path(f"edges{suffix}"))
