"""What is kept of messages on unreliable links is counted, by the bytes that it takes, before anything is made."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.nodes.populating import populated
from kernelswarm.agents.nodes.population import LossyPopulation
from kernelswarm.agents.nodes.vector_population import VectorPopulation
from kernelswarm.simulations.core import machine
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running import footprint
from kernelswarm.simulations.running.footprint import messages
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Simulation

LINKS = [
    {"delay": 2},
    {"delay": 2, "max_age": 2, "on_missing": "repeat"},
    {"delay": 2, "max_age": 90},
    {"delay": {"name": "between", "shortest": 0, "longest": 7}, "bandwidth": 20.0, "max_age": 120},
    {"trigger": {"threshold": 0.1}, "on_missing": "repeat"},
]
FEATURES = {"name": "random_features", "features": 20, "kernel": {"name": "gaussian", "bandwidth": 0.1}}


def experiment(nodes: int, protocol: Any, links: Any = None, topology: str = "ring", **changes: Any) -> Experiment:
    table = {
        "seed": 3,
        "rounds": 30,
        "evaluate_every": 30,
        "topology": {"name": topology, "nodes": nodes},
        "stream": {"name": "sine_regression"},
        "learner": FEATURES,
        "protocol": protocol,
        **({} if links is None else {"links": links}),
        **changes,
    }
    return Experiment.from_dict(table)


def estimate(one: Experiment) -> float:
    network = open_network(one)
    found = messages(network.experiment, network.adjacency, network.plans, network.source.targets)
    return 0.0 if found is None else found.bytes


def measured(one: Experiment) -> int:
    """Return the bytes that a simulation holds at its end, once another has compiled and imported what it needs."""
    with Simulation(one) as simulation:
        next(iter(simulation))
    gc.collect()
    tracemalloc.start()
    try:
        with Simulation(one) as simulation:
            for _ in simulation:
                gc.collect()
                held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return held


def grown(sizes: Sequence[float]) -> tuple[float, float]:
    """Return what a node of a ring takes with its edge, and what another edge takes, from rings of 8 and 24 nodes and a
    complete network of 8."""
    small, large, dense = sizes
    return (large - small) / 16, (dense - small) / 20


def at_sizes(protocol: Any, links: Any, **changes: Any) -> list[Experiment]:
    sizes = [(8, "ring"), (24, "ring"), (8, "complete")]
    return [experiment(nodes, protocol, links, name, **changes) for nodes, name in sizes]


@pytest.mark.parametrize(
    ("protocol", "links"),
    [
        ("isolated", LINKS[0]),
        ({"name": "consensus", "replay": 2}, LINKS[3]),
        ("proximity", LINKS[1]),
        ("diffusion", LINKS[4]),
        ("diffusion_rls", LINKS[3]),
        ("dkla", LINKS[0]),
        ("stacking", LINKS[0]),
    ],
    ids=str,
)
def test_messages_on_their_way_take_what_is_estimated(protocol: Any, links: Any) -> None:
    """Within 0.7 to 1.4 of what a simulation holds beyond the same one on ideal links, by nodes and by edges."""
    ideal, lossy = (grown([measured(one) for one in at_sizes(protocol, each)]) for each in (None, links))
    node, edge = grown([estimate(one) for one in at_sizes(protocol, links)])
    assert 0.7 < node / (lossy[0] - ideal[0]) < 1.4
    if protocol == "isolated":
        assert edge == 0.0
    else:
        assert 0.7 < edge / (lossy[1] - ideal[1]) < 1.4


def test_variances_are_counted_with_the_values_that_they_are_of() -> None:
    """Features do not grow: no estimate knows what room dictionaries take."""
    learner = {"name": "rls", "features": 20, "kernel": FEATURES["kernel"]}
    changes = {"learner": learner, "rounds": 60, "evaluate_every": 60}
    certain = {"name": "consensus", "certainty": 4.0}
    ideal, lossy = (grown([measured(one) for one in at_sizes(certain, each, **changes)]) for each in (None, LINKS[0]))
    node, edge = grown([estimate(one) for one in at_sizes(certain, LINKS[0], **changes)])
    assert 0.7 < node / (lossy[0] - ideal[0]) < 1.4 and 0.7 < edge / (lossy[1] - ideal[1]) < 1.4


@pytest.mark.parametrize("protocol", ["consensus", "diffusion_rls"])
def test_the_estimate_is_of_the_arrays_that_a_population_makes(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte, but for what is drawn ahead and for the agents."""
    monkeypatch.setattr(footprint, "LISTENER", 0)
    monkeypatch.setattr(footprint, "rounds_ahead", lambda nodes, edges: 0)
    one = experiment(6, protocol, LINKS[2], rounds=3, evaluate_every=3)
    network = open_network(one)
    population: Any = populated([plan.build() for plan in network.plans])
    assert isinstance(population, LossyPopulation | VectorPopulation)
    arrays = list(population._messages.mail)
    if isinstance(population, LossyPopulation):
        kept = population._kept
        arrays += list(kept._replace(rows=np.zeros(0)))  # as wide as the dictionary
    assert estimate(one) == sum(array.nbytes for array in arrays)


def test_more_than_there_is_room_for_is_refused_with_max_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node sends a symmetric matrix of 1,000 features: 4 MB for each of 1,004 rounds."""
    monkeypatch.setattr(machine, "free", lambda: 3 * 10**9)
    wide = {"learner": {**FEATURES, "features": 1000}}
    assert open_network(experiment(8, "diffusion_rls", {"delay": 2}, **wide)).memory < 2 * 10**9
    with pytest.raises(
        InputError,
        match=r"^links\.max_age = 1000: messages of the last 1,004 rounds, .* take about 32\.2 GB .*: lower it",
    ):
        open_network(experiment(8, "diffusion_rls", {"delay": 2, "max_age": 1000}, **wide))
