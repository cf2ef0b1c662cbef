"""Parts in plain Python join the compiled round: the same bits however it is cut, and what they raise is raised."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import Experiment, simulate
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon, Parsimony
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.plain_parts import rule_form
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.subspace_rules import MovingAverage, Power
from kernelswarm.protocols.compiled import CompiledRule
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.tolerances import Constant as Bound
from kernelswarm.simulations.experiment.experiment import Override
from kernelswarm.simulations.testing import networks
from kernelswarm.simulations.testing.networks import require_the_same_bits, small_network
from tests.helpers.failures import assert_interrupted, raised_alike
from tests.helpers.halves import Halves
from tests.helpers.plain_parts import (
    FailingLoss,
    Marked,
    PlainAverage,
    PlainBudget,
    PlainConsensus,
    PlainGaussian,
    PlainLogistic,
    PlainNoise,
    PlainPolk,
    PlainPower,
    PlainProximity,
    PlainSquared,
)
from tests.helpers.steps import learn

CLASSES = {"name": "gaussian_mixture", "classes": 2}
KERNEL = {"name": "gaussian", "bandwidth": 0.4}
POLK = {"name": "polk", "step_size": 0.1, "batch_size": 2, "kernel": KERNEL}
PROTOCOLS = {
    "isolated": {"name": "isolated"},
    "centralized": {"name": "centralized"},
    "one-sided, explicit": {"name": "consensus", "penalty": 0.3, "as_published": True},
    "one-sided, implicit": {"name": "consensus", "penalty": 0.3, "form": "one_sided"},
    "symmetric, explicit": {"name": "consensus", "penalty": 0.3, "step": "explicit"},
    "symmetric, implicit": {"name": "consensus", "penalty": 0.3},
    "proximity": {"name": "proximity", "gamma": 0.05, "dual_max": 0.5, "as_published": True},
    "proximity, adaptive": {"name": "proximity"},
}


@pytest.fixture(autouse=True)
def fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as every part of the table of names lives through in test_every_part.py."""
    monkeypatch.setattr(networks, "ROUNDS", 7)


def assert_same_bits(learner: Any, protocol: Any, stream: Any = "sine_regression") -> None:
    description = small_network(learner, protocol, stream)
    require_the_same_bits(description, learner)


PARTS: list[Any] = [
    {**POLK, "loss": PlainSquared()},
    {**POLK, "kernel": PlainGaussian()},
    PlainPolk(step_size=Constant(0.2), kernel=Gaussian(0.4), budget=Epsilon(0.01)),
]


@pytest.mark.parametrize(("place", "protocol"), enumerate(PROTOCOLS))
def test_a_loss_a_kernel_or_a_learner(place: int, protocol: str) -> None:
    """Of learners in plain Python, each with the protocols that ask for other things; kernels and losses by turns."""
    for part in (PARTS[place % 2], PARTS[2]):
        assert_same_bits(part, PROTOCOLS[protocol])


@pytest.mark.parametrize(
    ("learner", "protocol"),
    [
        ({"name": "random_features", "features": 12, "step_size": 0.1, "kernel": KERNEL}, {"name": "diffusion"}),
        ({"name": "raker", "factors": [0.5, 2.0], "step_size": 0.1, "kernel": KERNEL}, {"name": "consensus"}),
        ({"name": "adaraker", "factors": [0.5, 2.0], "step_size": 0.1, "kernel": KERNEL}, {"name": "consensus"}),
        ({"name": "newton", "kernel": KERNEL}, {"name": "consensus"}),
        ({"name": "bsgd", "step_size": 0.1, "kernel": KERNEL}, {"name": "consensus"}),
    ],
    ids=str,
)
def test_a_loss_of_other_learners(learner: dict[str, Any], protocol: dict[str, Any]) -> None:
    assert_same_bits({**learner, "loss": PlainLogistic()}, protocol, CLASSES)


@pytest.mark.parametrize(
    "learner",
    [
        {"name": "newton"},
        {"name": "krls"},
        {"name": "qklms", "step_size": 0.1},
        {"name": "nystroem", "step_size": 0.1, "landmarks": 9},
        {"name": "bsgd", "step_size": 0.1, "budget_size": 6},
        {"name": "norma", "step_size": 0.1, "budget_size": 6},
        {"name": "projectron", "loss": "absolute"},
        {"name": "okfeb", "step_size": 0.1},
        {"name": "colk", "step_size": 0.1},
        {"name": "spppot", "step_size": 0.1},
    ],
    ids=str,
)
def test_a_kernel_of_other_learners(learner: dict[str, Any]) -> None:
    assert_same_bits({**learner, "kernel": PlainGaussian()}, {"name": "consensus"})


def test_the_rules_of_a_subspace() -> None:
    keys = {"name": "okfeb", "step_size": 0.1, "kernel": KERNEL, "rank": 4, "budget_size": 6}
    plain = {**keys, "subspace_step": PlainPower(0.3), "censoring": PlainAverage(5)}
    assert_same_bits(plain, {"name": "consensus"})
    compiled = {**keys, "subspace_step": Power(0.3), "censoring": MovingAverage(5)}
    found, wanted = (
        simulate(small_network(learner, {"name": "consensus"}, "sine_regression")).models
        for learner in (plain, compiled)
    )
    np.testing.assert_equal(found, wanted)


@pytest.mark.parametrize("form", ["one_sided", "symmetric"])
@pytest.mark.parametrize("step", ["explicit", "implicit"])
@pytest.mark.parametrize("kind", [PlainConsensus, PlainProximity])
def test_a_protocol(kind: Any, form: str, step: str) -> None:
    if kind is PlainProximity and form == "symmetric":
        assert_same_bits(POLK, kind(form=form, step=step))  # with tolerances that adapt
    elif kind is PlainProximity:
        assert_same_bits(POLK, kind(gamma=Bound(0.05), dual_max=0.5, form=form, step=step))
    else:
        assert_same_bits(POLK, kind(0.1, form=form, step=step))


@pytest.mark.parametrize("protocol", ["one-sided, explicit", "symmetric, implicit"])
@pytest.mark.parametrize(
    "learner",
    [
        {"name": "multi_kernel", "step_size": 0.1, "kernel": KERNEL, "factors": [0.5, 2.0], "batch_size": 3},
        {**POLK, "budget": PlainBudget(0.01)},
        {"name": "okfeb", "step_size": 0.1, "kernel": KERNEL, "coordinates": "points", "follow": False},
    ],
    ids=["mixture", "budget", "single steps"],
)
def test_learners_with_steps_that_are_not_compiled(learner: dict[str, Any], protocol: str) -> None:
    assert_same_bits(learner, PROTOCOLS[protocol])


@pytest.mark.parametrize("links", [{}, {"delay": 1, "loss": 0.2}], ids=["ideal", "lossy"])
def test_learners_of_which_some_are_plain_with_points_to_replay(links: dict[str, Any]) -> None:
    described = small_network(POLK, {"name": "consensus", "penalty": 0.3, "replay": 2}, "sine_regression")
    plain = Override((1, 7), {"name": "tests.helpers.plain_parts:PlainPolk"})
    require_the_same_bits(replace(described, overrides=(plain,)).with_changes({"links": links}), PlainPolk)


def digest_in_blocks(experiment: Experiment) -> str:
    """Return the digest of a network, which is the same in one block of four nodes and in two of two."""
    one, other = (str(simulate(replace(experiment, backend=Halves(size))).summary["digest"]) for size in (4, 2))
    assert one == other
    return one


def test_a_learner_on_nodes_that_forget() -> None:
    learner = PlainPolk(step_size=Constant(0.2), kernel=Gaussian(0.4), budget=Epsilon(0.01))
    away = {"clock": {"name": "churn", "leaves": 0.2, "returns": 0.5, "memory": False}, "links": {"loss": 0.2}}
    digest_in_blocks(small_network(learner, PROTOCOLS["symmetric, implicit"], "sine_regression").with_changes(away))


def test_a_noise() -> None:
    described = small_network(POLK, PROTOCOLS["symmetric, implicit"], "sine_regression")
    noisy = described.with_changes({"links": {"noise": PlainNoise(0.1)}})
    assert digest_in_blocks(noisy) != digest_in_blocks(described)


def test_a_pass_over_samples_has_the_bits_of_single_steps() -> None:
    generator = np.random.default_rng(3)
    points, targets = generator.normal(size=(90, 2)), generator.normal(size=(90, 1))
    learner = Polk(PlainSquared(), Gaussian(0.7), Constant(0.3), batch_size=4, budget=Parsimony(0.01))
    assert passes.obstacle(learner) is None
    state = learner.init(2, 1)
    passes.learn(learner, state, points, targets)
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))


def failing(way: str = "raises", **tables: Any) -> Experiment:
    learner = Polk(FailingLoss(way=way), Gaussian(0.3), Constant(0.2), budget=Parsimony(0.01))
    return Experiment.from_dict(
        {
            "topology": nx.cycle_graph(4),
            "stream": Marked(),
            "learner": learner,
            "protocol": PROTOCOLS["symmetric, implicit"],
            "rounds": 40,
            "evaluate_every": 10,
            **tables,
        }
    )


@pytest.mark.parametrize(
    ("protocol", "lossy"),
    [
        ("isolated", False),
        ("symmetric, implicit", False),
        ("proximity", False),
        ("symmetric, implicit", True),
    ],
)
def test_what_a_part_raises_is_raised_with_the_node_and_the_round(protocol: str, lossy: bool) -> None:
    description = failing(protocol=PROTOCOLS[protocol])
    if lossy:
        description = description.with_changes({"links": {"loss": 0.3}})
    message = raised_alike(description, Halves(4, plain=True), Halves(4), Halves(2))
    assert message.startswith("node 2 failed in round 11: LookupError: there is no such key (plain_parts.py, line")


def test_an_interrupted_part_ends_the_round_and_the_engine_can_be_closed() -> None:
    assert_interrupted(lambda: failing("interrupts"), 10)  # the mark is of round 11


@dataclass(frozen=True)
class HalfCompiled(Consensus):
    """A symmetric protocol that hands over nothing for its neighbours' points."""

    @property
    def compiled(self) -> CompiledRule:
        return super().compiled._replace(coupling_gradient_at_neighbor=None)


def test_what_the_symmetric_form_lacks_is_reported_with_the_present_name_of_a_compiled_protocol() -> None:
    with pytest.raises(ValueError, match=r"HalfCompiled\.compiled needs (\w+): the symmetric form") as refused:
        rule_form(HalfCompiled())
    name = re.search(r"needs (\w+)", str(refused.value))
    assert name is not None and name[1] in CompiledRule._fields
