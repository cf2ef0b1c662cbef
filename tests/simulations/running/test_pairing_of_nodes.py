"""The network's nodes and those of the data are paired by their names, or by places where one side has none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import InputError, build_experiment, read_run, resume, run, simulate
from kernelswarm.simulations.running.network import open_network

RANDOM = np.random.default_rng(8)
X = RANDOM.uniform(size=(240, 1))
OWNERS = np.arange(240) % 3
Y = np.sin(4.0 * X[:, 0]) + OWNERS  # each node has a function of its own
KEYS: dict[str, Any] = {
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.4}, "step_size": 0.3},
    "protocol": "consensus",
    "rounds": 20,
    "evaluate_every": 20,
}


def network(*names: Any) -> nx.Graph[Any]:
    """A path with its middle in the middle of the names as they are given."""
    return nx.path_graph(names)


def simulated(topology: Any, names: Any, **keys: Any) -> Any:
    return simulate(topology=topology, data=(X, Y, np.array(names)[OWNERS]), **{**KEYS, **keys})


def digest(topology: Any, names: Any, **keys: Any) -> str:
    found: str = simulated(topology, names, **keys).summary["digest"]
    return found


@pytest.mark.parametrize(
    ("names", "alone", "apart"),
    [([2, 3, 4], "1", "4"), (["2", "3", "4"], "1", "4"), (["a", "b", "c"], "1, 2, 3", "a, b, c")],
)
def test_other_nodes_are_refused_with_both_sides_and_the_remedy(names: list[Any], alone: str, apart: str) -> None:
    with pytest.raises(InputError, match="number the network's nodes from 0") as refused:
        simulated(network(1, 2, 3), names)
    message = str(refused.value)
    assert f"the network alone has {alone}, and the data alone have {apart}: give" in message
    assert message.count("\n") == 0


def test_equal_names_are_paired_as_numbers_or_as_text_in_whatever_order_they_sort() -> None:
    expected = digest(network(9, 10, 11), [9, 10, 11])
    result = simulated(network(9, 10, 11), ["9", "10", "11"])
    assert result.node_names == {9: "9", 10: "10", 11: "11"}
    assert result.summary["digest"] == expected  # in alphabetical order node 9 had the data of "10"
    for text in (["9", "10", "11"], ["09", "10", "11"], [9, 10, 11]):
        called = [str(name) for name in text]
        assert list(simulated(network(*called), text).node_names.values()) == text
    turned = digest(network(10, 9, 11), [9, 10, 11])
    assert turned != expected and turned == digest(network("10", "9", "11"), [9, 10, 11])


def test_places_are_no_names() -> None:
    for names in ([5, 6, 7], ["a", "b", "c"], [1, 2, 3]):
        ring = simulated({"name": "path", "nodes": 3}, names)
        assert ring.node_names == dict(enumerate(names))
        assert simulated(network(0, 1, 2), names).summary["digest"] == ring.summary["digest"]
    assert simulated(network(5, 6, 8), [0, 1, 2]).node_names == {5: 0, 6: 1, 8: 2}


@pytest.mark.parametrize(
    ("labels", "names", "wanted"),
    [
        (
            range(5),
            list("abcde"),
            "0 is a, 1 is b, 2 is c, ..., 4 is e: by place, the numbers and the alphabetical order",
        ),
        (range(4), [3, 5, 10, 20], "0 is 3, 1 is 5, 2 is 10, 3 is 20: by place, the numbers and the increasing order"),
        ((5, 6, 8), [0, 1, 2], "5 is 0, 6 is 1, 8 is 2: by place"),
        (range(3), [0, 1, 2], ""),
        ("abc", list("abc"), ""),
    ],
)
def test_a_check_and_a_run_say_which_names_numbers_are_paired_with_by_place(
    labels: Any, names: Any, wanted: str
) -> None:
    data = (X, Y, np.array(names)[np.arange(240) % len(names)])
    network = open_network(build_experiment(topology=nx.path_graph(list(labels)), data=data, **KEYS))
    assert str(network.source.facts.get("pairing_of_nodes", "")).startswith(wanted)
    assert ("pairing_of_nodes" in network.source.facts) == bool(wanted)


def test_names_that_a_graph_has_beside_its_numbers_are_compared(tmp_path: Path) -> None:
    graph = network("west", "east", "north")
    names = ["east", "north", "west"]
    expected = digest(graph, names)
    by_appearance = nx.convert_node_labels_to_integers(graph, label_attribute="label")
    with pytest.warns(UserWarning, match='in the order of the names that the data have: "east" is node 0 now, and was'):
        assert digest(by_appearance, names) == expected
    by_name = nx.convert_node_labels_to_integers(graph, ordering="sorted", label_attribute="label")
    assert digest(by_name, names) == expected
    nx.write_graphml(by_name, tmp_path / "towns.graphml")
    assert digest({"name": "file", "path": str(tmp_path / "towns.graphml")}, names) == expected
    with pytest.raises(InputError, match="the network alone has west, and the data alone have south: give both"):
        simulated(by_name, ["east", "north", "south"])
    nx.set_node_attributes(by_name, {0: "A", 1: "B", 2: "C"}, "label")  # words to be shown
    assert digest(by_name, names) == expected
    nx.set_node_attributes(by_name, "town", "label")
    assert digest(by_name, names) == expected


def test_overrides_name_nodes_as_the_data_do(tmp_path: Path) -> None:
    towns = {"topology": {"name": "path", "nodes": 3}, "names": ["a", "b", "c"]}
    own = {"kernel": {"bandwidth": 0.1}, "step_size": "auto"}
    expected = digest(**towns, node=[{"nodes": [1, 2], "learner": own}])
    assert expected != digest(**towns)
    result = simulated(**towns, node=[{"nodes": ["b", 2], "learner": own}])
    assert result.summary["digest"] == expected
    data = (X, Y, np.array(["a", "b", "c"])[OWNERS])
    keys = {**KEYS, "topology": towns["topology"], "data": data, "node": [{"nodes": ["b", "c"], "learner": own}]}
    for words in (own, {**own, "step_size": 0.2}):  # which become numbers, or are none
        keys["node"] = [{"nodes": ["b", "c"], "learner": words}]
        folder = run(folder=tmp_path / str(words["step_size"]), checkpoint_every=5, **keys).folder
        found = read_run(folder)
        assert found.config["node"][0]["nodes"] == ["b", "c"]
        assert [found.model(name).kernel.bandwidth for name in "ba"] == [0.1, 0.4]  # type: ignore[union-attr]
        longer = resume(folder, ["rounds=24"]).result
        assert longer.summary["digest"] == simulate(**{**keys, "rounds": 24}).summary["digest"]


def test_an_override_of_no_node_or_of_two_is_refused_by_name() -> None:
    own = {"step_size": 0.1}
    for nodes, message in (
        (["d"], 'node.nodes: there is no node "d": use one of a, b, c, or a label from 0 to 2'),
        (["bb"], 'did you mean "b"?'),
        ([3], "node.nodes: there is no node 3"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            simulated({"name": "path", "nodes": 3}, ["a", "b", "c"], node=[{"nodes": nodes, "learner": own}])
    numbers = {"topology": {"name": "path", "nodes": 3}, "names": [1, 2, 3]}
    with pytest.raises(InputError, match="node = 1 is the label of the node named 2 and the own name of the node with"):
        simulated(**numbers, node=[{"nodes": [1], "learner": own}])
    assert digest(**numbers, node=[{"nodes": ["1"], "learner": own}]) == digest(
        **numbers, node=[{"nodes": [0], "learner": own}]
    )
    with pytest.raises(InputError, match='there is no node "a"'):
        simulate(topology="ring", stream="sine_regression", node=[{"nodes": ["a"], "learner": own}], **KEYS)
