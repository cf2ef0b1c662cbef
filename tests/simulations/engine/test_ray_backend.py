"""The Ray backend lives through the serial backend's rounds, bit for bit, however the nodes are spread over actors."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

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
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.links.arrivals import Between, Uniform
from kernelswarm.protocols.links.links import IDEAL, Links
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
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.ray_backend import Ray, RayEngine
from kernelswarm.simulations.engine.ray_session import CHANNEL_BYTES
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment, Override
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Simulation, simulate
from tests.helpers.brittle import Brittle
from tests.helpers.plain_parts import PlainConsensus, PlainPolk, PlainProximity, PlainSquared
from tests.helpers.plain_rules import PlainEnsemble, PlainMomentum

pytestmark = pytest.mark.usefixtures("kept_ray")

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
UNROLLED = 4
"""Rounds in one execution of the compiled graph."""
ROUNDS = (1, 2 * UNROLLED + 3, UNROLLED)
FALLING = Settling(0.05, 4.0, 12.0)


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
    functions, reports = found
    expected_functions, expected_reports = expected
    assert functions.keys() == expected_functions.keys()
    for node, (arrays, duals, posterior) in expected_functions.items():
        mine, theirs = functions[node].arrays | functions[node].posterior, arrays | posterior
        assert mine.keys() == theirs.keys()
        for name, array in theirs.items():
            assert np.array_equal(mine[name], array), name
        assert (functions[node].duals is None and duals is None) or np.array_equal(functions[node].duals, duals)
    for report, wanted in zip(reports, expected_reports, strict=True):
        np.testing.assert_equal(vars(report), vars(wanted))


def uneven_file(folder):
    """Write rows for the four nodes of GRAPH, which hold 3, 9, 14 and 26 of them."""
    random = np.random.default_rng(0)
    node = random.permutation(np.repeat([0, 1, 2, 3], [3, 9, 14, 26]))
    x = random.random((len(node), 2))
    path = folder / "uneven.npz"
    np.savez(path, x=x, y=np.sin(5 * x[:, 0]), node=node, x_test=x[:8], y_test=np.sin(5 * x[:8, 0]))
    return File(path=path)


PROTOCOLS = {
    "isolated": Isolated(),
    "consensus one-sided": Consensus(0.3),
    "consensus symmetric": Consensus(0.3, form="symmetric", step="implicit"),
    "proximity": Proximity(gamma=tolerances.Adaptive(), form="symmetric", step="implicit"),
    "centralized": Centralized(),
}
BACKENDS = {
    "compiled": Ray(),
    "compiled, two nodes an actor": Ray(nodes_per_actor=2),
    "compiled, an actor a core": Ray(nodes_per_actor="auto"),
    "calls": Ray(transport="calls"),
    "calls, three nodes an actor": Ray(nodes_per_actor=3, transport="calls"),
}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_models_and_measurements_have_the_serial_backends_bits(protocol, backend):
    """Conformal bands too, which no function depends on, and those that neighbours pool."""
    backend = replace(backend, rounds_per_execution=UNROLLED)
    bands = Evaluation(level=0.9, bands="pooled" if isinstance(protocol, Consensus) else "auto")
    make = lambda: plans_of(protocol, evaluation=bands)  # noqa: E731
    assert_same(on_ray(backend, make), serially(make))


LOSSY = Links(loss=Uniform(0.3), delay=Between(0, 2))


@pytest.mark.parametrize(
    ("rule", "links"),
    [
        (Consensus(0.3, replay=2), IDEAL),
        (Consensus(0.3, replay=0.4), IDEAL),
        (Consensus(0.3, replay=2), LOSSY),
        (Stacking(0.3), LOSSY),
        (Stacking(0.3, replay=2), LOSSY),
    ],
    ids=["whole", "rate", "lossy", "ensembles", "ensembles that replay"],
)
def test_replayed_points_and_ensembles_have_the_serial_backends_bits(rule, links):
    backend = Ray(nodes_per_actor=2, rounds_per_execution=UNROLLED)
    bands = Evaluation(level=0.9, bands="pooled")
    make = lambda: plans_of(rule, links=links, evaluation=bands)  # noqa: E731
    assert_same(on_ray(backend, make), serially(make))


@pytest.mark.parametrize("links", [IDEAL, LOSSY], ids=["ideal", "lossy"])
@pytest.mark.parametrize("backend", [Ray(nodes_per_actor=2), Ray(transport="calls")], ids=["compiled", "calls"])
@pytest.mark.parametrize("learner", [Newton, Rls], ids=["newton", "rls"])
def test_values_that_come_with_variances_have_the_serial_backends_bits(backend, learner, links):
    stream = SineRegression(noise=0.3, split="patches")

    def make(certainty: float = 4.0) -> list[AgentPlan]:
        rule = Consensus(5.0, form="symmetric", step="implicit", replay=1, certainty=certainty)
        tried = replace(experiment(rule, stream=stream), learner=learner(kernel=Gaussian(0.3), batch_size=2))
        return open_network(replace(tried, links=links)).plans

    expected = serially(make)
    assert_same(on_ray(replace(backend, rounds_per_execution=UNROLLED), make), expected)
    pulled, _ = serially(lambda: make(certainty=0.0))  # nobody is surer than its neighbour, or all are
    for node, (arrays, *_) in expected[0].items():
        assert not all(np.array_equal(array, arrays[name]) for name, array in pulled[node].arrays.items())


@pytest.mark.parametrize("backend", [Ray(nodes_per_actor=2), Ray(transport="calls")], ids=["compiled", "calls"])
def test_vectors_have_the_serial_backends_bits(backend):
    learner = RandomFeatures(kernel=Gaussian(0.3), step_size=Constant(0.2), features=70, batch_size=2)

    def make() -> list[AgentPlan]:
        tried = replace(experiment(Isolated()), learner=learner, protocol=DiffusionRls())
        return open_network(tried).plans  # they send 20 kB to each neighbour

    assert_same(on_ray(backend, make), serially(make))


@pytest.mark.parametrize(
    ("protocol", "learner"),
    [
        (PlainConsensus(0.1), Polk(PlainSquared(), Gaussian(0.3), Constant(0.2))),
        (PlainProximity(), PlainPolk(kernel=Gaussian(0.3), step_size=Constant(0.2))),
        (PlainMomentum(), RandomFeatures(kernel=Gaussian(0.3), step_size=Constant(0.2), features=6, batch_size=2)),
        (PlainEnsemble(), Polk(kernel=Gaussian(0.3), step_size=Constant(0.2))),
    ],
    ids=["no duals", "duals, and the learner", "vectors", "ensembles"],
)
@pytest.mark.parametrize("size", [1, 2])
def test_parts_in_plain_python_have_the_serial_backends_bits(protocol, learner, size):
    def make():
        return open_network(replace(experiment(Isolated()), learner=learner, protocol=protocol)).plans

    assert_same(on_ray(Ray(nodes_per_actor=size), make), serially(make))


@pytest.mark.parametrize("backend", [Ray(), Ray(nodes_per_actor=2)], ids=["one", "two"])
def test_streams_that_end_at_different_times_have_the_serial_backends_bits(backend, tmp_path):
    stream = uneven_file(tmp_path)

    def make() -> list[AgentPlan]:
        return plans_of(Consensus(0.2, form="symmetric", step="implicit"), stream=stream)

    rounds = (5, 12)  # 13 rounds take the longest stream, and the shortest ends in the second
    assert_same(on_ray(backend, make, rounds), serially(make, rounds))


@pytest.mark.parametrize("transport", ["compiled", "calls"])
def test_one_node_is_a_network(transport):
    def make() -> list[AgentPlan]:
        return plans_of(Consensus(0.2), graph=nx.empty_graph(1))

    assert_same(on_ray(Ray(transport=transport), make), serially(make))


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
        Proximity(gamma=tolerances.Adaptive(), form="symmetric", step="implicit"),
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


def test_blocks_are_even_and_hold_neighbours():
    order = np.random.default_rng(1).permutation(10)
    plans = plans_of(Consensus(), graph=nx.relabel_nodes(nx.path_graph(10), dict(enumerate(order.tolist()))))
    for size in (1, 2, 3, 4, 10, 99):
        blocks = partition(plans, size)
        nodes = [[plan.neighborhood.node for plan in block] for block in blocks]
        assert sorted(node for block in nodes for node in block) == list(range(10))
        assert nodes == sorted(nodes)
        assert all(block == sorted(block) for block in nodes)
        assert len(blocks) == -(-10 // size)
        assert max(map(len, nodes)) - min(map(len, nodes)) <= 1
        # A path cut into pieces: each receives from the piece before it and the one after it.
        assert sum(map(len, block_neighbors(blocks))) == 2 * (len(blocks) - 1)


def test_hosts_exchange_messages_as_the_round_does():
    plans = plans_of(Consensus(0.3, form="symmetric", step="implicit"))
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
    serial = SerialEngine([plans_of(Consensus(0.3, form="symmetric", step="implicit"))])
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
    described = experiment(Proximity(gamma=tolerances.Adaptive()), rounds=12, evaluate_every=4)
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
