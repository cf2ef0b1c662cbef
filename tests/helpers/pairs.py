"""Rows in which any two values of different factors meet, in place of all combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

Pair = frozenset[tuple[int, int]]
"""A value of one factor and a value of another, each by the places of its factor and of itself."""


def pairs_of(row: Sequence[int | None]) -> set[Pair]:
    """Return the pairs that meet in a row of places; None is a place still to be filled."""
    filled = [(factor, place) for factor, place in enumerate(row) if place is not None]
    return {frozenset(two) for two in itertools.combinations(filled, 2)}


def every_pair(*factors: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows, one value of each factor in each, such that any two values of two factors share a row.

    Each row begins with the first pair that is left and takes, factor by factor, the value with most pairs that are
    left; of equal values the one that was taken least.
    """
    values = [list(factor) for factor in factors]
    places = [(factor, place) for factor, own in enumerate(values) for place in range(len(own))]
    left = {frozenset(two): None for two in itertools.combinations(places, 2) if two[0][0] != two[1][0]}
    taken = dict.fromkeys(places, 0)
    rows = []
    while left:
        row: list[int | None] = [None] * len(values)
        for factor, place in next(iter(left)):
            row[factor] = place
        for factor in (factor for factor, place in enumerate(row) if place is None):
            gains = {
                place: len(pairs_of([*row[:factor], place, *row[factor + 1 :]]) & left.keys())
                for place in range(len(values[factor]))
            }
            row[factor] = min(gains, key=lambda place: (-gains[place], taken[factor, place]))
        for pair in pairs_of(row):
            left.pop(pair, None)
        for factor, place in enumerate(row):
            taken[factor, place or 0] += 1
        rows.append(tuple(own[place or 0] for own, place in zip(values, row, strict=True)))
    return rows


def in_pairs(**factors: Iterable[Any]) -> pytest.MarkDecorator:
    """Mark a test to be run once for each row of `every_pair`; factors are named as its arguments."""
    return pytest.mark.parametrize(tuple(factors), every_pair(*factors.values()))
