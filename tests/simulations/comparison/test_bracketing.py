"""A pattern search ends with worse values on both sides of the best, also where that lay outside of what came first."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from kernelswarm.simulations.comparison.candidates import Range, bracket, candidates, edges, halve
from tests.helpers.tried import Tried

STEP = Range("learner.step_size", 0.02, 0.5, now=0.1)
PENALTY = Range("protocol.penalty", 0.001, 10.0, now=0.1)


def tried_of(ranges: list[Range], risk: Callable[[float, float], float]) -> Tried:
    """Return the candidates in some ranges, whose risk is a function of step and penalty."""
    return Tried(candidates(ranges, 12), lambda one: risk(one.get(STEP.key, 0.1), one.get(PENALTY.key, 0.1)))


def bowl(step: float, penalty: float) -> Callable[[float, float], float]:
    """A valley along which step and penalty trade, with its least value at one point."""

    def risk(x: float, y: float) -> float:
        one, other = math.log(x / step), math.log(y / penalty) / 2.0
        return one * one + other * other + one * other

    return risk


def searched(risk: Callable[[float, float], float], most: int = 60) -> tuple[Tried, dict[int, float], int]:
    ranges = [STEP, PENALTY]
    tried = tried_of(ranges, risk)
    finals = bracket(halve(len(tried.values), tried.longest, tried.scores), ranges, tried, most)
    return tried, finals, min(finals, key=lambda place: finals[place])


@pytest.mark.parametrize(("step", "penalty"), [(0.1, 0.1), (0.003, 0.1), (4.0, 0.0001), (0.07, 900.0)])
def test_an_optimum_outside_of_the_ranges_is_found_and_has_worse_values_around_it(step: float, penalty: float) -> None:
    tried, finals, best = searched(bowl(step, penalty))
    values = tried.values[best]
    assert values.get(STEP.key, 0.1) == pytest.approx(step, rel=0.25)
    assert values.get(PENALTY.key, 0.1) == pytest.approx(penalty, rel=0.6)
    assert edges(best, finals, [STEP, PENALTY], tried) == {}


def test_an_optimum_that_is_too_far_to_be_reached_is_said() -> None:
    tried, finals, best = searched(lambda step, penalty: 1.0 / penalty + math.log(step / 0.1) ** 2, 9)
    assert edges(best, finals, [STEP, PENALTY], tried)[PENALTY.key] == "high"
    tried, finals, best = searched(lambda step, penalty: penalty + math.log(step / 0.1) ** 2, 9)
    assert edges(best, finals, [STEP, PENALTY], tried)[PENALTY.key] == "low"


@pytest.mark.parametrize("most", [0, 1, 5, 17])
def test_no_more_are_tried_than_were_asked_for(most: int) -> None:
    before = tried_of([STEP, PENALTY], bowl(4.0, 0.0001))
    finals = halve(len(before.values), before.longest, before.scores)
    spent = before.count
    after = bracket(finals, [STEP, PENALTY], before, most)
    assert before.count - spent == len(after) - len(finals) == most


def test_a_search_of_which_every_trial_failed_ends() -> None:
    tried = tried_of([STEP], lambda step, penalty: math.inf)
    assert bracket({0: math.inf}, [STEP], tried, 9) == {0: math.inf}


def test_a_level_direction_is_not_followed() -> None:
    tried, _, best = searched(lambda step, penalty: math.log(step / 0.2) ** 2)
    assert tried.count < 13 + 5 + 3 + 60
    assert tried.values[best][STEP.key] == pytest.approx(0.2, rel=0.05)
