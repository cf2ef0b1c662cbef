"""Replayed points: the round with them is that of the formulas, and the same however a network is run."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes.filling import rows_by
from kernelswarm.agents.nodes.inbox import parted
from kernelswarm.agents.nodes.population import LossyPopulation, Population
from kernelswarm.agents.nodes.replay_buffer import ReplayBuffer
from kernelswarm.agents.nodes.stacked_population import StackedPopulation
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Laplacian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols import distances, tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.replay import Replay, replay_of
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.contracts.specimens import SIZES, TRANSITIONS
from tests.helpers.equality import same
from tests.helpers.link_mixes import GRAPH, MIXES, NOTHING
from tests.helpers.naive_network import Batches, DualAscent, NaiveNode, coupled_round
from tests.helpers.pairs import in_pairs
from tests.helpers.same_bits import assert_the_same_from_snapshots, engine_after

KERNEL = Laplacian(0.3)  # well conditioned, so that no point falls into the span of the others
BLOCKS = [[0, 3], [1], [2, 4]]
RULES = {
    "consensus": {"name": "consensus", "penalty": 3.0, "replay": 2},
    "rate": {"name": "consensus", "penalty": 3.0, "replay": 0.4, "replay_buffer": 7},
    "one-sided": {"name": "consensus", "penalty": 3.0, "form": "one_sided", "replay": 1},
    "explicit": {"name": "consensus", "penalty": 0.2, "step": "explicit", "replay": 1},
    "proximity": {"name": "proximity", "replay": 3},
    "stacking": {"name": "stacking", "penalty": 0.1, "replay": 2},
}
EVERY_RULE = pytest.mark.parametrize("rule", RULES)
POLK = {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2}


def described(rule="consensus", rounds=24, schedule=None, **tables):
    found = Experiment.from_dict(
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
    return found if schedule is None else replace(found, schedule=schedule)


def learned(engine):
    found = {}
    for block in engine.blocks:
        for agent in block.agents:
            tally = agent.tally
            counts = np.array([tally.scalars_sent, tally.bytes_sent, tally.loss, tally.compression_error])
            found[agent.node] = {**agent.function.arrays(), "counts": counts, "gaps": tally.constraint_values}
    return found


@in_pairs(
    rule=[*itertools.product(["consensus", "proximity"], ["explicit", "implicit"]), ("absolute", "implicit")],
    form=["one_sided", "symmetric"],
    batch=[1, 3],
    points=[0, 0.5, 1, 3],
)
def test_the_network_follows_the_formulas(rule, form, batch, points):
    protocol, step = rule
    penalty, gamma, delta, eta, ascent = 0.4, 0.01, 0.5, 0.12, 0.7
    duals = DualAscent(gamma, delta, ascent)
    keys = {"replay": points, "replay_buffer": 5}
    if protocol == "consensus":
        rule = Consensus(penalty, form, step, **keys)
    else:
        distance = distances.Absolute() if protocol == "absolute" else distances.Squared()
        rule = Proximity(tolerances.Constant(gamma), delta, form, step, dual_step=ascent, distance=distance, **keys)
    learner = Polk(kernel=KERNEL, step_size=Constant(eta), regularization=0.02, batch_size=batch, budget=Epsilon(0.0))
    experiment = Experiment(topology=GRAPH, stream=SineRegression(noise=0.3), learner=learner, protocol=rule)
    engine = engine_after(experiment, rounds=12)

    samples = Batches(open_network(experiment))
    nodes = {i: NaiveNode(KERNEL, 1, 1, sorted(GRAPH[i])) for i in sorted(GRAPH)}
    for _ in range(12):
        batches = samples.draw(batch)
        coupled_round(nodes, batches, protocol, duals, penalty, eta, form == "symmetric", step == "implicit", batch)

    x = np.linspace(0.0, 1.0, 40)[:, None]
    for agent in engine.blocks[0].agents:
        node = nodes[agent.node]
        np.testing.assert_allclose(agent.function.values(x), node.values(x), rtol=1e-8, atol=1e-9)
        if protocol != "consensus":
            expected = [node.duals[j] for j in agent.neighbors]
            np.testing.assert_allclose(agent.duals(), expected, rtol=1e-8, atol=1e-12)
            assert max(expected) > 0.0


@EVERY_RULE
def test_blocks_give_the_same_bits(rule):
    whole = learned(engine_after(described(rule)))
    assert same(whole, learned(engine_after(described(rule), BLOCKS)))
    assert same(whole, learned(engine_after(described(rule), BLOCKS, plain=True)))


@EVERY_RULE
def test_rounds_are_compiled(rule):
    engine = engine_after(described(rule))
    kind = StackedPopulation if rule == "stacking" else Population
    assert all(isinstance(block._population, kind) for block in engine.blocks)


@pytest.mark.parametrize("name", SIZES)
def test_every_learner_has_the_same_bits_in_compiled_rounds(name):
    """Both steps meet links of both kinds; with a rate of replay, in both forms: test_counts_of_points.py."""
    place = list(SIZES).index(name)
    step, links = ("implicit", "explicit")[place % 2], ({}, {"delay": 1, "loss": 0.2})[place // 2 % 2]
    rule = {"name": "consensus", "penalty": 0.2, "step": step, "replay": 2}
    keys = {"learner": {"name": name, "step_size": 0.1, "batch_size": 2, **SIZES[name]}}
    if name == "policy_evaluation":
        keys["stream"] = TRANSITIONS
    experiment = described(rule, rounds=30, links=links, **keys)
    assert same(learned(engine_after(experiment)), learned(engine_after(experiment, BLOCKS, plain=True)))


LOSSY_RULES = {
    **{rule: RULES[rule] for rule in ("consensus", "one-sided", "explicit", "proximity")},
    "explicit proximity": {"name": "proximity", "form": "one_sided", "step": "explicit", "replay": 1},
    "absolute": {"name": "proximity", "distance": "absolute", "replay": 2},
    "trust": {"name": "consensus", "penalty": 3.0, "robust": "trust", "replay": 2},
    "trimmed mean": {"name": "consensus", "penalty": 1.0, "robust": "trimmed", "replay": 1},
    "trust, proximity": {"name": "proximity", "robust": "trust", "replay": 2},
}
LATE = {
    "delay": {"name": "between", "longest": 4},
    "max_age": 3,
    "damping": 0.3,
    "on_missing": "repeat",
    "loss": 0.2,
    "quantization": {"bits": 8},
}
LOSSY = {  # consensus with a rate of replay meets all mixes: test_counts_on_unreliable_links.py
    **{(rule, mix): MIXES[mix] for rule in LOSSY_RULES for mix in ("churn without memory", "everything")},
    **{(rule, "late"): {"links": LATE} for rule in LOSSY_RULES},
}


@pytest.mark.parametrize(("rule", "mix"), LOSSY)
def test_nodes_on_unreliable_links_have_the_same_bits_in_compiled_rounds(rule, mix):
    experiment = described(LOSSY_RULES[rule], rounds=30, **LOSSY[rule, mix])
    engines = [engine_after(experiment), engine_after(experiment, BLOCKS)]
    assert all(isinstance(block._population, LossyPopulation) for engine in engines for block in engine.blocks)
    single = learned(engine_after(experiment, BLOCKS, plain=True))
    assert all(same(single, learned(engine)) for engine in engines)


@pytest.mark.parametrize("mix", ["none", "rounded", "churn without memory", "everything"])
@EVERY_RULE
def test_a_restored_network_goes_on_with_the_points_that_it_kept(rule, mix):
    if rule == "stacking" and mix not in ("none", "rounded"):
        pytest.skip("refused, whatever is replayed")
    experiment = described(rule, **MIXES.get(mix, {}))
    assert_the_same_from_snapshots(experiment, (11,), 13, BLOCKS)


@EVERY_RULE
def test_links_that_do_nothing_change_nothing(rule):
    plain, asked = learned(engine_after(described(rule))), learned(engine_after(described(rule, links=NOTHING)))
    for node, found in plain.items():
        scalars, sent = asked[node]["counts"][:2]
        # Lossy links count a message when it is sent: a round before the answers of a round are learned from.
        assert sent == 8 * scalars
        assert rule == "rate" or scalars == found["counts"][0]
        found["counts"][:2] = scalars, sent
    assert same(plain, asked)


@pytest.mark.parametrize("rule", [Consensus(0.5), Proximity(), Stacking(0.1)], ids=str)
def test_a_protocol_that_does_not_know_of_replay_replays_nothing(rule):
    assert replay_of(rule).points == 0.0
    assert replay_of("a protocol of a user's own").points == 0.0
    agents = engine_after(described("consensus", protocol={"name": "consensus", "replay": 0})).blocks[0].agents
    assert all(agent.buffer is None for agent in agents)


@pytest.mark.parametrize(
    ("name", "form", "each", "duals"),
    [
        ("consensus", "one_sided", 1 + 1, 0),
        ("consensus", "symmetric", 1 + 2 + 2, 0),
        ("proximity", "symmetric", 1 + 2 + 2, 1),
    ],
)
def test_replayed_points_are_counted_as_samples_are(name, form, each, duals):
    experiment = described({"name": name, "form": form, "replay": 3})
    sent = sum(agent.tally.scalars_sent for agent in engine_after(experiment, rounds=7).blocks[0].agents)
    directed = 2 * GRAPH.number_of_edges()
    assert sent == 7 * directed * (each * (2 + 3) + duals)
    assert f"{directed * (each * (2 + 3) + duals):,}" in as_text(examine(experiment))
    assert message_bytes(open_network(experiment).plans, EXACT) == 8 * (each * (2 + 3) + duals)


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
