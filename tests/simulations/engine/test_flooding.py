"""Samples that travel to all nodes: who learns from which, in which order, and what is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import passes
from kernelswarm.graphs.adjacency import Adjacency, spanning_tree
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.ending import Ending
from tests.helpers.same_bits import assert_the_same_from_snapshots, assert_the_same_however_cut, assert_the_same_tables

PATH = nx.relabel_nodes(nx.path_graph(4), {0: 2, 1: 3, 2: 5, 3: 9})
RING = nx.cycle_graph(6)
IN_PARTS = nx.Graph([(0, 1), (1, 2), (5, 7)])
ROUNDS = 20
LEARNERS: dict[str, dict[str, Any]] = {
    "polk": {"step_size": {"name": "diminishing", "initial": 0.3, "offset": 20.0}, "budget": {"epsilon": 0.02}},
    "newton": {},
    "rls": {"features": 20},
    "krls": {},
    "random_features": {"features": 20, "step_size": 0.2},
}


def described(learner: str = "polk", graph: nx.Graph = PATH, share: float = 1.0, **tables: Any) -> Experiment:
    """Return an experiment whose nodes draw two samples a round."""
    kernel = {"name": "gaussian", "bandwidth": 0.2}
    return Experiment.from_dict(
        {
            "rounds": ROUNDS,
            "evaluate_every": ROUNDS,
            "topology": graph,
            "stream": {"name": "sine_regression", "noise": 0.5, "split": "patches"},
            "learner": {"name": learner, "kernel": kernel, "batch_size": 2, **LEARNERS[learner]},
            "protocol": {"name": "flooding", "share": share, "as_published": True},
            **tables,
        }
    )


FAULTY = {"fault": [{"nodes": [5], "kind": "stuck", "value": 0.7, "first": 3}]}
PLACES: list[tuple[nx.Graph, dict[str, Any]]] = [(PATH, {}), (PATH, FAULTY), (IN_PARTS, {})]


@pytest.mark.parametrize(("graph", "keys"), PLACES, ids=["path", "faulty", "parts"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_node_learns_from_all_samples_in_the_order_in_which_they_arrive(
    learner: str, graph: nx.Graph, keys: dict[str, Any]
) -> None:
    """In each round from its own, then from those of the round before one hop away, and so on; back it sends none."""
    network = open_network(described(learner, graph, **keys))
    result, labels, sent = simulate(network.experiment), sorted(graph), 0
    drawn = [[source.draw(2) for _ in range(ROUNDS)] for source in network.source.nodes]
    for node in labels:
        hops = nx.single_source_shortest_path_length(graph, node)  # the graphs are trees
        near = [(labels.index(other), hops[other]) for other in sorted(hops, key=lambda other: (hops[other], other))]
        arrived = [drawn[k][now - far] for now in range(ROUNDS) for k, far in near if now >= far]
        state, kept = network.experiment.learner.init(1, 1), network.experiment.learner
        passes.learn(kept, state, *map(np.concatenate, zip(*arrived, strict=True)))
        for name, array in kept.function(state).arrays().items():
            np.testing.assert_array_equal(result.models[f"{name}_{node}"], array)
        row = result.nodes["node"] == node
        assert result.nodes["samples"][row] == 2 * len(arrived)
        passed_on = sum(2 * (ROUNDS - far) * (graph.degree[node] - (far > 0)) for _, far in near)
        assert result.nodes["scalars_sent"][row] == 2 * passed_on
        sent += 2 * passed_on
    assert result.network["bytes_sent"][-1] == 8 * sent
    assert result.network["messages"][-1] == ROUNDS * 2 * graph.number_of_edges()


def test_each_sample_goes_once_over_each_edge_of_a_tree() -> None:
    """Of a ring all edges but one; samples drawn in round t go over the edges h hops away in round t + h."""
    result = simulate(described(graph=RING, rounds=100, stream=Ending((30, *[6] * 5), "sine_regression")))
    tree = nx.Graph(spanning_tree(Adjacency.of(RING)).edges.tolist())
    assert tree.number_of_edges() == 5 and result.summary["rounds"] == 15
    hops = nx.single_source_shortest_path_length(tree, 0).values()
    of_the_first = sum(2 for now in range(15) for h in hops if 0 < h <= 15 - now)
    assert result.network["bytes_sent"][-1] == 8 * 2 * (5 * 6 * 5 + of_the_first)
    assert result.nodes["samples"].min() >= 5 * 6 + 20


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_share_of_samples_travels_to_all_nodes(share: float) -> None:
    rounds, steps = 500, len(RING)
    experiment = described(graph=RING, share=share, rounds=rounds, evaluate_every=rounds)
    network, found = open_network(experiment), simulate(experiment)
    travelled = [set[float]() for _ in RING]
    arrived, own = [], [set(source.draw(2 * rounds)[0][:, 0].tolist()) for source in network.source.nodes]
    for place, plan in enumerate(network.plans):
        points, _, counts = plan.source.draw_each((rounds + steps) * steps, 2)  # until the last have been everywhere
        at = np.repeat(np.arange(len(counts)) // steps, counts)
        arrived.append(sum(at < rounds))
        there = set(points[:, 0].tolist())
        assert own[place] <= there
        for origin, samples in enumerate(own):
            if origin != place:
                assert travelled[origin] in (set(), there & samples)
                travelled[origin] = there & samples
    assert found.nodes["samples"].tolist() == arrived
    for samples in travelled:
        assert abs(len(samples) / (2 * rounds) - share) < 0.06
    degrees = nx.Graph(spanning_tree(Adjacency.of(RING)).edges.tolist()).degree
    sent = [
        2 * (len(travelled[i]) * degrees[i] + (arrived[i] - 2 * rounds) * (degrees[i] - 1)) for i in range(len(RING))
    ]
    assert found.nodes["scalars_sent"].tolist() == sent


def test_a_node_is_measured_at_the_age_of_its_own_stream() -> None:
    """Where targets drift, not at the number of samples that it has learned from."""
    experiment = described(graph=PATH, share=0.5, stream={"name": "drifting", "period": 50.0})
    network = open_network(experiment)
    for plan, own in zip(network.plans, network.source.nodes, strict=True):
        learned = 0
        for now in range(1, 10):
            learned += len(plan.source.draw(2 * len(PATH))[0])
            found, wanted = plan.evaluated[0][1].held_out(learned), own.held_out(2 * now)
            np.testing.assert_array_equal(found.targets, wanted.targets)


@pytest.mark.parametrize("learner", ["polk", "rls"])
def test_the_same_bits_however_a_network_is_run(learner: str) -> None:
    experiment = described(learner, IN_PARTS, share=0.5)
    assert_the_same_however_cut(experiment, (1, 4, 7), [[0], [1, 2, 3, 4]], [[0, 2], [1, 4], [3]])
    assert_the_same_from_snapshots(experiment, (1, 6), 5, [[0, 2], [1, 3, 4]])
    assert_the_same_tables(experiment)


def test_resumed_it_has_the_same_bits(tmp_path: Path) -> None:
    keys = {"evaluate_every": 4, "share": 0.5}
    folder = run(described(rounds=8, checkpoint_every=4, **keys), tmp_path / "half").folder
    again = resume(folder, ["rounds=12"]).result
    whole = simulate(described(rounds=12, **keys))
    assert again.summary["digest"] == whole.summary["digest"]
    assert again.network["bytes_sent"].tolist() == whole.network["bytes_sent"].tolist()


REFUSED: dict[str, dict[str, Any]] = {
    "links: messages": {"links": {"loss": 0.1}},
    "clock: nodes sleep": {"clock": {"name": "bernoulli", "probability": 0.5}},
    "topology.schedule: edges come and go": {"topology": {"name": "ring", "nodes": 6, "schedule": "gossip"}},
    "topology: some edges are one-way": {"topology": {"name": "directed_ring", "nodes": 6}},
    'fault.of = "messages"': {"fault": [{"nodes": [2], "kind": "stuck", "value": 0.0, "of": "messages"}]},
}


@pytest.mark.parametrize("protocol", ["flooding", "statistics"])
@pytest.mark.parametrize("text", REFUSED)
def test_what_may_fail_is_refused(text: str, protocol: str) -> None:
    with pytest.raises(InputError, match=f"{text}.*protocol {protocol} .*spanning tree"):
        open_network(described("random_features", **{"protocol": protocol, **REFUSED[text]}))


def test_batches_of_other_sizes_are_refused() -> None:
    with pytest.raises(InputError, match=r"batch_size = 5 of node 3 and 2 of others"):
        open_network(described(node=[{"nodes": [3], "learner": {"batch_size": 5}}]))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_check_says_what_a_round_sends_at_most(share: float) -> None:
    """Two numbers of two samples of each node over the edges of its tree, two in one part and one in the other."""
    lines = dict(
        next(section for section in examine(described(graph=IN_PARTS, share=share)) if section.title == "cost").lines
    )
    assert lines["messages a round"] == "6"
    assert lines["scalars a round"] == f"{round(share * 2 * 2 * (3 * 2 + 2 * 1))}"
    assert lines["sent in the whole run"].startswith("at most")
