"""Graphs in the forms that Python has for them: matrices, edges, neighbours and frames."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest
import scipy.sparse

import kernelswarm as ks
from kernelswarm.graphs.given.from_python import graph_of
from kernelswarm.simulations.experiment.parts import describe

RUN: dict[str, Any] = {"stream": "sine_regression", "learner": "polk", "protocol": "consensus", "rounds": 3}
KARATE = nx.karate_club_graph()
MATRIX = nx.to_numpy_array(KARATE, nodelist=range(34), weight=None)
ENDS = np.array(KARATE.edges)


def edges(graph: nx.Graph[Any]) -> set[frozenset[Any]]:
    return set(map(frozenset, graph.edges))


@pytest.mark.parametrize(
    "given",
    [
        MATRIX,
        MATRIX.astype(bool),
        np.asmatrix(MATRIX),
        *(getattr(scipy.sparse, f"{kind}_array")(MATRIX) for kind in ("csr", "csc", "coo", "lil", "dok")),
        scipy.sparse.csr_matrix(MATRIX),
        list(KARATE.edges),
        [list(edge) for edge in KARATE.edges],
        ENDS,
        ENDS[::-1, ::-1],
        nx.to_dict_of_lists(KARATE),
        nx.to_dict_of_dicts(KARATE),
        {node: set(around) for node, around in KARATE.adjacency()},
        pyarrow.table({"weight": np.ones(len(ENDS)), "source": ENDS[:, 0], "target": ENDS[:, 1]}),
        pyarrow.table({"a": ENDS[:, 0], "b": ENDS[:, 1]}),
    ],
    ids=lambda given: f"{type(given).__module__.split('.')[0]}.{type(given).__name__}",
)
def test_a_graph_in_any_form_is_the_same_network(given: Any) -> None:
    found = graph_of(given)
    assert found is not None and edges(found) == edges(KARATE)


@pytest.mark.parametrize("given", [MATRIX, nx.to_dict_of_lists(KARATE)], ids=["matrix", "neighbours"])
def test_a_run_takes_any_form_as_its_topology(given: Any) -> None:
    assert ks.simulate(topology=given, **RUN).summary["digest"] == ks.simulate(topology=KARATE, **RUN).summary["digest"]


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_a_frame_of_named_edges_is_a_network(module: str) -> None:
    frame = pytest.importorskip(module).DataFrame({"day": [1, 2], "From": ["Zürich", "Bonn"], "To": ["Bonn", "Ulm"]})
    assert list(ks.simulate(topology=frame, **RUN).node_names.values()) == ["Bonn", "Ulm", "Zürich"]


def test_a_matrix_that_is_not_symmetric_is_a_directed_network() -> None:
    with pytest.warns(UserWarning, match="not symmetric: it is taken as that of a directed network"):
        graph = graph_of(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]]))
    assert graph is not None and set(graph.edges) == {(0, 1), (1, 2), (2, 1)}


def test_weights_of_a_matrix_are_kept() -> None:
    graph = graph_of(np.array([[0.0, 2.5], [2.5, 0.0]]))
    assert graph is not None and graph.edges[0, 1]["weight"] == 2.5
    assert "weight" not in (graph_of(np.array([[0, 1], [1, 0]])) or nx.Graph()).edges[0, 1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 3)), "as many rows as columns, and this one is 2 x 3"),
        (np.zeros(4), "this one is 4"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "holds finite numbers"),
        pytest.param(
            [nx.path_graph(3), nx.path_graph(3)],
            "for one that changes give the graph of all edges, and a schedule",
            id="graphs",  # whose addresses in memory differ from process to process
        ),
        ([(0, 1), (1,)], r"holds \(1,\), which is no edge"),
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "or a matrix as numpy.array"),
        (pyarrow.table({"a": [1], "b": [2], "c": [3]}), "call two of them source and target"),
        (pyarrow.table({"source": [1, None], "target": [2, 3]}), "missing values in the columns source and target"),
        ([], "graph has no nodes"),
        ({}, "has no name"),
        (7, "must be the name of a topology"),
        (SimpleNamespace(), "must be the name of a topology"),
        ({"nodes": 5}, "has no name"),
    ],
    ids=repr,
)
def test_what_is_no_graph_is_refused_as_the_topology(given: Any, words: str) -> None:
    with pytest.raises(ks.InputError, match=f"^topology.*{words}"):
        ks.simulate(topology=given, **RUN)


def test_parts_and_files_take_the_same_forms() -> None:
    experiment = ks.build_experiment(topology="ring", **RUN)
    assert experiment.with_changes({"topology": {"a": ["b"], "b": ["c"]}}).topology.number_of_nodes() == 3
    assert ks.Experiment.from_dict({"topology": [(0, 1)], **RUN}).topology.number_of_edges() == 1
    done = ks.compare(ks.build_experiment(topology="ring", **RUN), {"topology": ["star", [(0, 1), (1, 2)]]}, jobs=1)
    assert [row.done for row in done.rows()] == [1, 1]


@pytest.mark.parametrize("change", [{"topology.schedule.name": "gossip"}, {"topology.schedule": {"name": "gossip"}}])
def test_a_graph_keeps_its_nodes_when_its_schedule_is_changed(change: dict[str, Any]) -> None:
    graph = nx.complete_graph(5)
    changed = ks.build_experiment(topology=graph, **RUN).with_changes(change)
    assert changed.topology is graph and describe(changed.schedule) == {"name": "gossip"}
    again = changed.with_changes({"seed": 3, "topology.strict": True})
    assert again.topology is graph and describe(again.schedule) == {"name": "gossip"} and again.strict
    beside = ks.build_experiment(topology=graph, schedule="gossip", **RUN)
    assert ks.simulate(changed).summary["digest"] == ks.simulate(beside).summary["digest"]
    named = {"name": "complete", "nodes": 5, "schedule": {"name": "gossip"}}
    inside = ks.simulate(topology=named, **RUN)
    assert ks.simulate(beside).final["messages"] == inside.final["messages"] > 0


def test_a_graph_has_no_keys_of_a_family_and_other_topologies_take_its_place() -> None:
    experiment = ks.build_experiment(topology=nx.complete_graph(5), schedule="gossip", **RUN)
    with pytest.raises(ks.InputError, match=r"topology.nodes = 3 is not a key of file"):
        experiment.with_changes({"topology.nodes": 3})
    ring = experiment.with_changes({"topology": {"name": "ring", "nodes": 4}})
    assert ring.to_dict()["topology"] == {"name": "ring", "nodes": 4}
