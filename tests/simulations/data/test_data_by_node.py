"""What each node has measured, in a dict or a list, is the same as all rows together with the names of their nodes."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest
from pandas import DataFrame

from kernelswarm import InputError, build_experiment, compare, simulate

RANDOM = np.random.default_rng(7)
NAMES = ("ben", "amy", "cid")
OWN = {
    name: (points := RANDOM.uniform(size=(30 + 5 * place, 2)), np.sin(4.0 * points[:, 0]) + points[:, 1])
    for place, name in enumerate(NAMES)
}
X, Y = (np.concatenate([pair[place] for pair in OWN.values()]) for place in (0, 1))
NODE = np.repeat(NAMES, [len(y) for _, y in OWN.values()])
KEYS: dict[str, Any] = {"learner": "polk", "protocol": "consensus", "rounds": 20}
NAMED = nx.relabel_nodes(nx.cycle_graph(3), dict(enumerate(NAMES)))


def digest(data: Any, topology: Any = NAMED, **keys: Any) -> str:
    found: str = simulate(topology=topology, data=data, **{**KEYS, **keys}).summary["digest"]
    return found


def frame(x: Any, y: Any, **more: Any) -> dict[str, Any]:
    return {"a": x[:, 0], "b": x[:, 1], "y": y, **more}


def test_pairs_in_a_list_are_those_of_the_nodes_in_their_order() -> None:
    numbers = np.repeat([0, 1, 2], [len(y) for _, y in OWN.values()])
    assert digest(list(OWN.values()), nx.path_graph(3)) == digest((X, Y, numbers), nx.path_graph(3))
    two = list(OWN.values())[:2]
    assert digest(two, nx.path_graph(2)) == digest((X[:65], Y[:65], numbers[:65]), nx.path_graph(2))


@pytest.mark.parametrize("kind", [dict, pyarrow.table])
def test_frames_by_name_are_one_frame_with_a_column_of_nodes(kind: Any) -> None:
    frames = {name: kind(frame(x, y)) for name, (x, y) in OWN.items()}
    assert digest(frames, target="y") == digest(kind(frame(X, Y, node=NODE)), target="y", node="node")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": (X, Y), "b": (X[:, :1], Y)}, 'X of node "a" has 2 columns and that of "b" 1 column: give all nodes the'),
        ({"a": (X, Y), "b": (X, np.c_[Y, Y])}, 'y of node "a" has 1 column and that of "b" 2 columns'),
        ({"a": (X, Y), "b": (X, Y[:-1])}, 'node "b" has 105 rows of X and 104 of y: give as many'),
        ({"a": frame(X, Y), "b": {"a": X[:, 0], "y": Y}}, 'only some nodes have the column "b"'),
        ({"a": frame(X, Y, node=NODE), "b": frame(X, Y)}, 'data."a". has a column node, and the dict names the nodes'),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_node(data: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_experiment(topology="ring", data=data, target="y" if isinstance(data["a"], dict) else None, **KEYS)


def test_a_comparison_takes_keywords_and_arrays_of_values() -> None:
    keywords = {"topology": NAMED, "data": OWN, **KEYS}
    values = np.array([0.1, 0.3])
    found = compare(keywords, {"learner.step_size": values}, jobs=1)
    again = compare(build_experiment(**keywords), {"learner.step_size": values.tolist()}, jobs=1)
    assert [run.final["risk"] for run in found.runs] == [run.final["risk"] for run in again.runs]
    assert len(compare(keywords, {"learner.batch_size": range(1, 3)}, jobs=1).cells) == 2
    with pytest.raises(InputError, match="the experiment is a str and must be an Experiment"):
        compare("mine.toml", {"learner.step_size": [0.1]})  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["ring", {"name": "complete"}, {"name": "ring", "schedule": {"name": "gossip"}}])
def test_a_family_without_a_size_has_the_nodes_of_the_data(family: Any) -> None:
    table = {"name": family} if isinstance(family, str) else family
    for data in (OWN, (X, Y, NODE), {**frame(X, Y), "node": NODE}):
        keys = {**KEYS, **({"target": "y"} if isinstance(data, dict) and "y" in data else {})}
        found = build_experiment(topology=family, data=data, **keys)
        assert found == build_experiment(topology={**table, "nodes": 3}, data=data, **keys)
    assert build_experiment(topology=family, data=(X, Y), **KEYS).topology.nodes == 20  # type: ignore[union-attr]


def test_a_level_of_an_index_that_is_asked_for_is_a_column() -> None:
    # The times, which are not asked for, are no inputs.
    indexed = DataFrame({**frame(X, Y, node=NODE), "time": np.arange(len(Y))}).set_index(["node", "time"])
    assert digest(indexed, target="y", node="node") == digest(frame(X, Y, node=NODE), target="y", node="node")
