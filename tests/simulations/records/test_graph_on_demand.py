"""A run needs no networkx graph of its network; who asks a result or a state for one gets it."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest

from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import run, simulate

TABLES = {
    "rounds": 6,
    "evaluate_every": 3,
    "topology": {"name": "random_geometric", "nodes": 30},
    "stream": {"name": "sine_regression"},
    "learner": {"name": "polk", "step_size": 0.2},
    "protocol": {"name": "consensus", "form": "symmetric"},
    "evaluation": {"local_samples": 20, "global_samples": 20, "rkhs_distance": True},
}


@pytest.fixture
def refused(monkeypatch):
    """Let no networkx graph be made of arrays, until the patches are undone."""
    monkeypatch.setattr(Adjacency, "_as_networkx", lambda _: pytest.fail("a networkx graph was made"))
    return monkeypatch


def test_a_run_with_its_folder_makes_no_networkx_graph_until_it_is_asked(refused, tmp_path):
    described = Experiment.from_dict(TABLES)
    done = run(described, tmp_path / "run").result
    assert "30 nodes" in repr(done) and done.node_names[29] == 29
    refused.undo()
    read = Result(done.config, nx.read_graphml(tmp_path / "run" / "graph.graphml", node_type=int))
    assert done.graph is done.graph
    assert [*done.graph.edges] == [*read.graph.edges]
    assert dict(done.graph.nodes(data="pos")) == {
        node: (known["x"], known["y"]) for node, known in read.graph.nodes(data=True)
    }


def test_a_state_has_the_graph_of_the_result():
    seen = []
    result = simulate(Experiment.from_dict(TABLES), callbacks=[lambda state: seen.append(state.graph)])
    assert len(seen) == 2 and all(graph is result.graph for graph in seen)


@pytest.mark.parametrize("given", [nx.path_graph(3), from_edges(3, [(1, 0), (2, 1)])], ids=["networkx", "arrays"])
def test_a_result_takes_either_form_and_shows_the_graph(given):
    result = Result({}, given)
    assert isinstance(result.graph, nx.Graph) and [*result.graph.edges] == [(0, 1), (1, 2)]
    assert result.adjacency.labelled_edges.tolist() == [[0, 1], [1, 2]]
    assert replace(result, graph=nx.path_graph(2)).adjacency.number_of_nodes() == 2
    assert replace(result, config={"seed": 1}).graph is result.graph


def test_a_result_without_a_graph_is_refused():
    with pytest.raises(TypeError, match="graph"):
        Result({})
