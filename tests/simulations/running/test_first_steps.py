"""What check says before a run of steps that compression undoes, beside what the steps do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import STEPS, first_steps, warning

KERNEL = {"name": "gaussian", "bandwidth": 0.5}


def described(learner, **tables):
    return Experiment.from_dict(
        {
            "rounds": 200,
            "evaluate_every": 200,
            "topology": {"name": "ring", "nodes": 3},
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"kernel": KERNEL, "step_size": 0.1, **learner},
            "protocol": "consensus",
            **tables,
        }
    )


def warning_of(experiment):
    return dict(examine(experiment)[3].lines).get("warning", "")


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["polk", "spppot"])
def test_steps_that_are_undone_are_those_that_leave_the_function_at_zero(name, batch):
    for epsilon in (0.01, 0.3, 3.0, 100.0):
        plan = open_network(described({"name": name, "batch_size": batch, "budget": {"epsilon": epsilon}})).plans[0]
        held_out, learner, moved = plan.evaluated[0][1].held_out(0), plan.learner, False
        for start in range(0, STEPS * batch, batch):
            points, targets = (np.array(each[start : start + batch]) for each in (held_out.points, held_out.targets))
            state = learner.init(plan.inputs, plan.outputs)
            own = learner.evaluate(state, points)
            learner.step(state, [own], [learner.gradient(state, own, targets)], None, targets)
            moved |= bool(np.any(learner.function(state).weights))
        found = first_steps(plan)
        assert (found is None) == (name == "spppot")  # whose functions are not linear in their weights
        assert found is None or found.undone != moved


def test_a_larger_step_is_advised_only_where_eps_does_not_grow_with_it():
    for budget in ({"per_sample": 3.0}, {"proportional": 30.0}, {"parsimony": 200.0}):
        for step in (0.1, 0.3):
            message = warning_of(described({"name": "polk", "budget": budget, "step_size": step}))
            assert "nothing will be learned" in message and "lower learner.budget" in message
            assert "step_size" not in message
    assert "nothing will be learned" in warning_of(
        described({"name": "polk", "budget": {"epsilon": 0.3}, "step_size": 0.01})
    )
    assert not warning_of(described({"name": "polk", "budget": {"epsilon": 0.3}, "step_size": 0.3}))


def test_what_is_warned_of_comes_true_and_nothing_else_is_warned_of():
    stalled, fine = described({"name": "polk", "budget": {"epsilon": 3.0}}), described({"name": "polk"})
    message = warning_of(stalled)
    assert message.startswith(
        "nothing will be learned: of the first steps of node 0 the largest moves the function by "
    )
    assert re.search(r"eps = 3: lower learner\.budget = .*3.* or raise learner\.step_size = .*0\.1", message)
    assert simulate(stalled).summary["final"]["model_order"] == 0
    assert warning_of(fine) == "" and simulate(fine).summary["final"]["model_order"] > 0
    assert warning_of(described({"name": "ogd"})) == ""  # removes nothing


def test_nodes_of_their_own_are_distinguished():
    own = [{"nodes": [2], "learner": {"budget": {"epsilon": 3.0}}}]
    plans = open_network(described({"name": "polk"}, node=own)).plans
    assert warning(plans, {0: "east", 1: "north", 2: "west"}).startswith(
        "nothing will be learned at 1 of 3 nodes that were looked at: of the first steps of node west"
    )
