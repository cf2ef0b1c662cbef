"""The pages of the examples: they keep their contracts, do what their formulas say, and run by their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.testing import check_distance, check_protocol
from tests.agents.learners.test_numpy_learner import page_of
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL, commands
from tests.helpers.vector_network import FEATURES, Data, described, learned

GOSSIP = """\
[learner]
name = "random_features"
features = 8
kernel = { name = "gaussian", bandwidth = 0.1 }

[protocol]
name = "pairwise_gossip:PairwiseGossip"

"""


def test_pairs_that_gossip_end_in_the_middle() -> None:
    rule = page_of("pairwise_gossip").PairwiseGossip()
    check_protocol(rule)
    assert in_python([], rule) is None
    pair = {"name": "path", "nodes": 2, "schedule": "gossip"}
    for rounds in (1, 3):
        tried = described(rule, rounds, topology=pair)
        data, theta = Data(tried), np.zeros((2, FEATURES))
        for _ in range(rounds):
            data.draw()
            theta = np.tile(np.mean(data.implicit(theta), axis=0), (2, 1))
        np.testing.assert_allclose(learned(tried), theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("apart", [0.2, 0.5, 3.0])
def test_the_huber_distance_is_its_formula(apart: float) -> None:
    distance = page_of("huber_distance").HuberDistance(0.5)
    check_distance(distance)
    own, other = np.array([[1.0, 2.0]]), np.array([[1.0 + 0.6 * apart, 2.0 - 0.8 * apart]])
    wanted = 0.5 * apart**2 if apart <= 0.5 else 0.5 * apart - 0.125
    np.testing.assert_allclose(distance.values(own, other), wanted)
    pull = distance.pull(own, other[np.newaxis], np.array([2.0]))
    np.testing.assert_allclose(pull.gradients[0], 2.0 * (own - other) * min(1.0, 0.5 / apart))


def test_the_huber_distance_runs_compiled_and_is_the_squared_one_where_nodes_are_near() -> None:
    page, plain = page_of("huber_distance"), Consensus(penalty=0.7, form="one_sided")
    wide, narrow = (replace(plain, distance=page.HuberDistance(threshold)) for threshold in (1e6, 0.01))
    assert in_python([], wide) is None
    stream, graph = {"name": "sine_regression", "noise": 0.3}, nx.path_graph(3)
    found = [
        simulate(topology=graph, stream=stream, learner="polk", protocol=rule, rounds=30).final["risk"]
        for rule in (wide, plain, narrow)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert abs(found[2] - found[1]) > 1e-6 * found[1]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pairwise_gossip", SMALL[SMALL.index("[learner]") : SMALL.index("[evaluation]")], GOSSIP),
        ("huber_distance", "as_published = true", 'distance = "huber_distance:HuberDistance"'),
    ],
)
def test_experiments_run_parts_by_their_names(
    name: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / f"{name}.py").write_text((ROOT / "examples" / "parts" / f"{name}.py").read_text())
    (tmp_path / "mine.toml").write_text(SMALL.replace(old, new))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    command = commands(capsys)
    for word in ("check", "run"):
        answer = command(word, "mine.toml")
        assert answer.code == 0 and "Python" not in answer.out
