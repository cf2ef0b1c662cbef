"""What ``kernelswarm check`` says of the actors and of how their rounds will be run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import networkx as nx
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Isolated
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment, Override
from kernelswarm.simulations.running.check import examine


@dataclass(frozen=True)
class Own(Gaussian):
    """A kernel of the user's own."""


DESCRIBED = Experiment(
    topology=nx.cycle_graph(12), stream=SensorField(), learner=Polk(kernel=Gaussian(0.3)), protocol=Consensus()
)


def checked(**changes):
    return dict(examine(replace(DESCRIBED, **changes))[0].lines)


@pytest.mark.parametrize(
    ("backend", "protocol", "expected"),
    [
        (Serial(), Consensus(), None),
        (Ray(), Consensus(), "12 of 1 node"),
        (Ray(nodes_per_actor=4), Consensus(), "3 of 4 nodes, 3 of the 12 edges between them"),
        (Ray(nodes_per_actor=5), Isolated(), "3 of 4 nodes"),
        (Ray(nodes_per_actor=11), Consensus(), "2 of 6 nodes, 2 of the 12 edges between them"),
        (Ray(nodes_per_actor=12), Consensus(), "1 of 12 nodes"),
    ],
    ids=str,
)
def test_actors_and_the_edges_between_them(backend, protocol, expected):
    assert checked(backend=backend, protocol=protocol).get("actors") == expected


@pytest.mark.parametrize("there", [1, 2, 3, 12])
@pytest.mark.parametrize("size", [1, 4, "auto"])
def test_more_actors_than_cores_are_warned_of_and_the_remedy_ends_the_warning(there, size, monkeypatch):
    monkeypatch.setattr("kernelswarm.simulations.running.check.cores", lambda: there)
    found = checked(backend=Ray(nodes_per_actor=size))
    assert ("warning" in found) == (int(found["actors"].split()[0]) > there)
    assert ('backend.nodes_per_actor = "auto"' in found.get("warning", "")) == ("warning" in found)
    assert "warning" not in checked(backend=Ray(nodes_per_actor=size), protocol=Isolated())


def test_blocks_of_unequal_size():
    assert checked(topology=nx.path_graph(7), backend=Ray(nodes_per_actor=4))["actors"] == (
        "2 of up to 4 nodes, 1 of the 6 edges between them"
    )


def test_the_way_in_which_rounds_are_run():
    assert checked()["execution"] == "compiled rounds"
    assert (
        checked()["backend"]
        == checked(learner=Polk(kernel=Own(0.3)), backend=Serial(5))["backend"]
        == "serial threads = 1"
    )
    assert checked(backend=Serial(5))["execution"] == "compiled rounds, in up to 4 threads of 3 nodes"
    assert checked(backend=Serial(5))["backend"] == "serial threads = 4"
    own = checked(learner=Polk(kernel=Own(0.3)), backend=Serial(5))["execution"]
    assert own == "compiled rounds, which call the kernel Own in Python"
    mixed = {"overrides": (Override((3,), {"batch_size": 2}),), "backend": Ray(nodes_per_actor=4)}
    assert checked(**mixed)["execution"] == "compiled rounds"


def test_more_actors_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_backend.free", lambda: 0)
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_backend.actor_bytes", lambda server: 10**8)
    with pytest.raises(InputError, match=r"^backend.nodes_per_actor: 12 processes take about 1.2 GB of memory"):
        checked(backend=Ray())
    checked(backend=Ray(address="auto"))  # a cluster's memory is not this machine's


@pytest.mark.parametrize(
    ("topology", "rounds", "protocol", "warned"),
    [
        ({"name": "ring", "nodes": 142}, 1000, "consensus", "diameter^2 / 3 = 1,680 rounds, and there are 1,000"),
        ({"name": "ring", "nodes": 142}, 1700, "consensus", ""),
        ({"name": "ring", "nodes": 142}, 1000, "isolated", ""),
        ({"name": "erdos_renyi", "nodes": 142}, 1000, "consensus", ""),
        ("ring", 10, "consensus", ""),
    ],
)
def test_a_long_way_across_the_network_is_warned_of(topology, rounds, protocol, warned):
    keys = {"topology": topology, "stream": "sine_regression", "learner": "polk"}
    experiment = Experiment.from_dict({**keys, "protocol": protocol, "rounds": rounds})
    (network,) = [section for section in examine(experiment) if section.title.startswith("network")]
    assert warned in dict(network.lines).get("warning", "")
    assert bool(warned) == ("warning" in dict(network.lines))
