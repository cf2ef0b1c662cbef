"""Protocols named and nothing else said of them end sanely on topologies, streams and losses of every kind."""

from pathlib import Path

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.contracts.specimens import SPECIMENS

MIXTURE = {"name": "gaussian_mixture", "classes": 3}
PAIR = {"name": "gaussian_mixture", "classes": 2}
SINE = {"name": "sine_regression", "noise": 1.0}
FITTING: list[tuple[object, dict[str, object]]] = [
    *(
        (stream, {"loss": loss})
        for stream in (SINE, {**SINE, "split": "patches"}, {"name": "sensor_field"}, {"name": "drifting"})
        for loss in ("squared", "absolute", "huber")
    ),
    *((MIXTURE, {"loss": loss}) for loss in ("multiclass_logistic", "multiclass_hinge")),
    *((PAIR, {"loss": loss}) for loss in ("logistic", "hinge")),
    ({"name": "markov_reward", "discount": 0.5}, {"name": "policy_evaluation", "discount": 0.5, "batch_size": 2}),
    (
        {"name": "gaussian_density"},
        {"name": "spppot", "loss": {"name": "poisson_process", "cells": [40]}, "step_size": 0.03},
    ),
]
PROTOCOLS = ["isolated", {"name": "consensus", "penalty": 1e6}, "proximity"]


@pytest.mark.parametrize(("stream", "learner"), FITTING, ids=str)
def test_default_forms_end_sanely(stream: object, learner: dict[str, object], tmp_path: Path) -> None:
    made = [(specimen, specimen.make(tmp_path)) for specimen in SPECIMENS["topology"]]
    # The last of each family that is not large: what happens on an edge happens on a few dozen of them too.
    families = {type(topology): specimen for specimen, topology in made if (getattr(topology, "nodes", 0) or 0) <= 20}
    turn = FITTING.index((stream, learner))
    # Each with many others, not all with all; on every family, and every stream, each of the protocols.
    for place, specimen in enumerate(list(families.values())[turn % 5 :: 5], turn):
        risks = []
        for protocol in (PROTOCOLS[0], PROTOCOLS[1 + place % 2]):
            described = Experiment.from_dict(
                {
                    "rounds": 40,
                    "evaluate_every": 40,
                    "topology": specimen.make(tmp_path),
                    "stream": stream,
                    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}, **learner},
                    "protocol": protocol,
                    "evaluation": {"local_samples": 30, "global_samples": 30, "rkhs_distance": False},
                }
            )
            found = simulate(described).summary
            assert found["status"] == "done"
            assert found["final"]["model_order"] > 0
            risks.append(found["final"]["risk"])
        # a node among others errs no more than twice as much as one alone, on any of them
        assert risks[1] < 2.0 * risks[0] + 0.5, (specimen.label, protocol, risks)
