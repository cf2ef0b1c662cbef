"""Vectors that are sent in every k-th round: what nodes learn between, what is sent, and the same bits everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.agents.nodes.test_vectors import RARE as PROTOCOLS
from tests.helpers.link_mixes import GRAPH
from tests.helpers.vector_network import NODES, Data, learned, metropolis
from tests.helpers.vector_network import described as small

LEARNER = {
    "name": "random_features",
    "features": 7,
    "regularization": 0.01,
    "batch_size": 2,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
LATE = {"loss": 0.3, "delay": {"name": "between", "longest": 3}}
LOSSY = {"links": {**LATE, "max_age": 2, "damping": 0.5}}
ASLEEP = {"name": "bernoulli", "probability": 0.6}


def described(protocol: dict[str, Any], every: int = 3, schedule: Any = None, **tables: Any) -> Experiment:
    stream = {"name": "sine_regression", "noise": 0.3}
    keys = {"topology": GRAPH, "stream": stream, "learner": LEARNER, "protocol": {**protocol, "every": every}}
    found = Experiment.from_dict({"rounds": 24, "evaluate_every": 12, **keys, **tables})
    return found if schedule is None else replace(found, schedule=schedule)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_diffusion_averages_in_every_kth_round(every: int) -> None:
    """``theta <- A psi`` in these, with Metropolis weights A, and ``theta <- psi`` in the others."""
    tried = small({"name": "diffusion", "every": every}, 23)
    data, weights, averaging = Data(tried), np.zeros((len(NODES), 20)), metropolis()
    for now in range(1, 24):
        data.draw()
        stepped = data.implicit(weights)
        weights = averaging @ stepped if now % every == 0 else stepped
    np.testing.assert_allclose(learned(tried), weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_exactly_one_in_k_messages_is_sent(protocol: dict[str, Any]) -> None:
    whole = simulate(described(protocol, 1)).network
    for every in (2, 3, 12):
        found = simulate(described(protocol, every)).network
        for column in ("messages", "scalars_sent", "bytes_sent"):
            assert (every * found[column] == whole[column]).all(), column


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"name": "diffusion", "every": 0}, {}, "protocol.every = 0 must be at least 1"),
    ({"name": "odkla"}, {}, "protocol.every = 3 has duals push on"),
    ({"name": "domkl"}, {}, "protocol.every = 3 has duals push on"),
    ({"name": "gradient_tracking", "sends": "trackers"}, {}, 'every = 3 has trackers run away.*sends = "sums"'),
    ({"name": "drfgp", "forgetting": 0.9}, {}, "every = 3 leaves rounds in which nothing is forgotten"),
    ({"name": "diffusion"}, {"links": {"trigger": {"threshold": 0.3}}}, "every = 3 and links.trigger.threshold = 0.3"),
    ({"name": "dkla"}, LOSSY, "every = 3: the duals of ADMM miss steps between"),
    ({"name": "dkla", "tolerant": False}, {"clock": ASLEEP}, "every = 3: the duals of ADMM miss"),
]


@pytest.mark.parametrize(("protocol", "tables", "text"), REFUSED)
def test_what_does_not_bear_it_is_refused(protocol: dict[str, Any], tables: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        open_network(described({"every": 3, **protocol}, protocol.get("every", 3), **tables))


@pytest.mark.parametrize("links", [{}, {"links": {"quantization": {"bits": 20}}}], ids=["ideal", "rounded"])
def test_check_says_what_is_sent(links: dict[str, Any]) -> None:
    experiment = described({"name": "diffusion"}, topology=nx.cycle_graph(6), rounds=240, **links)
    said = dict(next(section for section in examine(experiment) if section.title == "cost").lines)
    assert (said["messages a round"], said["scalars a round"]) == ("4", "28")
    sent = simulate(experiment).network["bytes_sent"][-1]
    assert said["sent in the whole run"].split()[0] == f"{sent / 1e3:.3g}"
