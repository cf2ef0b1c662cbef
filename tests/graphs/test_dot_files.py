"""Graphs in DOT are the networks that Graphviz draws."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.given.dot import DEEPEST, read_dot


def pairs(text: str) -> set[frozenset[str]]:
    return {frozenset(edge) for edge in read_dot(text).edges()}


def of(*edges: str) -> set[frozenset[str]]:
    return {frozenset(edge) for edge in edges}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("graph { a -- b -- c }", of("ab", "bc")),
        ("strict graph net{a--b;b--a\nb--c}", of("ab", "bc")),
        ('GRAPH{a--b[color=red,style="dotted"][penwidth=2];}', of("ab")),
        ("graph { a -- {b c}; d -- c }", of("ab", "ac", "dc")),
        ("graph { {a b} -- {c d} }", of("ac", "ad", "bc", "bd")),
        ('graph { subgraph cluster_1 { label="left"; a--b } subgraph { c--d } b--c }', of("ab", "bc", "cd")),
        ("graph { subgraph one { a--b } -- c }", of("ab", "ac", "bc")),
        ('graph { a:n -- b:south:e; rankdir=LR; node [shape=box]; graph [bgcolor="#fff"]; }', of("ab")),
        ("// one\n# two -- three\n/* four -- \n five */ graph { a -- b // c -- d\n # e -- f\n}", of("ab")),
        ('graph { a [label=<<b>x -- y</b> <i>z</i>>]; a -- b [label="b -- c"] }', of("ab")),
        ('graph { "a" + "" -- "b" }', of("ab")),
    ],
)
def test_statements_mean_what_the_language_says(text: str, wanted: set[frozenset[str]]) -> None:
    assert pairs(text) == wanted


def test_places_become_positions(tmp_path: Path) -> None:
    (tmp_path / "net.gv").write_text('graph { a [pos="1.5,2!"]; b [pos="3,4"]; c [pos="-1e1,.5"]; a -- b -- c }')
    network = Adjacency.of(read_graph(tmp_path / "net.gv"))
    assert network.positions is not None
    assert network.positions.tolist() == [[1.5, 2.0], [3.0, 4.0], [-10.0, 0.5]]


def test_numbers_are_the_nodes_and_parallel_edges_and_loops_go_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "net.dot.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfgraph { 3 -- 7; 7 -- 10; 7 -- 3; 10 -- 10 }"))
    with pytest.warns(UserWarning, match="parallel|loop") as caught:
        graph = read_graph(path)
    assert list(graph) == [3, 7, 10] and list(graph.edges) == [(3, 7), (7, 10)]
    assert len(caught) == 2
    path.write_bytes(gzip.compress(b"graph { 3 -- 7; 7 -- 10 }"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read_graph(path)) == [3, 7, 10]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'line 1: "graph" or "digraph" should stand where the end of the file is'),
        ("0 1\n1 2\n", 'line 1: "graph" or "digraph" should stand where \'0\' is'),
        ("graph {\n a --\n", "line 3: a name should stand where the end of the file is"),
        ("graph {\n a -> b }", 'line 2: "->" stands in a graph, whose edges are "--"'),
        ("digraph { a -- b }", 'line 1: "--" stands in a digraph, whose edges are "->"'),
        (
            "graph { a -- b }\ngraph { c }",
            "line 2: the end, since a file holds one network, should stand where 'graph'",
        ),
        ('graph { "a -- b }', "line 1: '\"a' is none of its words"),
        ("graph { a [label=<b> -- c }", "a name should stand where '--' is"),
        ("graph { a [label=<b -- c }", "line 1: the bracket < is not closed"),
        ("graph { a -- b; ] }", "line 1: a name should stand where ']' is"),
        ("graph " + "{" * (DEEPEST + 9), f"more than {DEEPEST} subgraphs inside one another"),
        ("graph { }", "graph has no nodes"),
    ],
)
def test_what_is_none_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "net.dot"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"net\.dot") as caught:
        read_graph(path)
    message = str(caught.value)
    assert words in message and "\n" not in message and ("write it with" in message or "add nodes" in message)


def test_every_cut_of_a_file_is_a_graph_or_refused() -> None:
    text = 'strict graph "n" { edge [w=1]; a:n -- {b "c\\"" + "d"} -- e [pos="1,2", l=<<i>x</i>>]; '
    text += "/* x */ subgraph s { f } }"
    read_dot(text)
    for end in range(len(text)):
        with pytest.raises(ValueError, match="line 1: "):
            read_dot(text[:end])
