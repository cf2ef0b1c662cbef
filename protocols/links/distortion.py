"""Noise and rounding of the numbers of a message."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numba import types

from kernelswarm.arrays import Array
from kernelswarm.protocols.chance import WORD, pair, threefry, uniform
from kernelswarm.protocols.core.addresses import NONE, Compiled, at
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import Range, Ranged

# Accounting of pure and Gaussian differential privacy.


@dataclass(frozen=True)
class Spent:
    """The privacy spent on one input.

    Parameters
    ----------
    pure : float
        The sum of the epsilons of mechanisms that are purely differentially private (Dwork et al. 2006).
    squared_mu : float
        The sum of mu^2 over Gaussian differentially private mechanisms. A sequence of adaptive mechanisms is one
        mechanism with mu^2 = sum mu_k^2 (Dong, Roth and Su 2022, corollary 3.3).

    Examples
    --------
    >>> round((gaussian(1.0, 4.0) + gaussian(1.0, 4.0)).epsilon(1e-5), 3)
    1.356
    >>> (laplace(2.0, 4.0) + laplace(2.0, 4.0)).epsilon(1e-5)
    1.0
    """

    pure: float = 0.0
    squared_mu: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.pure + other.pure, self.squared_mu + other.squared_mu)

    def times(self, count: int) -> Spent:
        """Return the privacy spent by ``count`` mechanisms of this kind."""
        return Spent(self.pure * count, self.squared_mu * count)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of (epsilon, delta)-differential privacy.

        It is ``pure`` plus, if mu > 0, the smallest epsilon >= 0 with
        ``Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) <= delta``, which is exact for a Gaussian
        mechanism (Balle and Wang 2018, theorem 8). With mu = 0 the guarantee holds with delta = 0.
        """
        from scipy.optimize import brentq
        from scipy.special import log_ndtr, ndtr

        mu = math.sqrt(self.squared_mu)

        def excess_loss(epsilon: float) -> float:
            left, right = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
            return float(ndtr(left) - math.exp(epsilon + log_ndtr(right))) - delta

        if mu == 0.0 or excess_loss(0.0) <= 0.0:
            return self.pure
        most = mu**2 / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))  # bound of Bun and Steinke 2016
        return self.pure + float(brentq(excess_loss, 0.0, most))


def gaussian(sensitivity: float, deviation: float) -> Spent:
    """Return the privacy spent by normal noise on a vector with the Euclidean (L2) sensitivity ``sensitivity``.

    ``mu = sensitivity / deviation``.
    """
    return Spent(squared_mu=(sensitivity / deviation) ** 2)


def laplace(sensitivity: float, scale: float) -> Spent:
    """Return the privacy spent by Laplace noise on a vector with the L1 sensitivity ``sensitivity``.

    ``epsilon = sensitivity / scale``.
    """
    return Spent(pure=sensitivity / scale)


# Noise on sent numbers.
#
# A noise provides its compiled quantile function, so that rounds need not distinguish the kinds of noise.

QUANTILE = types.float64(types.float64, types.float64)
"""``quantile(u, v)`` maps two independent uniform numbers of [0, 1) to a number of the distribution of scale 1."""

On = Literal["values", "points", "both"]


class Noise(Protocol):
    """A noise."""

    @property
    def scale(self) -> float:
        """The scale of the noise, nonnegative; 0 for no noise."""
        ...

    @property
    def on(self) -> On:
        """The part of messages that is noisy."""
        ...

    @property
    def quantile(self) -> Compiled:
        """The function of the signature QUANTILE, compiled or in plain Python."""
        ...


@cached_njit
def _gaussian(u: float, v: float) -> float:
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@cached_njit
def _laplace(u: float, v: float) -> float:
    distance = -math.log(1.0 - u)
    return distance if v < 0.5 else -distance


@dataclass(frozen=True)
class Gaussian(Ranged):
    """Independent normal noise is added to every sent number.

    Parameters
    ----------
    scale : float
        The standard deviation of the noise, nonnegative; 0 for no noise.
    on : {"values", "points", "both"}
        Whether function values, sample points or both are noisy.
    """

    scale: float = 0.0
    on: On = "values"

    ranges: ClassVar = {"scale": Range("[0, inf)")}

    @property
    def quantile(self) -> Compiled:
        return _gaussian

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return self.scale**2

    def spent(self, magnitudes: float, distance: float) -> Spent:
        """Return the privacy spent on one noisy vector that changes by at most ``distance``, a Euclidean norm."""
        return gaussian(distance, self.scale)


@dataclass(frozen=True)
class Laplace(Ranged):
    """Independent Laplace noise is added to every sent number.

    Parameters
    ----------
    scale : float
        The mean magnitude of the noise, nonnegative; 0 for no noise.
    on : {"values", "points", "both"}
        Whether function values, sample points or both are noisy.
    """

    scale: float = 0.0
    on: On = "values"

    ranges: ClassVar = {"scale": Range("[0, inf)")}

    @property
    def quantile(self) -> Compiled:
        return _laplace

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return 2.0 * self.scale**2

    def spent(self, magnitudes: float, distance: float) -> Spent:
        """Return the privacy spent on one noisy vector that changes by at most ``magnitudes``, an L1 norm."""
        return laplace(magnitudes, self.scale)


quantile_at = at(QUANTILE)

TWO_WORDS = 4294967296.0
"""The inverse of the spacing of uniform numbers in pairs: 2^32."""

EXACT = 64
"""The number of bits of an unrounded number."""

SCALE_BITS = 16
"""Bits of the scale that is sent with rounded numbers, and of row sums and dual variables."""

STEPS = 512.0
"""Numbers of SCALE_BITS are powers of 2, from 2^-64 to 2^64, with this many per octave."""

FEW_BITS = 12
"""The maximum number of bits for which the 2^bits values are farther apart than the error of the scale."""

LAST_STAGE = 2**31 - 1
"""Draws of scales have places from here down, draws of numbers from 0 up."""

MOST = 2**26
"""Number of places for the noise of a stage, and for its rounding: more than the numbers of a message. The realization
uses the first places, under the same keys."""


@cached_njit
def distort(
    numbers: Array,
    bound: float,
    noise: float,
    quantile: int,
    bits: int,
    first: int,
    second: int,
    round: int,
    stage: int,
) -> None:
    """Clip the numbers of a message (b, n), add noise to them, and round them to ``bits`` bits without bias.

    With the largest magnitude A and ``L = 2^bits - 1``, a number v is replaced by ``A (2 k / L - 1)``. k is one of the
    two integers next to ``L (v / A + 1) / 2``, drawn with probabilities that make v the mean (stochastic rounding, as
    in QSGD: Alistarh et al. 2017), to within 2^-32 of the spacing of the values. A itself is sent in SCALE_BITS. For up
    to FEW_BITS bits A is stochastically rounded too, so that its mean is correct, and a number of magnitude A becomes
    plus or minus the sent scale; with a larger scale it would sometimes be the next lower value, which is A / 3 for two
    bits. With more bits A is rounded up, and the error is the spacing of the values. Random numbers have 32 bits:
    normal noise is at most 6.7 standard deviations, Laplace noise at most 22 times its scale.

    Parameters
    ----------
    numbers : Array
        The numbers, changed in place.
    bound : float
        The largest magnitude of a number; inf for no bound.
    noise : float
        The noise's scale; 0 for no noise.
    quantile : int
        The address of the noise's quantile function.
    bits : int
        EXACT for no rounding, or from 1 to 32.
    first, second : int
        The key of the sender or of the edge.
    round, stage : int
        The place of the message's random numbers in the key's sequence: numbers of one round that differ in their
        stage, from 0 to 14, are independent.
    """
    rows, columns = numbers.shape
    if bound < np.inf:
        for k in range(rows):
            for c in range(columns):
                numbers[k, c] = min(max(numbers[k, c], -bound), bound)
    if noise > 0.0 and quantile != NONE:
        drawn = quantile_at(quantile)
        for k in range(rows):
            for c in range(columns):
                place = (2 * stage + 1) * MOST + k * columns + c
                u, v = pair(first, second, round + place * 2**32)
                numbers[k, c] += noise * drawn(u, v)
    if bits == EXACT:
        return
    _round(numbers, bits, first, second, round, stage)


@inline_always
def _round(numbers: Array, bits: int, first: int, second: int, round: int, stage: int) -> None:
    """Round the numbers of a message to ``bits`` bits each without bias."""
    rows, columns = numbers.shape
    largest = 0.0
    for k in range(rows):
        for c in range(columns):
            largest = max(largest, abs(numbers[k, c]))
    if not 0.0 < largest < np.inf:
        return
    scale = rounded_up(largest)
    if bits <= FEW_BITS:
        below = scale * 2.0 ** (-1.0 / STEPS)
        if uniform(first, second, round + (LAST_STAGE - stage) * 2**32) * (scale - below) >= largest - below:
            scale = below
    else:
        largest = scale
    levels = 2.0**bits - 1.0
    left, draws = 0.0, (2 * stage + 2) * MOST
    for k in range(rows):
        c = 0
        if k * columns % 2 == 1:  # each draw is for two numbers
            numbers[k, 0] = rounded(numbers[k, 0], largest, scale, levels, left)
            c = 1
        pairs = (columns - c) // 2
        if pairs:
            round_pairs(numbers, k, c, pairs, largest, scale, levels, first, second, round, draws)
            draws += pairs
            c += 2 * pairs
        if c < columns:
            u, left = pair(first, second, round + draws * 2**32)
            numbers[k, c] = rounded(numbers[k, c], largest, scale, levels, u)
            draws += 1


@inline_always
def rounded(number: float, largest: float, scale: float, levels: float, u: float) -> float:
    """Return the value to which a number is rounded, given a uniform number u."""
    level = np.floor(levels * (number / largest + 1.0) / 2.0 + u)
    value: float = scale * (2.0 * min(level, levels) / levels - 1.0)
    return value


@inline_always
def round_pairs(
    numbers: Array,
    k: int,
    begin: int,
    pairs: int,
    largest: float,
    scale: float,
    levels: float,
    first: int,
    second: int,
    round: int,
    draws: int,
) -> None:
    """Round pairs of numbers of row k, with one draw each, in a loop without branches, which is vectorised."""
    for p in range(pairs):
        high, low = threefry(first, second, round & WORD, (round >> 32) + draws + p)
        c = begin + 2 * p
        numbers[k, c] = rounded(numbers[k, c], largest, scale, levels, high / TWO_WORDS)
        numbers[k, c + 1] = rounded(numbers[k, c + 1], largest, scale, levels, low / TWO_WORDS)


@cached_njit
def rounded_up(number: float) -> float:
    """Return the smallest power of 2 not below a positive number whose exponent is a multiple of 1/STEPS.

    Limits and scales must not be rounded down.
    """
    exponent = math.ceil(math.log2(number) * STEPS - 1e-9)  # exact powers are not changed
    power: float = 2.0 ** (exponent / STEPS)
    return power if power >= number else power * 2.0 ** (1.0 / STEPS)
