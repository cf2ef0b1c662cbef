"""DeKRR-DDRF on an experiment's samples: it sees all of them, and is measured as a run of the network is."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment, build_experiment
from kernelswarm.simulations.reproductions import dkla
from kernelswarm.simulations.reproductions.dkla import Fit
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

NODES, ROUNDS, BATCH, FEATURES = 4, 12, 3, 7


def experiment(**keys: object) -> Experiment:
    tables = {
        "topology": {"name": "path", "nodes": NODES},
        "stream": {"name": "sine_regression", "noise": 0.5, "split": "patches", "overlap": 0.3},
        "learner": {
            "name": "random_features",
            "features": FEATURES,
            "batch_size": BATCH,
            "kernel": {"name": "gaussian", "bandwidth": 0.3},
        },
        "protocol": {"name": "isolated"},
        **keys,
    }
    return build_experiment(seed=5, rounds=ROUNDS, evaluate_every=4, evaluation={"rkhs_distance": False}, **tables)


@pytest.mark.parametrize("finite", [False, True])
def test_functions_are_measured_as_those_of_a_run(monkeypatch, finite):
    """Functions that a run ended with, handed over as if they were DeKRR-DDRF's, have the errors of its record."""
    generator = np.random.default_rng(2)
    points = generator.uniform(-1.0, 1.0, size=(203, 1))  # parts of different sizes
    rows = (
        {"data": (points, np.sin(5.0 * points)), "stream": {"split": "patches", "standardize": False}} if finite else {}
    )
    asked = experiment(**rows)
    wanted = simulate(asked)
    models = [wanted.model(node) for node in range(NODES)]
    maps = [lambda at, model=model: np.ascontiguousarray(model.predict(at).reshape(1, -1)) for model in models]
    seen = []

    def as_found(data, neighbors, bandwidth, features, ridge, coupling, generator):
        seen.append((data, neighbors, bandwidth, features, ridge, coupling))
        for round in range(1, ROUNDS + 1):
            yield Fit(maps, [np.ones(1)] * NODES, 10 * round)

    monkeypatch.setattr(dkla, "fits", as_found)
    found = dkla.record(asked, ridge=0.5, coupling=2.0)
    for column in ("error", "global_error", "disagreement"):
        assert found[column].shape == (3,)
        np.testing.assert_allclose(found[column][-1], wanted.network[column][-1], rtol=1e-12)
    np.testing.assert_array_equal(found["bytes_sent"], [8 * 10 * 4, 8 * 10 * 8, 8 * 10 * 12])
    ((data, neighbors, *keys),) = seen
    assert neighbors == {0: [1], 1: [0, 2], 2: [1, 3], 3: [2]}
    assert keys == [0.3, FEATURES, 0.5, 2.0]
    for source, (drawn, targets) in zip(open_network(asked).source.nodes, data.values(), strict=True):
        same = source.draw(BATCH * ROUNDS)
        np.testing.assert_array_equal(drawn, same[0])
        np.testing.assert_array_equal(targets, same[1][:, 0])


def test_it_learns_of_its_rounds_and_counts_what_they_send():
    asked = experiment()
    found = dkla.record(asked, ridge=1e-4, coupling=0.1)
    assert found["error"][-1] < 0.5 * simulate(asked).network["error"][0]
    directed, inputs = 2 * (NODES - 1), 1
    once = directed * (BATCH * ROUNDS * inputs + FEATURES * (inputs + 1))
    np.testing.assert_array_equal(found["bytes_sent"], [8 * (once + directed * FEATURES * k) for k in (4, 8, 12)])
