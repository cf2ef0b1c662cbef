"""Steps by matrix products are steps of compiled rounds, and arrays hold dictionaries of any sizes: the same bits as
agent by agent."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest

from kernelswarm.agents.functions import expansion
from kernelswarm.agents.learners import newton, polk
from kernelswarm.agents.nodes import population
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.equality import same
from tests.helpers.same_bits import engine_in

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])
BLOCKS = [[0, 3], [1, 2, 4]]
ORDER, POINTS = 12, 4
"""From which sizes on steps take matrix products here."""

KERNEL = {"name": "gaussian", "bandwidth": 0.04}
LEARNERS: dict[str, dict[str, Any]] = {
    "polk": {"name": "polk", "step_size": 0.4, "kernel": KERNEL, "budget": {"epsilon": 1e-3}},
    "polk, points in the span of others": {
        "name": "polk",
        "step_size": 0.1,
        "kernel": {"name": "gaussian", "bandwidth": 0.3},
        "budget": {"epsilon": 1e-9},
    },
    "newton": {"name": "newton", "kernel": KERNEL, "budget": {"epsilon": 1e-3}},
    "newton, forgetting": {"name": "newton", "kernel": KERNEL, "forgetting": 0.99, "budget": {"epsilon": 1e-3}},
}
LOSSY = {"loss": 0.3, "delay": {"name": "between", "longest": 2}}
WAYS: dict[str, dict[str, Any]] = {
    "symmetric": {"protocol": "consensus"},
    "one-sided": {"protocol": {"name": "consensus", "form": "one_sided"}},
    "certainty": {"protocol": {"name": "consensus", "certainty": 4.0}},
    "lossy": {"protocol": "consensus", "links": LOSSY},
    "lossy, certainty": {"protocol": {"name": "consensus", "certainty": 4.0}, "links": LOSSY},
    "ensembles": {"protocol": "stacking"},
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have small steps on small dictionaries take matrix products, in arrays and agent by agent."""
    for module in (expansion, polk, newton, newton):
        monkeypatch.setattr(module, "BLOCKED_FROM_ORDER", ORDER)
        monkeypatch.setattr(module, "BLOCKED_FROM_SAMPLES", POINTS)
    return monkeypatch


def described(learner: dict[str, Any], **tables: Any) -> Experiment:
    """Nodes of which two have batches of fewer samples than matrix products take, and one has more."""
    keys: dict[str, Any] = {
        "topology": GRAPH,
        "stream": {"name": "sine_regression", "noise": 0.3},
        "learner": {"batch_size": 4, **learner},
        "node": [{"nodes": [0, 4], "learner": {"batch_size": 1}}, {"nodes": [2], "learner": {"batch_size": 7}}],
        "rounds": 16,
        "evaluate_every": 8,
        "evaluation": {"local_samples": 20, "global_samples": 20},
    }
    return Experiment.from_dict({**keys, **tables})


def learned(engine: SerialEngine) -> dict[int, Any]:
    return {node: (dict(found.arrays), found.duals) for node, found in engine.functions().items()}


def states_after(experiment: Experiment, *given: Any, rounds: tuple[int, ...] = (3, 5, 8)) -> list[Any]:
    """Return what is learned after each of some numbers of rounds; blocks stay in arrays."""
    engine, found = engine_in(experiment, *given), []
    for count in rounds:
        engine.run(count)
        found.append(learned(engine))
    return found


def orders(found: dict[int, Any]) -> list[int]:
    return [len(arrays["points"]) for arrays, _ in found.values() if "points" in arrays]


CASES = [
    (learner, way)
    for learner in LEARNERS
    for way in WAYS
    if ("certainty" not in way or learner == "newton") and (way != "ensembles" or learner in ("polk", "newton"))
]


@pytest.mark.parametrize(("learner", "way"), CASES, ids=[" ".join(each) for each in CASES])
def test_networks_that_grow_into_matrix_products_have_the_same_bits(learner: str, way: str, small: Any) -> None:
    experiment = described(LEARNERS[learner], **WAYS[way])
    wanted = states_after(experiment, None, True)
    for blocks in (None, BLOCKS):
        for one, other in zip(states_after(experiment, blocks), wanted, strict=True):
            assert same(one, other)
    if way != "ensembles":
        assert min(orders(wanted[0])) < ORDER < max(orders(wanted[-1]))
    if "span" not in learner:  # the last bits are others, so that the case is about what it says
        small.undo()
        assert not same(states_after(experiment, None)[-1], wanted[-1])


def test_a_projecting_learner_of_500_points_stays_in_arrays() -> None:
    """Its bound is in its compiled code."""
    links: dict[str, Any] = {}
    learner = {"name": "bsgd", "maintenance": "projection", "budget_size": 510, "step_size": 0.4, "batch_size": 60}
    tables = {"node": [], "topology": nx.path_graph(2), "links": links, "protocol": "consensus"}
    experiment = described({**learner, "kernel": {"name": "laplacian", "bandwidth": 0.1}}, **tables)
    rounds = (4, 2, 3, 2, 2)
    wanted = states_after(experiment, None, False, rounds=rounds)
    for one, other in zip(states_after(experiment, None, rounds=rounds), wanted, strict=True):
        assert same(one, other)
    assert min(orders(wanted[0])) < expansion.BLOCKED_FROM_ORDER < max(orders(wanted[-1]))


@pytest.mark.parametrize("links", [{}, LOSSY], ids=["ideal", "lossy"])
def test_dictionaries_of_different_sizes_have_room_of_their_own(links: dict[str, Any], monkeypatch: Any) -> None:
    learner = {**LEARNERS["newton"], "batch_size": 1, "forgetting": 0.999}
    tables = {"protocol": WAYS["one-sided"]["protocol"], "links": links}
    nodes = [{"nodes": [2], "learner": {"batch_size": 40}}]
    experiment = described(learner, topology=nx.path_graph(11), node=nodes, **tables)
    wanted = states_after(experiment, None, True)
    alike = engine_in(experiment)
    alike.run(16)
    monkeypatch.setattr(population, "UNUSED", 0)
    own = engine_in(experiment)
    for count, then in zip((3, 5, 8), wanted, strict=True):
        own.run(count)
        assert same(learned(own), then)
    assert same(learned(alike), wanted[-1])
    few, many = (engine.blocks[0]._population for engine in (own, alike))
    assert len(set(many._reserves.tolist())) == 1 and max(few._reserves) > 3 * min(few._reserves)
    assert few._states.storage.size < many._states.storage.size
    assert few._states.lengths[0] < many._states.lengths[0] / 3
