"""What programs write in other ways is understood where it means one thing only; the rest is refused with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pytest
from openpyxl import Workbook
from pyarrow import parquet

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command


def write_rows(names: Sequence[str], columns: str = "site;temp;y") -> None:
    random = np.random.default_rng(0)
    lines = [f"{name};{random.normal():.3f};{random.normal():.3f}" for _ in range(40) for name in names]
    Path("data.csv").write_text("\n".join([columns, *lines]).replace(".", ","), encoding="utf-8")


@pytest.mark.filterwarnings("ignore:data and network differ in zeros")
@pytest.mark.parametrize(
    ("rows", "graph", "words"),
    [
        (["A2", "007", "x"], "A2,7\n7,x\n", "007 is called 7 there"),
        (["A2", "7", "x"], "A2,007\n007,x\n", "7 is called 007 there"),
        (["Köln", "Århus", "x"], normalize("NFD", "Köln,Århus\nÅrhus,x\n"), "3 nodes\n"),
        (["001", "002", "010"], "1,2\n2,10\n", "001 is called 1, 002 is called 2, 010 is called 10 there"),
    ],
)
def test_a_name_is_found_as_another_program_writes_it(call: Command, rows: list[str], graph: str, words: str) -> None:
    write_rows(rows)
    Path("net.csv").write_text(graph, encoding="utf-8")
    answer = call("init", "--data", "data.csv", "--nodes", "site", "--network", "net.csv")
    assert (answer.code, answer.err) == (0, "") and words in answer.out
    assert call("check", "experiment.toml").code == 0
    network = open_network(Experiment.from_file("experiment.toml"))
    called = network.adjacency.names or network.adjacency.labels.tolist()
    middle = next(place for place, name in enumerate(called) if str(name).lstrip("0") == rows[1].lstrip("0"))
    degrees = dict(network.graph.degree)
    assert degrees[int(network.adjacency.labels[middle])] == 2  # the node in the middle of the path has its own rows


@pytest.mark.parametrize("graph", ["A2,7\n7,07\n", "A2,8\n8,x\n"])
def test_names_that_may_mean_two_nodes_or_none_are_refused(call: Command, graph: str) -> None:
    write_rows(["A2", "007", "x"])
    Path("net.csv").write_text(graph, encoding="utf-8")
    answer = call("init", "--data", "data.csv", "--nodes", "site", "--network", "net.csv")
    assert answer.code == 2 and "net.csv has no node" in answer.err and "its nodes are" in answer.err


def test_a_node_without_rows_is_found_beside_one_with_zeros(call: Command) -> None:
    write_rows(["A2", "007", "x"])
    Path("net.csv").write_text("A2,7\n7,x\nx,hub\n", encoding="utf-8")
    answer = call("init", "--data", "data.csv", "--nodes", "site", "--network", "net.csv")
    assert "hub has no rows" in answer.out and "; 007 is called 7 there" in answer.out
    with pytest.warns(UserWarning, match="differ in zeros in front of names: 007 is called 7 there"):
        result = simulate(Experiment.from_file("experiment.toml").with_changes({"rounds": 2}))
    assert sorted(map(str, result.node_names.values())) == ["007", "A2", "hub", "x"]


def test_what_init_warns_of_is_a_sentence_without_a_place_in_the_code(call: Command) -> None:
    write_rows(["a b", "c", "d"])
    Path("net.csv").write_text("from;to\na b;c\nc;a b\nc;d\nd;d\n", encoding="utf-8")
    answer = call("init", "--data", "data.csv", "--nodes", "site", "--network", "net.csv")
    assert answer.code == 0
    message = "the network has self loops at nodes ['d']: dropped, as an agent is not its own neighbor"
    assert answer.err == f"kernelswarm: warning: {message}\n"


def test_a_column_without_a_value_is_left_out_and_the_experiment_runs(call: Command) -> None:
    random = np.random.default_rng(0)
    table = {"a": random.normal(size=90), "empty": pa.nulls(90), "b c": random.normal(size=90)}
    parquet.write_table(pa.table({**table, "y": random.normal(size=90)}), "data.parquet")
    answer = call("init", "--data", "data.parquet")
    assert (answer.code, answer.err) == (0, "") and "2 inputs" in answer.out
    assert "without empty, which holds no value" in answer.out
    assert 'drop = ["empty"]' in Path("experiment.toml").read_text(encoding="utf-8")
    assert call("check", "experiment.toml").code == 0
    asked = call("init", "other.toml", "--data", "data.parquet", "--features", "a,empty")
    assert asked.code == 0 and call("check", "other.toml").err.endswith(
        'column "empty" has no value in any row that is learned from: leave it out with stream.drop\n'
    )


def test_a_workbook_with_sheets_says_how_one_is_named(call: Command) -> None:
    book = Workbook()
    assert book.active is not None
    book.active.append(["a", "y"])
    book.active.append([1.5, 2.5])
    book.create_sheet("notes").append(["none"])
    book.save("data.xlsx")
    answer = call("init", "--data", "data.xlsx")
    assert answer.code == 2 and "use one of Sheet, notes; the option is --set stream.sheet=NAME" in answer.err
