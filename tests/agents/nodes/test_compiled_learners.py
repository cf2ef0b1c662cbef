"""Every learner that hands over its step lives in compiled rounds and passes, with the bits of its methods."""

import copy
import pickle

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.resolving import resolved_learner
from kernelswarm.agents.nodes import passes
from kernelswarm.simulations.data.pooled import pool
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_plans
from tests.helpers.cases import case
from tests.helpers.exchange_protocols import PROTOCOLS, met
from tests.helpers.same_bits import assert_the_same_everywhere
from tests.helpers.steps import learn

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
KERNEL = {"name": "gaussian", "bandwidth": 0.4}
CUBIC = {"name": "polynomial", "degree": 3, "scale": 0.3}  # kappa(x, x) is not 1
NETWORK = {"name": "rbf_network", "kernel": KERNEL, "centers": 6}
LEARNERS = {
    "polk": {"name": "polk", "kernel": KERNEL, "budget": {"epsilon": 0.02}},
    "newton": {"name": "newton", "kernel": KERNEL, "budget": {"per_sample": 0.05}},
    "newton, polynomial": {"name": "newton", "kernel": CUBIC, "forgetting": 0.99},
    "newton, posterior": {"name": "newton", "kernel": KERNEL, "compression": "hellinger", "budget": {"epsilon": 0.3}},
    "krls": {"name": "krls", "kernel": KERNEL},
    "krls, polynomial": {"name": "krls", "kernel": CUBIC, "dependency": 1e-5},
    "qklms": {"name": "qklms", "kernel": KERNEL, "quantization": 0.1},
    "qklms, polynomial": {"name": "qklms", "kernel": CUBIC},
    "rls": {"name": "rls", "kernel": KERNEL, "features": 21, "forgetting": 0.95},
    "rls, walking": {"name": "rls", "kernel": KERNEL, "features": 21, "process_noise": 0.01},
    "rls, linear": {"name": "rls", "kernel": {"name": "linear", "offset": 0.5}},
    "linear": {"name": "linear"},
    "linear, through the origin": {"name": "linear", "intercept": False},
    "random_features": {"name": "random_features", "kernel": KERNEL, "features": 21},
    "raker": {"name": "raker", "kernel": KERNEL, "features": 9, "factors": [0.3, 1.0, 3.0], "forgetting": 0.9},
    "adaraker": {"name": "adaraker", "kernel": KERNEL, "features": 7, "factors": [0.3, 3.0], "forgetting": 0.9},
    "adaraker, restarted": {
        "name": "adaraker",
        "kernel": KERNEL,
        "features": 6,
        "intervals": 3,
        "shortest": 2,
        "ratio": 3,
        "rate": 0.3,
        "restart": True,
        "phases": "paired",
    },
    "nystroem": {"name": "nystroem", "kernel": KERNEL, "landmarks": 17},
    "nystroem, rank": {"name": "nystroem", "kernel": KERNEL, "landmarks": 9, "rank": 4},
    "shared_nystroem": {"name": "shared_nystroem", "kernel": KERNEL, "landmarks": 9},
    "ogd": {"name": "ogd", "kernel": KERNEL},
    "norma": {"name": "norma", "kernel": KERNEL, "regularization": 0.01, "budget_size": 9},
    "bsgd": {"name": "bsgd", "kernel": KERNEL, "budget_size": 9},
    "perceptron": {"name": "perceptron", "kernel": KERNEL},
    "projectron": {"name": "projectron", "kernel": KERNEL, "budget_size": 3},
    "projectron, without a budget": {"name": "projectron", "kernel": {"name": "polynomial"}, "tolerance": 0.1},
    "projectron_plus": {"name": "projectron_plus", "kernel": KERNEL, "budget_size": 3, "tolerance": 0.3},
    "projectron_plus, polynomial": {"name": "projectron_plus", "kernel": {"name": "polynomial"}, "tolerance": 0.5},
    "bsgd, projection": {"name": "bsgd", "kernel": KERNEL, "budget_size": 9, "maintenance": "projection"},
    "bsgd, merging": {"name": "bsgd", "kernel": KERNEL, "budget_size": 9, "maintenance": "merging"},
    "npbsgd": {"name": "npbsgd", "kernel": KERNEL, "budget_size": 10, "growth": 0.2},
    "dual_sgd": {"name": "dual_sgd", "kernel": KERNEL, "budget_size": 10, "features": 20},
    "dual_sgd, several at once": {"name": "dual_sgd", "kernel": KERNEL, "budget_size": 9, "leaving": 4, "features": 50},
    "bogd": {"name": "bogd", "kernel": KERNEL, "budget_size": 9, "weight_bound": 2.0},
    "forgetron": {"name": "forgetron", "kernel": KERNEL, "budget_size": 10},
    "bpa": {"name": "bpa", "kernel": KERNEL, "budget_size": 9},
    "bpa, nearest": {"name": "bpa", "kernel": KERNEL, "budget_size": 9, "maintenance": "nearest"},
    "bpa, projecting": {"name": "bpa", "kernel": KERNEL, "budget_size": 9, "maintenance": "projecting"},
    "ogd, polynomial": {"name": "ogd", "kernel": CUBIC},
    "norma, polynomial": {"name": "norma", "kernel": CUBIC, "regularization": 0.01, "budget_size": 9},
    "bsgd, polynomial": {"name": "bsgd", "kernel": CUBIC, "budget_size": 9},
    "bsgd, projection, polynomial": {"name": "bsgd", "kernel": CUBIC, "budget_size": 6, "maintenance": "projection"},
    "npbsgd, polynomial": {"name": "npbsgd", "kernel": CUBIC, "budget_size": 10, "growth": 0.2},
    "bogd, polynomial": {"name": "bogd", "kernel": CUBIC, "budget_size": 9, "sampling": "uniform", "weight_bound": 0.5},
    "perceptron, polynomial": {"name": "perceptron", "kernel": CUBIC},
    "forgetron, polynomial": {"name": "forgetron", "kernel": CUBIC, "budget_size": 10},
    "bpa, polynomial": {"name": "bpa", "kernel": CUBIC, "budget_size": 9},
    "bpa, nearest, polynomial": {"name": "bpa", "kernel": CUBIC, "budget_size": 9, "maintenance": "nearest"},
    "nystroem, polynomial": {"name": "nystroem", "kernel": {"name": "polynomial", "degree": 3}, "landmarks": 30},
    "colk": {"name": "colk", "kernel": KERNEL, "budget": {"epsilon": 0.02}, "dispersion": "variance"},
    "colk, average": {"name": "colk", "kernel": KERNEL, "dispersion": "semivariance", "tracking": "average"},
    "colk, threshold": {
        "name": "colk",
        "kernel": KERNEL,
        "dispersion": {"name": "cvar", "level": 0.6, "threshold_step": {"name": "diminishing", "initial": 0.1}},
        "tracking_rate": {"name": "diminishing", "initial": 0.5},
    },
    "colk, sliding": {"name": "colk", "kernel": KERNEL, "pairs": "sliding", "budget": {"epsilon": 0.02}},
    "colk, sliding, polynomial": {
        "name": "colk",
        "kernel": CUBIC,
        "step_size": 0.02,
        "pairs": "sliding",
        "tracking": "average",
        "dispersion": "semivariance",
    },
    "colk, sliding, threshold": {
        "name": "colk",
        "kernel": KERNEL,
        "pairs": "sliding",
        "dispersion": {"name": "cvar", "level": 0.6},
    },
    "okfe": {"name": "okfe", "kernel": KERNEL, "rank": 5, "censoring": {"name": "moving_average", "window": 9}},
    "okfe, polynomial, parametric": {
        "name": "okfe",
        "kernel": {"name": "polynomial"},
        "rank": 3,
        "subspace_step": {"name": "power", "initial": 0.3, "exponent": 0.7},
        "subspace_update": "parametric",
        "follow": False,
    },
    "okfeb": {"name": "okfeb", "kernel": KERNEL, "rank": 5, "budget_size": 9, "recency": 0.9},
    "okfeb, parametric": {
        "name": "okfeb",
        "kernel": KERNEL,
        "rank": 4,
        "budget_size": 7,
        "censoring_from": "budget",
        "censoring": {"threshold": 0.05},
        "subspace_update": "parametric",
    },
    "spppot": {"name": "spppot", "kernel": KERNEL, "budget": {"epsilon": 0.02}},
    "spppot, f = z": {"name": "spppot", "kernel": KERNEL, "mirror_map": "squared_norm"},
    "policy_evaluation": {
        "name": "policy_evaluation",
        "kernel": KERNEL,
        "discount": 0.7,
        "budget": {"epsilon": 0.02},
        "tracking_rate": {"name": "diminishing", "initial": 0.5},
    },
    "rbf_network": {**NETWORK, "dispersion": "variance"},
    "rbf_network, difference": {**NETWORK, "dispersion": "semivariance", "tracking": "difference"},
    "colk, mean alone": {"name": "colk", "kernel": KERNEL, "dispersion_weight": 0.0},
    "newton, adaptive": {"name": "newton", "kernel": KERNEL, "forgetting": "auto", "budget": {"per_sample": 0.05}},
}
PAIRED = {"colk", "policy_evaluation", "rbf_network"}
"""Those that learn from samples in pairs."""

NOT_FOR_CLASSES = {"policy_evaluation", "newton, adaptive", "newton, posterior"}
"""The first has no loss, the others want the squared one."""

EVERY = pytest.mark.parametrize("learner", LEARNERS)


def batch_size(learner, batch):
    table = LEARNERS[learner]
    return max(batch, 2) if table["name"] in PAIRED and table.get("pairs") != "sliding" else batch


def experiment(learner, protocol, batch=1, stream="sine_regression", **keys):
    table = {"step_size": 0.1, "regularization": 1e-3, **LEARNERS[learner], **keys}
    if LEARNERS[learner]["name"] in ("newton", "krls", "rls"):
        table["ridge"] = table.pop("regularization")
    if LEARNERS[learner]["name"] == "policy_evaluation":
        stream = {"name": "markov_reward", "discount": 0.7}
    table["batch_size"] = batch_size(learner, batch)
    return Experiment.from_dict(
        {"topology": GRAPH, "stream": stream, "learner": table, "protocol": PROTOCOLS[protocol]}
    )


def in_numbers(learner):
    generator = np.random.default_rng(1)
    return resolved_learner(learner, generator.normal(size=(40, 2)), generator.normal(size=(40, 1)), 1)


def engines(description):
    """The same network twice: compiled, and with parts that are asked by their methods, each time in one block."""
    plans = open_network(description).plans
    return SerialEngine(pickled([plans])), SerialEngine([plain_plans(plans)])


POOLED = {}


def pooled(description):
    """The pooled held-out samples of a stream, whatever learns on it: no network is opened for them each time."""
    if description.stream not in POOLED:
        POOLED[description.stream] = pool([node.held_out(0) for node in open_network(description).source.nodes], 50)
    return POOLED[description.stream]


def report_and_states(engine, description):
    """What an engine reports, for once, and the states of its agents."""
    return engine.report(pooled(description)), engine.snapshot()


def assert_equal(left, right, description):
    assert_same_states(report_and_states(left, description), report_and_states(right, description))


def assert_same_states(left, right):
    np.testing.assert_equal(vars(left[0]), vars(right[0]))
    for node, snapshot in left[1].items():
        for name, array in snapshot.arrays.items():
            if name.startswith("ahead_"):  # samples of rounds to come
                continue
            np.testing.assert_array_equal(array, right[1][node].arrays[name], err_msg=f"node {node}: {name}")


def assert_same_bits(description):
    arrays, single = engines(description)
    arrays.run(30)
    single.run(30)
    assert_equal(arrays, single, description)


def test_every_learner_is_in_the_list():
    called = {"multi_kernel"}  # its members step one after the other, in Python
    assert {table["name"] for table in LEARNERS.values()} == set(PARTS["learner"]) - called


@EVERY
def test_nothing_keeps_the_learner_out_of_compiled_passes(learner):
    assert passes.obstacle(in_numbers(experiment(learner, "isolated").learner)) is None


@EVERY
def test_same_bits_as_by_methods(learner):
    turn = list(LEARNERS).index(learner)
    for place, protocol in enumerate(met(turn), turn):
        batch = (1, 8)[place % 2]  # each learner, and each protocol, meets both
        description = experiment(learner, protocol, batch)
        arrays, single = engines(description)
        with case(protocol, f"batches of {batch}"):
            for rounds in (2, 18 if batch == 1 else 4):  # enough to fill every budget
                arrays.run(rounds)
                single.run(rounds)
                if rounds > 2 or protocol == "isolated":  # once also on the way: what is reported there changes nothing
                    assert_equal(arrays, single, description)


def test_every_protocol_meets_learners_in_both_batch_sizes():
    turns = [(name, (turn + place) % 2) for turn in range(len(LEARNERS)) for place, name in enumerate(met(turn))]
    assert {*turns} == {(name, turn) for name in PROTOCOLS for turn in (0, 1)}


@pytest.mark.parametrize("learner", sorted(set(LEARNERS) - NOT_FOR_CLASSES))
def test_same_bits_with_several_outputs(learner):
    stream = {"name": "gaussian_mixture", "classes": 3}
    # newton with a loss that says which points are offered
    loss = "multiclass_squared_hinge" if learner == "newton" else "multiclass_logistic"
    description = experiment(learner, "consensus, symmetric, implicit", 2, stream, loss=loss)
    assert_same_bits(description)


@EVERY
def test_same_bits_in_blocks_and_from_snapshots(learner):
    description = experiment(learner, "proximity, symmetric, implicit", 2)
    assert_the_same_everywhere(description, (8, 7), 1, [[0], [1], [2], [3]], [[0, 3], [1, 2]])


@EVERY
def test_a_pass_has_the_bits_of_single_steps(learner):
    for given, outputs in ((1, 1), (8, 1), (8, 2)):
        part = in_numbers(experiment(learner, "isolated", given).learner)
        generator = np.random.default_rng(0)
        points = generator.normal(size=(203, 2))
        targets = np.sin(points[:, :outputs]) + 0.1 * generator.normal(size=(203, outputs))
        state = part.init(2, outputs)
        for where in (slice(0, 96), slice(96, 203)):  # the last batch is smaller
            passes.learn(part, state, points[where], targets[where])
        single = learn(part, points, targets, part.init(2, outputs))
        with case(f"in batches of {part.batch_size}", f"{outputs} outputs"):
            np.testing.assert_equal(part.snapshot(state), part.snapshot(single))


EVENTS = {
    "name": "spppot",
    "loss": {"name": "poisson_process", "cells": [30]},
    "kernel": {"name": "gaussian", "bandwidth": 0.0806},
    "step_size": 0.03,
    "budget": {"proportional": 0.01},
}


@pytest.mark.parametrize(("place", "protocol"), [*enumerate(name for name in PROTOCOLS if name != "centralized")])
def test_same_bits_of_densities(place, protocol):
    """Learned at points, on the grid alone, and as f = z, in turn."""
    keys = ({}, {"grid_only": True}, {"mirror_map": "squared_norm"})[place % 3]
    table = {"topology": GRAPH, "stream": "gaussian_density", "protocol": PROTOCOLS[protocol]}
    for batch in (1, 4):
        description = Experiment.from_dict({**table, "learner": {**EVENTS, **keys, "batch_size": batch}})
        arrays, single = engines(description)
        for rounds in (2, 30):
            arrays.run(rounds)
            single.run(rounds)
            assert_equal(arrays, single, description)


@pytest.mark.parametrize("grid_only", [False, True])
def test_a_pass_over_events_has_the_bits_of_single_steps(grid_only):
    part = build("learner", {**EVENTS, "grid_only": grid_only, "batch_size": 4})
    points, targets = np.random.default_rng(0).beta(3.0, 5.0, (61, 1)), np.ones((61, 1))
    state = part.init(1, 1)
    passes.learn(part, state, points, targets)
    np.testing.assert_equal(part.snapshot(state), part.snapshot(learn(part, points, targets, part.init(1, 1))))


TOGETHER = [name for name in LEARNERS if name != "policy_evaluation"]  # which learns from transitions


@pytest.mark.parametrize("first", range(0, len(TOGETHER), len(GRAPH)))
def test_nodes_with_learners_of_their_own_live_in_the_same_arrays(first):
    own = [
        {"nodes": [node], "learner": {"step_size": 0.1, "batch_size": 2, **LEARNERS[name]}}
        for node, name in zip(sorted(GRAPH), TOGETHER[first:], strict=False)
    ]
    description = Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": "sine_regression",
            "learner": {"name": "linear", "step_size": 0.1, "batch_size": 2},
            "protocol": PROTOCOLS["proximity, symmetric, implicit"],
            "node": own,
        }
    )
    assert_same_bits(description)


def pickled(state):
    return pickle.loads(pickle.dumps(state))


@EVERY
def test_a_copy_of_a_state_goes_on_by_itself(learner):
    part = in_numbers(experiment(learner, "isolated").learner)
    generator = np.random.default_rng(0)
    points, targets = generator.normal(size=(90, 2)), generator.normal(size=(90, 1))
    stop = 40 + part.batch_size
    for copied in (copy.deepcopy, pickled):
        state = part.init(2, 1)
        passes.learn(part, state, points[:40], targets[:40])
        held = part.snapshot(state)
        other = learn(part, points[40:stop], targets[40:stop], copied(state))
        passes.learn(part, other, points[stop:], targets[stop:])
        with case(copied.__name__):
            np.testing.assert_equal(part.snapshot(state), held)
            passes.learn(part, state, points[40:], targets[40:])
            np.testing.assert_equal(part.snapshot(state), part.snapshot(other))
