"""The sums that travel up and down a tree, against the ridge regression on the samples that are in them."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.adjacency import Adjacency, spanning_tree
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
)
from tests.helpers.vector_network import BATCH, FEATURES, GRAPH, LAMBDA, Data, described, learned

IN_PARTS = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (5, 6)])
ALONE = nx.empty_graph(1)
RIDGE = 0.3
NUMBERS = FEATURES * (FEATURES + 1) // 2 + FEATURES + 1


@pytest.mark.parametrize("rounds", [3, 13, 15, 27])
@pytest.mark.parametrize("graph", [GRAPH, IN_PARTS, ALONE], ids=["one", "parts", "alone"])
def test_each_node_has_the_ridge_regression_on_what_has_reached_it(graph: nx.Graph, rounds: int) -> None:
    """An exchange goes one hop a round to the root, and then one hop a round back."""
    every, labels = 6, sorted(graph)
    tried = described({"name": "statistics", "every": every, "ridge": RIDGE}, rounds, topology=graph, strict=False)
    found, result, data = learned(tried), simulate(tried), Data(tried)
    tree = spanning_tree(Adjacency.of(graph))
    gram, products = (
        np.zeros((rounds + 1, len(labels), FEATURES, FEATURES)),
        np.zeros((rounds + 1, len(labels), FEATURES)),
    )
    for now in range(rounds):
        data.draw()
        gram[now + 1] = gram[now] + [z.T @ z for z in data.zs]
        products[now + 1] = products[now] + [z.T @ y for z, y in zip(data.zs, data.ys, strict=True)]
    vectors = 0
    for place, node in enumerate(labels):
        members = [labels.index(other) for other in nx.node_connected_component(graph, node)]
        depth, deepest = int(tree.depths[place]), max(tree.depths[members])
        begun = max((at for at in range(every, rounds + 1, every) if at + deepest + depth - 1 <= rounds), default=0)
        at = [rounds if other == place else begun for other in members]
        ridge = RIDGE + BATCH * sum(at) * LAMBDA / 2.0
        wanted = np.linalg.solve(
            gram[at, members].sum(axis=0) + ridge * np.eye(FEATURES), products[at, members].sum(axis=0)
        )
        np.testing.assert_allclose(found[place], wanted, rtol=1e-9, atol=1e-9)
        for first in range(every, rounds + 1, every):
            vectors += depth > 0 and first + deepest - depth <= rounds  # up
            vectors += depth > 0 and first + deepest + depth - 1 <= rounds  # down, from its parent
    assert result.network["bytes_sent"][-1] == 8 * NUMBERS * vectors
    assert result.network["messages"][-1] == vectors


def test_the_same_bits_however_a_network_is_run(tmp_path: Path) -> None:
    keys = {"protocol": {"name": "statistics", "every": 7}, "topology": IN_PARTS}
    experiment = described(rounds=24, **keys)
    blocks = [[0], [1, 2, 3], [4, 5, 6]], [[0, 2, 4, 6], [1, 3, 5]]
    assert_the_same_however_cut(experiment, (1, 9, 7, 6), *blocks)
    assert_the_same_from_snapshots(experiment, (1, 8, 11), 9, *blocks)
    assert_the_same_tables(experiment)
    folder = run(described(rounds=9, checkpoint_every=3, **keys), tmp_path / "half").folder
    again, whole = resume(folder, ["rounds=24"]).result, simulate(experiment)
    assert again.summary["digest"] == whole.summary["digest"]
    assert again.network["bytes_sent"][-1] == whole.network["bytes_sent"][-1]


@pytest.mark.usefixtures("kept_ray")
def test_actors_have_the_same_bits() -> None:
    here, there = (described({"name": "statistics", "every": 7}, **keys) for keys in ({}, {"backend": Ray()}))
    assert simulate(there).summary["digest"] == simulate(here).summary["digest"]


def test_exchanges_do_not_overlap() -> None:
    """On a path of nine nodes sums go four hops up and four down."""
    for every, refused in ((8, False), (7, True)):
        tried = described({"name": "statistics", "every": every}, topology=nx.path_graph(9))
        if not refused:
            assert len(open_network(tried).plans) == 9
            continue
        with pytest.raises(InputError, match="every = 7 rounds are over before sums have gone 4 hops up"):
            open_network(tried)
