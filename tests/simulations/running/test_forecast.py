"""What ``kernelswarm check`` forecasts of links and clock, held against what comes."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Batch, Centralized, Isolated
from kernelswarm.protocols.links.arrivals import Between, DistanceDelay, EdgeLoss, Uniform
from kernelswarm.protocols.links.clocks import Bernoulli, Synchronous
from kernelswarm.protocols.links.distortion import Gaussian as GaussianNoise
from kernelswarm.protocols.links.links import Clip, Links, Quantization
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.forecast import forecast, message_bytes, share_awake, transit
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

DESCRIBED = Experiment(
    topology=nx.cycle_graph(12), stream=SensorField(), learner=Polk(kernel=Gaussian(0.3)), protocol=Consensus()
)
GRAPH = nx.cycle_graph(40)  # many nodes: each has a rate of its own where clocks are Poisson's
MIXES = {
    "uniform": {"links": {"loss": 0.3}},
    "bursts": {"links": {"loss": {"name": "bursts", "worsens": 0.2, "recovers": 0.3, "good": 0.1, "bad": 0.8}}},
    "too late": {"links": {"delay": {"name": "geometric", "mean": 4.0}, "max_age": 5, "loss": 0.2}},
    "rounded": {"links": {"quantization": {"bits": 5}}},
    "narrow": {"links": {"bandwidth": 5.0, "loss": 0.2, "delay": {"name": "between", "longest": 4}, "max_age": 3}},
    "asleep": {"clock": {"name": "stragglers", "share": 0.5, "longest": 6}},
    "poisson": {"clock": {"name": "poisson", "slowest": 0.3, "fastest": 1.5}},
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("protocol", [{"name": "consensus"}, {"name": "proximity", "form": "one_sided"}], ids=str)
def test_what_is_forecast_of_links_and_clock_is_what_comes(mix, protocol):
    rounds = 300
    described = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": "sine_regression",
            "learner": {"name": "linear", "batch_size": 2},
            "protocol": protocol,
            "rounds": rounds,
            "evaluate_every": rounds,
            **MIXES[mix],
        }
    )
    plans = open_network(described).plans
    found, last = forecast(described.links, plans), simulate(described).network
    messages = float(last["messages"][-1])
    awake = 2 * GRAPH.number_of_edges() * rounds / transit(described.links, plans)
    assert messages / awake == pytest.approx(share_awake(described.clock, np.linspace(0, 1, 1000)), abs=0.06)
    assert last["lost"][-1] / messages == pytest.approx(found.lost, abs=0.03)
    assert last["late"][-1] / messages == pytest.approx(found.late, abs=0.03)
    assert last["bytes_sent"][-1] / messages == message_bytes(plans, described.links.bits)


def test_the_forecast_delay_is_the_mean_of_those_that_arrive():
    described = replace(DESCRIBED, links=Links(delay=Between(1, 4), loss=Uniform(0.7)))
    assert forecast(described.links, open_network(described).plans).delay == pytest.approx(2.5)


def test_check_speaks_of_links_and_clock_where_they_are_not_ideal():
    def lines(**changes):
        return dict(
            next((one.lines for one in examine(replace(DESCRIBED, **changes)) if one.title == "links and clock"), [])
        )

    assert lines() == lines(links=Links(max_age=3, damping=1.0), clock=Synchronous()) == {}
    lossy = Links(loss=Uniform(0.25), quantization=Quantization(8))
    assert lines(links=lossy)["links"] == (
        "0.25 of the messages lost, 0 rounds late on average, 13 bytes each instead of 40"
    )
    assert lines(clock=Bernoulli(0.2)) == {"clock": "nodes awake in 0.2 of the rounds"}
    assert "nothing is sent" in lines(links=lossy, protocol=Isolated())["links"]
    assert "messages to the one learner" in lines(links=lossy, protocol=Centralized())["links"]
    assert "ignored" in lines(links=lossy, protocol=Batch())["links"]


def test_check_counts_what_is_said_of_bands_and_says_that_it_has_no_noise():
    bands = Evaluation(level=0.9, bands="pooled")

    def lines(title, **changes):
        return dict(next(one.lines for one in examine(replace(DESCRIBED, **changes)) if one.title == title))

    own, pooled = lines("cost"), lines("cost", evaluation=bands)
    assert int(pooled["scalars a round"]) - int(own["scalars a round"]) == 12 * 2 * 2
    lossy = Links(loss=Uniform(0.25), quantization=Quantization(8))
    assert "29 bytes each instead of 56" in lines("links and clock", links=lossy, evaluation=bands)["links"]
    noisy = Links(noise=GaussianNoise(0.5, "both"), clip=Clip(1.0, 1.0))
    one_sided = Consensus(form="one_sided")
    texts = [
        lines("links and clock", links=noisy, protocol=one_sided, evaluation=each)["privacy"]
        for each in (Evaluation(level=0.9), bands)
    ]
    assert "exposed" not in texts[0] and "messages of bands" in texts[1]
    narrow = Links(bandwidth=5.0)  # of the 5 scalars of a message, to which bands add 2
    for each, rounds in ((Evaluation(level=0.9), 1), (bands, 2)):
        assert transit(narrow, open_network(replace(DESCRIBED, evaluation=each, links=narrow)).plans) == rounds


def test_links_that_need_what_edges_lack_are_refused_before_anything_runs():
    def examine_with(**changes):
        return examine(replace(DESCRIBED, **changes))

    with pytest.raises(InputError, match=r"^links.loss.attribute = 'loss' is not a number on the edge between 1 and 0"):
        examine_with(links=Links(loss=EdgeLoss()))
    with pytest.raises(InputError, match=r"^links.delay.speed = 0.0001 makes a message take"):
        examine_with(links=Links(delay=DistanceDelay(0.0001)))
    examine_with(links=Links(loss=EdgeLoss()), protocol=Isolated())  # which has no edges
