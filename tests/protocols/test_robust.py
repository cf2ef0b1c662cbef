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
from kernelswarm.protocols.controls import Isolated
from kernelswarm.protocols.distances import Absolute
from kernelswarm.protocols.proximity import Proximity, ProximityState
from kernelswarm.protocols.robust import BOUND, MOST, RADIUS, RATE, REACH, WEIGHT, WITHIN, unknown
from kernelswarm.protocols.tolerances import Constant
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.link_mixes import GRAPH
from tests.helpers.pairs import in_pairs

C = 0.7
DEFENCES = "trimmed", "median", "clipped", "trust"


def links_of(rule: Any, degree: int) -> Any:
    neighborhood = Neighborhood(
        0, tuple(range(1, degree + 1)), None, None, 2.0, 3, (1,) * degree, ({},) * degree, (3,) * degree, outputs=2
    )
    return rule.init(neighborhood)


def rows_of(links: Any) -> np.ndarray:
    return links.guard if isinstance(links, ProximityState) else links.rows


def judged(rule: Any, links: Any, differences: Any, excess: Any = 0.0, zero_loss: float = 1e6, round: int = 1) -> Any:
    """Let a rule with the squared loss judge answers that differ so much and lose so much more than the node does."""
    shape = rows_of(links)[0].shape
    asked = np.array(np.broadcast_to(differences, shape)), np.array(np.broadcast_to(excess, shape))
    return rule.judge(links, asked[0], asked[1] if rule.compares_losses else None, zero_loss, 2.0, round)


def values(degree: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(degree)
    return draws.normal(size=(3, 2)), draws.normal(size=(degree, 3, 2))


@pytest.mark.parametrize("degree", range(1, 12))
@pytest.mark.parametrize("robust", ["trimmed", "median"])
def test_answers_are_replaced_by_their_trimmed_mean_or_median(robust, degree):
    own, answers = values(degree)
    rule = Consensus(C, robust=robust)
    pull = rule.coupling_gradient(judged(rule, links_of(rule, degree), 100.0), own, answers)
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
    replaced = own - rule.coupling_gradient(judged(rule, links_of(rule, degree), 1.0), own, lies).gradients[0]
    assert (replaced >= lies[liars:].min(axis=0) - 1e-9).all()
    assert (replaced <= lies[liars:].max(axis=0) + 1e-9).all()


@pytest.mark.parametrize("robust", DEFENCES)
def test_answers_count_by_what_they_are(robust):
    """NaN is no answer, what is not finite is none either, and one that equals the own value is one."""
    own, answers = values(5)
    rule = Consensus(C, robust=robust)
    links = judged(rule, links_of(rule, 5), 100.0)
    answers[1], answers[2], answers[3] = np.nan, own, np.inf
    pull = rule.coupling_gradient(links, own, answers)
    assert (pull.gradients[[1, 3]] == 0.0).all()
    if robust == "median":
        middle = np.median(answers[[0, 2, 4]], axis=0)
        np.testing.assert_allclose(pull.gradients[2], C * (own - middle), rtol=1e-12, atol=1e-15)
    for place in (1, 3):
        back = rule.coupling_gradient_at_neighbor(links, place, own, answers[place], 0.0)
        assert (back.gradients == 0.0).all()


@pytest.mark.parametrize("robust", ["trimmed", "median", "clipped"])
def test_pulls_are_clipped_to_the_lower_median_of_the_mean_differences(robust):
    rule, degree = Consensus(C, robust=robust), 4
    links = links_of(rule, degree)
    draws = np.random.default_rng(5)
    squares = draws.uniform(0.1, 2.0, size=(30, degree))
    for round, seen in enumerate(squares, 1):
        links = judged(rule, links, seen, round=round)
    means = weighted(squares)
    radius = np.sqrt(np.sort(means)[(degree - 1) // 2])
    np.testing.assert_allclose(links.rows[RADIUS], radius, rtol=1e-12)
    mine, theirs = draws.normal(size=(3, 2)), 5.0 * draws.normal(size=(3, 2))
    apart = mine - theirs
    expected = apart * np.minimum(1.0, radius / np.linalg.norm(apart, axis=1))[:, None]
    pull = rule.coupling_gradient_at_neighbor(links, 2, mine, theirs, 0.0)
    np.testing.assert_allclose(pull.gradients, C * expected, rtol=1e-9)
    late = np.full((degree, 3, 2), np.nan)
    late[2] = theirs  # alone, as late answers are
    np.testing.assert_allclose(rule.coupling_gradient(links, mine, late).gradients[2], C * expected, rtol=1e-9)
    if robust == "clipped":
        own = rule.coupling_gradient(links, mine, np.stack([theirs] * degree))
        np.testing.assert_allclose(own.gradients, np.stack([C * expected] * degree), rtol=1e-9)


@pytest.mark.parametrize("robust", DEFENCES)
@pytest.mark.parametrize(("curvature", "power"), [(2.0, 0.5), (0.5, 0.5), (0.0, 1.0)])
def test_nobody_pulls_from_farther_than_some_of_the_largest_residuals(robust, curvature, power):
    rule, degree = Consensus(1.0, robust=robust), 3
    links, own = links_of(rule, degree), np.zeros((1, 2))
    compared = np.zeros(degree) if rule.compares_losses else None
    assert (rule.coupling_gradient(links, own, np.ones((degree, 1, 2))).gradients == 0.0).all()  # nothing is known yet
    for round, loss in enumerate((3.0, 5.0, 0.1), 1):
        links = rule.judge(links, np.full(degree, 1e-3), compared, loss, curvature, round)
    reach = REACH * (5.0 * (2.0 / curvature if curvature else 1.0)) ** power
    np.testing.assert_allclose(links.rows[BOUND], reach, rtol=1e-12)
    links = links._replace(rows=links.rows.copy())
    if robust != "trust":
        links.rows[RADIUS] = np.inf
    for length, clipped in ((0.99 * reach, 0.99 * reach), (1.01 * reach, reach), (1e6 * reach, reach), (1e200, 0.0)):
        said = np.full((degree, 1, 2), length / np.sqrt(2.0))
        pulls = rule.coupling_gradient(links, own, said).gradients
        back = rule.coupling_gradient_at_neighbor(links, 0, own, said[0], 0.0).gradients
        taken = clipped if robust != "trust" or length < reach else 0.0
        np.testing.assert_allclose(np.linalg.norm(pulls, axis=2), taken, rtol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(back, axis=1), taken, rtol=1e-9)
    kept = np.inf if robust != "trust" else 0.0
    assert (unknown(robust, 2, 0.0)[BOUND] == np.inf).all()  # a node without data has nothing to judge by
    assert (unknown(robust, 2, 9.0)[RADIUS] == kept).all()


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


@in_pairs(shift=[-0.5, 0.0, 0.25, 0.35, 1.0], rounds=[2, 10, 60, 500], unit=[1.0, 1e-140, 1e140])
def test_trust_is_a_test_of_the_mean_excess_loss_against_its_standard_error(shift, rounds, unit):
    """Whatever the unit of the loss, whose square may overflow: by all rounds at once, in units of the largest loss."""
    rule = Consensus(C, robust="trust")
    links = links_of(rule, 1)
    draws = np.random.default_rng(rounds)
    seen, losses = draws.normal(shift, 1.0, size=rounds), draws.exponential(0.2, size=rounds)
    for round in range(1, rounds + 1):
        excess, loss = unit * seen[round - 1], unit * losses[round - 1]
        links = judged(rule, links, loss, excess, loss, round)
        w, most = weights(round), MOST * np.maximum.accumulate(losses[:round])
        taken = np.clip(seen[:round], -most, most)
        mean, share = w @ taken, w @ w
        variance = w @ (taken - mean) ** 2 * share / (1.0 - share) if round > 1 else 0.0  # of independent numbers
        left_out = 1.0 / share >= 3.0 and mean > 2.0 * np.sqrt(variance)
        assert links.rows[WEIGHT, 0] == (0.0 if left_out else 1.0)
    own, answers = np.zeros((3, 2)), 1e-3 * np.sqrt(unit) * values(1)[1]
    pull = rule.coupling_gradient(links, own, answers)
    np.testing.assert_array_equal(pull.gradients, links.rows[WEIGHT, 0] * C * (own - answers))
    back = rule.coupling_gradient_at_neighbor(links, 0, own, answers[0], 0.0)
    np.testing.assert_array_equal(back.gradients, links.rows[WEIGHT, 0] * C * (own - answers[0]))


@pytest.mark.parametrize("robust", DEFENCES)
@pytest.mark.parametrize("kind", [Consensus, Proximity])
def test_edges_that_say_nothing_stay_as_they_are_and_what_is_not_finite_is_left_out(kind, robust):
    rule = kind(robust=robust)
    before = judged(rule, links_of(rule, 3), 1.0)
    after = judged(rule, before, np.nan, np.nan, round=4)
    np.testing.assert_array_equal(rows_of(after), rows_of(before))
    silent = np.full(3, np.nan)
    still = rule.advance(after, silent, silent if rule.compares_losses else None, 0.1, 4)
    np.testing.assert_array_equal(rows_of(still), rows_of(before))
    for round in range(5, 9):
        after = judged(rule, after, [1.0, np.inf, 1e300], [0.0, np.inf, 1e300], round=round)
    left = WEIGHT if robust == "trust" else WITHIN
    assert rows_of(after)[left].tolist() == [1.0, 0.0, 0.0]
    assert np.isfinite(rows_of(after)).all()
    if kind is Proximity:
        moved = rule.advance(after, np.array([1.0, np.inf, 1e300]), np.array([0.0, np.inf, 1e300]), 0.1, 9)
        assert moved.duals[0] > 0.0 == moved.duals[1] == moved.duals[2]
    for round in range(9, 400):
        after = judged(rule, after, 1.0, -1.0, round=round)
    assert (rows_of(after)[[WEIGHT, WITHIN]] == 1.0).all()  # who recovers is listened to again


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
    assert (unknown("trust", 2, 9.0)[WEIGHT] == 1.0).all()
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


def errors_of(robust: str, lies: list[float], first: int, **tables: Any) -> list[float]:
    """Return the error of the sound nodes of a complete graph of 8, two of which are off by each lie."""
    found = []
    for lie in lies:
        described = {
            "topology": {"name": "complete", "nodes": 8},
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": "newton",
            "protocol": {"name": "consensus", "penalty": 1.0, "robust": robust},
            "rounds": 60,
            "evaluate_every": 60,
            "evaluation": {"rkhs_distance": False, "local_samples": 50, "global_samples": 50},
            "fault": [{"nodes": [2, 5], "kind": "offset", "value": lie, "of": "messages", "first": first}],
            **tables,
        }
        found.append(float(simulate(Experiment.from_dict(described)).final["global_error"]))
    return found


@in_pairs(robust=DEFENCES, first=[1, 40], tables=[{}, {"links": {"loss": 0.3, "delay": 1}}])
def test_a_lie_does_no_more_harm_however_large_it_is_and_whenever_it_begins(robust, first, tables):
    honest, gross, grosser, negative, vast = errors_of(robust, [0.0, 1e3, 1e6, -999999.0, 1e200], first, **tables)
    assert max(gross, grosser, negative, vast) <= HARM[robust] * honest
    assert grosser == pytest.approx(gross, rel=1e-9)  # out of reach, all are alike
    if robust == "trust":
        assert gross == grosser == negative == vast


HARM = {"trust": 2.0, "clipped": 30.0, "trimmed": 30.0, "median": 30.0}
"""How many times as much the sound nodes err, at most: .0045 for .0027 and .089 for .0035 were the worst."""


def test_the_radius_is_a_length_whatever_the_distance():
    """Under the absolute distance constraint values are lengths, and what is judged is their square."""
    seen: list[tuple[float, float]] = []

    class Noting(Proximity):
        def judge(self, links: Any, differences: Any, *rest: Any) -> Any:
            seen.append((float(differences[0]), np.nan))
            return super().judge(links, differences, *rest)

        def advance(self, links: Any, constraint_values: Any, *rest: Any) -> Any:
            seen[-1] = seen[-1][0], float(constraint_values[0])
            return super().advance(links, constraint_values, *rest)

    digest(Noting(robust="clipped", distance=Absolute()), fault=[])
    squares, lengths = np.array(seen).T
    assert lengths.max() > 0.1
    np.testing.assert_allclose(squares, lengths**2, rtol=1e-12, atol=1e-300)
