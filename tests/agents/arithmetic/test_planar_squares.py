"""Squared distances and rows of systems are what the formulas say, to the bit; nothing else is written."""

import numpy as np
import pytest
from numba import njit

from kernelswarm.agents.arithmetic.implicit_systems import fill_row
from kernelswarm.agents.arithmetic.kernel_formulas import narrow_squares, planar_squares
from kernelswarm.agents.arithmetic.simd import whole
from kernelswarm.agents.arithmetic.views import nearby
from kernelswarm.protocols.coupling import pair_row_sums_in

ROOM = 8


@njit
def squares_of(points, centers, squares):
    narrow_squares(points, centers, squares)


@njit
def squares_in_the_plane(points, centers, squares):
    planar_squares(points, centers, squares)


@njit
def filled(augmented, b, row, r, factor, rates, size):
    fill_row(augmented, b, row, r, factor, rates, size)


@njit
def total_nearby(numbers):
    room = nearby(np.float64, ROOM) if len(numbers) <= ROOM else np.empty(len(numbers))
    for i in range(len(numbers)):
        room[i] = numbers[i]
    total = 0.0
    for i in range(len(numbers)):
        total += room[i]
    return total


@njit
def place_nearby():
    return nearby(np.float64, ROOM).ctypes.data


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("inputs", [1, 2, 3, 32])
def test_squares_are_those_of_the_differences(rows, count, inputs):
    generator = np.random.default_rng([rows, count, inputs])
    points, centers = generator.normal(size=(rows, inputs)), generator.normal(size=(count, inputs))
    wanted = np.zeros((rows, count))
    for k in range(inputs):
        wanted += (points[:, np.newaxis, k] - centers[:, k]) ** 2
    for function in (squares_of, squares_in_the_plane) if inputs == 2 else (squares_of,):
        squares = np.full((rows, count + 3), 7.0)
        function(points, centers, squares)
        np.testing.assert_array_equal(squares[:, :count], wanted)
        assert (squares[:, count:] == 7.0).all()


@pytest.mark.parametrize("size", [1, 7, 8, 15])
def test_a_row_of_a_system_is_scaled_on_both_sides(size):
    generator = np.random.default_rng(size)
    row, rates = generator.normal(size=size + 2), generator.random(size)
    augmented = np.full(int(whole(size)) + 4, 7.0)
    filled(augmented, 1, row, 2, 0.3, rates, size)
    np.testing.assert_array_equal(augmented[1 : 1 + size], 0.3 * row[2:] * rates)
    assert (augmented[1 + size : 1 + int(whole(size))] == 0.0).all()
    assert augmented[0] == 7.0
    assert (augmented[1 + int(whole(size)) :] == 7.0).all()


@pytest.mark.parametrize("count", [0, 3, 8, 9, 1000])
def test_room_nearby_is_memory_like_any_other(count):
    assert total_nearby(np.arange(float(count))) == count * (count - 1) / 2


def test_room_nearby_begins_with_a_line_of_the_cache():
    assert place_nearby() % 64 == 0


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 6])
def test_loads_are_sums_of_rows(size, degree):
    points = size * (1 + degree)
    gram = np.random.default_rng([size, degree]).normal(size=(points, points))
    row_sums = np.zeros(points)
    pair_row_sums_in(gram, size, degree, 0.5, row_sums)
    sizes = np.abs(gram)
    np.testing.assert_allclose(row_sums, 0.5 * (degree * sizes[:, :size].sum(axis=1) + sizes[:, size:].sum(axis=1)))
