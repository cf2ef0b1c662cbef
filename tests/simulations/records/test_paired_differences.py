"""The paired test: Student's and Holm's formulas, how often noise is called a difference, and what does not matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from kernelswarm.simulations.records.paired_differences import (
    FEWEST,
    LEVEL,
    Difference,
    Value,
    corrected,
    needed,
    paired_differences,
)

Array = npt.NDArray[np.float64]


def cells_of(numbers: Array) -> dict[int, dict[int, Value]]:
    """One row of numbers for each cell, one column for each seed; all runs differ."""
    return {
        cell: {seed: Value(float(number), seed) for seed, number in enumerate(row)} for cell, row in enumerate(numbers)
    }


def pairs(numbers: Array) -> list[Difference]:
    return paired_differences("risk", cells_of(numbers))


def test_two_cells_are_tested_by_students_paired_t() -> None:
    random = np.random.default_rng(1)
    for seeds in (3, 4, 10):
        one, other = random.normal(size=(2, seeds)) + random.normal(size=seeds)
        (found,) = pairs(np.stack([one, other]))
        low, high = (one, other) if one.mean() <= other.mean() else (other, one)
        assert (found.better, found.worse) == ((0, 1) if low is one else (1, 0))
        assert found.chance == pytest.approx(ttest_rel(one, other).pvalue, rel=1e-9)
        assert found.mean == pytest.approx(np.mean(high - low))
        assert found.deviation == pytest.approx(np.std(high - low, ddof=1))
        assert (found.wins, found.seeds) == (np.count_nonzero(high > low), seeds)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12))
def test_holms_rule_rejects_what_stepping_down_rejects(chances: list[float]) -> None:
    """Step down: reject the smallest while it is at most LEVEL over the number of those that are left."""
    single = [Difference("risk", 0, 1, 1.0, 1.0, 3, 3, chance) for chance in chances]
    left, rejected = list(range(len(chances))), set()
    while left:
        least = min(left, key=lambda place: chances[place])
        if chances[least] * len(left) > LEVEL:
            break
        rejected.add(least)
        left.remove(least)
    assert {place for place, one in enumerate(corrected(single)) if one.supported} == rejected


def noise(kind: str, random: np.random.Generator, cells: int, seeds: int) -> Array:
    """Cells that do not differ, under data that are hard or easy by the seed."""
    hardness = random.normal(size=seeds)
    if kind == "of one size":
        return hardness + random.normal(size=(cells, seeds))
    if kind == "of many sizes":
        return 10.0 * hardness + random.normal(size=(cells, seeds)) * 10.0 ** -np.arange(cells)[:, None]
    return random.binomial(50, 0.2, size=(cells, seeds)) / 50.0


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("kind", ["of one size", "of many sizes", "counted errors"])
def test_noise_is_called_a_difference_in_at_most_one_group_of_twenty(kind: str, seeds: int) -> None:
    random = np.random.default_rng(7)
    tries = 1500
    bound = LEVEL + 3.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / tries)  # three deviations of what is counted here
    false = single = 0
    for _ in range(tries):
        found = pairs(noise(kind, random, 4, seeds))
        false += any(one.supported for one in found)
        # Holm multiplies the smallest p-value by the number of pairs, so that this is what it was by itself.
        single += min(one.chance for one in found) / len(found) <= LEVEL
    assert false / tries <= bound
    assert single / tries > bound  # without the correction


def test_large_differences_are_supported() -> None:
    random = np.random.default_rng(3)
    numbers = np.array([[3.0], [1.0], [2.0]]) + random.normal(size=5) + 0.05 * random.normal(size=(3, 5))
    assert {(one.better, one.worse) for one in pairs(numbers) if one.supported} == {(1, 2), (1, 0), (2, 0)}


@pytest.mark.parametrize(("seeds", "cells"), [(3, 2), (5, 2), (4, 3), (6, 5)])
def test_what_is_needed_is_where_support_begins(seeds: int, cells: int) -> None:
    shape = np.arange(seeds) - (seeds - 1) / 2.0
    shape /= np.std(shape, ddof=1)
    for factor, enough in ((0.99, False), (1.01, True)):
        # The other cells share the seeds' hardness with none, so that only the first pair can differ.
        numbers = 1e6 * np.random.default_rng(2).normal(size=(cells, seeds))
        numbers[1] = numbers[0] + factor * needed(seeds, cells) + shape
        (found,) = [one for one in pairs(numbers) if {one.better, one.worse} == {0, 1}]
        assert found.supported == enough


@given(st.permutations(range(5)), st.permutations(range(3)))
def test_the_order_of_seeds_and_cells_changes_nothing(seeds: list[int], cells: list[int]) -> None:
    numbers = np.random.default_rng(4).lognormal(size=(3, 5))
    found = {(one.better, one.worse): one for one in pairs(numbers)}
    for one in pairs(numbers[:, seeds]):
        assert one == found[one.better, one.worse]
    for one in pairs(numbers[cells]):
        names = cells[one.better], cells[one.worse]
        assert replace(one, better=names[0], worse=names[1]) == found[names]


def test_fewer_seeds_than_three_support_nothing() -> None:
    for seeds in range(1, FEWEST):
        (found,) = pairs(np.stack([np.zeros(seeds), 1e9 + np.arange(seeds)]))
        assert (found.seeds, found.wins, found.supported) == (seeds, seeds, False)
        assert math.isnan(found.chance)
    (found,) = paired_differences("risk", {0: {0: Value(1.0, 0)}, 1: {1: Value(2.0, 0)}})
    assert (found.seeds, found.supported) == (0, False)
    assert math.isnan(found.mean)


def test_only_seeds_that_both_have_are_paired() -> None:
    random = np.random.default_rng(5)
    one, other = random.normal(size=(2, 6))
    all_cells = cells_of(np.stack([one, other]))
    del all_cells[0][1], all_cells[1][4]
    kept = [0, 2, 3, 5]
    assert paired_differences("risk", all_cells) == pairs(np.stack([one[kept], other[kept]]))


def test_repeated_runs_count_once() -> None:
    random = np.random.default_rng(6)
    one, other = random.normal(size=(2, 4))
    again = [0, 1, 1, 2, 3, 3]  # seeds 2 and 5 repeat the runs of others in both cells
    repeated = {
        cell: {seed: Value(float(row[place]), place) for seed, place in enumerate(again)}
        for cell, row in enumerate((one, other))
    }
    assert paired_differences("risk", repeated) == pairs(np.stack([one, other]))


def test_equal_values_are_no_difference() -> None:
    (found,) = pairs(np.ones((2, 4)))
    assert (found.better, found.mean, found.wins, found.chance) == (0, 0.0, 0, 1.0)
    rounding = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    rounding[1] = np.nextafter(rounding[1], 4.0)  # as of sums in another order
    assert pairs(rounding)[0].chance == 1.0


def test_one_difference_in_all_seeds_is_certain() -> None:
    (found,) = pairs(np.array([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]))
    assert (found.better, found.mean, found.deviation, found.chance) == (1, 0.5, 0.0, 0.0)


def test_values_near_the_end_of_the_numbers_are_told_apart() -> None:
    numbers = np.array([[1.0, 2.0, 1.5, 1.2], [6.0, 8.0, 6.9, 6.1]])
    (near,), (far,) = pairs(numbers), pairs(numbers * 1e200)
    assert far.chance == pytest.approx(near.chance)
    assert far.deviation == pytest.approx(near.deviation * 1e200)
