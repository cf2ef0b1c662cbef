"""Products of blocks of larger matrices, in compiled code."""

import numpy as np
import pytest
from numba.core import config
from numba.core.errors import TypingError

from kernelswarm.agents.arithmetic.products import multiply
from kernelswarm.protocols.core.compiling import cached_njit


@cached_njit
def product(target, left, right, turn_left, turn_right, rows, inner, columns, factor, share):
    """Multiply blocks that begin in the row and column (2, 1), (1, 3) and (0, 2)."""
    t, a, b = 2 * target.shape[1] + 1, left.shape[1] + 3, 2
    multiply(
        target,
        t,
        target.shape[1],
        left,
        a,
        left.shape[1],
        turn_left,
        right,
        b,
        right.shape[1],
        turn_right,
        rows,
        inner,
        columns,
        factor,
        share,
    )


@pytest.mark.parametrize("turn_left", [False, True])
@pytest.mark.parametrize("turn_right", [False, True])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(5, 4, 6), (1, 7, 3), (40, 33, 65), (3, 2, 1)])
def test_a_product_of_blocks_touches_nothing_else(turn_left, turn_right, rows, inner, columns):
    random = np.random.default_rng(rows)
    left, right, target = (random.normal(size=(80, 90)) for _ in range(3))
    first = left[1 : 1 + inner, 3 : 3 + rows].T if turn_left else left[1 : 1 + rows, 3 : 3 + inner]
    second = right[:columns, 2 : 2 + inner].T if turn_right else right[:inner, 2 : 2 + columns]
    expected = target.copy()
    block = expected[2 : 2 + rows, 1 : 1 + columns]
    block[:] = 2.0 * first @ second - 3.0 * block
    product(target, left, right, turn_left, turn_right, rows, inner, columns, 2.0, -3.0)
    np.testing.assert_allclose(target, expected, rtol=1e-12, atol=1e-12)
    target[2 : 2 + rows, 1 : 1 + columns] = np.nan  # what has no share does not count
    block[:] = first @ second
    product(target, left, right, turn_left, turn_right, rows, inner, columns, 1.0, 0.0)
    np.testing.assert_allclose(target, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(bool(vars(config)["DISABLE_JIT"]), reason="layouts are refused while compiling")
def test_columns_that_lie_one_after_the_other_are_refused():
    square = np.ones((10, 10))
    with pytest.raises(TypingError, match="rows lie one after the other"):
        product(square, np.asfortranarray(square), square, False, False, 2, 2, 2, 1.0, 0.0)
