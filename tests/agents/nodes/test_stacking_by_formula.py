"""The shares, functions and counts of ensembles in arrays are what the formulas say, on links and by clocks of all
kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.ending import Ending
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.stacked_network import assert_as_the_formulas_say

KERNEL = {"name": "gaussian", "bandwidth": 0.4}
POLK = {"name": "polk", "batch_size": 2, "kernel": KERNEL, "budget": {"epsilon": 0.05}}
LATE = {"loss": 0.2, "delay": {"name": "between", "longest": 4}, "max_age": 3, "damping": 0.3}
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "late": {"links": LATE},
    "rounded": {"links": {**LATE, "quantization": {"bits": 8}, "on_missing": "repeat"}},
    "asleep": {"links": {"delay": 1}, "clock": {"name": "bernoulli", "probability": 0.6}},
    "forgetful": {
        "links": {"delay": {"name": "between", "longest": 3}, "on_missing": "repeat"},
        "clock": {"name": "churn", "leaves": 0.2, "returns": 0.4, "memory": False},
    },
    "directed": {"topology": nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 5), (0, 2)])},
    "failures": MIXES["failures"],
}
EVERY_LINK = pytest.mark.parametrize("links", LINKS)


def described(links: str = "ideal", **tables: Any) -> Experiment:
    known = {**LINKS[links]}
    schedule = known.pop("schedule", None)
    stream, protocol = {"name": "sine_regression", "noise": 0.3}, {"name": "stacking"}
    keys = {"topology": GRAPH, "protocol": protocol, "learner": POLK, "stream": stream}
    found = Experiment.from_dict({**keys, **known, **tables})
    return found if schedule is None else replace(found, schedule=schedule)


@EVERY_LINK
@pytest.mark.parametrize("rule", [{}, {"replay": 2}], ids=str)
def test_shares_and_mixtures(rule: dict[str, Any], links: str) -> None:
    assert_as_the_formulas_say(described(links, protocol={"name": "stacking", **rule}), (1, 2, 9, 18))


@pytest.mark.parametrize("links", ["ideal", "asleep"])
def test_classes(links: str) -> None:
    stream = {"name": "gaussian_mixture", "classes": 3}
    learner = {"name": "random_features", "loss": "multiclass_logistic", "features": 12, "kernel": KERNEL}
    assert_as_the_formulas_say(described(links, stream=stream, learner=learner), (1, 25))


@pytest.mark.parametrize("links", ["ideal", "late", "forgetful"])
def test_batches_that_differ_and_data_that_end(links: str) -> None:
    stream = Ending((31, 20, 17, 12, 26), "sine_regression")
    node = [{"nodes": [1, 5], "learner": {"batch_size": 3}}]
    experiment = described(links, stream=stream, learner={**POLK, "batch_size": 1}, node=node)
    assert_as_the_formulas_say(experiment, (4, 6, 20), blocks=[[0, 3], [1, 2, 4]])
