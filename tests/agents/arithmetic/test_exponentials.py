"""The exponentials of kernels are those of the library to the last bit but one, wherever a number stands."""

import numpy as np
import pytest
from numba import njit

from kernelswarm.agents.arithmetic.exponentials import SMALLEST, decay
from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH


@njit
def compiled(values, start, rate, size):
    """Call what only compiled code can call."""
    decay(values, start, rate, size)


def exponentials(values, rate=1.0):
    found = values.copy()
    compiled(found, 0, rate, len(found))
    return found


@pytest.mark.parametrize("largest", [1e-300, 1e-9, 0.5, 1.0, 30.0, 700.0])
def test_numbers_are_within_a_unit_in_the_last_place(largest):
    # The library's own are off by half a unit and a little more.
    values = -np.random.default_rng(0).uniform(0.0, largest, 20_000)
    wanted = np.exp(values)
    assert (np.abs(exponentials(values) - wanted) <= 2.0 * np.spacing(wanted)).all()
    assert (np.abs(exponentials(values) - wanted) > 0.0).mean() < 0.2


def test_falls_across_the_borders_between_powers_of_two():
    # At the borders between two k the two ways to compute a number meet.
    borders = -np.log(2.0) * (np.arange(40) + 0.5)
    values = (borders[:, None] + np.linspace(1e-12, -1e-12, 9)).reshape(-1)
    assert (np.diff(exponentials(values)) <= 0.0).all()


def test_zero_gives_one_and_what_is_far_out_nothing():
    values = np.array([0.0, -0.0, np.nextafter(SMALLEST, -np.inf), -1e4, -1e300, -np.inf])
    assert exponentials(values).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert exponentials(np.array([SMALLEST]))[0] == pytest.approx(np.exp(SMALLEST), rel=1e-15)
    assert np.isnan(exponentials(np.array([-1.0, np.nan]))).tolist() == [False, True]


@pytest.mark.parametrize("size", [1, 3, SIMD_WIDTH - 1, SIMD_WIDTH, SIMD_WIDTH + 1, 2 * SIMD_WIDTH + 5, 41])
def test_a_number_has_the_same_bits_wherever_it_stands(size):
    values = -np.random.default_rng(size).uniform(0.0, 20.0, size + 9)
    found = values.copy()
    compiled(found, 4, 0.7, size)
    np.testing.assert_array_equal(found[:4], values[:4])
    np.testing.assert_array_equal(found[4 + size :], values[4 + size :])
    alone = [exponentials(values[place : place + 1], 0.7)[0] for place in range(4, 4 + size)]
    np.testing.assert_array_equal(found[4 : 4 + size], alone)


def test_uncompiled_code_gives_the_same_bits(uncompiled):
    code = (
        "import numpy as np; from kernelswarm.agents.arithmetic.exponentials import decay;"
        "values = np.linspace(0.0, 720.0, 101); decay(values, 1, -1.0, 99); print(values.tobytes().hex())"
    )
    values = np.linspace(0.0, 720.0, 101)
    compiled(values, 1, -1.0, 99)
    assert uncompiled(code).strip() == values.tobytes().hex()
