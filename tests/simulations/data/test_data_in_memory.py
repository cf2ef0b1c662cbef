"""Data in memory are the equals of the same rows in a file, whichever of Python's objects they come in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import polars
import pytest
from pandas import DataFrame, Series

from kernelswarm import Experiment, InputError, build_experiment, compare, read_run, resume, run, simulate
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.in_memory import from_python

RANDOM = np.random.default_rng(5)
X = RANDOM.uniform(size=(160, 2))
Y = np.sin(4.0 * X[:, 0]) + X[:, 1]
OWNERS = np.array(["north", "east", "south", "west"])[RANDOM.integers(4, size=160)]
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "y": Y, "node": OWNERS}
KEYS: dict[str, Any] = {
    "topology": nx.cycle_graph(4),
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.4}, "step_size": 0.3},
    "protocol": "proximity",
    "rounds": 24,
    "evaluate_every": 8,
}


def digest(**keys: Any) -> str:
    found: str = simulate(**{**KEYS, **keys}).summary["digest"]
    return found


def file_of(path: Path, **keys: Any) -> str:
    return digest(stream={"name": "file", "path": path, **keys})


def test_arrays_with_nodes_and_test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=X[:120], y=Y[:120], node=OWNERS[:120], x_test=X[120:], y_test=Y[120:], node_test=OWNERS[120:])
    given = digest(data=(X[:120], Y[:120], OWNERS[:120]), test=(X[120:], Y[120:], OWNERS[120:]))
    assert given == file_of(path) == digest(data=dict(np.load(path)))
    assert given == digest(data=(X[:120], Y[:120], OWNERS[:120].tolist()), test=(X[120:], Y[120:], OWNERS[120:]))


@pytest.mark.parametrize("data", [COLUMNS, (X, Y, OWNERS)], ids=["frame", "arrays"])
def test_nodes_of_the_data_can_be_ignored(data: Any) -> None:
    features = {"features": ["a", "b"]} if data is COLUMNS else {}
    assert digest(data=data, stream={"node_column": "", **features}) == digest(data=(X, Y)) != digest(data=data)
    with pytest.raises(InputError, match=r"stream\.node_column = .* stands beside data, which decide it"):
        digest(data=COLUMNS, node="node", stream={"node_column": ""})


def rows_of(data: Any) -> list[Any]:
    held, keys = from_python(data)
    rows, _ = File("", **keys).holding(held).read()
    assert rows.ids is not None
    return [rows.points.tolist(), rows.targets.tolist(), rows.ids.tolist()]


def test_a_frame_beside_a_series_keeps_their_names() -> None:
    held, keys = from_python((DataFrame({"a": X[:, 0], 7: X[:, 1]}), Series(Y, name="price"), OWNERS))
    rows, _ = File("", **keys).holding(held).read()
    assert rows.columns == ("a", "7") and rows.target_columns == ("price",)


def test_rows_of_one_index_belong_together_whatever_their_order() -> None:
    index, turned = range(3, 163), np.random.default_rng(0).permutation(160)
    frame, target = DataFrame({"a": X[:, 0], "b": X[:, 1]}, index), Series(Y[turned], turned + 3, name="y")
    owners = Series(OWNERS[turned], turned + 3, name="node")
    expected = rows_of((X, Y, OWNERS))
    assert rows_of((frame, target, owners)) == expected
    assert rows_of({"a": frame["a"], "b": X[:, 1], "y": target, "node": owners}) == expected
    assert rows_of((frame, polars.Series("y", Y), OWNERS)) == expected  # without an index
    assert rows_of((X, Series(Y, index, name="y"), owners)) == expected
    for labels, message in (
        (range(160), "160 labels and 160, of which only the former has 160: give both the same labels, each once"),
        ([*range(3, 162), 3], "160 labels and 160, of which only the former has 162"),
        ([*range(3, 163), 3], "160 labels and 161, some of which occur more than once"),
    ):
        spoiled = Series(np.resize(Y, len(labels)), list(labels), name="y")
        with pytest.raises(InputError, match=f'data: the indices of "a" and "y" differ, {message}'):
            digest(data=(frame, spoiled))
    with pytest.raises(InputError, match='test: the indices of "a" and "y" differ'):
        digest(data=(frame, Y), test=(frame, spoiled))


def test_changes_keep_the_data() -> None:
    experiment = build_experiment(data=(X, Y), **KEYS)
    changed = experiment.with_changes({"stream.standardize": True, "protocol.name": "consensus"})
    assert simulate(changed).summary["digest"] == digest(
        data=(X, Y), stream={"standardize": True}, protocol="consensus"
    )
    comparison = compare(experiment, {"protocol.name": ["isolated", "proximity"]}, jobs=1)
    assert [found.digest for found in comparison.runs] == [
        digest(data=(X, Y), protocol=name) for name in ("isolated", "proximity")
    ]


@pytest.mark.parametrize("data", [(X, Y), COLUMNS], ids=["arrays", "frame"])
def test_a_run_folder_holds_the_data_and_goes_on_wherever_it_lies(tmp_path: Path, data: Any) -> None:
    whole = simulate(**{**KEYS, "rounds": 30}, data=data)
    folder = run(folder=tmp_path / "run", data=data, checkpoint_every=8, **KEYS).folder
    folder = folder.rename(tmp_path / "moved")
    longer = resume(folder, ["rounds=30"]).result
    assert longer.summary["digest"] == whole.summary["digest"]
    again = simulate(Experiment.from_file(folder / "config.toml"))
    assert again.summary["digest"] == whole.summary["digest"]
    assert read_run(folder).config["stream"]["contents"] == whole.config["stream"]["contents"]


def test_a_run_folder_whose_data_have_changed_is_refused(tmp_path: Path) -> None:
    folder = run(folder=tmp_path / "run", data=(X, Y), checkpoint_every=8, **KEYS).folder
    np.savez(folder / "rows.npz", x=X, y=Y + 1.0)
    with pytest.raises(InputError, match=r"stream\.contents = .* is not what the run folder .* holds"):
        resume(folder, ["rounds=30"])
    with pytest.raises(InputError, match=r"stream\.contents = .* is not what path = .* holds"):
        simulate(Experiment.from_file(folder / "config.toml"))
    (folder / "rows.npz").unlink()
    with pytest.raises(InputError, match=r"rows\.npz\" does not exist, and its data lay in memory .* give them again"):
        resume(folder, ["rounds=30"])


def test_a_config_without_its_data_is_refused_with_what_they_were() -> None:
    result = simulate(**KEYS, data=(X, Y))
    assert result.model(0).predict(X[:3]).shape == (3,)  # a model needs no data
    with pytest.raises(InputError, match=r"stream\.path = .*lay in memory .*160 rows, 3 columns.*give them again"):
        simulate(Experiment.from_dict({**result.config, "topology": KEYS["topology"]}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"data": X}, "data is a ndarray and must be arrays (X, y)"),
        ({"data": (X,)}, "data has 1 entries and must be"),
        ({"data": (X[:, 0], Y)}, "data: x has shape (160,); it must be (rows, inputs)"),
        ({"data": ([[1.0], [1.0, 2.0]], [0.0, 1.0])}, "data: x is no array"),
        ({"data": (np.full((160, 2), None), Y)}, 'data: row 1, column "x[:, 0]" is missing'),
        ({"data": (None, None)}, "data: x has type object; it must hold real numbers"),
        ({"data": (np.ma.masked_less(X, 0.1), Y)}, 'column "x[:, 0]" is missing (rows count from 0), one of'),
        ({"data": {"a": Y, "y": Y[:3]}}, 'data: column "y" has 3 rows and "a" 160: give all columns the same rows'),
        ({"data": {}}, "data has no columns"),
        ({"data": COLUMNS, "target": 3.0}, "target is a float and must be the name of a column"),
        ({"data": (X, Y), "target": "y"}, 'target = "y" names a column, and arrays have none'),
        ({"data": COLUMNS, "target": "z"}, 'target = "z" is not a column of data: use one of a, b, y, node'),
        ({"data": COLUMNS, "node": "owner"}, 'node = "owner" is not a column of data'),
        ({"data": {**COLUMNS, "a": ["?", *X[1:, 0]]}}, 'data: row 1, column "a" is missing'),
        ({"data": (X, Y), "stream": "sine_regression"}, 'stream = "sine_regression" stands beside data'),
        ({"data": (X, Y), "stream": {"path": "a.npz"}}, 'stream.path = "a.npz" stands beside data'),
        ({"data": (X, Y), "stream": {"splt": "iid"}}, "stream.splt"),
        ({"target": "y"}, "target belongs to data, which is not given"),
        ({"data": (X, Y), "topolgy": "ring"}, "topolgy"),
        ({"experiment": build_experiment(data=(X, Y), **KEYS)}, "topology stands beside an experiment"),
        ({"experiment": {"rounds": 3}}, "the experiment is a dict and must be an Experiment"),
        ({"rounds": 0, "data": (X, Y)}, "rounds = 0 must be at least 1"),
    ],
)
def test_what_is_no_data_is_refused_by_value_rule_and_remedy(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        simulate(**{**KEYS, **keys})


@pytest.mark.parametrize("data", [(X, Y, OWNERS), COLUMNS], ids=["arrays", "frame"])
def test_a_graph_may_have_the_names_that_the_data_have(data: Any) -> None:
    towns = nx.Graph([("west", "north"), ("north", "east"), ("east", "south")])
    numbers = nx.Graph([(3, 1), (1, 0), (0, 2)])  # in the order of the alphabet
    assert digest(data=data, topology=towns) == digest(data=data, topology=numbers)
    with pytest.raises(InputError, match=r"the network alone has centre: leave"):
        digest(data=data, topology=nx.Graph([*towns.edges, ("centre", "east")]))
    with pytest.raises(InputError, match=r"network alone has centre, and the data alone have west: give both"):
        digest(data=data, topology=nx.relabel_nodes(towns, {"west": "centre"}))
    assert simulate(**{**KEYS, "data": (X, Y), "topology": towns}).node_names[0] == "east"  # whose rows are dealt
    numbered, texts = (X, Y, np.arange(160) % 4 + 8), nx.path_graph(["8", "9", "10", "11"])
    assert digest(data=numbered, topology=texts) == digest(data=numbered, topology=nx.path_graph([8, 9, 10, 11]))


def test_a_run_without_a_folder_is_refused() -> None:
    with pytest.raises(InputError, match="folder is missing: name the run folder"):
        run(data=(X, Y), **KEYS)


def test_directed_graphs_and_overrides_are_taken_as_keywords() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    result = simulate(**{**KEYS, "topology": graph}, data=(X, Y), node=[{"nodes": [1], "learner": {"step_size": 0.1}}])
    assert sorted(result.graph.edges) == [(0, 1), (0, 2), (1, 2)]
    assert result.config["node"][0]["nodes"] == [1]
