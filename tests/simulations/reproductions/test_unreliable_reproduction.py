"""What is asked of networks on unreliable links, and what is made of the answers."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from kernelswarm.graphs.schedules import Activation, Always
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.reproductions import unreliable_links
from kernelswarm.simulations.reproductions.unreliable_links import (
    EXACT,
    GRAPHS,
    GRIDS,
    STREAMS,
    SWEEPS,
    Outcome,
    asked,
    at,
    cheapest,
    medians,
    over,
    shares,
    swept,
)
from kernelswarm.simulations.running.forecast import forecast, share_awake
from kernelswarm.simulations.running.network import open_network

RING = "sine, ring"


def described(tables):
    return Experiment.from_dict(
        {
            **tables,
            "topology": {**GRAPHS["ring"], **tables.get("topology", {})},
            "stream": dict(STREAMS["sine"]),
            "learner": "polk",
            "protocol": "consensus",
        }
    )


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, sweep in SWEEPS.items() for value in sweep["values"]]
)
def test_every_kind_of_unreliability_is_as_much_as_it_says(name, value):
    experiment = Experiment.from_dict(
        {**swept([RING], {name: [value]})[at(name, value, "consensus", RING)], "learner": "polk"}
    )
    links, clock = experiment.links, experiment.clock
    found, awake = forecast(links, open_network(experiment).plans), share_awake(clock, np.array([0.5]))
    expected = {"loss": value, "bursts": 0.3}.get(name, 0.0)
    assert found.lost == pytest.approx(expected)
    busy = {"delay": value, "bandwidth": math.ceil(5 / value) - 1}  # a message has 5 numbers
    assert (found.delay, found.late) == (busy.get(name, 0.0), 0.0)
    assert awake == pytest.approx({"awake": value, "churn": 1.0 - value}.get(name, 1.0))
    assert clock.ideal != ("asleep" in SWEEPS[name])
    assert links.bits == (value if name == "bits" else 64)
    assert links.trigger.threshold == (value if name == "trigger" else 0.0)
    assert experiment.schedule == (Activation(value) if name == "edges" else Always())
    if name == "bursts":
        assert 1.0 / links.loss.recovers == pytest.approx(value)


def test_no_delay_is_dropped_as_too_old():
    grid = GRIDS["strained"]
    axes = {"delay": grid["axes"]["delay"], "problem": [RING]}
    for run in asked("{delay}", grid["keys"], {}, **axes).values():
        experiment = described(run)
        assert forecast(experiment.links, open_network(experiment).plans).late == 0.0


def test_a_stopped_run_counts_as_infinitely_wrong():
    runs = [Outcome(1.0, 2.0, 8.0), Outcome(3.0, 4.0, 8.0), Outcome(np.nan, np.nan, np.nan, stopped=1)]
    assert medians(runs) == Outcome(3.0, 4.0, 8.0, stopped=1)
    most = medians([runs[0], runs[2], runs[2]])
    assert np.isnan(most.error) and most.stopped == 2


def test_the_cheapest_is_among_those_that_err_no_more():
    plain, rare, rounded, both = product((EXACT, "8 bits"), ("", ", trigger 0.1"))
    errors = {plain: (2.0, 100.0), rounded: (2.09, 40.0), rare: (1.9, 60.0), both: (2.2, 10.0)}
    found = {f"{''.join(pair)}: {RING}, b = 1": Outcome(error, 0.0, sent) for pair, (error, sent) in errors.items()}
    cost = shares(found, f"{RING}, b = 1", (EXACT, "8 bits"), ("", ", trigger 0.1"))
    assert cost[plain] == (1.0, 1.0) and cost[both] == pytest.approx((0.1, 1.1))
    assert cheapest(cost) == rounded


def test_isolated_nodes_are_those_of_the_same_clock():
    found = {
        at("ideal", 0.0, "isolated", RING): Outcome(2.0, 8.0, 0.0),
        at("ideal", 0.0, "consensus", RING): Outcome(0.5, 1.0, 0.0),
        at("loss", 0.5, "consensus", RING): Outcome(1.0, 2.0, 0.0),
        at("awake", 0.2, "isolated", RING): Outcome(4.0, 16.0, 0.0),
        at("awake", 0.2, "consensus", RING): Outcome(1.0, 2.0, 0.0),
    }
    assert over(found, "loss", 0.5, "consensus", RING, "error", True) == 0.5
    assert over(found, "awake", 0.2, "consensus", RING, "error", True) == 0.25
    assert over(found, "awake", 0.2, "consensus", RING, "disagreement", True) == 0.125
    assert over(found, "awake", 0.2, "consensus", RING, "error", False) == 2.0


def test_changing_networks_are_set_beside_isolated_nodes_of_their_stream():
    found = {
        "isolated: sine, ring": Outcome(2.0, 8.0, 0.0),
        "consensus: sine, ring": Outcome(0.5, 1.0, 64_000.0),
        "consensus: sine, directed ring": Outcome(1.0, 1.0, 32_000.0),
        "isolated: patches, ring": Outcome(4.0, 8.0, 0.0),
        "consensus: patches, ring": Outcome(0.1, 1.0, 64_000.0),
    }
    assert [(row.measured, row.settings[-5:]) for row in unreliable_links.rows(found)] == [
        ("consensus: 0.250", "64 kB"),
        ("consensus: 0.500", "32 kB"),
        ("consensus: 0.025", "64 kB"),
    ]


@pytest.mark.parametrize("problem", unreliable_links.CHANGING_PROBLEMS)
def test_every_changing_network_is_one_of_eight_nodes(problem):
    graph = problem.partition(", ")[2]
    network = open_network(described({"topology": dict(GRAPHS[graph])}))
    assert len(network.graph) == 8
    conditions = network.plans[0].conditions
    if "," in graph:
        assert conditions.timetable is not None
    assert (conditions is not None and conditions.directed) == (graph in ("directed ring", "three asked"))
