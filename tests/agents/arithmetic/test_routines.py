"""Routines of BLAS in compiled code give what numpy gives, and functions that are called late are prepared first."""

import numpy as np
import pytest
from numba import types

from kernelswarm.agents.arithmetic.late import LateFunction, found_at, is_missing
from kernelswarm.agents.arithmetic.routines import inner_products, product
from kernelswarm.protocols.core.addresses import at
from kernelswarm.protocols.core.compiling import cached_njit


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 300), (2, 1), (9, 130), (40, 37)])
def test_inner_products_of_rows(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    found = inner_products(rows)
    np.testing.assert_allclose(found, rows @ rows.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(0, 7), (7, 0), (1, 9), (9, 1), (40, 33)])
def test_products_of_the_begin_of_a_matrix(rows, columns, outputs, turned):
    random = np.random.default_rng(rows)
    matrix, right = random.normal(size=(45, 50)), random.normal(size=(rows if turned else columns, outputs))
    part = matrix[:rows, :columns]
    found = product(matrix, turned, rows, columns, right)
    np.testing.assert_allclose(found, (part.T if turned else part) @ right, rtol=1e-12, atol=1e-12)


TWICE = types.float64(types.float64)
twice_at = at(TWICE)


@cached_njit
def twice(number: float) -> float:
    return 2.0 * number


@cached_njit
def called(place: int, number: float) -> float:
    return float(twice_at(found_at(place))(number))


@cached_njit
def missing(place: int) -> bool:
    return bool(is_missing(place))


def test_a_late_function_is_missing_once_it_is_expected_and_called_once_it_is_prepared():
    late = LateFunction(twice, TWICE)
    late.prepare()  # nobody expects it
    assert not missing(late.place)
    with pytest.raises(RuntimeError, match="prepared"):
        called(late.place, 3.0)
    late.expect()
    assert missing(late.place)
    with pytest.raises(RuntimeError, match="prepared"):
        called(late.place, 3.0)
    late.prepare()
    late.expect()
    assert not missing(late.place)
    assert called(late.place, 3.0) == 6.0
