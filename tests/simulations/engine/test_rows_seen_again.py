"""What finds out who predicts better listens only to samples that its node has not learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import conformal_band
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.parameters import least_squares
from kernelswarm.simulations.data.contract import HeldOut, Source
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.halves import Halves

GRAPH = nx.cycle_graph(4)
ROWS = (24, 40, 19, 32)
BATCH = 2
NOTHING = {"loss": {"name": "bursts", "good": 0.0, "bad": 0.0}}  # links that are asked, and do nothing


@dataclass(frozen=True)
class Rows:
    """Noise around a wave, so many rows at each node, so many times."""

    epochs: int = 5
    rows: tuple[int, ...] = ROWS
    noise: float = 0.5

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        generator = np.random.default_rng(seed)
        sources = []
        for count in self.rows:
            x, test = generator.uniform(size=(count, 1)), generator.uniform(size=(held_out, 1))
            y = np.sin(6 * x) + self.noise * generator.standard_normal(x.shape)
            sources.append(FiniteSource(x, y, HeldOut(test, np.sin(6 * test)), self.epochs))
        return Source(1, 1, None, sources, lengths=[count * self.epochs for count in self.rows], epochs=self.epochs)


def experiment(protocol: str = "proximity", stream: Rows | None = None, **keys: Any) -> Experiment:
    stream = stream or Rows()
    described = Experiment.from_dict(
        {
            "rounds": max(stream.rows) * stream.epochs // BATCH,
            "evaluate_every": 1,
            "stream": {"name": "sine_regression"},
            "topology": {"name": "ring", "nodes": len(stream.rows)},
            "protocol": protocol,
            "learner": {
                "name": "polk",
                "step_size": 0.4,
                "batch_size": BATCH,
                "kernel": {"name": "gaussian", "bandwidth": 0.05},
                "budget": {"epsilon": 0.01},
            },
            **keys,
        }
    )
    return replace(described, topology=GRAPH, stream=stream)


def tolerances(result: Any) -> dict[int, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return each node's tolerances, round by round: (rounds, deg)."""
    edges = result.edges
    node, found = np.array(edges["source"]), np.array(edges["tolerance"])
    return {label: found[node == label].reshape(-1, 2) for label in range(len(ROWS))}


@pytest.mark.parametrize("way", ["compiled", "by methods", "on unreliable links", "on unreliable links, by methods"])
def test_tolerances_are_those_of_rows_that_are_new(way: str) -> None:
    keys: dict[str, Any] = {"links": NOTHING} if "unreliable" in way else {}
    described = replace(experiment(**keys), backend=Halves(10, "methods" in way))
    once = tolerances(simulate(replace(described, stream=Rows(epochs=1))))
    often = tolerances(simulate(described))
    for label, rows in enumerate(ROWS):
        first, all_learn = rows // BATCH, min(ROWS) // BATCH
        assert len(np.unique(often[label][:first], axis=0)) > 3  # they have moved
        assert np.all(often[label][first:] == often[label][first - 1])
        assert np.all(often[label][:all_learn] == once[label][:all_learn])


def test_a_node_knows_how_many_of_its_samples_differ() -> None:
    for epochs in (1, 5):
        plans = open_network(experiment(stream=Rows(epochs))).plans
        assert [plan.neighborhood.distinct for plan in plans] == list(ROWS)
    learner = {"name": "polk", "kernel": "gaussian"}
    drawn = {"stream": "sine_regression", "topology": "ring", "protocol": "isolated", "learner": learner}
    assert all(np.isinf(plan.neighborhood.distinct) for plan in open_network(Experiment.from_dict(drawn)).plans)


@pytest.mark.parametrize("way", ["compiled", "by methods", "on unreliable links"])
def test_stacking_weighs_its_copies_by_rows_that_are_new(way: str) -> None:
    keys: dict[str, Any] = {"links": NOTHING} if way == "on unreliable links" else {}
    described = replace(experiment("stacking", **keys), backend=Halves(10, way == "by methods"))
    at_first, once, often = (known(replace(described, rounds=rounds)) for rounds in (3, 21, 50))
    for rows, start, one, other in zip(ROWS, at_first, once, often, strict=True):
        assert one.counts[0] == rows - rows % BATCH
        assert not np.array_equal(start.mixture_weights, one.mixture_weights)
        for name in ("counts", "products", "slopes", "losses", "mixture_weights"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("way", ["compiled", "by methods", "on unreliable links"])
@pytest.mark.parametrize("learner", ["newton", "rls", "krls", "polk", "random_features"])
def test_noise_and_bands_are_those_of_rows_that_are_new(learner: str, way: str) -> None:
    keys: dict[str, Any] = {"links": NOTHING} if way == "on unreliable links" else {}
    keys |= {"learner": {"name": learner, "batch_size": BATCH}, "evaluation": {"level": 0.9}}
    protocol = "diffusion_rls" if learner == "random_features" else "consensus"
    agents = agents_after(replace(experiment(protocol, **keys), backend=Halves(10, way == "by methods")))
    for rows, agent in zip(ROWS, agents, strict=True):
        assert agent.samples == 5 * rows and agent.times == 5.0
        if learner == "polk":
            assert agent.band[0, conformal_band.BANDED] == (rows // BATCH - 1) * BATCH
        else:
            rule = protocol == "diffusion_rls"
            noise = agent.rule.information(agent.links).noise if rule else agent.learner.noise(agent.state)
            assert noise[least_squares.STEPS, 0] == rows // BATCH


def test_rows_that_are_counted_often_make_a_node_no_surer() -> None:
    keys: dict[str, Any] = {"learner": {"name": "rls", "batch_size": BATCH, "ridge": 0.3}}
    points = np.linspace(0.0, 1.0, 20).reshape(-1, 1)
    often, once = (agents_after(replace(experiment("isolated", **keys), stream=Rows(epochs))) for epochs in (5, 1))
    for again, first in zip(often, once, strict=True):
        features, root = first.function.features(points), first.state.root
        learner = again.learner
        curvature = root.T @ root - 0.8 * learner.penalty * np.eye(len(root))  # with a fifth of the ridge
        wanted = learner.loss.curvature * np.sum(features * np.linalg.solve(curvature, features.T).T, axis=1)
        assert again.posterior().variance(points) == pytest.approx(wanted, rel=1e-6)
        assert np.all(again.posterior().variance(points) >= first.posterior().variance(points))


def agents_after(described: Experiment) -> list[Any]:
    """Return the nodes at the end."""
    network = open_network(described)
    with described.backend.start(network.plans, lambda *words: None) as engine:
        engine.run(network.rounds)
        return [agent for block in engine.blocks for agent in block.agents]


def known(described: Experiment) -> list[Any]:
    """Return what the nodes know of their copies at the end."""
    rule = described.protocol
    assert isinstance(rule, Stacking)
    return [agent.links for agent in agents_after(described)]


def test_few_rows_often_are_learned_together() -> None:
    """Nodes that know their few rows by heart would trust nobody, and err as those that learn alone."""
    risk = {
        name: np.mean([simulate(experiment(name, evaluate_every=90, seed=seed)).final["risk"] for seed in range(2)])
        for name in ("isolated", "proximity", "stacking")
    }
    assert risk["proximity"] < 0.8 * risk["isolated"]
    assert risk["stacking"] < 0.8 * risk["isolated"]
