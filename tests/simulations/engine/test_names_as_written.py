"""What names a node or a class is text as it is written, in data, in graphs and where one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import simulate
from kernelswarm.graphs.files import read_graph
from kernelswarm.simulations.core.errors import InputError, toml
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.estimators.estimators import PolkClassifier
from kernelswarm.simulations.experiment.experiment import Experiment

WRITTEN = [
    (["1E2", "100", "7"], ["1E2", "100", "7"]),
    (["007", "7", "8"], ["007", "7", "8"]),
    (["01646500", "1646500", "2100"], ["01646500", "1646500", "2100"]),
    (["7", "hall", "8"], ["7", "hall", "8"]),
    (["2021-01-01", "2021-01-02", "2021-01-03"], ["2021-01-01", "2021-01-02", "2021-01-03"]),
    (["12", "7", "-3"], [12, 7, -3]),
    (["7.0", "12.0", "8.0"], [7, 12, 8]),  # as pandas writes whole numbers of columns with gaps
    (["7.00e+00", "1.20e+01", "8.00e+00"], [7, 12, 8]),  # as numpy.savetxt does
]
TWICE = [["1", "1.0", "2"], ["7", "+7", "8"], ["0", "-0", "8"], ["7.0", "7.00", "8"]]


def write(folder: Path, form: str, names: Sequence[Any], called: str) -> Path:
    path = folder / f"t.{form}"
    rows = [(names[k % len(names)], k, 0.5 + k / 7) for k in range(12 * len(names))]
    head = (called, "x", "z")
    if form == "xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in (head, *rows):
            book.active.append(row)
        book.save(path)
    elif form == "json":
        path.write_text("\n".join(f'{{"{called}": {name}, "x": {k}, "z": {z}}}' for name, k, z in rows))
    else:
        mark = {"csv": ",", "tsv": "\t"}[form]
        path.write_text("\n".join(mark.join(map(str, row)) for row in (head, *rows)) + "\n")
    return path


def nodes(path: Path) -> list[Any]:
    ids = File(path, target="z").read()[0].ids
    assert ids is not None
    return list(dict.fromkeys(ids.tolist()))


def classes(path: Path) -> list[Any]:
    rows = File(path, task="classification").read()[0]
    return list(dict.fromkeys(rows.targets[:, 0].tolist()))


@pytest.mark.parametrize("form", ["csv", "tsv", "xlsx"])
@pytest.mark.parametrize(("written", "names"), WRITTEN)
def test_of_text_in_data(tmp_path: Path, form: str, written: list[str], names: list[Any]) -> None:
    assert nodes(write(tmp_path, form, written, "node")) == names
    assert classes(write(tmp_path, form, written, "y")) == names


@pytest.mark.parametrize(("written", "names"), WRITTEN)
def test_of_graphs_and_of_what_is_asked_for(tmp_path: Path, written: list[str], names: list[Any]) -> None:
    (tmp_path / "net.csv").write_text("".join(f"{one},{other}\n" for one, other in pairwise(written)))
    graph: nx.Graph[Any] = nx.path_graph(written)
    nx.write_graphml(graph, tmp_path / "net.graphml")
    for network in ("net.csv", "net.graphml"):
        found = read_graph(tmp_path / network)
        called = [found.nodes[node].get("name", node) for node in found]
        assert sorted(map(str, called)) == sorted(map(str, names))
    result = simulate(
        topology={"name": "file", "path": str(tmp_path / "net.csv")},
        stream={"name": "file", "path": str(write(tmp_path, "csv", written, "node")), "target": "z"},
        node=[{"nodes": written[:1], "learner": {"batch_size": 2}}],
        learner="polk",
        protocol="isolated",
        rounds=1,
    )
    assert [result.model(name).node for name in written] == names
    assert [result.model(name).node for name in names] == names


@pytest.mark.parametrize("written", TWICE)
def test_one_number_in_two_ways_is_refused(tmp_path: Path, written: list[str]) -> None:
    both = f'row 1 "{written[0]}" and row 2 "{written[1]}", which are the same number'.replace("+", r"\+")
    for form in ("csv", "tsv", "xlsx"):
        with pytest.raises(ValueError, match=both):
            nodes(write(tmp_path, form, written, "node"))
        with pytest.raises(ValueError, match=both):
            classes(write(tmp_path, form, written, "y"))
    (tmp_path / "net.csv").write_text(f"{written[0]},{written[2]}\n{written[1]},{written[2]}\n")
    with pytest.raises(ValueError, match="are the same number: write it in one way"):
        read_graph(tmp_path / "net.csv")


@pytest.mark.parametrize(
    ("form", "written", "names"),
    [
        ("json", ["1E2", "100", "7"], ["1E2", "100", "7"]),
        ("json", ["7.0", "12.0", "8.0"], [7, 12, 8]),
        ("json", ["7", "12", "8"], [7, 12, 8]),
        ("json", ['"007"', '"7"', '"8"'], ["007", "7", "8"]),
        ("json", ['"2021-01-01"', '"2021-01-02"', '"2021-01-03"'], ["2021-01-01", "2021-01-02", "2021-01-03"]),
        ("json", ["1", "1.0", "2"], "are the same number"),
        ("json", ["1", "2", '"1"'], 'row 3 holds "1" .text.'),
        ("xlsx", [7, 12.0, 8], [7, 12, 8]),
        ("xlsx", [100, "1E2", 7], ["100", "1E2", "7"]),
        ("xlsx", [7, "007", 8], ["7", "007", "8"]),
        ("xlsx", ["1.0", 1, 2], "are the same number"),
        ("csv", ["9007199254740993", "9007199254740992", "7"], [9007199254740993, 9007199254740992, 7]),
        ("csv", ["1.23457E+16", "2", "7"], "one of several whole numbers"),
        ("csv", ["99999999999999999999", "2", "7"], ["99999999999999999999", "2", "7"]),
    ],
)
def test_of_numbers_in_files(tmp_path: Path, form: str, written: list[Any], names: Any) -> None:
    for found, called in ((nodes, "node"), (classes, "y")):
        path = write(tmp_path, form, written, called)
        if isinstance(names, str):
            with pytest.raises(ValueError, match=names):
                found(path)
        elif not (called == "y" and len(str(written[0])) > 15):  # labels beyond 2^53 are refused later
            assert found(path) == names


def test_labels_are_given_back_as_they_were_written(tmp_path: Path) -> None:
    labels = ["1E2", "100", "7"]
    result = simulate(
        topology={"name": "ring", "nodes": 3},
        stream={"name": "file", "path": str(write(tmp_path, "csv", labels, "y")), "task": "classification"},
        learner={"name": "polk", "loss": "multiclass_logistic"},
        protocol="isolated",
        rounds=3,
    )
    model = result.model(0)
    assert model.classes is not None and model.classes.tolist() == ["100", "1E2", "7"]
    assert set(model.predict({"x": range(36), "z": range(36)}).tolist()) <= set(labels)


def test_names_in_memory_are_not_made_one(tmp_path: Path) -> None:
    x, y = np.zeros((4, 1)), [0.5, 1.5, 2.5, 3.5]
    for data in (
        (x, y, [1, "1", 2, 2]),
        (x, [1, "1", 2, 2]),
        {"x": x, "y": y, "node": [1, "1", 2, 2]},
        {1: (x, np.array(y)), "1": (x, np.array(y))},
        {"a": y, "y": y, "node": [1, "1", 2, 2]},
    ):
        with pytest.raises(ValueError, match=r'row 1 holds 1 and row 2 "1"'):
            from_python(data)
    held, _ = from_python({7.0: (x, np.array(y)), 8.0: (x, np.array(y))})  # as pandas groups by a column with gaps
    assert held.arrays["node"].tolist() == [7] * 4 + [8] * 4  # type: ignore[attr-defined]
    for labels in ([1, "1", 2, 2], [True, "a", "b", "b"]):
        with pytest.raises(InputError, match="y holds labels of several kinds"):
            PolkClassifier().fit(x, labels)
        with pytest.raises(InputError, match="y holds labels of several kinds"):
            PolkClassifier().fit(x, ["1", "a", "b", "2"]).partial_fit(x, labels)


def test_float_labels_of_a_graph_are_the_whole_numbers_that_they_equal() -> None:
    data = {"node": [1, 2, 3] * 8, "x": np.arange(24.0), "y": np.arange(24.0) / 7}
    for topology in (nx.Graph([(1.0, 2.0), (2.0, 3.0)]), [(1.0, 2.0), (2.0, 3.0)], {1.0: [2.0], 2.0: [3.0]}):
        result = simulate(data=data, topology=topology, learner="polk", protocol="isolated", rounds=1)
        assert [result.model(name).node for name in (1.0, "2", 3)] == [1, 2, 3]


def test_a_key_that_takes_a_name_says_that_digits_stand_in_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", ["7", "8"], "node")
    file = tmp_path / "e.toml"
    table = {"rounds": 1, "learner": "polk", "protocol": "isolated", "topology": {"name": "ring", "nodes": 2}}
    lines = [
        f"{key} = {toml(value)}" for key, value in (table | {"stream": {"name": "file", "path": str(path)}}).items()
    ]
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"stream\.target = 100\.0 must be .* stands in quotes, target = \"1E2\""):
        Experiment.from_file(file, ["stream.target=1E2"])
    found = Experiment.from_file(file, ['stream.target="1E2"', "stream.node_column=007"]).stream
    assert isinstance(found, File) and (found.target, found.node_column) == ("1E2", "007")
