"""Files as data sets are published are read as they are meant, or refused with what to do."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from pyarrow import csv

from kernelswarm import InputError, simulate
from kernelswarm.graphs.files import read_graph
from tests.helpers.command_line import Command

SENSORS = [773869, 767541, 767542, 717447]
BEGIN = datetime(2012, 3, 1)
ROUND = [(0, 1), (1, 2), (2, 3), (3, 0)]


def readings(names: list[int]) -> list[str]:
    """Return the lines of METR-LA's readings: times, and a column for each sensor."""
    lines = [",".join(["", *map(str, names)])]
    for k in range(80):
        values = [f"{60 + 5 * math.sin(k / 9 + j):.2f}" for j in range(len(names))]
        lines.append(",".join([str(BEGIN + timedelta(minutes=5 * k)), *values]))
    return lines


def distances() -> str:
    """Return METR-LA's table of distances along roads."""
    pairs = [(SENSORS[i], SENSORS[j], 100.5 * (i + j)) for i, j in ROUND]
    return "from,to,cost\n" + "".join(f"{one},{other},{cost}\n" for one, other, cost in pairs)


def motes(short: bool = False) -> str:
    """Return readings of the Intel laboratory: date, time, epoch, mote, temperature, humidity; perhaps cut short."""
    lines = []
    for k in range(60):
        for mote in range(1, 5):
            at = BEGIN + timedelta(seconds=31 * k + mote)
            fields = [f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}.{k:06}", str(k), str(mote), f"{19 + mote + k / 60:.4f}", "38.2"]
            lines.append(" ".join(fields[:4] if short and k == 1 else fields))
    return "\n".join(lines) + "\n"


def test_a_table_with_a_column_for_each_node_of_the_network_is_refused(call: Command, tmp_path: Path) -> None:
    Path("wide.csv").write_text("\n".join(readings(SENSORS)))
    Path("net.csv").write_text(distances())
    answer = call("init", "--data", "wide.csv", "--target", str(SENSORS[0]), "--network", "net.csv")
    assert answer.code == 2 and 'the columns "767541", "767542", "717447", ... are called as nodes' in answer.err
    assert 'frame.melt("time", var_name="node", value_name="y")' in answer.err
    answer = call("init", "--data", "wide.csv")
    assert answer.code == 2 and "where each of them is a node, pandas' frame.melt" in answer.err
    frame = csv.read_csv("wide.csv").drop_columns([""])
    keys = {"learner": "polk", "protocol": "consensus", "rounds": 2}
    graph = nx.cycle_graph(SENSORS)
    with pytest.raises(InputError, match=r"stream: the columns .* are called as nodes of the network"):
        simulate(topology=graph, data=frame, target=str(SENSORS[0]), **keys)
    result = simulate(topology="ring", data=frame, target=str(SENSORS[0]), **keys)  # places are no names
    assert result.final["round"] == 2


def test_a_first_row_with_a_time_is_no_header(call: Command) -> None:
    Path("motes.txt").write_text(motes())
    answer = call("init", "--data", "motes.txt", "--target", "x5", "--nodes", "x4")
    assert (answer.code, answer.err) == (0, "") and "240 rows, 4 inputs, a regression, at 4 nodes" in answer.out
    dates = "station,2012-03-01,2012-03-02\n" + "".join(f"{k},{k + 0.5},{k % 7}\n" for k in range(40))
    Path("dates.csv").write_text(dates)
    answer = call("init", "dates.toml", "--data", "dates.csv", "--target", "2012-03-01")  # and these are names
    assert answer.code == 0 and "40 rows" in answer.out


def test_what_is_missing_between_blanks_is_refused_with_its_line(call: Command) -> None:
    Path("motes.txt").write_text(motes(short=True))
    answer = call("init", "--data", "motes.txt", "--target", "x5", "--nodes", "x4")
    assert (
        answer.code == 2
        and "has 6 fields with blanks between them, and 4 in another line, line 5 of the file" in answer.err
    )
    assert "write NA in its place, or leave such lines out" in answer.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 21.5 23\n2 24.5 20\n3 19.5 19\n", "has a node and its place, and no edge: give places"),
        ("c roads\np sp 3 2\na 1 2 30\na 2 3 30\n", "line 2, 'p sp 3 2', is of DIMACS' format, which is not read"),
        ("c FILE\np edge 3 2\ne 1 2\ne 2 3\n", "'p edge 3 2', is of DIMACS' format"),
        ("% a\n3 2\n2\n1 3\n2\n", "line 2, '3 2', counts the nodes and edges of METIS' format"),
    ],
    ids=["places", "DIMACS, roads", "DIMACS, colours", "METIS"],
)
def test_lines_of_another_kind_are_no_edges(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "net.txt").write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)):
        read_graph(tmp_path / "net.txt")


@pytest.mark.filterwarnings("ignore:the network has self loops")
@pytest.mark.parametrize(
    "text",
    [
        "# Undirected graph\n# FromNodeId\tToNodeId\n" + "".join(f"{i}\t{j}\n" for i, j in ROUND),
        "% sym positive\n% 4 4 4\n" + "".join(f"{i} {j} 2 1082040961\n" for i, j in ROUND),
        "".join(f"{i} {j} {0.25 + i:.6f}\n{j} {i} 0.125000\n" for i, j in ROUND),
        "4 4\n" + "".join(f"{i} {j}\n" for i, j in [*ROUND, (4, 0)]),  # a loop: five nodes
    ],
    ids=["SNAP", "KONECT", "probabilities", "edges that begin as METIS' do"],
)
def test_published_lists_of_edges_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "net.txt").write_text(text)
    found = {frozenset(edge) for edge in read_graph(tmp_path / "net.txt").edges}
    assert found >= set(map(frozenset, ROUND))


def test_a_file_of_another_ending_is_refused_with_what_to_be_called(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use one of .*\.txt for lines of edges, as in KONECT's out.NAME"):
        read_graph(tmp_path / "out.ucidata-zachary")


def test_an_array_of_edges_in_a_file_is_what_it_is_in_python(tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", np.array(ROUND))
    assert {frozenset(edge) for edge in read_graph(tmp_path / "edges.npy").edges} == set(map(frozenset, ROUND))
    np.save(tmp_path / "edges.npy", np.array(ROUND).T)
    with pytest.raises(ValueError, match="this one is 2 x 4: transpose edges, a pair in each row"):
        read_graph(tmp_path / "edges.npy")
