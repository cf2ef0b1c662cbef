"""What nodes that send vectors learn, send and count in arrays is what the formulas say, on links and by clocks of all
kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from tests.helpers.ending import Ending
from tests.helpers.link_mixes import GRAPH, MIXES
from tests.helpers.unreliable_vectors import Network, assert_as_the_formulas_say
from tests.helpers.vector_protocols import PROTOCOLS, learner_for

FEATURES = {
    "name": "random_features",
    "features": 7,
    "regularization": 0.01,
    "batch_size": 2,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
LATE = {"loss": 0.3, "delay": {"name": "between", "longest": 3}}
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "skipped": {"links": {**LATE, "max_age": 2, "damping": 0.5}},
    "repeated": {"links": {**LATE, "on_missing": "repeat", "damping": 0.3}},
    "asleep": {"links": LATE, "clock": {"name": "bernoulli", "probability": 0.6}},
    "rounded": {"links": {**LATE, "quantization": {"bits": 6}}},
    "fine": {"links": {"quantization": {"bits": 20}, "clip": {"values": 30.0}, "bandwidth": 4.0}},
    "trigger": {"links": {"trigger": {"threshold": 0.3, "decay": 0.9}, "on_missing": "repeat"}},
    "noisy": {"links": {"noise": {"name": "laplace", "scale": 0.1, "on": "both"}, "clip": {"points": 0.7}}},
    "faulty": {"fault": MIXES["faulty"]["fault"][:3]},
    "everything": {**MIXES["everything"], "fault": MIXES["everything"]["fault"][:1]},
    "forgetful": MIXES["churn without memory"],
    "joining": MIXES["joining"],
    "failures": MIXES["failures"],
}
LOSSY = list(LINKS)[1:]
WHOLE = ("ideal", "fine", "trigger", "noisy", "faulty", "failures")
"""Links on which whatever is sent arrives."""
ADMM = ("odkla", "dkla", "domkl")
CELLS = [(protocol, "ideal") for protocol in PROTOCOLS]
CELLS += [(protocol, LOSSY[(k + 4 * more) % len(LOSSY)]) for k, protocol in enumerate(PROTOCOLS) for more in (0, 1)]
CELLS += [({"name": name}, link) for name in ADMM for link in ("asleep", "forgetful", "failures", "repeated")]
ENDS = (31, 20, 17, 12, 26)
LARGER = [{"nodes": [1, 5], "learner": {"batch_size": 3}}]


def described(protocol: dict[str, Any], links: str, **tables: Any) -> Experiment:
    known = dict(LINKS[links])
    schedule = known.pop("schedule", None)
    if protocol["name"] == "diffusion_rls" and links == "rounded":
        known["links"] = {**known["links"], "quantization": {"bits": 20}}
    learner = learner_for(protocol, {**FEATURES, **tables.pop("learner", {})})
    stream = {"name": "sine_regression", "noise": 0.3}
    found = Experiment.from_dict(
        {"topology": GRAPH, "stream": stream, "learner": learner, "protocol": protocol, **known, **tables}
    )
    return found if schedule is None else replace(found, schedule=schedule)


def replaced(experiment: Experiment, learner: dict[str, Any]) -> Experiment:
    """Return an experiment with another learner."""
    return replace(experiment, learner=build("learner", learner))


def held(experiment: Experiment, stops: tuple[int, ...]) -> Network:
    """Hold an experiment to the formulas; of MOCHA's relations half of the digits are lost in a Gram matrix."""
    tolerances = (1e-6, 1e-8) if type(experiment.protocol).__name__ == "Mocha" else (1e-9, 1e-11)
    return assert_as_the_formulas_say(experiment, stops, *tolerances)


@pytest.mark.parametrize(("protocol", "links"), CELLS, ids=str)
def test_weights_messages_and_counts(protocol: dict[str, Any], links: str) -> None:
    found = held(described(protocol, links), (1, 2, 9, 18))
    _, arrived, lost, late = sum(found.messages.counts.values())
    assert arrived > 20 and (links in WHOLE) == (lost + late == 0)


@pytest.mark.parametrize("links", ["ideal", "skipped", "forgetful"])
@pytest.mark.parametrize("protocol", PROTOCOLS[::2], ids=str)
def test_batches_that_differ_and_data_that_end(protocol: dict[str, Any], links: str) -> None:
    stream, learner = Ending(ENDS, "sine_regression"), {"batch_size": 1}
    held(described(protocol, links, stream=stream, learner=learner, node=LARGER), (4, 6, 20))


@pytest.mark.parametrize("links", ["ideal", "asleep"])
@pytest.mark.parametrize("step", ["implicit", "explicit"])
@pytest.mark.parametrize("loss", [{"name": "huber", "threshold": 0.3}, "multiclass_logistic"], ids=str)
def test_losses_that_are_not_quadratic(loss: Any, step: str, links: str) -> None:
    stream = Ending(ENDS, "gaussian_mixture" if loss == "multiclass_logistic" else "sine_regression")
    learner = {"loss": loss, "batch_size": 2}
    for name in ("diffusion", "odkla", "multitask"):
        held(described({"name": name, "step": step}, links, stream=stream, learner=learner), (25,))


@pytest.mark.parametrize("links", ["ideal", "asleep"])
@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS[::3] if each["name"] != "domkl"], ids=str)
def test_a_feature_that_is_not_regularised(protocol: dict[str, Any], links: str) -> None:
    learner = {"name": "linear", "step_size": 0.1, "regularization": 0.1, "batch_size": 3}
    held(replaced(described(protocol, links), learner), (20,))


def test_more_rounds_than_are_drawn_ahead() -> None:
    """A node that sleeps goes on with the first of the samples that it has not learned from."""
    clock = {"name": "poisson", "slowest": 0.05, "fastest": 3.0}
    found = held(described({"name": "gradient_tracking"}, "ideal", clock=clock), (300, 1, 250))
    learned = [node.learned for node in found.nodes.values()]
    assert min(learned) < 100 < 256 < max(learned)
