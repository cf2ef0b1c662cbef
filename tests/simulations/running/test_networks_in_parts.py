"""A network may fall into parts, down to nodes without an edge: each learns by itself, and every place says so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import kernelswarm as ks
from kernelswarm.graphs.layout import positions
from kernelswarm.simulations.experiment.registry import names
from kernelswarm.simulations.running.check import as_text, examine
from tests.helpers.halves import Halves

POLK = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}}
FEATURES = {"name": "random_features", "kernel": {"name": "gaussian", "bandwidth": 0.2}, "features": 20}
LEARNERS = {"domkl": "raker"} | dict.fromkeys(("isolated", "consensus", "proximity", "stacking", "centralized"), POLK)
RUN: dict[str, Any] = {"stream": "sine_regression", "rounds": 20, "evaluate_every": 10}


def apart() -> nx.Graph[Any]:
    """Return a circle of four, a path of three and a node alone."""
    graph = nx.disjoint_union(nx.cycle_graph(4), nx.path_graph(3))
    graph.add_node(7)
    return graph


def verdict_of(result: ks.Result) -> str:
    return result.verdict.get("in_parts", "")


@pytest.mark.parametrize("protocol", names("protocol"))
def test_every_protocol_runs_on_a_network_in_parts(protocol: str) -> None:
    learner = POLK if protocol == "batch" else LEARNERS.get(protocol, FEATURES)
    keys = {**RUN, "topology": apart(), "protocol": protocol, "learner": learner}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result, blocks = (ks.simulate(**keys, backend=backend) for backend in ("serial", Halves(size=3)))
    assert np.isfinite(result.nodes["risk"]).all()
    assert result.summary["digest"] == blocks.summary["digest"]
    assert result.summary["parts"] == 3
    speaks = protocol not in ("isolated", "centralized", "batch")
    assert ("falls into 3 parts, of 4, 3 and 1 nodes: each learns by itself" in verdict_of(result)) == speaks


@pytest.mark.parametrize("protocol", ["consensus", "proximity"])
def test_a_node_alone_learns_as_without_a_protocol(protocol: str) -> None:
    results = [ks.simulate(topology=apart(), protocol=each, learner=POLK, **RUN) for each in (protocol, "isolated")]
    for name in ("points_7", "weights_7"):
        assert np.array_equal(results[0].models[name], results[1].models[name])
    assert not np.array_equal(results[0].models["weights_0"], results[1].models["weights_0"])


def test_a_part_learns_as_if_it_were_the_network() -> None:
    keys = {**RUN, "protocol": "consensus", "learner": POLK}
    both, alone = ks.simulate(topology=apart(), **keys), ks.simulate(topology=nx.cycle_graph(4), **keys)
    for node in range(4):
        np.testing.assert_array_equal(both.models[f"weights_{node}"], alone.models[f"weights_{node}"])


@pytest.mark.parametrize("graph", [nx.empty_graph(3), nx.Graph([("a", "a")])], ids=["three nodes", "a loop"])
@pytest.mark.filterwarnings("ignore:the network has self loops")
def test_nodes_without_edges_are_a_network(graph: nx.Graph[Any]) -> None:
    result = ks.simulate(topology=graph, protocol="consensus", learner=POLK, **RUN)
    assert np.isfinite(result.nodes["risk"]).all()
    assert result.final["disagreement"] == (None if len(graph) > 1 else 0.0)  # of nobody with nobody


def test_strict_refuses_what_would_be_changed_or_falls_apart(tmp_path: Path) -> None:
    keys = {**RUN, "protocol": "consensus", "learner": POLK}
    with pytest.raises(ks.InputError, match=r"isolated nodes \[7\]"):
        ks.simulate(topology=apart(), strict=True, **keys)
    (tmp_path / "net.csv").write_text("a,b\nb,b\nc,b\n", encoding="utf-8")
    topology = {"name": "file", "path": str(tmp_path / "net.csv"), "strict": True}
    with pytest.raises(ks.InputError, match=r"self loops at nodes \['b'\]"):
        ks.simulate(topology=topology, **keys)
    with pytest.raises(ks.InputError, match="strict = 1 must be true or false"):
        ks.simulate(topology={**topology, "strict": 1}, **keys)
    with pytest.warns(UserWarning, match="dropped"):
        assert ks.simulate(topology={**topology, "strict": False}, **keys).summary["parts"] == 1
    experiment = ks.build_experiment(topology=nx.path_graph(3), strict=True, **keys)
    assert experiment.to_dict()["topology"]["strict"] is True
    assert experiment.with_changes({"seed": 1}).strict and experiment.other(experiment.to_dict()).strict


def test_a_strict_run_of_a_graph_is_resumed(tmp_path: Path) -> None:
    keys = {**RUN, "protocol": "consensus", "learner": POLK, "checkpoint_every": 10, "strict": True}
    folder = ks.run(topology=nx.path_graph(["a", "b"]), folder=tmp_path / "run", **keys).folder
    assert ks.resume(folder, ["rounds=30"]).result.summary["rounds"] == 30


def test_check_and_report_say_how_many_parts_there_are(tmp_path: Path) -> None:
    keys = {**RUN, "topology": apart(), "learner": POLK}
    texts = {
        protocol: as_text(examine(ks.build_experiment(**keys, protocol=protocol)))
        for protocol in ("consensus", "centralized", "isolated")
    }
    assert "3, of 4, 3 and 1 nodes: each learns by itself" in texts["consensus"]
    assert "3, of 4, 3 and 1 nodes: the one learner sees the samples of all" in texts["centralized"]
    assert "3, of 4, 3 and 1 nodes\n" in texts["isolated"]
    from kernelswarm.simulations.report import page

    folder = ks.run(**keys, protocol="consensus", folder=tmp_path / "run").folder
    text = page.write(folder).read_text(encoding="utf-8")
    assert "8 nodes and 6 edges in 3 parts" in text and "each learns by itself" in text


def test_parts_are_drawn_beside_one_another() -> None:
    graph = nx.disjoint_union_all([nx.cycle_graph(9), nx.path_graph(4), nx.complete_graph(4), nx.empty_graph(3)])
    places = positions(graph)
    points = np.array([places[node] for node in graph])
    assert points.min() >= 0.0 and points.max() <= 1.0
    assert len(np.unique(points.round(6), axis=0)) == len(graph)
    boxes = [
        (points[sorted(part)].min(axis=0), points[sorted(part)].max(axis=0)) for part in nx.connected_components(graph)
    ]
    for place, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:place]:
            assert (high < other_low).any() or (other_high < low).any()


@pytest.mark.parametrize("count", [1, 3])
def test_positions_off_the_plane_keep_their_distances(tmp_path: Path, count: int) -> None:
    graph = nx.path_graph(4)
    points = np.random.default_rng(3).random((4, count))
    nx.set_node_attributes(graph, {node: tuple(point) for node, point in enumerate(points)}, "pos")
    done = ks.run(topology=graph, stream="sensor_field", learner=POLK, protocol="proximity", rounds=5, folder=tmp_path)
    found = ks.read_run(done.folder).adjacency.positions
    assert found is not None and np.array_equal(found, points)
    drawn = positions(done.result.graph)
    assert [place[0] for place in drawn.values()] == points[:, 0].tolist()
