"""Weights are scaled, added to and squared as plain loops do it, to the last bit, and nothing beside them changes."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.weights import add_and_square, scale, square
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import njit_no_refcount

ORDERS = [0, 1, 2, 7, 8, 9, 15, 16, 21]
OUTPUTS = [1, 2, 3, 5, 7, 8, 9, 15, 16]


@njit_no_refcount
def scaled(weights: Array, order: int, factor: float) -> None:
    scale(weights, order, factor)


def squares(weights: Array, order: int) -> list[float]:
    """Sum from the first output on."""
    found = []
    for row in weights[:order].tolist():
        total = 0.0
        for weight in row:
            total += weight * weight
        found.append(total)
    return found


def drawn(order: int, outputs: int) -> tuple[Array, Array]:
    """Weights of very different sizes, and room behind the order that is not to be looked at."""
    generator = np.random.default_rng([order, outputs])
    weights = generator.normal(size=(order + 2, outputs)) * 10.0 ** generator.integers(-9, 9, (order + 2, outputs))
    weights[order:] = np.nan
    return weights, generator.normal(size=order + 2)


@pytest.mark.parametrize("outputs", [*OUTPUTS, 17, 40])
def test_scaling(outputs: int) -> None:
    for order in ORDERS:
        weights, _ = drawn(order, outputs)
        expected = weights.copy()
        expected[:order] *= 0.7
        scaled(weights, order, 0.7)
        assert np.array_equal(weights, expected, equal_nan=True)


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_squared_norms(outputs: int) -> None:
    for order in ORDERS:
        weights, norms = drawn(order, outputs)
        before, behind = weights.copy(), norms[order:].tolist()
        square(weights, order, norms)
        assert norms[:order].tolist() == squares(weights, order)
        assert norms[order:].tolist() == behind and np.array_equal(weights, before, equal_nan=True)


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("n", [0, 2])
def test_shares_of_a_new_weight(outputs: int, n: int) -> None:
    for order in ORDERS:
        weights, shares = drawn(order, outputs)
        new = np.random.default_rng(outputs).normal(size=(3, outputs))
        expected, norms = weights.copy(), np.full(order + 2, 7.0)
        for j in range(order):
            expected[j] += shares[j] * new[n]
        add_and_square(weights, order, shares, new, n, norms)
        assert np.array_equal(weights, expected, equal_nan=True)
        assert norms.tolist() == [*squares(expected, order), 7.0, 7.0]


@pytest.mark.parametrize("outputs", [17, 24, 40])
def test_many_outputs(outputs: int) -> None:
    for order in ORDERS:
        weights, shares = drawn(order, outputs)
        new, norms = np.random.default_rng(outputs).normal(size=(2, outputs)), np.full(order + 2, 7.0)
        expected = weights[:order] + shares[:order, np.newaxis] * new[1]
        add_and_square(weights, order, shares, new, 1, norms)
        assert np.array_equal(weights[:order], expected) and np.isnan(weights[order:]).all()
        assert np.allclose(norms[:order], squares(expected, order), rtol=1e-14, atol=0.0)
        again = np.full(order + 2, 7.0)
        square(weights, order, again)
        assert again.tolist() == norms.tolist()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -0.0, 5e-324, 1e200])
def test_odd_numbers_stay_what_they_are(odd: float) -> None:
    weights, norms = np.ones((9, 3)), np.zeros(9)
    weights[4, 1] = odd
    square(weights, 9, norms)
    assert np.array_equal(norms, [3.0] * 4 + [2.0 + odd * odd] + [3.0] * 4, equal_nan=True)
    add_and_square(weights, 9, np.zeros(9), -np.ones((1, 3)), 0, norms)
    assert str(weights[4, 1]) == str(np.float64(odd) + 0.0 * -1.0)


def digest() -> str:
    """What all of it makes of weights."""
    hashed = hashlib.sha256()
    for outputs in [*OUTPUTS, 20]:
        for order in ORDERS:
            weights, shares = drawn(order, outputs)
            norms = np.zeros(order + 2)
            scaled(weights, order, 0.7)
            square(weights, order, norms)
            hashed.update(weights[:order].tobytes() + norms.tobytes())
            add_and_square(weights, order, shares, np.full((2, outputs), 0.3), 1, norms)
            hashed.update(weights[:order].tobytes() + norms.tobytes())
    return hashed.hexdigest()


def test_bits_are_the_same_where_nothing_is_compiled(uncompiled: Callable[[str], str]) -> None:
    assert uncompiled(f"from {__name__} import digest; print(digest())").strip() == digest()
