"""The default penalty is right on one target and on unequal ones, for learners whose pulls count as samples do."""

from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

RING = {"name": "ring", "nodes": 6}
FIELD = {"name": "sensor_field", "noise": 0.5, "length": 0.5}
GEOMETRIC = {"name": "random_geometric", "nodes": 10, "radius": 0.5}
LEARNERS = ["newton", "rls", "krls"]


def experiment(learner: str, stream: dict[str, Any], protocol: Any, **keys: Any) -> Experiment:
    table = {"topology": RING, "rounds": 300, "evaluate_every": 300, "evaluation": {"rkhs_distance": False}}
    return Experiment.from_dict(table | {"learner": learner, "stream": stream, "protocol": protocol} | keys)


def error(learner: str, stream: dict[str, Any], protocol: Any, measure: str, topology: dict[str, Any]) -> float:
    runs = [simulate(experiment(learner, stream, protocol, topology=topology, seed=seed)) for seed in range(3)]
    return float(np.mean([run.final[measure] for run in runs]))


@pytest.mark.parametrize("learner", LEARNERS)
def test_on_one_target_it_errs_as_a_large_penalty(learner: str) -> None:
    stream = {"name": "sine_regression", "noise": 1.0}
    found, large, alone = (
        error(learner, stream, protocol, "global_error", RING)
        for protocol in ("consensus", {"name": "consensus", "penalty": 10.0}, "isolated")
    )
    assert found < 1.3 * large < 0.5 * alone


@pytest.mark.parametrize(
    ("learner", "noise", "length"), [("newton", 0.5, 0.5), ("newton", 1.5, 2.0), ("rls", 0.5, 0.5), ("krls", 1.5, 2.0)]
)
def test_where_targets_differ_it_errs_no_more_than_nodes_alone(learner: str, noise: float, length: float) -> None:
    stream = {"name": "sensor_field", "noise": noise, "length": length}
    found, large, alone = (
        error(learner, stream, protocol, "error", GEOMETRIC)
        for protocol in ("consensus", {"name": "consensus", "penalty": 10.0}, "isolated")
    )
    assert found < 1.05 * alone < large


def resolved(learner: str, stream: dict[str, Any], protocol: dict[str, Any], **keys: Any) -> float:
    described = experiment(learner, stream, {"name": "consensus", **protocol}, **keys)
    number: float = open_network(described).experiment.to_dict()["protocol"]["penalty"]
    return number


def penalty(learner: str, protocol: dict[str, Any], noise: float = 0.3, **keys: Any) -> float:
    return resolved(learner, {"name": "sine_regression", "noise": noise}, protocol, **keys)


def test_pulls_in_units_of_steps_have_the_usual_penalty() -> None:
    assert penalty("polk", {}) == penalty("newton", {"step": "explicit"}) == penalty("newton", {"as_published": True})
    assert penalty("polk", {}) == penalty("newton", {"name": "stacking"}) == 0.1


def test_pulls_that_do_not_vanish_at_agreement_stay_small() -> None:
    distance = {"distance": "absolute"}
    assert penalty("newton", distance) == penalty("polk", distance)  # one target: no larger than for steps
    assert resolved("newton", FIELD, distance) < 0.1 * resolved("polk", FIELD, distance)


def test_it_falls_with_the_number_of_neighbors() -> None:
    few, many = (penalty("rls", {}, 5.0, topology={"name": name, "nodes": 6}) for name in ("ring", "complete"))
    assert many == pytest.approx(0.4 * few, rel=0.01) and few < 10.0


def test_a_given_penalty_is_taken_literally() -> None:
    assert penalty("newton", {"penalty": 0.037}) == 0.037
