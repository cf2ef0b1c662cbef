"""What is learned, sent and counted on unreliable links is what the docs say: a run against dense formulas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.ending import Ending
from tests.helpers.link_mixes import GRAPH, MIXES, NOTHING
from tests.helpers.unreliable_network import UnreliableNetwork

POLK = {
    "name": "polk",
    "step_size": 0.15,
    "kernel": {"name": "laplacian", "bandwidth": 0.3},  # well conditioned: no point lies in the span of the others
    "regularization": 0.02,
    "batch_size": 2,
    "budget": {"epsilon": 0.0},
}
RLS = {
    "name": "rls",
    "kernel": {"name": "gaussian", "bandwidth": 0.15},
    "features": 30,
    "batch_size": 2,
    "step_size": 0.3,
    "ridge": 0.1,
}
CONSENSUS = {"name": "consensus", "penalty": 0.4}
RULES: dict[str, dict[str, Any]] = {
    "symmetric": CONSENSUS,
    "one-sided": {**CONSENSUS, "form": "one_sided"},
    "explicit": {**CONSENSUS, "step": "explicit"},
    "published": {**CONSENSUS, "as_published": True},
    "proximity": {"name": "proximity"},
    "constant": {"name": "proximity", "gamma": 0.01, "dual_max": 0.3},
    "published proximity": {"name": "proximity", "gamma": 0.01, "dual_max": 2.0, "as_published": True},
    "replay": {**CONSENSUS, "replay": 2},
    "a rate": {"name": "proximity", "replay": 0.5, "form": "one_sided"},
}


@dataclass(frozen=True)
class Turns:
    """Every edge is there once in three rounds."""

    constant: ClassVar[bool] = False

    def begin(self, labels: Any, edges: Any, generator: Any) -> Iterator[Any]:
        """Yield which edges are there, round by round."""
        for now in itertools.count():
            yield (np.arange(len(edges)) + now) % 3 == 0


LINKS: dict[str, dict[str, Any]] = {
    **MIXES,
    "nothing": {"links": NOTHING},
    "damped": {
        "links": {"loss": 0.2, "delay": {"name": "between", "longest": 3}, "on_missing": "repeat", "damping": 0.5}
    },
    # A message has 10 scalars, so that an edge of 5 is busy for two rounds and one of 2 for five.
    "busy for five rounds": {"links": {"bandwidth": 2.0}, "rounds": 48},
    "busy, and late": {"links": {"bandwidth": 5.0, "delay": 3}, "rounds": 48},
    "there in every third round, busy for five": {"schedule": Turns(), "links": {"bandwidth": 2.0}, "rounds": 48},
}
LARGER = [{"nodes": [1, 7], "learner": {"batch_size": 3}}]
SIZES: dict[str, dict[str, Any]] = {
    "sizes that differ": {"node": LARGER},
    "data that end": {"stream": Ending((9, 4, 17, 7, 12), "sine_regression"), "protocol": RULES["proximity"]},
    "both": {
        "stream": Ending((9, 4, 17, 7, 12), "sine_regression"),
        "node": LARGER,
        "protocol": {**RULES["a rate"], "form": "symmetric"},
    },
}
CELLS = [("symmetric", links) for links in LINKS]
CELLS += [
    (rule, links) for rule in RULES for links in ("nothing", "damped", "trigger", "churn without memory", "everything")
]
CELLS += [("proximity", links) for links in ("long delay", "asleep longer", "directed", "narrow")]


def described(schedule: Any = None, **tables: Any) -> Experiment:
    found = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": POLK,
            "protocol": CONSENSUS,
            "rounds": 20,
            **tables,
        }
    )
    return found if schedule is None else replace(found, schedule=schedule)


def compared(experiment: Experiment) -> UnreliableNetwork:
    """Run an experiment in arrays and by the formulas, and require that both say the same; returns the latter."""
    engine = SerialEngine([open_network(experiment).plans])
    engine.run(experiment.rounds)
    dense = UnreliableNetwork(open_network(experiment))
    dense.run(experiment.rounds)
    x = np.linspace(0.0, 1.0, 40)[:, np.newaxis]
    for agent in engine.blocks[0].agents:
        node = dense.nodes[agent.node]
        np.testing.assert_allclose(agent.function.values(x), node.function.values(x), rtol=1e-9, atol=1e-9)
        if dense.proximity:
            np.testing.assert_allclose(agent.duals(), node.duals, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(agent.tally.traffic, node.traffic)
        assert (agent.tally.scalars_sent, agent.samples) == (node.scalars, node.samples)
    return dense


@pytest.mark.parametrize(("rule", "links"), sorted(set(CELLS)))
def test_a_network_follows_the_formulas(rule: str, links: str) -> None:
    dense = compared(described(protocol=RULES[rule], **LINKS[links]))
    assert all(len(node.function.sum.points) for node in dense.nodes.values() if node.steps)
    if dense.proximity and links != "asleep longer":  # whose answers are too old to compare anything
        assert max(node.duals.max() for node in dense.nodes.values()) > 0.0


@pytest.mark.parametrize("links", ["nothing", "trigger", "churn without memory", "everything", "long delay"])
@pytest.mark.parametrize("case", SIZES)
def test_so_it_does_with_batches_of_any_size(case: str, links: str) -> None:
    compared(described(**SIZES[case], **LINKS[links]))


@pytest.mark.parametrize("links", ["nothing", "loss", "bursts kept", "delay", "churn", "joining"])
def test_so_it_does_where_certainty_travels(links: str) -> None:
    """By dense inverses. Where a variance is what a lesson left, rounding says which of both ends is surer."""
    protocol = {"name": "consensus", "penalty": 5.0, "replay": 1, "certainty": 3.0}
    dense = compared(described(learner=RLS, protocol=protocol, **LINKS[links]))
    assert dense.lessons > 10
    assert dense.margin > 1e-9
