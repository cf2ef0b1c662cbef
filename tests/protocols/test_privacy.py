"""What noisy links give away: the closed forms, and attacks that try for more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.nodes.inbox import parted
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.distortion import EXACT, QUANTILE, Gaussian, Laplace, Spent, distort, gaussian, laplace
from kernelswarm.protocols.links.links import Clip, Links
from kernelswarm.protocols.links.privacy import privacy, privacy_of_samples
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

SYMMETRIC = {"symmetric": True, "sends_row_sums": False, "sends_duals": False, "inputs": 2, "outputs": 1, "repeats": 1}
ONE_SIDED = {**SYMMETRIC, "symmetric": False}


@cached_njit
def _messages(start: np.ndarray, count: int, bound: float, scale: float, quantile: int) -> np.ndarray:
    found = np.empty((count, start.shape[0], start.shape[1]))
    for n in range(count):
        copy_matrix(start, found[n])
        distort(found[n], bound, scale, quantile, EXACT, 17, 23, n, 0)
    return found


def messages(noise: Any, point: list[float], bound: float, count: int = 100_000) -> Any:
    """Send a point again and again, each time with new noise."""
    return _messages(np.array([point]), count, bound, noise.scale, address(noise.quantile, QUANTILE))[:, 0]


@pytest.mark.parametrize("numbers", [1, 2])
def test_no_event_tells_two_clipped_points_apart_by_more_than_epsilon(numbers: int) -> None:
    """And some event by all of it: far out on one side the likelihood ratio is ``exp(epsilon)``."""
    noise, bound = Laplace(1.5, "both"), 0.5
    spent = privacy(Links(noise=noise, clip=Clip(points=bound)), **{**ONE_SIDED, "inputs": numbers}).sample
    assert spent is not None and spent.squared_mu == 0.0
    epsilon = spent.epsilon(1e-5)
    assert epsilon == pytest.approx(2 * bound * numbers / noise.scale)
    left, right = (messages(noise, [sign * 40.0] * numbers, bound) for sign in (-1.0, 1.0))
    edges = np.linspace(-3.0, 3.0, 7)
    bins = [np.concatenate([[-np.inf], edges, [np.inf]])] * numbers
    first, second = (np.histogramdd(one, bins)[0] for one in (left, right))
    seen = (first > 100) & (second > 100)
    ratios, slack = np.log(first / second), 5.0 * np.sqrt(1.0 / first + 1.0 / second)
    assert seen.sum() > 4**numbers
    assert (np.abs(ratios) <= epsilon + slack)[seen].all()
    assert np.abs(ratios[seen]).max() > 0.9 * epsilon


@pytest.mark.parametrize("deviation", [0.02, 0.7, 2.0, 9.0, 400.0])
@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("delta", [1e-12, 1e-4])
def test_normal_noise_is_exactly_as_private_as_it_says(deviation: float, times: int, delta: float) -> None:
    """The worst event, all beyond a threshold: its probabilities, weighed by exp(epsilon), are apart by delta."""
    sensitivity = 2.0
    spent = gaussian(sensitivity, deviation).times(times)
    epsilon = spent.epsilon(delta)
    apart = math.sqrt(times) * sensitivity / deviation  # the sum of so many is one with its deviation's root
    beyond = epsilon / apart + apart / 2 + np.linspace(-9.0, 9.0, 4001)
    gained = norm.sf(beyond - apart) - np.exp(np.minimum(epsilon + norm.logsf(beyond), 1.0))
    assert gained.max() <= delta * (1 + 1e-6)
    assert gained.max() == pytest.approx(delta, rel=1e-3)
    zero_concentrated = apart**2 / 2 + apart * math.sqrt(2 * math.log(1 / delta))
    assert epsilon < zero_concentrated  # Bun and Steinke 2016, proposition 1.3


def test_noise_in_which_a_sample_drowns_gives_nothing_away() -> None:
    assert gaussian(1.0, 1e6).epsilon(1e-5) == 0.0


def test_kinds_add_up_each_in_its_own_way() -> None:
    mixed = laplace(3.0, 2.0) + gaussian(1.0, 2.0) + laplace(1.0, 2.0)
    assert mixed == Spent(pure=2.0, squared_mu=0.25)
    assert mixed.epsilon(0.01) == pytest.approx(2.0 + gaussian(1.0, 2.0).epsilon(0.01))
    assert laplace(1.0, 2.0).epsilon(1e-300) == 0.5  # holds at delta = 0


def test_a_sample_is_its_point_and_in_the_symmetric_form_its_value() -> None:
    links = Links(noise=Gaussian(3.0, "both"), clip=Clip(points=1.0, values=2.0))
    point, value = gaussian(2 * math.sqrt(2), 3.0), gaussian(4.0, 3.0)
    assert privacy(links, **ONE_SIDED).sample == point
    assert privacy(links, **SYMMETRIC).sample == point + value
    assert privacy(links, **{**SYMMETRIC, "repeats": 3}).sample == point.times(3) + value.times(3)
    assert privacy(links, **SYMMETRIC).answer == value
    assert "a sample's own point and value: epsilon " in privacy(links, **SYMMETRIC).text(1e-5)


@pytest.mark.parametrize(
    ("links", "changes", "message"),
    [
        (Links(noise=Gaussian(1.0), clip=Clip(1.0, 1.0)), {}, "points are sent without noise"),
        (Links(noise=Gaussian(1.0, "both"), clip=Clip(values=1.0)), {}, "set links.clip.points"),
        (Links(noise=Gaussian(1.0, "points"), clip=Clip(points=1.0)), {}, "values are sent without noise"),
        (Links(noise=Gaussian(1.0, "both"), clip=Clip(1.0, 1.0)), {"sends_row_sums": True}, "row sums depend on it"),
        (Links(noise=Gaussian(1.0, "both"), clip=Clip(1.0, 1.0)), {"sends_duals": True}, "dual variables depend"),
    ],
)
def test_what_nothing_bounds_is_said(links: Links, changes: dict[str, Any], message: str) -> None:
    found = privacy(links, **{**SYMMETRIC, **changes})
    assert found.sample is None and message in found.text(1e-5)


def test_of_a_sample_for_the_one_learner_point_and_target_are_known_and_no_more() -> None:
    links = Links(noise=Gaussian(3.0, "both"), clip=Clip(points=1.0, values=2.0))
    found = privacy_of_samples(links, inputs=2, targets=1, classes=False, repeats=3)
    assert found.sample == gaussian(2 * math.sqrt(2), 3.0).times(3) + gaussian(4.0, 3.0).times(3)
    assert found.answer is None and found.text(1e-5).endswith("; nothing else is sent of it")
    assert "its class is sent as it is" in privacy_of_samples(links, 2, 1, classes=True, repeats=1).text(1e-5)
    assert privacy_of_samples(Links(noise=Gaussian(1.0), clip=Clip(1.0, 1.0)), 2, 1, False, 1).sample is None


def described(**tables: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "topology": {"name": "ring", "nodes": 5},
            "stream": "sine_regression",
            "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2},
            "protocol": {"name": "consensus", "form": "one_sided"},
            "links": {"noise": {"name": "laplace", "scale": 2.0, "on": "both"}, "clip": {"points": 1.0, "values": 1.5}},
            "rounds": 12,
            "evaluate_every": 12,
            **tables,
        }
    )


def received(agent: Any, sender: int) -> dict[int, tuple[Any, Any]]:
    """Return the points and answers of a neighbour's messages, by the rounds in which they were sent."""
    kept, edge = agent.inbox.arrays, agent.neighbors.index(sender)
    answers, heads = iter(parted("inbox.answers", kept)), kept["inbox.heads"].tolist()
    each = zip(heads, kept["inbox.there"][:, 1], parted("inbox.points", kept), strict=True)
    found = [(head, points, next(answers) if answered else None) for head, answered, points in each]
    return {head[1]: (points, answer) for head, points, answer in found if head[0] == edge}


def test_neighbours_receive_the_same_noise_in_one_message_for_each_sample() -> None:
    """Together they know no more of a sample than one of them: what is accounted for is received once."""
    engine = SerialEngine([open_network(described()).plans])
    engine.run(12)
    engine.snapshot()  # so that the agents have what they received
    agents = {agent.node: agent for agent in engine.blocks[0].agents}
    for node, agent in agents.items():
        inboxes = [received(agents[other], node) for other in agent.neighbors]
        assert inboxes[0].keys() == inboxes[1].keys() and len(inboxes[0]) > 5
        for sent in inboxes[0]:
            (points, answer), (others, other) = inboxes[0][sent], inboxes[1][sent]
            np.testing.assert_array_equal(points, others)
            assert sent == 0 or not np.array_equal(answer, other)
        points = np.concatenate([points for points, _ in inboxes[0].values()])
        assert len(np.unique(points)) == points.size


def of_the_one_learner(network: Any, left: np.ndarray, now: int) -> np.ndarray:
    return np.hstack(network.plans[0].source._distorted(0, left, left, now))


def of_cells(network: Any, left: np.ndarray, now: int) -> np.ndarray:
    block = Block(network.plans)
    block.run(3)
    block._population.now = now
    whole, new = np.stack([left] * 5), np.array([len(left), -1, -1, -2, 0])
    points, targets = block._population._released(whole, whole, new)
    assert (points[1:] == whole[1:]).all()
    return np.hstack([points[0], targets[0]])


@pytest.mark.parametrize(
    ("protocol", "release"),
    [("centralized", of_the_one_learner), ("summaries", of_cells)],
    ids=["one learner", "cells"],
)
def test_what_is_sent_of_a_sample_is_as_private_as_it_says(protocol: str, release: Any) -> None:
    """Two samples clipped to opposite corners: no event of the message tells them apart by more than is said."""
    experiment = described(protocol=protocol, rounds=4, evaluate_every=4)
    account = simulate(experiment).summary["privacy"]
    assert (account["sample"], account["answer"]) == (1.0 + 1.5, None)
    words = dict(next(one for one in examine(experiment) if one.title == "links and clock").lines)["privacy"]
    assert words == account[""] == "a sample's own point and target: epsilon 2.5; nothing else is sent of it"
    left, right = (
        np.concatenate([release(open_network(experiment), np.full((10_000, 1), far), now) for now in range(5)])
        for far in (-40.0, 40.0)
    )
    bins = [np.array([-np.inf, -1.5, 0.0, 1.5, np.inf])] * 2
    first, second = (np.histogramdd(one, bins)[0] for one in (left, right))
    ratios, slack = np.log(first / second), 5.0 * np.sqrt(1.0 / first + 1.0 / second)
    assert (np.abs(ratios) <= 2.5 + slack).all() and np.abs(ratios).max() > 0.9 * 2.5
    assert simulate(described(protocol="centralized", links={"loss": 0.1})).summary["privacy"] is None


def test_check_and_the_run_say_what_is_private() -> None:
    sections = {one.title: dict(one.lines) for one in examine(described())}
    words = "a sample's own point: epsilon 1; each answer: epsilon 1.5; what later values show"
    assert sections["links and clock"]["privacy"].startswith(words)
    summary = simulate(described()).summary["privacy"]
    assert (summary["sample"], summary["answer"], summary["delta"]) == (1.0, 1.5, 1e-5)
    assert summary[""] == sections["links and clock"]["privacy"]
    assert simulate(described(links={})).summary["privacy"] is None
    loads = simulate(described(protocol="consensus")).summary["privacy"]
    assert loads["sample"] is None and "row sums depend on it" in loads[""]
