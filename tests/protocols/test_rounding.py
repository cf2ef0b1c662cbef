"""Numbers that links round keep their means, and the largest stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.protocols.chance import pair
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.distortion import EXACT, FEW_BITS, MOST, QUANTILE, STEPS, Laplace, distort, rounded_up


@cached_njit
def _rounded(start: np.ndarray, bits: int, stage: int, count: int) -> np.ndarray:
    found = np.empty((count, start.shape[0], start.shape[1]))
    for n in range(count):
        copy_matrix(start, found[n])
        distort(found[n], np.inf, 0.0, NONE, bits, 17, 23, n, stage)
    return found


@pytest.mark.parametrize("bits", [1, 2, 3, 8, FEW_BITS])
@pytest.mark.parametrize("numbers", [[[0.7]], [[-0.7, 0.3], [0.1, 0.0]]], ids=["one number", "four numbers"])
def test_rounding_is_right_on_average_and_leaves_the_largest(bits: int, numbers: list[list[float]]) -> None:
    start, count = np.array(numbers), 40_000
    found = _rounded(start, bits, 1, count)
    deviation = found.std(axis=0) / np.sqrt(count)
    assert (np.abs(found.mean(axis=0) - start) <= 5.0 * deviation + 1e-12).all()
    # Two neighbouring numbers of 16 bits, with the sign that it has: never the next of the 2^bits values.
    largest = found[:, 0, 0] / start[0, 0]
    assert len(np.unique(largest)) == 2 and np.ptp(np.log2(largest)) == pytest.approx(1.0 / STEPS)
    assert (np.abs(np.log2(largest)) < 1.0 / STEPS).all()
    sent = np.abs(found[:, 0, 0])[:, np.newaxis, np.newaxis]
    levels = (found / sent + 1.0) * (2.0**bits - 1.0) / 2.0
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (2, 5), (3, 3), (4, 2), (1, 100), (7, 13)], ids=str)
@pytest.mark.parametrize("bits", [1, 8, 20])
def test_each_number_is_rounded_by_its_half_of_a_draw(shape: tuple[int, int], bits: int) -> None:
    """Whatever rows and columns there are: numbers n and n + 1, n even, share the draw at place n / 2."""
    stage, round, levels = 2, 2**31 + 3, 2.0**bits - 1.0
    start = np.random.default_rng(3).normal(size=shape)
    found = start.copy()
    distort(found, np.inf, 0.0, NONE, bits, 17, 23, round, stage)
    few = bits <= FEW_BITS
    scale = np.abs(found).max() if few else rounded_up(np.abs(start).max())
    largest = np.abs(start).max() if few else scale
    wanted = np.empty(start.size)
    for n, number in enumerate(start.ravel()):
        u = pair(17, 23, round + ((2 * stage + 2) * MOST + n // 2) * 2**32)[n % 2]
        level = min(np.floor(levels * (number / largest + 1.0) / 2.0 + u), levels)
        wanted[n] = scale * (2.0 * level / levels - 1.0)
    np.testing.assert_array_equal(found.ravel(), wanted)


def test_scales_are_drawn_by_themselves() -> None:
    """Whether the scale is the upper one says nothing about how a number is rounded, or about another stage's scale."""
    start = np.array([[0.7, 0.25]])
    found, other = _rounded(start, 1, 1, 40_000), _rounded(start, 1, 2, 40_000)
    up, level = found[:, 0, 0] > 0.7, found[:, 0, 1] > 0.0
    for left, right in ((up, level), (up, other[:, 0, 0] > 0.7)):
        assert abs(np.corrcoef(left, right)[0, 1]) < 5.0 / np.sqrt(len(left))


@cached_njit
def _noisy(columns: int, quantile: int, stage: int, count: int) -> np.ndarray:
    found = np.zeros((count, 1, columns))
    for n in range(count):
        distort(found[n], np.inf, 1.0, quantile, EXACT, 17, 23, n, stage)
    return found


def test_parts_of_different_sizes_have_noise_of_their_own() -> None:
    """One random number says how large noise is and one its sign: none is shared between two points and a value."""
    quantile, count = address(Laplace(1.0).quantile, QUANTILE), 20_000
    points, values = _noisy(2, quantile, 0, count)[:, 0], _noisy(1, quantile, 1, count)[:, 0]
    for left in (np.sign(points), np.abs(points)):
        for right in (np.sign(values), np.abs(values)):
            found = np.corrcoef(left.T, right.T)[:2, 2]
            assert (np.abs(found) < 5.0 / np.sqrt(count)).all()
