"""The centralized learner, which takes a step for each node in a round, has an "auto" step size of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate


def table(nodes: int, step: Any, seed: int = 0, **protocol: Any) -> dict[str, Any]:
    return {
        "seed": seed,
        "rounds": 500,
        "evaluate_every": 50,
        "topology": {"name": "ring", "nodes": nodes},
        "stream": {"name": "sine_regression", "noise": 0.5},
        "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, "step_size": step},
        "protocol": {"name": "centralized", **protocol},
        "evaluation": {"rkhs_distance": False},
    }


def error(nodes: int, step: Any) -> float:
    """The median error of the last evaluations, mean over four seeds."""
    ends = [simulate(Experiment.from_dict(table(nodes, step, seed))).network["global_error"][-5:] for seed in range(4)]
    return float(np.mean(np.median(ends, axis=1)))


def test_it_comes_within_a_tenth_of_the_best_constant_step() -> None:
    nodes = 10
    steps = [0.002 * 1.5**place for place in range(8)]
    errors = [error(nodes, step) for step in steps]
    best = int(np.argmin(errors))
    assert 0 < best < len(steps) - 1  # the optimum lies inside
    assert error(nodes, "auto") < 1.1 * errors[best]


def step_of(nodes: int, step: Any = "auto", **protocol: Any) -> Any:
    network = open_network(Experiment.from_dict(table(nodes, step, **protocol)))
    return network.experiment.to_dict()["learner"]["step_size"]


@pytest.mark.parametrize("nodes", [1, 4, 16])
def test_it_is_that_of_a_node_over_the_power_of_their_number(nodes: int) -> None:
    own, found = step_of(nodes, name="isolated"), step_of(nodes)
    assert found["name"] == "settling" and found["value"] == pytest.approx(own["value"] / nodes**0.75, rel=1e-12)
    assert [found[key] for key in ("start", "steps")] == pytest.approx([own["start"], own["steps"]], rel=1e-2)
    assert step_of(nodes, averaged=True) == own  # one step a round
    fading = {"name": "auto", "offset": 50.0}
    assert step_of(nodes, fading) == step_of(nodes, fading, name="isolated")  # these average by themselves
