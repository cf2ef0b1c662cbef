"""Successive halving and the steps after it find the least of a figure that longer trials know better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from kernelswarm.simulations.comparison.candidates import (
    FACTOR,
    FOR_EACH,
    MOVES,
    STEP,
    Range,
    candidates,
    halve,
    lengths,
    onward,
    refine,
)
from tests.helpers.tried import Tried

SQUARE = [Range("a", 0.01, 1.0), Range("b", 1.0, 1000.0)]


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_found_where_short_trials_are_noisy(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.permutation(40) / 10.0
    noise = random.normal(size=40)

    def scores(places: Sequence[int], rounds: int) -> list[float]:
        return [float(truth[place] + 5.0 * noise[place] / rounds) for place in places]

    found = halve(40, 270, scores)
    best = int(np.argmin(truth))
    assert min(found, key=lambda place: found[place]) == best


def test_candidates_get_fewer_as_trials_get_longer() -> None:
    tried: list[tuple[int, int]] = []

    def scores(places: Sequence[int], rounds: int) -> list[float]:
        tried.append((len(places), rounds))
        return [float(place) for place in places]

    halve(28, 90, scores)
    assert tried == [(28, 10), (1 + 9, 30), (1 + 3, 90)]  # the first goes on beside the better third of the others
    assert [rounds for _, rounds in tried] == lengths(90)
    assert lengths(90)[-1] == FACTOR * lengths(90)[-2]


def test_the_first_stays_however_it_scores_and_failures_never_do() -> None:
    def scores(places: Sequence[int], rounds: int) -> list[float]:
        return [9.0 if place == 0 else math.inf if place % 2 else float(place) for place in places]

    assert halve(20, 50, scores) == {0: 9.0, 2: 2.0, 4: 4.0, 6: 6.0}
    assert halve(9, 50, lambda places, rounds: [math.inf] * len(places)) == {0: math.inf}


def test_candidates_are_spread_over_every_range() -> None:
    found = candidates(SQUARE)
    assert found[0] == {}
    assert len(found) == 1 + FOR_EACH * len(SQUARE)
    for entry in SQUARE:
        shares = sorted(entry.share(values) or 0.0 for values in found[1:])
        gaps = np.diff([0.0, *shares, 1.0])
        assert gaps.max() < 3.0 / len(shares)  # even numbers would leave 1 / 13, random ones some 0.25
    assert found == candidates(SQUARE)


def test_a_key_goes_on_alone_where_another_has_come_far_enough() -> None:
    steps = {"a": 1, "b": 1 + MOVES}  # from the start to the least risk

    def risk(values: Mapping[str, float]) -> float:
        moved = {entry.key: ((entry.share(values) or 0.0) - 0.1) / STEP for entry in ranges}
        return sum(
            (moved[key] - count) ** 2 * weight for (key, count), weight in zip(steps.items(), (9, 1), strict=True)
        )

    ranges = [Range("a", 0.01, 1e6), Range("b", 1.0, 1e9)]
    start = {entry.key: entry.value(0.1) for entry in ranges}
    trials = Tried([start], risk)
    found = refine({0: risk(start)}, ranges, trials)
    best = trials.values[min(found, key=lambda place: found[place])]
    assert {entry.key: round(((entry.share(best) or 0.0) - 0.1) / STEP) for entry in ranges} == steps
    assert len(trials.values) <= 1 + 2 * len(ranges) + MOVES + len(ranges) + MOVES
    assert found == {place: risk(values) for place, values in enumerate(trials.values)}
    assert trials.lengths == {trials.longest}


def test_nothing_is_tried_beside_failures_and_one_step_is_enough_where_nothing_helps() -> None:
    here = {"a": 0.1, "b": 32.0}
    failed = Tried([here], lambda values: math.inf)
    assert refine({0: math.inf}, SQUARE, failed) == {0: math.inf}
    alike = Tried([here], lambda values: 1.0 if values == here else 0.995)
    assert (
        len(refine({0: 1.0}, SQUARE, alike)) == 1 + 2 * len(SQUARE) + 2
    )  # all of them together, and once more the same step
    worse = Tried([here], lambda values: 0.0 if values == here else 1.0)
    assert refine({0: 0.0}, SQUARE, worse) == {0: 0.0} | dict.fromkeys(range(1, 5), 1.0)
    assert onward(SQUARE, here, here) == []


def test_whole_numbers_and_parts_are_written_as_they_are_read() -> None:
    assert Range("learner.budget.target_order", 10.0, 100.0, whole=True).value(0.5) == 32
    part = Range("learner.step_size", 0.1, 10.0, part="auto")
    assert part.value(0.5) == {"name": "auto", "scale": 1.0}
    assert part.share({"learner.step_size": {"name": "auto", "scale": 1.0}}) == pytest.approx(0.5)
