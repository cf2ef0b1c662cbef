"""Replayed points: the round with them is that of the formulas, and the same however a network is run."""

import math
from collections import Counter

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.filling import rows_by
from kernelswarm.agents.nodes.inbox import parted
from kernelswarm.agents.nodes.replay_buffer import ReplayBuffer
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.replay import Replay, replay_of
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.link_mixes import GRAPH
from tests.helpers.same_bits import engine_after

RULES = {
    "consensus": {"name": "consensus", "penalty": 3.0, "replay": 2},
    "stacking": {"name": "stacking", "penalty": 0.1, "replay": 2},
}
POLK = {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2}


def described(rule="consensus", rounds=24, **tables):
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
            "learner": POLK,
            "protocol": RULES[rule] if isinstance(rule, str) else rule,
            "rounds": rounds,
            "evaluate_every": rounds,
            "evaluation": {"local_samples": 20, "global_samples": 20},
            **tables,
        }
    )


@pytest.mark.parametrize("rule", [Consensus(0.5), Proximity(), Stacking(0.1)], ids=str)
def test_a_protocol_that_does_not_know_of_replay_replays_nothing(rule):
    assert replay_of(rule).points == 0.0
    assert replay_of("a protocol of a user's own").points == 0.0
    agents = engine_after(described("consensus", protocol={"name": "consensus", "replay": 0})).blocks[0].agents
    assert all(agent.buffer is None for agent in agents)


def test_stacking_sends_the_points_once():
    experiment = described("stacking")
    engine = engine_after(experiment, rounds=5)
    engine.snapshot()  # which has the copies say what is in flight
    agents = engine.blocks[0].agents
    for agent in agents:
        talking = agent.ensemble[1:]
        assert all((copy.points == talking[0].points).all() for copy in talking)
        assert len(talking[0].points) == 2 + 2
    sent = sum(agent.tally.scalars_sent for agent in agents)
    points, values, duals = 4, 4 * (2 + 2) * 4, 1  # four copies talk; values and row sums at both ends' points
    assert sent == 5 * 2 * GRAPH.number_of_edges() * (points + values + duals + 5)


def test_a_rate_is_how_often_a_point_is_replayed():
    replay, neighborhood = Replay(0.3, 10), Neighborhood(4, (), None, None, 1.0, 1, (), (), (), key=(5, 6))
    buffer = ReplayBuffer(replay, 2, neighborhood)
    assert len(buffer.draw()) == 0  # nothing is kept yet
    buffer.keep(np.random.default_rng(0).uniform(size=(3, 2)))
    counts = Counter(len(buffer.draw()) for _ in range(4000))
    assert set(counts) == {0, 1}
    assert abs(counts[1] / 4000 - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 4000)


def test_a_buffer_is_a_uniform_sample_of_the_different_points():
    generator, size, count = np.random.default_rng(1), 10, 40
    times = np.zeros(count)
    for key in range(600):
        node = Neighborhood(0, (), None, None, 1.0, 1, (), (), (), key=(key, 7))
        buffer, points = ReplayBuffer(Replay(1, size), 2, node), np.arange(2.0 * count).reshape(count, 2)
        # The first ten points come a hundred times as often as the others, and yet have the same chance.
        stream = np.concatenate([np.arange(count), generator.integers(10, size=1000)])
        for place in generator.permutation(stream):
            buffer.keep(points[place : place + 1])
        found = buffer.points[:, 0].astype(int) // 2
        assert len(set(found.tolist())) == size
        times[found] += 1
    expected = 600 * size / count
    spread = math.sqrt(expected * (1 - size / count))
    assert np.abs(times - expected).max() < 4.5 * spread
    assert abs(times[:10].sum() - 10 * expected) < 4 * math.sqrt(10) * spread


def test_all_nodes_rank_points_alike_and_draw_on_their_own():
    nodes = [Neighborhood(node, (), None, None, 1.0, 1, (), (), (), key=(3, 4)) for node in (0, 1)]
    one, other = (ReplayBuffer(Replay(4, 8), 1, node) for node in nodes)
    points = np.random.default_rng(2).uniform(size=(50, 1))
    one.keep(points)
    other.keep(points[::-1])
    assert set(one.points[:, 0]) == set(other.points[:, 0])
    draws = [np.sort(np.concatenate([buffer.draw() for _ in range(200)])[:, 0]) for buffer in (one, other)]
    assert not (draws[0] == draws[1]).all()
    assert set(draws[0]) == set(one.points[:, 0])


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"replay": -1}, "replay"),
        ({"replay": 1.5}, "replay"),
        ({"replay": math.nan}, "replay"),
        ({"replay": math.inf}, "replay"),
        ({"replay_buffer": 0}, "replay_buffer"),
    ],
)
@pytest.mark.parametrize("rule", [Consensus, Proximity, Stacking])
def test_values_out_of_range_are_refused(rule, keys, key):
    with pytest.raises(RefusedKey) as refusal:
        rule(**keys)
    assert refusal.value.key == key


def test_a_point_has_its_noise_once():
    """What is replayed was sent before, or received, as it is: none of it is a sample, and none moves on its way."""
    links = {"noise": {"name": "laplace", "scale": 0.1, "on": "points"}}
    experiment = described("consensus", rounds=12, links=links)
    sources = open_network(experiment).source.nodes
    samples = {x for source in sources for x in source.draw(60)[0][:, 0].tolist()}
    engine = engine_after(experiment)
    engine.snapshot()  # which has agents know what lies in arrays
    agents = engine.blocks[0].agents
    sent: dict[int, set[float]] = {agent.node: set() for agent in agents}
    for agent in agents:
        drawn = list(rows_by(agent.memory, "lossy.drawn", "_points", "_targets"))
        assert len(drawn) >= 3
        for _, points, targets in drawn:
            assert set(points[: len(targets), 0]) <= samples
            replayed = set(points[len(targets) :, 0])
            assert replayed and not replayed & samples
            sent[agent.node] |= replayed
    for agent in agents:
        heads, messages = agent.inbox.arrays["inbox.heads"], parted("inbox.points", agent.inbox.arrays)
        for d, other in enumerate(agent.neighbors):
            found = [points for head, points in zip(heads, messages, strict=True) if head[0] == d]
            assert found and all(set(points[2:, 0]) <= sent[other] for points in found)
            assert not {x for points in found for x in points[:, 0]} & samples


def test_replay_gives_nothing_more_away_of_a_sample():
    """Its point is noised once: whatever is done with what was sent is counted with it."""
    links = {"clip": {"points": 1.0}, "noise": {"scale": 1.0, "on": "points"}}
    published = {"name": "consensus", "penalty": 0.1, "as_published": True}
    accounts = [
        simulate(described({**published, "replay": replay}, rounds=2, links=links)).summary["privacy"]
        for replay in (0, 1)
    ]
    assert accounts[0] == accounts[1]
    assert "exposed" not in str(accounts[0])


def test_values_walk_the_graph():
    """What the first node of a path knows reaches the last, which never receives its samples."""
    errors = {}
    for replay in (0, 2):
        experiment = described(
            {"name": "consensus", "penalty": 10.0, "replay": replay},
            rounds=400,
            topology=nx.path_graph(6),
            stream={"name": "sine_regression", "noise": 0.1, "split": "patches", "overlap": 0.3},
            learner={"name": "newton", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
        )
        last = engine_after(experiment).blocks[0].agents[-1].function
        x = np.linspace(0.0, 0.2, 50)[:, None]  # four hops away
        errors[replay] = float(np.mean((last.values(x)[:, 0] - (2 * x + 3 * np.sin(6 * x))[:, 0]) ** 2))
    assert errors[2] < errors[0] / 8
