"""Defences against faulty neighbours compute what they are named after, and say the same bits compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.isolated import Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.robust import RADIUS, RATE, WEIGHT, Guarded, unknown
from kernelswarm.protocols.tolerances import Constant
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.halves import Halves
from tests.helpers.link_mixes import GRAPH, NOTHING

C = 0.7
DEFENCES = "trimmed", "median", "clipped", "trust"


def links_of(rule: Any, degree: int) -> Any:
    neighborhood = Neighborhood(
        0, tuple(range(1, degree + 1)), None, None, 2.0, 3, (1,) * degree, ({},) * degree, (3,) * degree, outputs=2
    )
    return rule.init(neighborhood)


def values(degree: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(degree)
    return draws.normal(size=(3, 2)), draws.normal(size=(degree, 3, 2))


@pytest.mark.parametrize("degree", range(1, 12))
@pytest.mark.parametrize("robust", ["trimmed", "median"])
def test_answers_are_replaced_by_their_trimmed_mean_or_median(robust, degree):
    own, answers = values(degree)
    rule = Consensus(C, robust=robust)
    pull = rule.coupling_gradient(links_of(rule, degree), own, answers)
    cut = 0 if degree < 3 else max(1, int(0.3 * degree))
    middle = np.median(answers, axis=0) if robust == "median" else trim_mean(answers, (cut + 1e-9) / degree, axis=0)
    np.testing.assert_allclose(pull.gradients, np.broadcast_to(C * (own - middle), answers.shape), rtol=1e-12)
    assert (pull.curvatures == C).all()


@given(degree=st.integers(3, 12), data=st.data())
@settings(max_examples=40, deadline=None)
def test_as_many_liars_as_are_left_out_never_leave_the_range_of_the_others(degree, data):
    own, answers = values(degree)
    liars = data.draw(st.integers(0, max(1, int(0.3 * degree))))
    lies = answers.copy()
    lies[:liars] = data.draw(st.floats(-1e6, 1e6, allow_nan=False))
    rule = Consensus(1.0, robust="trimmed")
    replaced = own - rule.coupling_gradient(links_of(rule, degree), own, lies).gradients[0]
    assert (replaced >= lies[liars:].min(axis=0) - 1e-9).all()
    assert (replaced <= lies[liars:].max(axis=0) + 1e-9).all()


def test_neighbours_who_have_not_answered_are_not_counted():
    """On unreliable links the node's own values stand in for what has not come."""
    own, answers = values(5)
    rule = Consensus(C, robust="median")
    absent = answers.copy()
    absent[[1, 3]] = own
    pull = rule.coupling_gradient(links_of(rule, 5), own, absent)
    np.testing.assert_allclose(pull.gradients[0], C * (own - np.median(answers[[0, 2, 4]], axis=0)), rtol=1e-12)
    assert (pull.gradients[[1, 3]] == 0.0).all()


@pytest.mark.parametrize("robust", ["trimmed", "median", "clipped"])
def test_pulls_are_clipped_to_the_lower_median_of_the_mean_differences(robust):
    rule, degree = Consensus(C, robust=robust), 4
    links = links_of(rule, degree)
    assert (links.rows[RADIUS] == np.inf).all()  # nothing is known yet
    draws = np.random.default_rng(5)
    squares = draws.uniform(0.1, 2.0, size=(30, degree))
    for round, seen in enumerate(squares, 1):
        links = rule.advance(links, seen, None, 0.1, round)
    means = weighted(squares)
    radius = np.sqrt(np.sort(means)[(degree - 1) // 2])
    np.testing.assert_allclose(links.rows[RADIUS], radius, rtol=1e-12)
    mine, theirs = draws.normal(size=(3, 2)), 5.0 * draws.normal(size=(3, 2))
    apart = mine - theirs
    expected = apart * np.minimum(1.0, radius / np.linalg.norm(apart, axis=1))[:, None]
    pull = rule.coupling_gradient_at_neighbor(links, 2, mine, theirs, 0.0)
    np.testing.assert_allclose(pull.gradients, C * expected, rtol=1e-9)
    if robust == "clipped":
        own = rule.coupling_gradient(links, mine, np.stack([theirs] * degree))
        np.testing.assert_allclose(own.gradients, np.stack([C * expected] * degree), rtol=1e-9)


def weights(rounds: int) -> np.ndarray:
    """Return the weights of rounds in a mean into which each new one goes with max(RATE, 2 / (t + 1))."""
    found = np.zeros(rounds)
    for t in range(1, rounds + 1):
        beta = min(1.0, max(RATE, 2.0 / (t + 1)))
        found *= 1.0 - beta
        found[t - 1] = beta
    return found


def weighted(seen: np.ndarray) -> np.ndarray:
    return weights(len(seen)) @ seen


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.25, 0.35, 1.0])
@pytest.mark.parametrize("rounds", [2, 10, 60, 500])
def test_trust_is_a_test_of_the_mean_excess_loss_against_its_standard_error(shift, rounds):
    rule = Consensus(C, robust="trust")
    links = links_of(rule, 1)
    seen = np.random.default_rng(rounds).normal(shift, 1.0, size=rounds)
    for round, excess in enumerate(seen, 1):
        links = rule.advance(links, np.ones(1), np.array([excess]), 0.1, round)
    w = weights(rounds)
    mean, share = w @ seen, w @ w
    variance = w @ (seen - mean) ** 2 * share / (1.0 - share)  # of the weighted mean of independent numbers
    left_out = 1.0 / share >= 3.0 and mean > 2.0 * np.sqrt(variance)
    assert links.rows[WEIGHT, 0] == (0.0 if left_out else 1.0)
    own, answers = values(1)
    pull = rule.coupling_gradient(links, own, answers)
    np.testing.assert_array_equal(pull.gradients, links.rows[WEIGHT, 0] * C * (own - answers))
    back = rule.coupling_gradient_at_neighbor(links, 0, own, answers[0], 0.0)
    np.testing.assert_array_equal(back.gradients, links.rows[WEIGHT, 0] * C * (own - answers[0]))


def test_edges_that_say_nothing_stay_as_they_are():
    for robust in DEFENCES:
        for rule in (Consensus(C, robust=robust), Proximity(robust=robust)):
            links = links_of(rule, 3)
            silent = np.full(3, np.nan)
            after = rule.advance(links, silent, silent if rule.compares_losses else None, 0.1, 4)
            before, now = (one.rows if isinstance(one, Guarded) else one.guard for one in (links, after))
            np.testing.assert_array_equal(now, before)


def test_true_is_trust_and_others_are_refused_by_name():
    assert build("protocol", {"name": "consensus", "robust": True}) == Consensus(robust="trust")
    assert build("protocol", {"name": "proximity", "robust": False}) == Proximity()
    with pytest.raises(InputError, match="trimmed"):
        build("protocol", {"name": "consensus", "robust": "trimed"})
    with pytest.raises(InputError, match="the protocols consensus, proximity and stacking have it"):
        build("protocol", {"name": "diffusion", "robust": "trust"})
    alone, *hearing = build("protocol", {"name": "stacking", "robust": True}).members
    assert alone == Isolated()
    assert [member.robust for member in hearing] == ["trust"] * 4
    assert (unknown("trust", 2)[WEIGHT] == 1.0).all()
    assert not Proximity(Constant(0.1)).compares_losses
    assert Proximity(Constant(0.1), robust="trust").compares_losses


def digest(protocol: dict[str, Any], **tables: Any) -> str:
    result = simulate(
        Experiment.from_dict(
            {
                "topology": GRAPH,
                "stream": {"name": "sine_regression", "noise": 0.3},
                "learner": {"name": "polk", "step_size": 0.3, "budget": {"epsilon": 0.02}},
                "protocol": protocol,
                "rounds": 30,
                "evaluate_every": 30,
                "fault": [{"nodes": [2], "kind": "offset", "of": "messages", "first": 3}],
                **tables,
            }
        )
    )
    return str(result.summary["digest"])


BACKENDS = Halves(9), Halves(2), Halves(3, plain=True)
LOSSY = {"links": {"loss": 0.3, "delay": 1}, "clock": {"name": "bernoulli", "probability": 0.7}}


@pytest.mark.parametrize("robust", DEFENCES)
@pytest.mark.parametrize("rule", [{"name": "consensus", "penalty": 3.0}, {"name": "proximity"}])
def test_networks_have_the_same_bits_in_arrays_in_blocks_and_agent_by_agent(rule, robust):
    protocol = {**rule, "robust": robust}
    for tables in ({"fault": []}, LOSSY):
        found = {digest(protocol, backend=backend, **tables) for backend in BACKENDS}
        assert len(found) == 1
        assert found != {digest(rule, **tables)}
    assert digest(protocol, fault=[]) == digest(protocol, fault=[], links=NOTHING)
