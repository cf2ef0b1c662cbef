"""Vectors that are sent in every k-th round: what nodes learn between, what is sent, and the same bits everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
)
from tests.helpers.unreliable_vectors import assert_as_the_formulas_say
from tests.helpers.vector_network import ADJACENCY, NODES, Data, learned, metropolis
from tests.helpers.vector_network import described as small

LEARNER = {
    "name": "random_features",
    "features": 7,
    "regularization": 0.01,
    "batch_size": 2,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
AVERAGING: list[dict[str, Any]] = [
    {"name": "diffusion"},
    {"name": "diffusion", "order": "combine_then_adapt"},
    {"name": "diffusion", "combination": "adaptive"},
    {"name": "gradient_tracking"},
    {"name": "multitask", "penalty": 2.0},
    {"name": "mocha", "penalty": 2.0},
    {"name": "ditto"},
    {"name": "diffusion_rls", "ridge": 0.3, "forgetting": 0.95},
    {"name": "drfgp", "exchanges": 2},
]
PROTOCOLS = [*AVERAGING, {"name": "dkla", "penalty": 0.5, "forgetting": 0.9}]
LATE = {"loss": 0.3, "delay": {"name": "between", "longest": 3}}
LINKS: dict[str, dict[str, Any]] = {
    "lossy": {"links": {**LATE, "max_age": 2, "damping": 0.5}},
    "repeated": {"links": {**LATE, "on_missing": "repeat"}},
    "asleep": {"links": LATE, "clock": {"name": "bernoulli", "probability": 0.6}},
    "narrow": {"links": {"quantization": {"bits": 20}, "bandwidth": 4.0}},
    "forgetful": {"links": LATE, "clock": MIXES["churn without memory"]["clock"]},
    "failures": MIXES["failures"],
}
CELLS = [(protocol, list(LINKS)[(k + more) % len(LINKS)]) for k, protocol in enumerate(AVERAGING) for more in (0, 3)]
HALVES = [[0, 2, 4], [1, 3]]


def described(protocol: dict[str, Any], every: int = 3, schedule: Any = None, **tables: Any) -> Experiment:
    stream = {"name": "sine_regression", "noise": 0.3}
    keys = {"topology": GRAPH, "stream": stream, "learner": LEARNER, "protocol": {**protocol, "every": every}}
    found = Experiment.from_dict({"rounds": 24, "evaluate_every": 12, **keys, **tables})
    return found if schedule is None else replace(found, schedule=schedule)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_what_is_learned_and_sent_is_what_the_formulas_say(protocol: dict[str, Any]) -> None:
    assert_as_the_formulas_say(described(protocol), (1, 2, 9, 12), 1e-6, 1e-8)


@pytest.mark.parametrize(("protocol", "links"), CELLS, ids=str)
def test_it_is_on_links_of_all_kinds(protocol: dict[str, Any], links: str) -> None:
    found = assert_as_the_formulas_say(described(protocol, **LINKS[links]), (1, 2, 9, 18), 1e-6, 1e-8)
    assert sum(found.messages.counts.values())[1] > 10


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


@pytest.mark.parametrize("every", [2, 5])
def test_dkla_takes_a_step_of_admm_in_every_kth_round(every: int) -> None:
    """On all samples until then: the formulas of the network, whose functions stay in the rounds between."""
    rho, tried = 0.5, small({"name": "dkla", "penalty": 0.5, "every": every}, 23)
    data, eye = Data(tried), np.eye(20)
    laplacian = np.diag(ADJACENCY.sum(axis=0)) - ADJACENCY
    weights, dual = np.zeros((2, len(NODES), 20))
    gram, products = np.zeros((len(NODES), 20, 20)), np.zeros((len(NODES), 20))
    for now in range(1, 24):
        data.draw()
        gram += [z.T @ z for z in data.zs]
        products += [z.T @ y for z, y in zip(data.zs, data.ys, strict=True)]
        if now % every:
            continue
        share, apart = 2.0 / (2 * now), rho * laplacian @ weights
        near = 2.0 * rho * ADJACENCY.sum(axis=0)
        dual = dual + apart
        left = share * gram + (1e-3 + near)[:, None, None] * eye
        right = share * products + near[:, None] * weights - apart - dual
        weights = np.linalg.solve(left, right[..., None])[..., 0]
    np.testing.assert_allclose(learned(tried), weights, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_exactly_one_in_k_messages_is_sent(protocol: dict[str, Any]) -> None:
    whole = simulate(described(protocol, 1)).network
    for every in (2, 3, 12):
        found = simulate(described(protocol, every)).network
        for column in ("messages", "scalars_sent", "bytes_sent"):
            assert (every * found[column] == whole[column]).all(), column


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_the_same_bits_however_a_network_is_run(protocol: dict[str, Any]) -> None:
    experiment = described(protocol)
    assert_the_same_however_cut(experiment, (1, 7, 6), HALVES)
    assert_the_same_from_snapshots(experiment, (1, 7), 8, HALVES)


def test_threads_actors_and_resumed_runs_have_the_same_bits(tmp_path: Path, kept_ray: None) -> None:
    experiment = described({"name": "diffusion"})
    assert_the_same_tables(experiment)
    whole = simulate(experiment).summary["digest"]
    assert simulate(replace(experiment, backend=Ray())).summary["digest"] == whole
    folder = run(replace(experiment, rounds=12, checkpoint_every=4), tmp_path / "half").folder
    assert resume(folder, ["rounds=24"]).result.summary["digest"] == whole


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"name": "diffusion", "every": 0}, {}, "protocol.every = 0 must be at least 1"),
    ({"name": "odkla"}, {}, "protocol.every = 3 has duals push on"),
    ({"name": "domkl"}, {}, "protocol.every = 3 has duals push on"),
    ({"name": "gradient_tracking", "sends": "trackers"}, {}, 'every = 3 has trackers run away.*sends = "sums"'),
    ({"name": "drfgp", "forgetting": 0.9}, {}, "every = 3 leaves rounds in which nothing is forgotten"),
    ({"name": "diffusion"}, {"links": {"trigger": {"threshold": 0.3}}}, "every = 3 and links.trigger.threshold = 0.3"),
    ({"name": "dkla"}, LINKS["lossy"], "every = 3: the duals of ADMM miss steps between"),
    ({"name": "dkla", "tolerant": False}, {"clock": LINKS["asleep"]["clock"]}, "every = 3: the duals of ADMM miss"),
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
