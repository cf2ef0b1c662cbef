"""A batch that takes all rows of a node makes a pass one step of descent: said of learners that descend."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import SINGLE_STEP

X = np.random.default_rng(0).uniform(size=(300, 1))
Y = np.sin(6.0 * X[:, 0])


def warning(batch_size: int, name: str = "polk", epochs: int = 1) -> str:
    return simulate(
        topology={"name": "ring", "nodes": 3},
        data=(X, Y),
        stream={"epochs": epochs},
        learner={"name": name, "batch_size": batch_size},
        protocol="isolated",
        rounds=4,
    ).verdict.get(SINGLE_STEP, "")


@pytest.mark.parametrize(
    ("batch_size", "epochs", "words"),
    [
        (1000, 1, "the run is one step: learner.batch_size = 1,000 takes all rows of a node, 80 at most"),
        (80, 3, "the run is 3 steps: learner.batch_size = 80 takes"),
        (79, 1, ""),
    ],
)
def test_it_is_said_from_as_many_samples_on_as_a_node_has(batch_size: int, epochs: int, words: str) -> None:
    text = warning(batch_size, epochs=epochs)
    assert words in text
    assert bool(words) == bool(text)


@pytest.mark.parametrize("name", ["newton", "krls", "rls"])
def test_learners_that_solve_need_no_more(name: str) -> None:
    assert warning(1000, name) == ""
