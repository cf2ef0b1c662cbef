"""Compression undoes no larger share of a step that the coupling damps than of a whole one, whatever the budget."""

import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import bound_of_step
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.cases import case
from tests.helpers.same_bits import changed_by, engine_after, engine_in

KERNEL = {"name": "gaussian", "bandwidth": 0.1}
BUDGETS = {  # each as large as alone it may be, for steps of .5
    "epsilon": {"epsilon": 0.3},
    "per_sample": {"per_sample": 0.2, "slope": 3.0},
    "parsimony": {"parsimony": 0.5},
    "quadratic": {"quadratic": 0.8},
    "proportional": {"proportional": 0.4},
    "target_order": {"target_order": 12, "alpha": 0.2, "gain": 0.02},
}
LEARNERS = {
    "polk": {"name": "polk"},
    "newton": {"name": "newton", "budget": {"epsilon": 0.1}},
    "colk": {"name": "colk", "batch_size": 2, "dispersion_weight": 0.05, "step_size": 0.3},
    "colk, sliding": {"name": "colk", "pairs": "sliding", "dispersion_weight": 0.05, "step_size": 0.3},
    "spppot": {"name": "spppot", "mirror_map": "squared_norm"},
    "multi_kernel": {"name": "multi_kernel"},
}
PENALTIES = [1.0, 10.0, 100.0, 1000.0]


def described(learner, protocol, **keys):
    table = {"kernel": KERNEL, "step_size": 0.5, "budget": {"epsilon": 0.3}, **learner}
    keys = {"topology": {"name": "ring", "nodes": 5}, "rounds": 200, "evaluate_every": 200, **keys}
    stream = {"name": "sine_regression", "noise": 1.0}
    return Experiment.from_dict({"stream": stream, "learner": table, "protocol": protocol, **keys})


def risks(learner, protocols, **keys):
    found = [simulate(described(learner, protocol, **keys)).summary["final"] for protocol in protocols]
    return np.array([final["risk"] for final in found]), np.array([final["model_order"] for final in found])


def consensus(**keys):
    return [{"name": "consensus", "penalty": penalty, **keys} for penalty in PENALTIES]


def test_every_budget_is_in_the_list():
    assert set(BUDGETS) == set(PARTS["budget"])


@pytest.mark.parametrize("name", BUDGETS)
def test_no_penalty_is_too_large_for_a_budget(name):
    for form in ("symmetric", "one_sided"):
        with case(form):
            risk, order = risks({"name": "polk", "budget": BUDGETS[name]}, consensus(form=form))
            assert (order >= 4).all()
            assert (risk[1:] <= 1.05 * risk[0]).all()  # 5.2 where nothing is learned


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "polk"])
def test_no_penalty_is_too_large_for_a_learner_that_compresses(name):
    risk, order = risks(LEARNERS[name], consensus())
    assert (order >= 4).all()
    assert (risk[1:] <= 1.05 * risk[0]).all()


def test_no_dual_variables_are_too_large_either():
    rows = [{"name": "proximity", "gamma": 0.0, "dual_step": size} for size in (0.01, 10.0, 1000.0)]
    risk, order = risks({"name": "polk"}, rows)
    assert (order >= 4).all()
    assert (risk[1:] <= 1.05 * risk[0]).all()


def test_nor_on_unreliable_links():
    conditions = {"links": {"loss": 0.1, "delay": 1}}
    risk, order = risks({"name": "polk"}, consensus()[1:3], **conditions)
    assert (order >= 4).all()
    assert (risk < 1.5).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_compiled_rounds_hold_budgets_to_damped_steps_with_the_bits_of_methods(name):
    for batch in (2, 8):
        description = described({**LEARNERS[name], "batch_size": batch}, {"name": "consensus", "penalty": 100.0})
        arrays, single = (changed_by(engine_after(description, plain=plain, rounds=25)) for plain in (False, True))
        with case(f"batches of {batch}"):
            np.testing.assert_equal(arrays, single)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_damped_step_has_its_share_of_the_budget_and_a_whole_one_all_of_it(name):
    budget = build("budget", BUDGETS[name])
    state = budget.start()
    for planned in (0.7, 0.1, 3.0):
        whole = budget.bound(planned, state, 4)
        assert bound_of_step(budget, planned, planned, state, 4) == whole
        for eta in planned * np.array([0.9, 0.3, 0.01, 1e-6]):
            found, literal = bound_of_step(budget, eta, planned, state, 4), budget.bound(eta, state, 4)
            assert 0.0 < found <= eta / planned * whole * (1 + 1e-8)
            if name != "epsilon":  # these fall with the step by themselves, so that not a bit may change
                assert found == literal


def test_explicit_steps_keep_a_constant_budget_as_it_is():
    learner = Polk(step_size=Constant(0.5), budget=build("budget", {"epsilon": 0.3}))
    assert bound_of_step(learner.budget, 0.5, 0.5, 0.0, 1) == 0.3
    published = described({"name": "polk"}, {"name": "consensus", "penalty": 0.1, "as_published": True})
    engine = engine_in(published, plain=True)
    asked = []

    def step(function, points, weights, rows, shrink, epsilon):
        asked.append(epsilon)
        return type(function).step(function, points, weights, rows, shrink, epsilon)

    for agent in engine.blocks[0].agents:
        function = agent.state.function
        agent.state.function = Recorded(function, step)
    engine.run(5)
    assert set(asked) == {0.3}


class Recorded:
    """A function that says with what budget it is stepped on."""

    def __init__(self, function, step):
        self._function, self._step = function, step

    def __getattr__(self, name):
        return getattr(self._function, name)

    def step(self, *arguments):
        return self._step(self._function, *arguments)
