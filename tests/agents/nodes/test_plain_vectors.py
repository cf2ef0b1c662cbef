"""Learners in plain Python, and such without a compiled place for weights, in rounds in which nodes send vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelswarm.agents.learners.linear import Linear
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.simulations.experiment.experiment import Experiment, Override
from tests.helpers.failures import raised_alike
from tests.helpers.halves import Halves
from tests.helpers.link_mixes import MIXES
from tests.helpers.plain_parts import Marked, PlainPowers, PlainSquared
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
)
from tests.helpers.unreliable_vectors import assert_as_the_formulas_say
from tests.helpers.vector_protocols import PROTOCOLS
from tests.simulations.engine.test_counts_of_points import LARGER, ROWS
from tests.simulations.engine.test_data_that_end import BLOCKS, GRAPH, Ending

POWERS = PlainPowers(step_size=Constant(0.1), regularization=0.01, batch_size=2)
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "lossy": {"links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}}},
    "asleep": MIXES["churn without memory"],
}
ON_ALL_LINKS = pytest.mark.parametrize("links", LINKS)


def described(
    protocol: Any, links: str = "ideal", learner: Any = POWERS, rows: Any = ROWS, **tables: Any
) -> Experiment:
    if protocol["name"] == "dkla":
        protocol = {**protocol, "penalty": 0.01}  # with more it diverges where links lose
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": Ending(rows, "sine_regression"),
            "learner": learner,
            "protocol": protocol,
            "rounds": 40,
            "evaluate_every": 7,
            **LINKS[links],
            **tables,
        }
    )


@ON_ALL_LINKS
@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each["name"] != "domkl"], ids=str)
def test_what_learners_are_asked_leads_where_the_formulas_say(protocol: dict[str, Any], links: str) -> None:
    experiment = described(protocol, links)
    tolerances = (1e-6, 1e-8) if protocol["name"] == "mocha" else (1e-9, 1e-11)
    assert_as_the_formulas_say(experiment, (1, 2, 5, 10), *tolerances)
    assert_the_same_however_cut(experiment, (1, 2, 5, 10), BLOCKS)


@ON_ALL_LINKS
def test_learners_of_which_some_are_plain(links: str) -> None:
    own = {"name": "tests.helpers.plain_parts:PlainPowers", "degree": 1, "step_size": 0.1, "batch_size": 3}
    experiment = described({"name": "ditto"}, links, Linear(step_size=Constant(0.1)), rows=(300,) * 6)
    experiment = replace(experiment, overrides=(Override((1, 4), own),))
    assert_as_the_formulas_say(experiment, (9, 10))


@ON_ALL_LINKS
@pytest.mark.parametrize("protocol", ["gradient_tracking", "odkla", "dkla"])
def test_a_network_goes_on_from_a_checkpoint(protocol: str, links: str) -> None:
    experiment = described({"name": protocol}, links, node=LARGER)
    assert_the_same_from_snapshots(experiment, (3, 10), 10, BLOCKS)


@ON_ALL_LINKS
def test_the_same_digests_and_tables(links: str) -> None:
    experiment = described({"name": "multitask"}, links, learner=replace(POWERS, loss=PlainSquared()))
    assert_the_same_tables(experiment)


@pytest.mark.parametrize("links", ["ideal", "lossy"])
def test_what_a_learner_raises_names_its_node(links: str) -> None:
    experiment = described({"name": "diffusion"}, links, replace(POWERS, batch_size=1, failing=True), stream=Marked())
    assert "there is no such key" in raised_alike(experiment, Halves(6), Halves(2))


def test_learners_that_rounds_call_are_named() -> None:
    assert in_python([POWERS], Diffusion()) == "the learner PlainPowers"
    assert in_python([Linear()], Diffusion()) is None
