"""Cells held against each other: by which seeds, by how much, and what does not matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelswarm.arrays import Array
from kernelswarm.simulations.records.outcome import FEWEST, Difference, Value, paired_differences, step_down


def cells_of(numbers: Array) -> dict[int, dict[int, Value]]:
    """One row of numbers for each cell, one column for each seed; all runs differ."""
    return {
        cell: {seed: Value(float(number), seed) for seed, number in enumerate(row)} for cell, row in enumerate(numbers)
    }


def pairs(numbers: Array) -> list[Difference]:
    return paired_differences("risk", cells_of(numbers))


def test_two_cells_are_held_against_each_other_by_the_signs_of_their_differences() -> None:
    random = np.random.default_rng(1)
    for seeds in (6, 7, 10):
        one, other = random.normal(size=(2, seeds)) + random.normal(size=seeds)
        (found,) = pairs(np.stack([one, other]))
        low, high = (one, other) if one.mean() <= other.mean() else (other, one)
        assert (found.better, found.worse) == ((0, 1) if low is one else (1, 0))
        assert found.chance == step_down((high - low)[:, None])[0]
        assert found.mean == pytest.approx(np.mean(high - low))
        assert found.deviation == pytest.approx(np.std(high - low, ddof=1))
        assert (found.wins, found.seeds) == (np.count_nonzero(high > low), seeds)


def test_the_pairs_of_all_cells_are_corrected_together() -> None:
    numbers = np.random.default_rng(12).normal(size=(4, 7)) + np.arange(4.0)[:, None]
    low, high = np.triu_indices(4, 1)
    assert [one.chance for one in pairs(numbers)] == list(step_down((numbers[high] - numbers[low]).T))


@settings(max_examples=30)
@given(st.permutations(range(7)), st.permutations(range(3)))
def test_the_order_of_seeds_and_cells_changes_nothing(seeds: list[int], cells: list[int]) -> None:
    numbers = np.random.default_rng(4).lognormal(size=(3, 7))
    found = {(one.better, one.worse): one for one in pairs(numbers)}
    for one in pairs(numbers[:, seeds]):
        assert one == found[one.better, one.worse]
    for one in pairs(numbers[cells]):
        names = cells[one.better], cells[one.worse]
        assert replace(one, better=names[0], worse=names[1]) == found[names]


def test_fewer_seeds_than_six_support_nothing() -> None:
    for seeds in range(1, FEWEST):
        (found,) = pairs(np.stack([np.zeros(seeds), 1e9 + np.arange(seeds)]))
        assert (found.seeds, found.wins, found.supported) == (seeds, seeds, False)
        assert math.isnan(found.chance)
    (found,) = paired_differences("risk", {0: {0: Value(1.0, 0)}, 1: {1: Value(2.0, 0)}})
    assert (found.seeds, found.supported) == (0, False)
    assert math.isnan(found.mean)


def test_only_seeds_that_both_have_are_paired() -> None:
    random = np.random.default_rng(5)
    one, other = random.normal(size=(2, 9))
    all_cells = cells_of(np.stack([one, other]))
    del all_cells[0][1], all_cells[1][4]
    kept = [0, 2, 3, 5, 6, 7, 8]
    assert paired_differences("risk", all_cells) == pairs(np.stack([one[kept], other[kept]]))


def test_a_pair_that_shares_too_few_seeds_is_not_tested_and_costs_the_others_nothing() -> None:
    numbers = np.random.default_rng(5).normal(size=(3, 7)) + np.arange(3.0)[:, None]
    cells = cells_of(numbers)
    del cells[2][0], cells[2][3]
    found = paired_differences("risk", cells)
    assert [math.isnan(one.chance) for one in found] == [False, True, True]
    assert found[0] == pairs(numbers[:2])[0]


def test_repeated_runs_count_once() -> None:
    random = np.random.default_rng(6)
    one, other = random.normal(size=(2, 7))
    again = [0, 1, 1, 2, 3, 3, 4, 5, 6]  # seeds 2 and 5 repeat the runs of others in both cells
    repeated = {
        cell: {seed: Value(float(row[place]), place) for seed, place in enumerate(again)}
        for cell, row in enumerate((one, other))
    }
    assert paired_differences("risk", repeated) == pairs(np.stack([one, other]))


def test_equal_values_are_no_difference() -> None:
    (found,) = pairs(np.ones((2, 6)))
    assert (found.better, found.mean, found.wins, found.chance) == (0, 0.0, 0, 1.0)
    rounding = np.tile(np.arange(1.0, 7.0), (2, 1))
    rounding[1] = np.nextafter(rounding[1], 4.0)  # as of sums in another order
    assert pairs(rounding)[0].chance == 1.0
