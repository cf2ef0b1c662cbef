"""Policy evaluation finds the value function of the chain, and its stream's truth is that of the chain."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.policy_evaluation import PolicyEvaluation
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.data.curves import MarkovReward
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.checkout import ROOT

CHAIN = MarkovReward(discount=0.8)
LOSSLESS = Epsilon(0.0)


def discretised(chain: MarkovReward) -> tuple[np.ndarray, np.ndarray]:
    """Solve V = r + discount P V on a fine grid of states."""
    grid = np.linspace(-8.0 * chain.spread, 8.0 * chain.spread, 1201)
    deviation = np.sqrt(1.0 - chain.correlation**2) * chain.spread
    transition = np.exp(-0.5 * ((grid[None, :] - chain.correlation * grid[:, None]) / deviation) ** 2)
    transition /= transition.sum(axis=1, keepdims=True)
    reward = chain.amplitude * np.sin(chain.frequency * grid + chain.phase)
    return grid, np.linalg.solve(np.eye(len(grid)) - chain.discount * transition, reward)


@pytest.mark.parametrize("chain", [CHAIN, MarkovReward(0.3, 2.0, 1.5, 0.7, -1.0, 0.0, 0.95)], ids=["default", "other"])
def test_the_truth_is_the_value_function_of_the_discretised_chain(chain: MarkovReward) -> None:
    grid, values = discretised(chain)
    inner = np.abs(grid) < 4.0 * chain.spread
    source = chain.open(2, 0, 50, None)
    assert source.truth is not None
    np.testing.assert_allclose(source.truth(1, grid[inner, None], 0)[:, 0], values[inner], atol=1e-6)
    held_out = source.nodes[1].held_out(7)
    np.testing.assert_array_equal(held_out.targets, source.truth(1, held_out.points, 7))


def test_transitions_have_the_chains_law() -> None:
    points, targets = CHAIN.open(1, 0, 1, None).nodes[0].draw(40_000)
    x, y = points[0::2, 0], points[1::2, 0]
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(CHAIN.correlation, abs=0.02)
    assert x.std() == pytest.approx(1.0, abs=0.03) and y.std() == pytest.approx(1.0, abs=0.03)
    assert np.corrcoef(x[:-1], x[1:])[0, 1] == pytest.approx(0.0, abs=0.03)
    np.testing.assert_array_equal(targets[0::2], targets[1::2])
    noise = targets[0::2, 0] - np.sin(CHAIN.frequency * x + CHAIN.phase)
    assert noise.std() == pytest.approx(CHAIN.noise, rel=0.05)


def test_the_value_function_is_recovered() -> None:
    learner = {"name": "policy_evaluation", "discount": 0.8, "kernel": {"name": "gaussian", "bandwidth": 0.7}}
    learner |= {"step_size": 0.1, "tracking_rate": 0.2, "batch_size": 8, "regularization": 1e-4}
    tables = {
        "topology": nx.path_graph(2),
        "stream": {"name": "markov_reward", "discount": 0.8},
        "protocol": "isolated",
    }
    result = simulate(Experiment.from_dict({**tables, "learner": learner, "rounds": 10_000, "evaluate_every": 2_000}))
    grid, values = discretised(CHAIN)
    density = np.exp(-0.5 * grid**2)
    density /= density.sum()
    kernel = Gaussian(0.7)
    for node in (0, 1):
        found = kernel.cross(grid[:, None], result.models[f"points_{node}"]) @ result.models[f"weights_{node}"]
        error = density @ (found[:, 0] - values) ** 2
        assert error < 0.05 * (density @ (values - density @ values) ** 2)
        assert result.nodes["error"][result.nodes["node"] == node][-1] == pytest.approx(error, abs=0.02)


def test_a_step_is_the_one_stated() -> None:
    learner = PolicyEvaluation(
        kernel=Gaussian(0.6),
        step_size=Constant(0.1),
        regularization=0.0,
        batch_size=4,
        discount=0.7,
        tracking_rate=Constant(0.3),
        budget=LOSSLESS,
        tracking_budget=LOSSLESS,
    )
    source = CHAIN.open(1, 0, 1, None).nodes[0]
    state = learner.init(1, 1)
    for count in (4, 4, 4, 3):  # a state left over at the end has no next one
        points, rewards = source.draw(count)
        probes = np.linspace(-2.0, 2.0, 7)[:, None]
        value, tracked = state.function.values, state.residual.function.values
        pairs = count // 2
        x, y, r = points[: 2 * pairs : 2].copy(), points[1::2].copy(), rewards[: 2 * pairs : 2]
        errors = tracked(x) - (r + 0.7 * value(y) - value(x))
        cross = learner.kernel.cross
        new_tracked = tracked(probes) - 0.3 * cross(probes, x) @ errors / 2  # transitions in a whole batch
        directions = 0.7 * cross(probes, y) - cross(probes, x)
        new_value = value(probes) - 0.1 * directions @ tracked(x) / 2
        own = learner.evaluate(state, points)
        learner.step(state, [own], [learner.gradient(state, own, rewards) * count / 4], None, rewards)
        np.testing.assert_allclose(state.residual.function.values(probes), new_tracked, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state.function.values(probes), new_value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kernel", ["gaussian", {"name": "polynomial", "degree": 2}, {"name": "polynomial", "degree": 5}]
)
def test_bare_steps_suit_kernels_of_any_size(kernel: Any) -> None:
    def completed(step_sizes: dict[str, float]) -> Any:
        learner = {"name": "policy_evaluation", "kernel": kernel, **step_sizes}
        tables = {"topology": nx.path_graph(2), "stream": "markov_reward", "protocol": "isolated"}
        return simulate(Experiment.from_dict({**tables, "learner": learner, "rounds": 500, "evaluate_every": 250}))

    ordinary = {"step_size": 0.1, "tracking_rate": 0.2}
    result = completed({})
    learner: Any = build("learner", result.config["learner"])
    assert learner.tracking_rate.largest == pytest.approx(2.0 * learner.step_size.largest)
    grid = np.linspace(-3.0, 3.0, 50)[:, None]
    for node in (0, 1):
        points, weights = (result.models[f"{name}_{node}"] for name in ("points", "weights"))
        values = learner.kernel.cross(grid, points) @ weights
        assert 1e-4 < np.abs(values).max() < 20.0  # something was learned; values reach 10, which is 1 / (1 - discount)
    if kernel == "gaussian":
        assert learner.step_size == Constant(0.1)
        same = completed(ordinary)
        for name, array in same.models.items():
            np.testing.assert_array_equal(result.models[name], array)
    else:
        assert learner.step_size.largest < 0.02
        with pytest.raises(SimulationError, match="diverged"):
            completed(ordinary)


def test_values_are_measured_against_those_of_the_learners_own_discount() -> None:
    described: dict[str, Any] = {
        "topology": {"name": "ring", "nodes": 3},
        "stream": {"name": "markov_reward", "discount": 0.8},
        "learner": {"name": "policy_evaluation", "discount": 0.8},
        "protocol": "isolated",
        "rounds": 1,
    }
    open_network(Experiment.from_dict(described))
    others = {**described, "node": [{"nodes": [2], "learner": {"discount": 0.7}}]}
    with pytest.raises(InputError, match=r"^learner\.discount = 0\.7 of node 2 must be stream\.discount = 0\.8"):
        open_network(Experiment.from_dict(others))
    described["learner"] = {"name": "polk"}  # regression on rewards has no discount
    open_network(Experiment.from_dict(described))


def test_changing_the_learner_to_it_drops_the_loss() -> None:
    tables = {"rounds": 1, "topology": nx.path_graph(2), "protocol": "isolated", "stream": "markov_reward"}
    before = Experiment.from_dict({**tables, "learner": {"name": "polk", "loss": "huber", "step_size": 0.3}})
    learner = before.with_changes({"learner.name": "policy_evaluation", "learner.batch_size": 2}).learner
    assert isinstance(learner, PolicyEvaluation) and learner.step_size == Constant(0.3)


def test_the_example_files_run() -> None:
    for name, limit in (("colk", 0.5), ("policy_evaluation", 0.1)):
        experiment = Experiment.from_file(ROOT / "examples" / f"{name}.toml")
        assert simulate(experiment).final["error"] < limit
