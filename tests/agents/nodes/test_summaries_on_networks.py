"""Networks whose cells travel: the same bits everywhere, bytes as sent, liars, nodes without data or memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelswarm.agents.nodes.summaries as node_module
from kernelswarm import InputError, build_experiment, resume, run, simulate
from kernelswarm.agents.nodes.cells_fit import Observed, fit, noise_and_ratio
from kernelswarm.agents.nodes.summaries import SummaryNode
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.running.network import open_network

BASE: dict[str, Any] = {
    "topology": {"name": "random_geometric", "nodes": 6, "radius": 0.7},
    "stream": {"name": "sine_regression", "noise": 0.5},
    "learner": "newton",
    "protocol": "summaries",
    "rounds": 40,
    "evaluate_every": 20,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "features": {
        "learner": {"name": "rls", "batch_size": 2},
        "protocol": {"name": "summaries", "cells": 5, "own": 60},
    },
    "lossy": {"links": {"loss": 0.4}, "learner": "polk"},
    "noisy": {
        "links": {"noise": {"name": "laplace", "scale": 0.5, "on": "both"}, "clip": {"points": 1.0, "values": 3.0}}
    },
    "late": {"links": {"delay": {"name": "geometric", "mean": 2.0}}, "protocol": {"name": "summaries", "budget": 30}},
    "asleep": {"clock": {"name": "bernoulli", "probability": 0.5}, "learner": "krls"},
    "without memory": {"clock": {"name": "churn", "leaves": 0.1, "returns": 0.3, "memory": False}},
    "switching": {"topology": {"name": "ring", "nodes": 6, "schedule": {"name": "gossip"}}},
    "directed": {"topology": {"name": "directed_ring", "nodes": 6}, "evaluation": {"level": 0.9, "bands": "pooled"}},
    "faulty": {"fault": [{"nodes": [0], "kind": "offset", "value": 1000.0, "of": "messages"}]},
    "no data": {"node": [{"nodes": [2], "data": False}], "protocol": {"name": "summaries", "reach": 2, "least": 2}},
    "classes": {
        "stream": {"name": "gaussian_mixture", "classes": 3},
        "learner": {"name": "newton", "loss": "multiclass_logistic"},
    },
    "forgetting": {"stream": {"name": "drifting", "period": 100}, "learner": {"name": "newton", "forgetting": 0.95}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_blocks_and_resumed_runs_have_the_same_bits_and_all_models(variant: str, tmp_path: Path) -> None:
    description = BASE | VARIANTS[variant]
    whole = simulate(**description)
    threads = simulate(**description, backend={"name": "serial", "threads": 3})
    run(build_experiment(**description | {"rounds": 17, "checkpoint_every": 17}), tmp_path / "run")
    resumed = resume(tmp_path / "run", ["rounds=40"]).result
    assert threads.summary["digest"] == whole.summary["digest"] == resumed.summary["digest"]
    figures = ("bytes_sent", "messages", "delivered", "lost", "late", "progressive_risk")
    for other in (threads, resumed):
        assert [other.final[name] for name in figures] == [whole.final[name] for name in figures]
    for place in range(6):
        model = whole.model(place)
        assert np.isfinite(np.asarray(model.predict(np.full((3, model.inputs), 0.4)), dtype=float)).all()


def test_a_message_is_the_means_and_three_numbers() -> None:
    for inputs in (1, 3):
        x = np.random.default_rng(0).normal(size=(90, inputs))
        keys = {key: value for key, value in BASE.items() if key != "stream"}
        found = simulate(**keys | {"topology": {"name": "ring", "nodes": 3}, "rounds": 20}, data=(x, x.sum(axis=1)))
        assert found.final["messages"] > 0
        assert found.final["scalars_sent"] == found.final["messages"] * (inputs + 1 + 3)
        assert found.final["bytes_sent"] == 8 * found.final["scalars_sent"]


def test_own_cells_are_as_many_as_they_need_whatever_travels() -> None:
    few, many, least = (
        nodes_after(60, protocol={"name": "summaries", "cells": cells, "own": own})
        for cells, own in ((5, 60), (100, 100), (5, 0))
    )
    for some, whole, bounded in zip(few, many, least, strict=True):
        count = int(whole.own.used[0])
        assert 5 < count < 60 and some.own.used[0] == count and some.cells.used[0] == bounded.own.used[0] == 5
        assert all((mine[:count] == theirs[:count]).all() for mine, theirs in zip(some.own, whole.own, strict=True))
        assert bounded.own.weights.sum() == 60


def test_a_sample_has_noise_once_before_it_is_in_a_cell_that_travels() -> None:
    noise, clip = {"name": "gaussian", "scale": 2.0, "on": "both"}, {"points": 0.5, "values": 1.0}
    batch = {"name": "newton", "batch_size": 4}
    quiet, noisy, clipped = (
        nodes_after(60, learner=batch, links=links) for links in ({}, {"noise": noise}, {"clip": clip})
    )
    for clear, disturbed, bounded in zip(quiet, noisy, clipped, strict=True):
        assert all((mine == theirs).all() for mine, theirs in zip(clear.own, disturbed.own, strict=True))
        count = disturbed.cells.used[0]
        weights, targets = disturbed.cells.weights[:count], disturbed.cells.targets[:count]
        variance = (disturbed.cells.spread.sum() + weights @ (targets[:, 0] - weights @ targets[:, 0] / 240) ** 2) / 240
        samples = clear.cells
        means = samples.weights @ samples.targets[:, 0] / 240
        before = (samples.spread.sum() + samples.weights @ (samples.targets[:, 0] - means) ** 2) / 240
        assert variance == pytest.approx(before + 4.0, rel=0.25)  # 240 samples
        assert weights.sum() == 240 and abs(bounded.cells.targets).max() <= 1.0 and bounded.cells.points.max() <= 0.5
        assert disturbed.added == 4.0 and clear.added == 0.0


def nodes_after(rounds: int, **changes: Any) -> list[SummaryNode]:
    """The nodes of a network after some rounds."""
    network = open_network(build_experiment(**BASE | {"rounds": rounds} | changes))
    block = Block(network.plans)
    block.run(rounds + 2)
    return [agent for agent in block.agents if isinstance(agent, SummaryNode)]


def test_a_function_is_the_fit_to_all_cells_that_its_node_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "TOLERANCE", 1e-13)
    agent = nodes_after(60)[2]
    x, y, n, origin = agent.observations()
    assert set(origin.tolist()) == set(range(6)) and origin[0] == 2
    gram = agent.learner.kernel.cross(x, x)  # type: ignore[attr-defined]
    basis = np.linalg.cholesky(gram + 1e-10 * np.eye(len(x)))
    own = origin == 2
    spread = agent.own.spread[: agent.own.used[0]].sum(axis=0)
    noise, ratio = noise_and_ratio(Observed(basis[own], y[own], 1.0 / n[own]), n[own], spread)
    scaled = y / np.sqrt(noise)
    groups = [Observed(basis[origin == j], scaled[origin == j], 1.0 / n[origin == j]) for j in (2, 0, 1, 3, 4, 5)]
    prior = max(1.0 / ratio, float(np.average(scaled[:, 0] ** 2, weights=n)))
    found = fit(groups, 0, prior, True)
    query = np.linspace(0.0, 1.0, 7)[:, None]
    features = np.linalg.solve(basis, agent.learner.kernel.cross(x, query)).T  # type: ignore[attr-defined]
    np.testing.assert_allclose(agent.function.values(query), features @ found.mean * np.sqrt(noise), atol=1e-3)
    posterior = agent.posterior()
    assert posterior is not None
    covered = np.einsum("ij,ij->i", features, np.linalg.solve(found.precision, features.T).T)
    np.testing.assert_allclose(posterior.variance(query), covered, rtol=0.02, atol=1e-4)


def test_a_liar_counts_for_little_whatever_it_says() -> None:
    fault = {"nodes": [0, 3], "kind": "offset", "of": "messages"}
    errors = [
        simulate(**BASE | {"rounds": 150}, fault=[fault | {"value": value}]).final["error"]
        for value in (20.0, 1e3, 1e6)
    ]
    alone = simulate(**BASE | {"rounds": 150, "protocol": "isolated"}).final["error"]
    assert max(errors) < 0.8 * alone
    assert errors[2] == pytest.approx(errors[1], rel=0.02)
    assert max(errors) / min(errors) < 1.5


def test_a_node_without_memory_learns_again_what_others_know() -> None:
    clock = {"name": "churn", "leaves": 0.02, "returns": 0.3, "memory": False}
    agents = nodes_after(300, clock=clock)
    begun = [agent for agent in agents if 0 <= agent.begun < 200]
    assert begun
    for agent in begun:
        assert len(set(agent.observations()[3].tolist())) == 6


def test_a_node_without_data_errs_as_little_as_its_neighbours() -> None:
    found = simulate(**BASE | {"rounds": 150}, node=[{"nodes": [2], "data": False}])
    points = np.linspace(0.05, 0.95, 50)[:, None]
    truth = 2.0 * points[:, 0] + 3.0 * np.sin(6.0 * points[:, 0])
    errors = [float(np.mean((found.model(place).predict(points) - truth) ** 2)) for place in range(6)]
    assert errors[2] < 2.0 * float(np.median(errors))


def test_bands_hold_as_much_as_they_say() -> None:
    field = {"name": "sensor_field", "noise": 1.5, "length": 2.0}
    for stream in ({"name": "sine_regression", "noise": 0.5, "split": "patches"}, field):
        found = simulate(**BASE | {"rounds": 200, "stream": stream, "evaluation": {"level": 0.9}})
        assert 0.86 < found.final["coverage"] < 0.94


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": {"name": "polk", "loss": "huber"}}, 'learner.loss = "huber" of node 0'),
        ({"learner": "multi_kernel"}, 'learner.name = "multi_kernel" of node 0'),
        ({"learner": "okfeb"}, 'learner.name = "okfeb" of node 0'),
        ({"learner": {"name": "newton", "forgetting": "auto"}}, 'learner.forgetting = "auto" of node 0'),
        ({"learner": {"name": "rls", "process_noise": 0.1}}, "learner.process_noise = 0.1 of node 0"),
        ({"links": {"quantization": {"bits": 8}}}, "leave links.quantization"),
        (VARIANTS["classes"] | {"links": VARIANTS["noisy"]["links"]}, "leave links.noise and links.clip out"),
        ({"protocol": {"name": "summaries", "own": -1}}, "protocol.own = -1 must not be negative"),
        ({"protocol": {"name": "summaries", "cells": 1}}, "protocol.cells = 1 must be at least 2"),
        ({"protocol": {"name": "summaries", "growth": 0.0}}, "protocol.growth = 0.0 must be positive"),
        ({"protocol": {"name": "summaries", "resolution": -1.0}}, "protocol.resolution = -1.0 must be positive"),
        ({"protocol": {"name": "summaries", "repair": 1.5}}, "protocol.repair = 1.5 must be from 0 to 1"),
        ({"protocol": {"name": "summaries", "least": 0}}, "protocol.least = 0 must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        simulate(**BASE | changes)


def test_pooled_bands_of_which_no_message_arrives_are_those_of_own_samples() -> None:
    lost = BASE | {"links": {"loss": 1.0}}
    own, pooled = (simulate(**lost, evaluation={"level": 0.9, "bands": bands}) for bands in ("conformal", "pooled"))
    arrived = simulate(**BASE, evaluation={"level": 0.9, "bands": "pooled"})
    assert pooled.final["width"] == own.final["width"] != arrived.final["width"]
    assert pooled.final["progressive_coverage"] == own.final["progressive_coverage"]


def test_predictions_follow_a_target_that_moves() -> None:
    moving = BASE | {"stream": {"name": "drifting", "period": 200, "noise": 0.1}, "rounds": 400, "evaluate_every": 200}
    forgets, keeps = (simulate(**moving | {"learner": {"name": "newton", "forgetting": beta}}) for beta in (0.9, 1.0))
    late = [found.network["progressive_risk"][-1] for found in (forgets, keeps)]
    assert late[0] < 0.5 * late[1]
    assert late[0] < 3.0 * forgets.final["risk"]
