"""What is too large for the machine is refused before anything large is made, with key, numbers and remedy."""

from __future__ import annotations

import gc
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.core import machine
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.pooled import members, pool
from kernelswarm.simulations.engine.comparing import Comparison
from kernelswarm.simulations.engine.measure import measure
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.footprint import AGENT, Bounded, needs, require
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import SMALL, commands

ROOM = 3 * 10**9
"""Bytes that the tests pretend to be free."""

HUGE = [
    ("evaluation.local_samples=1000000000", "evaluation.local_samples"),
    ("learner.batch_size=100000", "learner.batch_size"),
    ("learner.batch_size=1000000000", "learner.batch_size"),
    ("learner.batch_size=9223372036854775807", "learner.batch_size"),
    ("stream={ name = 'sensor_field', terms = 1000000000000000000 }", "stream.terms"),
    ("stream={ name = 'sensor_field', terms = 100000 }", "stream.terms"),
    ("stream={ name = 'gaussian_mixture', classes = 1000000000 }", "stream.classes"),
    ("stream={ name = 'gaussian_mixture', modes = 1000000000 }", "stream.modes"),
    ("stream={ name = 'gaussian_mixture', inputs = 1000000000000 }", "stream.inputs"),
    ("learner={ name = 'random_features', features = 1000000000000 }", "learner.features"),
    ("learner={ name = 'random_features', features = 10000000 }", "learner.features"),  # one node has room
    ("learner={ name = 'rbf_network', centers = 1000000000 }", "centers"),
    ("learner.kernel={ name = 'polynomial', degree = 9223372036854775807 }", "degree"),
    ("topology={ name = 'networkx:path_graph', n = 1000000000000 }", "topology.n"),
    ("topology.nodes=1000000000000", "nodes"),
    ("topology={ name = 'complete', nodes = 100000 }", "edges"),
]


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    (tmp_path / "e.toml").write_text(SMALL)
    monkeypatch.setattr(machine, "free", lambda: ROOM)
    monkeypatch.chdir(tmp_path)
    return commands(capsys)


def test_room_for_the_points_of_all_neighbours_is_counted(monkeypatch):
    monkeypatch.setattr(machine, "free", lambda: ROOM)
    tables = {"topology": {"name": "complete", "nodes": 700}, "stream": "sine_regression", "learner": "newton"}
    with pytest.raises(InputError, match=r'protocol\.form = "symmetric": 700 functions with room .* 700 at most'):
        open_network(Experiment.from_dict({**tables, "protocol": "consensus"}))
    one_sided = {"name": "consensus", "form": "one_sided"}
    assert open_network(Experiment.from_dict({**tables, "protocol": one_sided})).memory < ROOM


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no limit is known, and these would really be tried")
@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(("change", "key"), HUGE)
def test_what_no_machine_holds_is_refused_with_its_key(call, command, change, key):
    answer = call(command, "e.toml", "--set", change, *(["--trust"] if command == "check" else ["--out", "here"]))
    assert answer.code == 2
    assert key in answer.err
    assert answer.err.count("\n") == 1
    assert not Path("here").exists()


def test_the_points_of_neighbors_count_where_they_are_learned_from(call):
    protocol = "protocol={ name = 'consensus', form = 'symmetric' }"
    answer = call("check", "e.toml", "--set", "learner.batch_size=100000", "--set", protocol)
    assert "steps on 300,000 points take about 2.16 TB" in answer.err


def test_what_cannot_be_lowered_is_not_to_be_lowered(call):
    hub = ["--set", "topology={ name = 'star', nodes = 20000 }", "--set", "protocol={ name = 'consensus' }"]
    answer = call("check", "e.toml", *hub)
    assert answer.code == 2
    assert "steps on 20,000 points take about 9.6 GB" in answer.err
    assert answer.err.startswith('kernelswarm: protocol.form = "symmetric": ') and 'take "one_sided"' in answer.err
    wide = ["--set", "stream={ name = 'gaussian_mixture', inputs = 60 }", "--set", "topology.nodes=60"]
    model = "learner={ name = 'linear', loss = 'multiclass_logistic' }"
    answer = call("check", "e.toml", *wide, "--set", model, "--set", "evaluation.local_samples=5000000")
    assert answer.code == 2 and "lower it" in answer.err and "evaluation.local_samples = 5000000" in answer.err


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "e.toml").write_text(SMALL)
    return Experiment.from_file(tmp_path / "e.toml")


def need_of(experiment, key):
    network = open_network(experiment)
    found = needs(network.experiment, network.adjacency, network.source, network.outputs)
    return next(need.bytes for need in found if need.key == key), network


@pytest.mark.parametrize("nodes", [3, 8])
def test_held_out_samples_take_what_is_estimated(experiment, nodes):
    experiment = experiment.with_changes({"topology.nodes": nodes, "evaluation.local_samples": 70})
    estimate, network = need_of(experiment, "evaluation.local_samples")
    held_out = [source.held_out(0) for source in network.source.nodes]
    assert estimate == sum(entry.points.nbytes + entry.targets.nbytes + entry.truth.nbytes for entry in held_out)


@pytest.mark.parametrize(("nodes", "limit"), [(3, 50), (3, 1000), (200, 1000)])
def test_values_at_pooled_samples_take_what_is_estimated(experiment, nodes, limit, monkeypatch):
    experiment = experiment.with_changes({"topology.nodes": nodes, "evaluation.global_samples": limit})
    estimate, network = need_of(experiment, "evaluation.global_samples")
    pooled = pool([network.source.nodes[k].held_out(0) for k in members(nodes, limit)], limit)
    agents = [plan.build() for plan in network.plans]
    held, add = [], Comparison.add

    def adding(comparison, turn, values):
        held.append(sum(known.nbytes for known in (*comparison.values.values(), *values)))
        add(comparison, turn, values)

    monkeypatch.setattr(Comparison, "add", adding)
    measure(agents, [plan.evaluated for plan in network.plans], pooled, network.adjacency.labelled_edges)
    measured = max(held) + pooled.points.nbytes + pooled.targets.nbytes
    assert measured <= estimate < 1.3 * measured


def test_measurements_that_stay_in_memory_are_counted_and_those_of_a_folder_are_not(experiment, monkeypatch):
    monkeypatch.setattr(machine, "free", lambda: ROOM)
    endless = experiment.with_changes({"rounds": 2**63 - 1})
    with pytest.raises(
        InputError, match=r"^evaluate_every = 2: the measurements of 4,611,686,018,427,387,904 evaluations"
    ):
        simulate(endless)
    assert open_network(endless).rounds == 2**63 - 1


def test_a_ring_needs_what_its_agents_do(experiment):
    small, _ = need_of(experiment.with_changes({"topology.nodes": 10}), "topology")
    large, _ = need_of(experiment.with_changes({"topology.nodes": 20}), "topology")
    assert large == 2 * small > 20 * AGENT


def test_agents_on_other_machines_are_not_counted(experiment, monkeypatch):
    monkeypatch.setattr(machine, "free", lambda: ROOM)
    huge = experiment.with_changes({"learner.batch_size": 100_000})
    network = open_network(experiment)
    found = needs(huge, network.adjacency, network.source, network.outputs)
    with pytest.raises(InputError, match=r"learner\.batch_size"):
        require(huge, found)
    require(Experiment(huge.topology, huge.stream, huge.learner, huge.protocol, Ray(address="auto")), found)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process takes")
def test_the_limit_holds_inside_and_is_lifted_after():
    with machine.limited(10**9):
        np.ones(10**6)
        with pytest.raises(MemoryError):
            np.zeros(10**9)  # promised without the limit, page by page
    assert np.zeros(10**8).nbytes == 8 * 10**8  # within what any machine promises


def test_the_largest_number_of_a_part_is_named():
    part = Experiment.from_dict(
        {
            "topology": "ring",
            "stream": {"name": "gaussian_mixture", "classes": 7, "inputs": 12},
            "learner": {"name": "polk", "loss": "multiclass_logistic"},
            "protocol": "isolated",
        }
    ).stream
    for size in (2**64, (2**40, 2**40)):
        with pytest.raises(InputError, match=r"^stream\.inputs = 12 takes more memory than"), Bounded("stream", part):
            np.zeros(size)
    with pytest.raises(InputError, match=r"^stream\.inputs = 12 takes more memory than"), Bounded("stream", part):
        raise MemoryError
    with pytest.raises(OverflowError, match="math range error"), Bounded("stream", part):
        math.exp(1e4)


def test_a_look_at_a_large_network_plans_some_of_its_agents(experiment):
    most = 100
    large = experiment.with_changes({"topology.nodes": 3 * most})
    network = open_network(large, most)
    planned = [plan.neighborhood.node for plan in network.plans]
    assert planned == list(range(0, 3 * most, 3))
    assert network.graph.number_of_nodes() == 3 * most


def test_the_agents_of_a_look_are_those_of_the_run(experiment):
    whole = {plan.neighborhood.node: plan for plan in open_network(experiment).plans}
    some = open_network(experiment, 2).plans
    assert [plan.neighborhood.node for plan in some] == [0, 1]
    for plan in some:
        other = whole[plan.neighborhood.node]
        assert repr(plan.neighborhood) == repr(other.neighborhood)
        assert (plan.slots, plan.learner, plan.rule) == (other.slots, other.learner, other.rule)


def test_the_collector_goes_on_after_a_network_is_made(experiment):
    assert gc.isenabled()
    open_network(experiment)
    assert gc.isenabled()
    with pytest.raises(InputError):
        open_network(experiment.with_changes({"learner.batch_size": 10**12}))
    assert gc.isenabled()
