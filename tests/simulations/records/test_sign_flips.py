"""The sign-flip test: against its definition, how often noise is called a difference, and what does not matter."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelswarm.arrays import Array
from kernelswarm.simulations.records.outcome import FLIPS, step_down

LEVEL = 0.05


def by_definition(differences: Array) -> list[float]:
    """Step down from the largest statistic, flipping whole seeds in every way."""
    seeds, tests = differences.shape
    lengths = [math.sqrt(sum(value**2 for value in column)) or 1.0 for column in differences.T]

    def statistics(signs: tuple[int, ...]) -> list[float]:
        columns = zip(differences.T, lengths, strict=True)
        return [abs(sum(s * value for s, value in zip(signs, column, strict=True))) / size for column, size in columns]

    every = [statistics(signs) for signs in itertools.product((1, -1), repeat=seeds)]
    found, result, least = statistics((1,) * seeds), [math.nan] * tests, 0.0
    for place in sorted(range(tests), key=lambda test: -found[test]):
        left = [test for test in range(tests) if found[test] <= found[place]]
        share = sum(max(one[test] for test in left) >= found[place] - 1e-9 for one in every) / len(every)
        result[place] = least = max(least, share)
    return result


@settings(max_examples=25)
@given(st.integers(1, 7), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_p_values_are_those_of_the_definition(seeds: int, tests: int, seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.8, 1.0, size=(seeds, tests))
    assert step_down(differences) == pytest.approx(by_definition(differences))


@pytest.mark.parametrize("seeds", range(1, 12))
def test_equal_differences_are_no_more_certain_than_their_signs(seeds: int) -> None:
    assert step_down(np.full((seeds, 3), 0.5)) == pytest.approx(2.0 ** (1 - seeds))


def rows(kind: str, random: np.random.Generator, count: int, seeds: int) -> Array:
    """Rows that do not differ, (rows, seeds), under data that are hard or easy by the seed."""
    hard = random.normal(size=seeds)
    if kind == "normal":
        return hard + random.normal(size=(count, seeds))
    if kind == "of many sizes":
        return 10.0 * hard + random.normal(size=(count, seeds)) * 10.0 ** -np.arange(count)[:, None]
    if kind == "heavy tails":
        return hard + random.standard_cauchy(size=(count, seeds))
    if kind == "skewed":
        return np.exp(1.5 * random.normal(size=(count, seeds)))
    if kind == "fails or not":
        return random.integers(0, 2, size=(count, seeds)) + 0.01 * random.normal(size=(count, seeds))
    return random.binomial(37, 0.03, size=(count, seeds)) / 37.0


KINDS = ("normal", "of many sizes", "heavy tails", "skewed", "fails or not", "counted errors")


@pytest.mark.parametrize("count", [2, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_called_a_difference_in_at_most_one_group_of_twenty(kind: str, count: int) -> None:
    random = np.random.default_rng(7)
    low, high = np.triu_indices(count, 1)
    tries, seeds = (120 if count == 16 else 400), (3, 5, 6, 8)
    false = 0
    for turn in range(tries):
        found = rows(kind, random, count, seeds[turn % len(seeds)])
        false += bool((step_down((found[high] - found[low]).T) <= LEVEL).any())
    # Three deviations of what is counted here.
    assert false / tries <= LEVEL + 3.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / tries)


def test_rows_that_differ_hide_none_and_leave_equal_ones_alone() -> None:
    """Two groups, far apart: all pairs across are found, and the chance of a pair within stays what it is."""
    random = np.random.default_rng(8)
    low, high = np.triu_indices(4, 1)
    across = (low < 2) & (high >= 2)
    found, false, tries = 0, 0, 300
    for _ in range(tries):
        numbers = random.normal(size=(4, 7)) + np.array([0.0, 0.0, 30.0, 30.0])[:, None]
        supported = step_down((numbers[high] - numbers[low]).T) <= LEVEL
        found += bool(supported[across].all())
        false += bool(supported[~across].any())
    assert found == tries
    assert 0 < false / tries <= LEVEL + 3.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / tries)


def test_many_seeds_are_tested_by_drawn_signs_that_are_always_the_same() -> None:
    random = np.random.default_rng(9)
    differences = np.column_stack([random.normal(1.0, 1.0, size=20), random.normal(size=20)])
    found = step_down(differences)
    assert (found == step_down(differences)).all()
    assert found[0] < 0.01 < found[1]
    assert found[0] >= 1.0 / FLIPS


def test_a_seed_that_a_test_lacks_does_not_count() -> None:
    random = np.random.default_rng(10)
    differences = random.normal(0.5, 1.0, size=6)
    assert step_down(np.append(differences, [0.0, 0.0])[:, None]) == pytest.approx(step_down(differences[:, None]))


def test_no_difference_at_all_is_not_supported() -> None:
    assert step_down(np.column_stack([np.zeros(7), np.ones(7)])) == pytest.approx([1.0, 2.0**-6])


def test_the_unit_of_the_differences_changes_nothing() -> None:
    differences = np.random.default_rng(11).normal(0.5, 1.0, size=(7, 3))
    assert (step_down(differences * 1e200) == step_down(differences)).all()
    assert (step_down(differences * [1e-200, 1.0, 1e200]) == step_down(differences)).all()
