"""The Ray backend lives through the serial backend's rounds, bit for bit, however the nodes are spread over actors."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.nodes.node import PRIMING, DivergenceError
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant, Settling
from kernelswarm.protocols import tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Flooding, Isolated
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.links.arrivals import Between, Uniform
from kernelswarm.protocols.links.links import Links
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.diffusion_rls import DiffusionRls
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.data.pooled import pool
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.cache_warmup import warm_cache
from kernelswarm.simulations.engine.engine import block_neighbors
from kernelswarm.simulations.engine.host import Host
from kernelswarm.simulations.engine.model_arrays import digest
from kernelswarm.simulations.engine.ray_backend import Ray, RayEngine
from kernelswarm.simulations.engine.ray_session import CHANNEL_BYTES
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment, Override
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Simulation, simulate
from tests.helpers.brittle import Brittle
from tests.helpers.ending import Ending
from tests.helpers.plain_parts import PlainConsensus, PlainPolk, PlainProximity, PlainSquared
from tests.helpers.plain_rules import PlainEnsemble, PlainMomentum
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table as with_gaps

pytestmark = pytest.mark.usefixtures("kept_ray")

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
UNROLLED = 4
"""Rounds in one execution of the compiled graph."""
ROUNDS = (1, 2 * UNROLLED + 3, UNROLLED)
FALLING = Settling(0.05, 4.0, 12.0)
ADAPTIVE = Proximity(gamma=tolerances.Adaptive(), form="symmetric", step="implicit")


def quiet(phase: str, done: int, total: int) -> None:
    pass


def experiment(protocol, *, graph=GRAPH, stream=None, loss=None, batch=2, **keys):
    learner = Polk(loss=loss or Squared(), kernel=Gaussian(0.3), step_size=FALLING, batch_size=batch)
    stream = stream or SensorField(noise=0.2)
    return Experiment(topology=graph, stream=stream, learner=learner, protocol=protocol, **keys)


def plans_of(protocol, **keys):
    return open_network(experiment(protocol, **keys)).plans


def completed(engine, plans, rounds):
    """Run some rounds, and return all that can be known afterwards."""
    pooled = pool([source.held_out(0) for plan in plans for _, source in plan.evaluated], 50)
    reports = []
    for count in rounds:
        engine.run(count)
        reports.append(engine.report(pooled))
    return engine.functions(), reports


def serially(make, rounds=ROUNDS):
    plans = make()
    return completed(SerialEngine([plans]), plans, rounds)


def on_ray(backend, make, rounds=ROUNDS):
    plans = make()
    with backend.start(plans, quiet) as engine:
        return completed(engine, plans, rounds)


def assert_same(found, expected):
    np.testing.assert_equal(found[0], expected[0])
    np.testing.assert_equal([vars(report) for report in found[1]], [vars(report) for report in expected[1]])


LOSSY = {"links": Links(loss=Uniform(0.3), delay=Between(0, 2))}
POOLED = {"evaluation": Evaluation(level=0.9, bands="pooled")}
SYMMETRIC = Consensus(0.3, form="symmetric", step="implicit")
CERTAIN = Consensus(5.0, form="symmetric", step="implicit", replay=1, certainty=4.0)
PATCHES = SineRegression(noise=0.3, split="patches")
STEPS: Any = {"kernel": Gaussian(0.3), "step_size": Constant(0.2)}
FLOODED: Any = {"topology": nx.path_graph(4), "stream": SineRegression()}
NETWORKS: dict[str, Experiment] = {
    "isolated": experiment(Isolated(), evaluation=Evaluation(level=0.9)),
    "one-sided": experiment(Consensus(0.3), **POOLED),
    "symmetric": experiment(SYMMETRIC, **POOLED),
    "proximity": experiment(ADAPTIVE, evaluation=Evaluation(level=0.9)),
    "centralized": experiment(Centralized()),
    "centralized, lossy": experiment(Centralized(), **LOSSY),
    "replay": experiment(Consensus(0.3, replay=2), **POOLED),
    "replay at a rate, lossy": experiment(Consensus(0.3, replay=0.4), **POOLED, **LOSSY),
    "ensembles, lossy": experiment(Stacking(0.3), **POOLED, **LOSSY),
    "ensembles that replay": experiment(Stacking(0.3, replay=2), **POOLED, **LOSSY),
    "certainty": replace(experiment(CERTAIN, stream=PATCHES), learner=Newton(kernel=Gaussian(0.3), batch_size=2)),
    "certainty, lossy": replace(
        experiment(CERTAIN, stream=PATCHES, **LOSSY), learner=Rls(kernel=Gaussian(0.3), batch_size=2)
    ),
    "vectors of 20 kB": replace(experiment(DiffusionRls()), learner=RandomFeatures(**STEPS, features=70, batch_size=2)),
    "vectors, every third": replace(experiment(Diffusion(every=3)), learner=RandomFeatures(**STEPS, features=6)),
    "no duals, plain": replace(experiment(PlainConsensus(0.1)), learner=Polk(PlainSquared(), **STEPS)),
    "duals and the learner, plain": replace(experiment(PlainProximity()), learner=PlainPolk(**STEPS)),
    "vectors, plain": replace(experiment(PlainMomentum()), learner=RandomFeatures(**STEPS, features=6, batch_size=2)),
    "ensembles, plain": replace(experiment(PlainEnsemble()), learner=Polk(**STEPS)),
    "data that end": experiment(SYMMETRIC, stream=Ending((3, 9, 14, 26), "sine_regression")),
    "one node": experiment(Consensus(0.2), graph=nx.empty_graph(1)),
    "flooding": replace(experiment(Flooding(as_published=True)), **FLOODED),
    "rows without samples": of_rows(with_gaps()),
    "nodes without data": experiment(SYMMETRIC, stream=SineRegression(), overrides=(Override((1, 7), {}, data=False),)),
}
BACKENDS = {
    "compiled": Ray(),
    "compiled, two nodes an actor": Ray(nodes_per_actor=2),
    "calls": Ray(transport="calls"),
    "compiled, an actor a core": Ray(nodes_per_actor="auto"),
    "calls, three nodes an actor": Ray(nodes_per_actor=3, transport="calls"),
}
CELLS = [(name, list(BACKENDS)[place % len(BACKENDS)]) for place, name in enumerate(NETWORKS)]
CELLS += [(name, backend) for name in ("symmetric", "centralized") for backend in BACKENDS]


@pytest.mark.parametrize(("name", "backend"), sorted(set(CELLS)))
def test_models_and_measurements_have_the_serial_backends_bits(name, backend):
    """Conformal bands too, which no function depends on, and those that neighbours pool."""
    backend = replace(BACKENDS[backend], rounds_per_execution=UNROLLED)
    make = lambda: open_network(NETWORKS[name]).plans  # noqa: E731
    assert_same(on_ray(backend, make), serially(make))


def test_messages_may_outgrow_their_channels(tmp_path):
    random = np.random.default_rng(0)
    x = random.random((12, CHANNEL_BYTES // 8))  # one point fills a channel
    path = tmp_path / "wide.npz"
    np.savez(path, x=x, y=x[:, 0], node=np.arange(12) % 2, x_test=x, y_test=x[:, 0])

    def make() -> list[AgentPlan]:
        return plans_of(Consensus(0.2, form="symmetric"), graph=nx.path_graph(2), stream=File(path=path))

    assert_same(on_ray(Ray(rounds_per_execution=2), make, (3,)), serially(make, (3,)))


def test_a_simulation_has_the_same_digest_and_tables_on_both_backends():
    described = experiment(
        ADAPTIVE,
        stream=GaussianMixture(),
        loss=MulticlassLogistic(),
        rounds=23,
        evaluate_every=10,
        evaluation=Evaluation(40, 100),
        overrides=(Override((1, 7), {"kernel": {"bandwidth": 0.7}, "batch_size": 3}),),
    )
    serial, ray = simulate(described), simulate(replace(described, backend=Ray(rounds_per_execution=UNROLLED)))
    assert ray.summary["digest"] == serial.summary["digest"]
    for table in ("nodes", "network", "edges"):
        ours, theirs = getattr(ray, table), getattr(serial, table)
        for name in theirs.keys() - {"seconds"}:
            assert np.array_equal(ours[name], theirs[name], equal_nan=ours[name].dtype.kind == "f"), name
    assert ray.summary["backend"]["name"] == "ray"
    assert ray.summary["backend"]["processes"] == 4


def test_simulations_that_follow_one_another_share_the_processes():
    plans = plans_of(Isolated())
    with Ray().start(plans, quiet) as engine:
        first = engine.pids
    with Ray(nodes_per_actor=2).start(plans_of(Consensus()), quiet) as engine:
        assert set(engine.pids) < set(first)
    with Ray(transport="calls").start(plans_of(Consensus()), quiet) as engine:
        assert engine.pids == first


def test_the_start_is_reported_process_by_process():
    reports = []
    with Ray().start(plans_of(Isolated()), lambda *word: reports.append(word)):
        pass
    assert [word for word in reports if word[2] == 4] == [("starting", done, 4) for done in range(1, 5)]


def test_a_user_learns_how_it_was_run():
    with Ray(nodes_per_actor=3, rounds_per_execution=5).start(plans_of(Consensus()), quiet) as engine:
        assert isinstance(engine, RayEngine)
        assert engine.describe() == {
            "name": "ray",
            "nodes_per_actor": 3,
            "processes": 2,
            "transport": "compiled",
            "rounds_per_execution": 5,
        }


def test_a_node_that_diverges_is_reported_as_on_the_serial_backend():
    def make() -> list[AgentPlan]:
        # Within the bound for the loss alone, and beyond it with mu grown by every round.
        return plans_of(Proximity(as_published=True, dual_max=1e9), stream=SensorField(noise=30.0))

    with pytest.raises(DivergenceError) as serial:
        serially(make, (400,))
    with pytest.raises(DivergenceError) as ray:
        on_ray(Ray(), make, (400,))
    assert str(ray.value) == str(serial.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"nodes_per_actor": "all"}, "backend.nodes_per_actor = "),
        ({"transport": "carrier pigeons"}, "backend.transport = "),
        ({"address": "ray://head:10001"}, "Ray Client"),
    ],
)
def test_settings_without_meaning_are_refused_with_their_key(keys, message):
    with pytest.raises(InputError, match="^" + message if message.startswith("backend") else message):
        build("backend", {"name": "ray", **keys})


def test_naming_the_backend_does_not_load_ray():
    code = "import sys; from kernelswarm.simulations.engine.ray_backend import Ray; print(Ray(), 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.endswith(
        " False\n"
    )


def test_an_actor_does_not_load_networkx_which_takes_a_sixth_of_a_second_and_17_mb():
    modules = ("kernelswarm.simulations.engine.ray_session", "kernelswarm.simulations.engine.block", "networkx")
    code = f"import sys, {modules[0]}; print([name in sys.modules for name in {modules}])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[True, True, False]\n"


def test_hosts_exchange_messages_as_the_round_does():
    plans = plans_of(SYMMETRIC)
    blocks = [plans[:1], plans[1:3], plans[3:]]
    neighbors = block_neighbors(blocks)
    hosts = [Host() for _ in blocks]
    for host, block in zip(hosts, blocks, strict=True):
        host.load(block)
    completed = 0
    for count in (PRIMING, 3, 4, 1):
        outgoing = [host.send(count) for host in hosts]
        for level in range(4):  # as many calls as the longest execution needs
            assert all(len(message) > 0 for message in outgoing)  # Ray carries no empty message between machines
            last = level == 3
            outgoing = [
                (host.finish if last else host.advance)(*[outgoing[other] for other in others])
                for host, others in zip(hosts, neighbors, strict=True)
            ]
        completed += count
        assert [done for done, _ in outgoing] == [completed] * 3
        assert all(seconds > 0.0 for _, seconds in outgoing)
    serial = SerialEngine([plans_of(SYMMETRIC)])
    serial.run(8)
    found = {node: function for host in hosts for node, function in host.functions().items()}
    assert_same((found, []), (serial.functions(), []))


def test_a_warm_up_leaves_the_network_untouched_and_spares_a_users_parts():
    plans = plans_of(Brittle(at=1))
    before = [plan.source.state() for plan in plans]
    warm_cache(plans)
    assert [plan.source.state() for plan in plans] == before


@pytest.mark.parametrize("backend", [Ray(nodes_per_actor=2), Ray(transport="calls")], ids=["compiled", "calls"])
def test_steps_are_those_of_a_serial_simulation(backend):
    """Models are read between rounds, a loop is left and taken up again, and callbacks look on."""
    described = experiment(ADAPTIVE, rounds=12, evaluate_every=4)
    whole = simulate(described)

    def largest(state):
        return {"largest": [np.abs(state.models[f"weights_{node}"]).max() for node in state.nodes["node"]]}

    with Simulation(replace(described, backend=backend), callbacks=[largest]) as simulation:
        for state in simulation:
            shorter = simulate(replace(described, rounds=state.round))
            assert digest(state.models) == shorter.summary["digest"]
            break
        assert [state.round for state in simulation] == [8, 12]
    result = simulation.result()
    assert result.summary["digest"] == whole.summary["digest"]
    expected = [np.abs(whole.models[f"weights_{node}"]).max() for node in (0, 1, 2, 7)]
    assert result.nodes["largest"][-4:].tolist() == expected
