"""Certainty on links and by clocks that are not ideal: what is taught is what a message says, however old it is."""

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.filters.rls import Rls
from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.graphs.schedules.random_schedules import Gossip
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.forecast import message_bytes
from kernelswarm.simulations.running.network import open_network
from tests.helpers.equality import same
from tests.helpers.link_mixes import GRAPH, NOTHING

RATIO = 3.0
BLOCKS = [[0, 3], [1], [2, 4]]
KERNEL = {"name": "gaussian", "bandwidth": 0.15}
RLS = {"name": "rls", "kernel": KERNEL, "features": 30}
LEARNERS = {
    "rls": RLS,
    "krls": {"name": "krls", "kernel": KERNEL, "batch_size": 2},
    "newton": {"name": "newton", "kernel": KERNEL, "batch_size": 2, "forgetting": "auto"},
}
LATE = {"links": {"loss": 0.2, "delay": {"name": "between", "longest": 3}}}
KINDS = {
    "late and lost": LATE,
    "bursts kept": {"links": {"loss": "bursts", "on_missing": "repeat", "damping": 0.1}},
    "trigger": {"links": {"trigger": {"threshold": 0.05}, "on_missing": "repeat"}},
    "narrow": {"links": {"bandwidth": 5.0}},
    "asleep": {"clock": {"name": "bernoulli", "probability": 0.4}},
    "churn without memory": {"clock": {"name": "churn", "leaves": 0.2, "returns": 0.3, "memory": False}, **LATE},
    "pairs that meet": {"schedule": Gossip()},
}


def described(rounds=20, learner=RLS, certainty=RATIO, schedule=None, **tables):
    experiment = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
            "learner": learner,
            "protocol": {"name": "consensus", "penalty": 5.0, "replay": 1, "certainty": certainty},
            "rounds": rounds,
            "evaluate_every": rounds,
            "evaluation": {"local_samples": 20, "global_samples": 60},
            **tables,
        }
    )
    return experiment if schedule is None else replace(experiment, schedule=schedule)


def lived(experiment, blocks=None, rounds=None, compiled=True):
    plans = open_network(experiment).plans
    engine = SerialEngine([plans] if blocks is None else [[plans[k] for k in block] for block in blocks], compiled)
    engine.run(rounds or experiment.rounds)
    return engine


def agents_of(engine):
    return [agent for block in engine.blocks for agent in block.agents]


def learned(engine):
    return {
        agent.node: {**agent.learner.snapshot(agent.state), "sent": np.array(agent.tally.scalars_sent)}
        for agent in agents_of(engine)
    }


@pytest.mark.parametrize("learner", LEARNERS)
def test_on_links_that_do_nothing_it_has_the_bits_of_ideal_ones(learner):
    ideal, asked = (described(learner=LEARNERS[learner], links=links) for links in ({}, NOTHING))
    assert open_network(asked).plans[0].conditions is not None
    assert same(learned(lived(ideal)), learned(lived(asked)))


@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_to_run_a_network_give_the_same_bits(kind):
    experiment = described(learner=LEARNERS["newton"], **KINDS[kind])
    whole = learned(lived(experiment))
    assert same(whole, learned(lived(experiment, BLOCKS)))
    first = lived(experiment, rounds=9)
    plans = open_network(experiment).plans
    other = SerialEngine([[plans[k] for k in block] for block in BLOCKS])
    other.restore(first.snapshot(), 9)
    other.run(11)
    assert same(whole, learned(other))
    assert not same(whole, learned(lived(described(learner=LEARNERS["newton"], certainty=0.0, **KINDS[kind]))))


def lessons(variances, told):
    """Return the value and the variance that each point of a set leaves with a node, by the rule; 0 where nothing."""
    found = np.zeros((len(variances), 2))
    for k, mine in enumerate(variances):
        least, value = min(((message[k, 2], message[k, 0]) for message in told), default=(np.inf, 0.0))
        if mine > RATIO * least:
            found[k] = value, RATIO * least
    return found


def test_a_node_learns_what_the_messages_that_it_uses_say(monkeypatch):
    """Of each step: by dense inverses, from the messages that have arrived, which may be old and few.

    Agent by agent, whose bits compiled rounds have (`tests/agents/compiled/test_lossy_certainty.py`).
    """
    counts = {"own": 0, "neighbours'": 0, "late": 0, "pulls": 0}
    learn, step = LossyAgent._learn, Rls.step
    taken = []

    def noted(learner, state, evaluations, gradients, curvatures, targets, eta, taught):
        points = np.concatenate([evaluation.points for evaluation in evaluations])
        features = state.function.features(points)
        variances = np.einsum("ni,ij,nj->n", features, np.linalg.inv(state.root.T @ state.root), features)
        taken.append((variances, np.array(taught), [np.array(part) for part in gradients]))
        return step(learner, state, evaluations, gradients, curvatures, targets, eta, taught)

    def checked(agent, now):
        used, own, fresh = agent.used.copy(), agent.own.points, agent.sent_at[0]
        learn(agent, now)
        variances, taught, gradients = taken.pop()
        edges = range(len(agent.neighbors))
        answers, backward = (
            [agent.inbox.packets[e][int(agent.used[e, k])] for e in edges if agent.used[e, k] != used[e, k]]
            for k in (0, 1)
        )
        late = [packet.answer for packet in answers if packet.answered != fresh]
        sets = [(len(own), [packet.answer for packet in answers if packet.answered == fresh])]
        sets += [(len(message), [message]) for message in [*(packet.own for packet in backward), *late]]
        expected, before = [], 0
        for count, told in sets:
            expected.append(lessons(variances[before : before + count], told))
            before += count
        assert before == len(variances) == len(taught)
        assert np.concatenate(expected)[:, 0] == pytest.approx(taught[:, 0] * (taught[:, 2] > 0.0), rel=1e-9)
        assert np.concatenate(expected)[:, 1] == pytest.approx(taught[:, 2], rel=1e-9)
        before = len(own)
        for (count, (told,)), gradient in zip(sets[1:], gradients[len(gradients) - len(sets) + 1 :], strict=True):
            mine, theirs = variances[before : before + count], told[:, 2]
            alike = (mine <= RATIO * theirs) & (theirs <= RATIO * mine)
            assert not gradient[~alike].any()  # only pairs that are about as sure pull
            counts["pulls"] += int((gradient[alike] != 0.0).sum())
            before += count
        parts = expected[:1], expected[1 : 1 + len(backward)], expected[1 + len(backward) :]
        for name, found in zip(list(counts)[:3], parts, strict=True):
            counts[name] += sum(int((part[:, 1] > 0.0).sum()) for part in found)

    monkeypatch.setattr(Rls, "step", noted)
    monkeypatch.setattr(LossyAgent, "_learn", checked)
    lived(described(60, learner={**RLS, "batch_size": 2}, **LATE), compiled=False)
    assert min(counts.values()) > 5, counts


def test_what_is_heard_twice_is_taken_once():
    """A value that comes again finds a node that is as sure as it leaves one: the second time nothing moves."""
    engine = lived(described(30, **KINDS["bursts kept"]))
    agent = next(agent for agent in agents_of(engine) if agent.neighbors)
    at = np.array([[0.3]])
    evaluation = agent.learner.evaluate(agent.state, at)
    before = agent.variances_of(agent.learner.inner(agent.state, evaluation))[0]
    lesson = np.array([[1.0, 0.0, before / 4.0]])
    given = [evaluation], [np.zeros((1, 1))], [0.0], np.zeros((0, 1)), 1.0, lesson
    found = []
    for _ in range(2):
        agent.learner.step(agent.state, *given)
        after = agent.learner.evaluate(agent.state, at)
        found.append((agent.variances_of(agent.learner.inner(agent.state, after))[0], after.values[0, 0]))
    assert found[0][0] == pytest.approx(before / 4.0, rel=1e-9)
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("kind", ["late and lost", "bursts kept", "asleep", "churn without memory"])
def test_stated_variances_cover_the_errors(kind):
    """Over nodes, points and draws the mean squared error is at most what nodes state with s = 4.

    The ridge is one whose variances cover the target where nothing is known yet.
    """
    ratios, learner = [], {**RLS, "features": 100, "ridge": 0.02}
    for seed in range(4):
        experiment = described(60, learner, 4.0, seed=seed, **KINDS[kind])
        test = open_network(experiment).source.nodes[0].held_out(200)
        for agent in agents_of(lived(experiment)):
            evaluation = agent.learner.evaluate(agent.state, test.points)
            stated = agent.variances_of(agent.learner.inner(agent.state, evaluation))
            noise = 2.0 * 0.3**2  # of the curvature 2, in which variances are counted
            ratios.append(np.mean((evaluation.values - test.truth)[:, 0] ** 2 / (noise * stated)))
    assert 0.01 < np.mean(ratios) < 1.0


def test_it_says_and_counts_what_travels():
    experiment = described(7, links=NOTHING)
    directed, each = 2 * GRAPH.number_of_edges(), (1 + 1 + 2 + 1 + 1 + 1) * 2
    assert sum(agent.tally.scalars_sent for agent in agents_of(lived(experiment))) == 7 * directed * each
    assert message_bytes(open_network(experiment).plans, EXACT) == 8 * each
    assert "compiled rounds" in as_text(examine(experiment))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"links": {"quantization": {"bits": 8}}}, "links.quantization"),
        ({"links": {"noise": 0.1}}, "links.noise"),
        ({"links": {"clip": {"values": 1.0}}}, "links.clip"),
        ({"fault": [{"nodes": [0], "kind": "sign", "of": "messages"}]}, "fault"),
    ],
)
def test_what_changes_values_is_refused(table, key):
    with pytest.raises(InputError, match=f"certainty = 3 takes a value.*{key} changes it: leave out {key}"):
        open_network(described(**table))
    open_network(described(certainty=0.0, **table))
