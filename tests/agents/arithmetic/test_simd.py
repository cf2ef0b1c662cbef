"""Arithmetic in lanes reads and writes what it is asked to and no more, and is what the plain formulas say."""

import functools
import hashlib

import numpy as np
import pytest
from numba import njit

from kernelswarm.agents.arithmetic import simd
from kernelswarm.agents.arithmetic.copying import copy_stretch, transpose
from kernelswarm.agents.arithmetic.inverse_factor import split
from kernelswarm.agents.functions.kernel_sum import combine_into

CAPACITIES = [1, 4, 5, 8, 9, 13, 16, 24, 31]


@functools.cache  # compiled once for all sizes
def compiled(function, arguments):
    """Compiled code that calls what only compiled code can call."""
    names = ", ".join(f"a{k}" for k in range(arguments))
    return njit(eval(f"lambda {names}: function({names})", {"function": function}))


def projected(capacity, order):
    """Split a point on a factor whose unused rows, like what follows the point's kernel row, are no numbers."""
    generator = np.random.default_rng([capacity, order])
    factor = np.zeros((capacity, capacity))
    factor[:order, :order] = np.tril(generator.normal(size=(order, order)))
    factor[order:] = np.nan
    row = np.concatenate([generator.normal(size=order), np.full(8, np.nan)])
    image, projection = np.full(capacity, 7.0), np.full(capacity, 8.0)
    schur = split(factor, order, row, 2.0, image, projection)
    return factor[:order, :order], row[:order], image, projection, schur


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_point_is_projected_whatever_stands_beside_its_row_and_the_factor(capacity):
    for order in range(capacity + 1):
        factor, row, image, projection, schur = projected(capacity, order)
        expected = factor @ row
        np.testing.assert_allclose(image[:order], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(projection[:order], factor.T @ expected, rtol=1e-12, atol=1e-12)
        assert schur == pytest.approx(2.0 - expected @ expected, rel=1e-12, abs=1e-12)
        assert (image[order:] == 7.0).all()
        assert (projection[order:] == 8.0).all()


def test_a_projection_does_not_depend_on_the_room_for_others():
    for order in (3, 8, 14):
        wide = np.zeros((40, 40))
        factor, row, image, projection, schur = projected(order, order)
        wide[:order, :order] = factor
        found = [np.zeros(40), np.zeros(40)]
        assert split(wide, order, row, 2.0, *found) == schur
        np.testing.assert_array_equal(found[0][:order], image)
        np.testing.assert_array_equal(found[1][:order], projection)


@pytest.mark.parametrize("outputs", [1, 2, 5, 8, 9, 20])
@pytest.mark.parametrize("order", [0, 1, 4, 7, 24])
def test_values_are_combinations_of_rows(order, outputs):
    generator = np.random.default_rng([order, outputs])
    rows, weights = generator.normal(size=(3, order + 2)), generator.normal(size=(order, outputs))
    values = np.full((4, outputs), 7.0)
    combine_into(rows, weights, order, values[:3])
    np.testing.assert_allclose(values[:3], rows[:, :order] @ weights, rtol=1e-12, atol=1e-12)
    assert (values[3] == 7.0).all()


def test_one_within_its_bound_is_seen_wherever_it_stands():
    find = compiled(simd.any_within, 7)
    left, right, root = np.full(30, 5.0), np.full(30, 2.0), np.full(30, -1.0)
    for end in (0, 1, 8, 13, 30):
        assert not find(left, right, root, 1.5, 1.5, 0, end)
        for place in range(30):
            left[place] = 1.5 * 2.0 + 1.5 * 1.0  # at the bound counts
            for begin in (0, 7, 9):
                assert find(left, right, root, 1.5, 1.5, begin, end) == (begin <= place < end)
            left[place] = 5.0


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (1, 1), (8, 8), (15, 10), (17, 9), (5, 30)])
def test_a_table_is_turned_in_whole_lanes(rows, columns):
    source = np.random.default_rng(rows).normal(size=(rows, columns + 3))
    source[:, columns:] = np.nan
    wide = int(simd.whole(rows))
    target = np.full((columns + 1, wide + 2), 7.0)
    compiled(transpose, 9)(target, 0, wide + 2, source, 0, columns + 3, rows, columns, -2.0)
    np.testing.assert_array_equal(target[:columns, :rows], -2.0 * source[:, :columns].T)
    np.testing.assert_array_equal(target[:columns, rows:wide], 0.0)
    assert (target[columns] == 7.0).all()
    assert (target[:, wide:] == 7.0).all()


@pytest.mark.parametrize(("count", "size"), [(0, 0), (0, 5), (3, 3), (5, 16), (8, 9), (13, 13)])
def test_a_stretch_is_copied_with_zeros_behind_it(count, size):
    source, target = np.random.default_rng(count).normal(size=(2, count + 1)), np.full((3, 20), 7.0)
    compiled(copy_stretch, 6)(target, 21, source, count + 1, count, size)
    expected = np.full((3, 20), 7.0)
    expected[1, 1 : 1 + size], expected[1, 1 : 1 + count] = 0.0, source[1, :count]
    np.testing.assert_array_equal(target, expected)


def digest():
    """The bits of projections and of values of many sizes."""
    found = hashlib.sha256()
    for capacity in CAPACITIES:
        for order in range(capacity + 1):
            *_, image, projection, schur = projected(capacity, order)
            found.update(image.tobytes() + projection.tobytes() + np.float64(schur).tobytes())
            rows = np.random.default_rng(order).normal(size=(2, capacity))
            values = np.empty((2, 3))
            combine_into(rows, np.random.default_rng(capacity).normal(size=(capacity, 3)), order, values)
            found.update(values.tobytes())
    return found.hexdigest()


def test_bits_are_the_same_where_nothing_is_compiled(uncompiled):
    assert uncompiled(f"from {__name__} import digest; print(digest())").strip() == digest()
