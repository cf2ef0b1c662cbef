"""What is done to the rows on a board is what the plain formulas say, to the bit, and touches nothing else."""

import hashlib
import math

import numpy as np
import pytest

from kernelswarm.agents.arithmetic import augmented_matrix, elimination
from kernelswarm.agents.arithmetic.simd import ROWS, SIMD_WIDTH, sum_rows, whole
from tests.agents.arithmetic.test_simd import compiled

SIZES = [(1, 0), (2, 3), (3, 15), (5, 8), (8, 9), (9, 1), (15, 8), (17, 20)]
"""Points, and those of the dictionary."""


def eliminated(count, order, steps, pairs=False):
    """Take so many pivots on a board of random points; returns all memory, where each part of it lies, and the turn."""
    generator = np.random.default_rng([count, order])
    pitch = int(whole(count + order))
    kept, sums = count * pitch, (count + 1) * pitch
    memory = np.full(sums + (count + 1) * pitch + 3, 7.0)
    memory[: sums + pitch] = 0.0
    augmented = memory[:kept].reshape(count, pitch)
    roots = generator.normal(size=(count, count + 2))
    augmented[:, :count], augmented[:, count : count + order] = roots @ roots.T, generator.normal(size=(count, order))
    memory[kept + count : kept + pitch] = 1.0
    memory[sums + count : sums + count + order] = generator.random(order)
    start, turn = memory.copy(), generator.permutation(count)
    take, take_both = compiled(elimination.take_pivot, 8), compiled(elimination.take_two, 8)
    for place in range(0, steps, 2 if pairs else 1):
        both = pairs and place + 1 < steps
        step = take_both if both else take
        step(memory, 0, pitch, turn, place, count, kept, sums + place * pitch)
        memory[kept + turn[place : place + 1 + both]] = 1.0
    return memory, start, pitch, kept, sums, turn


@pytest.mark.parametrize(("count", "order"), SIZES)
def test_pivots_leave_the_rows_of_the_factor(count, order):
    memory, start, pitch, kept, sums, turn = eliminated(count, order, count)
    augmented, before = (each[:kept].reshape(count, pitch) for each in (memory, start))
    gram, old = before[turn][:, turn], before[turn][:, count : count + order]
    rows = np.linalg.inv(np.linalg.cholesky(gram))  # L^-1 [I, -A'] of the points in their turn
    np.testing.assert_allclose(augmented[turn][:, turn], rows, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(augmented[turn][:, count : count + order], rows @ old, rtol=1e-7, atol=1e-9)
    assert (augmented[turn][:, turn][np.triu_indices(count, 1)] == 0.0).all()
    squares = memory[sums:-3].reshape(count + 1, pitch)
    np.testing.assert_allclose(
        squares, squares[0] + np.cumsum(np.vstack([0.0 * augmented[:1], augmented[turn]]) ** 2, axis=0)
    )
    assert (memory[-3:] == 7.0).all()


@pytest.mark.parametrize(("count", "order"), SIZES)
def test_two_pivots_leave_what_one_after_the_other_does(count, order):
    apart, together = (eliminated(count, order, count, pairs)[0] for pairs in (False, True))
    np.testing.assert_array_equal(apart, together)


@pytest.mark.parametrize(("count", "order"), [size for size in SIZES if size[0] > 1])
def test_what_was_left_at_the_last_pivot_is_returned(count, order):
    memory, _, pitch, kept, sums, turn = eliminated(count, order, 0)
    gram = memory[:kept].reshape(count, pitch)[turn][:, turn]
    both = compiled(elimination.take_two, 8)(memory, 0, pitch, turn, 0, count, kept, sums)
    np.testing.assert_allclose(both, gram[1, 1] - gram[1, 0] / gram[0, 0] * gram[0, 1])


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_first_of_the_cheapest_is_found(outputs):
    find = compiled(augmented_matrix.cheapest, 7)
    for seed in range(200):
        generator = np.random.default_rng([seed, outputs])
        size = SIMD_WIDTH * int(generator.integers(1, 4))
        memory = np.full(5 + (outputs + 1) * size, np.nan)
        memory[5 : 5 + outputs * size] = generator.integers(-1, 2, outputs * size)  # many are equal
        memory[5 + outputs * size :] = generator.integers(0, 3, size)
        begin = int(generator.integers(0, size))
        end = int(generator.integers(begin, size + 1))
        norms = (memory[5 : 5 + outputs * size].reshape(outputs, size) ** 2).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            quotients = norms / memory[5 + outputs * size :]
        wanted = [(quotients[place], place) for place in range(begin, end) if quotients[place] < np.inf]
        expected = min(wanted)[::-1] if wanted else (-1, math.inf)
        assert find(memory, 5, size, outputs, 5 + outputs * size, begin, end) == expected
    assert find(memory, 5, size, outputs, 5, 0, 0) == (-1, math.inf)


@pytest.mark.parametrize("count", [1, 7, 8, 15, 30])
def test_keys_are_ranked_from_the_largest_on_and_equal_ones_as_they_stand(count):
    keys = np.full(3 + whole(count), 9.0)
    keys[3 : 3 + count] = np.random.default_rng(count).integers(0, 4, count)
    rank = compiled(augmented_matrix.count_above, 4)
    ranks = [rank(keys, 3, place, count) for place in range(count)]
    assert np.argsort(ranks).tolist() == np.argsort(-keys[3 : 3 + count], kind="stable").tolist()


@pytest.mark.parametrize("size", [SIMD_WIDTH, 3 * SIMD_WIDTH])
def test_rows_are_rotated_until_the_lower_has_a_zero(size):
    for column in range(size):
        memory = np.random.default_rng([size, column]).normal(size=2 * size + 9 + 2 * size)
        upper, lower, sums = 2, 4 + size, 2 * size + 8
        expected = memory.copy()
        x, y = memory[upper : upper + size], memory[lower : lower + size]
        radius = math.sqrt(x[column] * x[column] + y[column] * y[column])
        cosine, sine = x[column] / radius, y[column] / radius
        rest = cosine * y - sine * x
        assert abs(rest[column]) < 1e-15
        rest[column] = 0.0
        expected[upper : upper + size], expected[lower : lower + size] = cosine * x + sine * y, rest
        expected[sums + size : sums + 2 * size] = memory[sums : sums + size] + rest**2
        compiled(augmented_matrix.rotate, 6)(memory, upper, lower, column, sums, size)
        np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("size", [SIMD_WIDTH, 2 * SIMD_WIDTH])
def test_values_lose_what_stands_in_a_column_with_the_row(outputs, size):
    for column in range(size):
        memory = np.random.default_rng([outputs, size, column]).normal(size=3 + (outputs + 1) * size)
        expected, row = memory.copy(), memory[-size:].copy()
        values = expected[2 : 2 + outputs * size].reshape(outputs, size)
        shares, total = values[:, column] / row[column], 0.0
        for c, share in enumerate(shares):
            total += share * share
            values[c] += -share * row
            values[c, column] = 0.0
        assert compiled(augmented_matrix.take_out, 6)(memory, 2, outputs, len(memory) - size, column, size) == total
        np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("size", [1, 8, 13])
def test_what_is_subtracted_from_is_read_no_further_than_it_goes(size):
    generator = np.random.default_rng(size)
    memory, source = generator.normal(size=4 + int(whole(size))), generator.normal(size=(2, size))
    expected = np.concatenate([memory[:2], source[1] - memory[2 : 2 + size], memory[2 + size :]])
    compiled(augmented_matrix.subtract_from, 5)(memory, 2, source, size, size)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize(("wanted", "count", "size"), [(1, 0, 3), (2, 5, 8), (4, 1, 9), (3, 6, 16)])
def test_up_to_four_rows_are_summed_at_a_time(wanted, count, size):
    generator, wide = np.random.default_rng([wanted, count]), int(whole(size))
    factors, rows = generator.normal(size=(6, 7)), generator.normal(size=(7, size + 1))
    rows[:, size:] = np.nan
    target = np.full((6, wide + 1), 7.0)
    compiled(sum_rows, 13)(target, 0, wide + 1, factors, 8, 7, 1, rows, 0, size + 1, wanted, count, size)
    expected = np.zeros((wanted, size))
    for k in range(count):
        expected += factors[1 : 1 + wanted, 1 + k, np.newaxis] * rows[k, :size]
    np.testing.assert_array_equal(target[:wanted, :size], expected)
    np.testing.assert_array_equal(target[:ROWS, size:wide], 0.0)
    assert (target[ROWS:] == 7.0).all()
    assert (target[:, wide:] == 7.0).all()


def solvable(size):
    generator = np.random.default_rng(size)
    augmented = generator.normal(size=(size, whole(size + 2)))
    augmented[np.arange(size), np.arange(size)] += size
    return augmented


@pytest.mark.parametrize("size", [1, 2, 5, 8, 9, 15, 24])
def test_each_row_below_two_pivots_loses_their_columns(size):
    for pivot in range(0, size - 1, 2):
        augmented = solvable(size)
        expected, first = augmented.copy(), pivot - pivot % SIMD_WIDTH
        for k in (pivot, pivot + 1):
            for i in range(k + 1, size):
                expected[i, first:] += -(expected[i, k] / expected[k, k]) * expected[k, first:]
        compiled(elimination.eliminate_two, 2)(augmented, pivot)
        np.testing.assert_array_equal(augmented, expected)
        np.testing.assert_allclose(augmented[pivot + 1 :, pivot], 0.0, atol=1e-14)
        np.testing.assert_allclose(augmented[pivot + 2 :, pivot + 1], 0.0, atol=1e-14)


def digest():
    """The bits of eliminations, and of what takes points out again."""
    found = hashlib.sha256()
    take, turn_rows, find = (
        compiled(augmented_matrix.take_out, 6),
        compiled(augmented_matrix.rotate, 6),
        compiled(augmented_matrix.cheapest, 7),
    )
    for count, order in SIZES:
        memory, _, pitch, _, sums, turn = eliminated(count, order, count)
        least = find(memory, sums, pitch, min(count, 3), sums + count * pitch, 0, count)
        if count > 2:
            turn_rows(memory, turn[1] * pitch, turn[2] * pitch, turn[1], sums, pitch)
        lost = take(memory, sums, min(count, 3), turn[-1] * pitch, turn[-1], pitch)
        found.update(memory.tobytes() + np.array([*least, lost]).tobytes())
        augmented = solvable(count)
        for pivot in range(0, count - 1, 2):
            compiled(elimination.eliminate_two, 2)(augmented, pivot)
        found.update(eliminated(count, order, count, pairs=True)[0].tobytes())
        found.update(augmented.tobytes())
    return found.hexdigest()


def test_bits_are_the_same_where_nothing_is_compiled(uncompiled):
    assert uncompiled(f"from {__name__} import digest; print(digest())").strip() == digest()
