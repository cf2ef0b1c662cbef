"""Warm-ups of the cache go through the rounds that the nodes will, with none of a user's own parts."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.simulations.engine import cache_warmup
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.brittle import Brittle
from tests.helpers.plain_rules import PlainDomkl, PlainEnsemble, PlainMomentum

KEYS: Any = {"kernel": Gaussian(0.3), "step_size": Constant(0.2)}
POLK, FEATURES = Polk(Squared(), **KEYS), RandomFeatures(**KEYS, features=4)
MIXTURE = Raker(**KEYS, factors=(0.5, 2.0), features=4)
NETWORKS: dict[str, tuple[Any, Any]] = {
    "consensus": (Consensus(), POLK),
    "diffusion": (Diffusion(), FEATURES),
    "own": (Brittle(at=11), POLK),
    "own, of vectors": (PlainMomentum(), FEATURES),
    "own, of mixtures": (PlainDomkl(), MIXTURE),
    "own, of ensembles": (PlainEnsemble(failing=("learn", "raises")), POLK),
}


@pytest.mark.parametrize("links", [{}, {"loss": 0.3}], ids=["ideal", "lossy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_warm_up_goes_through_the_rounds_that_the_nodes_will(
    name: str, links: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[SerialEngine] = []

    def noted(blocks: Any) -> SerialEngine:
        rehearsed.append(SerialEngine(blocks))
        return rehearsed[-1]

    protocol, learner = NETWORKS[name]
    described = Experiment.from_dict(
        {
            "topology": nx.cycle_graph(3),
            "stream": "sine_regression",
            "learner": learner,
            "protocol": protocol,
            "links": links,
        }
    )
    plans = open_network(described).plans
    monkeypatch.setattr(cache_warmup, "SerialEngine", noted)
    cache_warmup.warm_cache(plans)
    (engine,) = rehearsed
    nodes = SerialEngine([plans])
    nodes.run(1)
    kinds = {type(block._population) for each in (engine, nodes) for block in each.blocks}
    assert len(kinds) == 1 and type(None) not in kinds
    asked = {type(agent.rule) for block in engine.blocks for agent in block._agents}
    assert asked.isdisjoint({Brittle, PlainMomentum, PlainDomkl, PlainEnsemble})
