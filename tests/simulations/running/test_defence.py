"""A defence that needs more neighbours than there are: said where nobody can be left out, and true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import UNDEFENDED


def experiment(robust: str, topology: str = "ring", protocol: str = "proximity", **keys: Any) -> Experiment:
    table = {
        "rounds": 150,
        "evaluate_every": 150,
        "topology": {"name": topology, "nodes": 6},
        "stream": {"name": "sine_regression", "noise": 0.3},
        "learner": "newton",
        "protocol": {"name": protocol, "robust": robust},
    }
    return Experiment.from_dict({**table, **keys})


def ran(*arguments: Any, **keys: Any) -> Result:
    return simulate(experiment(*arguments, **keys))


@pytest.mark.parametrize("robust", ["trimmed", "median"])
def test_of_two_neighbours_nobody_is_left_out_and_both_ends_say_so(robust: str) -> None:
    words = "defends nobody at 6 of 6 nodes"
    assert words in ran(robust, rounds=5).verdict[UNDEFENDED]
    assert words in as_text(examine(experiment(robust)))


@pytest.mark.parametrize(
    ("robust", "topology", "protocol"),
    [
        ("trust", "ring", "proximity"),
        ("clipped", "ring", "consensus"),
        ("none", "ring", "consensus"),
        ("trimmed", "complete", "stacking"),
    ],
)
def test_other_defences_and_more_neighbours_are_left_in_peace(robust: str, topology: str, protocol: str) -> None:
    assert UNDEFENDED not in ran(robust, topology, protocol, rounds=5).verdict


def test_the_mean_of_two_answers_harms_where_learned_tolerances_alone_do_not() -> None:
    fault = [{"nodes": [0], "kind": "offset", "of": "messages"}]
    errors = [ran(robust, fault=fault).final["error"] for robust in ("trimmed", "none", "trust")]
    assert np.all(np.array(errors[0]) > 4.0 * np.array(errors[1:]))
