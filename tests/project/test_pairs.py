"""Rows that stand for all combinations: any two values meet in one, and the rows are few and always the same."""

from __future__ import annotations

import itertools
import math

import pytest

from tests.helpers.pairs import every_pair


@pytest.mark.parametrize(
    "sizes", [(2, 3), (2, 2, 2), (3, 3, 4), (8, 2, 3), (2, 3, 2, 5), (4, 4, 4, 4), (29, 2, 2, 2)], ids=str
)
def test_any_two_values_meet_in_few_rows(sizes: tuple[int, ...]) -> None:
    factors = [[f"{name}{place}" for place in range(size)] for name, size in zip("abcd", sizes, strict=False)]
    rows = every_pair(*factors)
    met = {two for row in rows for two in itertools.combinations(row, 2)}
    assert met == {two for one, other in itertools.combinations(factors, 2) for two in itertools.product(one, other)}
    assert all(value in factor for row in rows for value, factor in zip(row, factors, strict=True))
    least = math.prod(sorted(sizes)[-2:])
    assert len(set(rows)) == len(rows) <= 1.5 * least + 1
    assert rows == every_pair(*factors)
