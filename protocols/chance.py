"""Counter-based uniform random numbers: the state of a sequence is a count.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, SC 2011): a number is the encryption of
its index under the seed's key. It adds, rotates and takes exclusive ors of 32-bit words, which are stored in int64, so
that nothing overflows.
"""

import numpy as np

from kernelswarm.protocols.core.compiling import cached_njit, inline_always

WORD = 0xFFFFFFFF
PARITY = 0x1BD11BDA


def key_of(seed: int) -> tuple[float, float]:
    """Return the key of a seed, any integer from 0: two 32-bit words, as numbers for compiled steps."""
    first, second = np.random.SeedSequence(seed).generate_state(2).tolist()
    return float(first), float(second)


@cached_njit
def uniform(first: int, second: int, place: int) -> float:
    """Return the number at ``place`` of the sequence of a key, a multiple of 2^-53 uniform in [0, 1)."""
    high, low = threefry(first, second, place & WORD, place >> 32)
    return ((high >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0  # 27 bits, then 26


@inline_always
def pair(first: int, second: int, place: int) -> tuple[float, float]:
    """Return two independent numbers at ``place`` of the sequence of a key, multiples of 2^-32 uniform in [0, 1)."""
    high, low = threefry(first, second, place & WORD, place >> 32)
    return high / 4294967296.0, low / 4294967296.0


@inline_always
def threefry(first: int, second: int, left: int, right: int) -> tuple[int, int]:
    """Encrypt two 32-bit words under a key of two."""
    third = PARITY ^ first ^ second
    left, right = (left + first) & WORD, (right + second) & WORD
    left, right = _four_rounds(left, right, 13, 15, 26, 6)
    left, right = (left + second) & WORD, (right + third + 1) & WORD
    left, right = _four_rounds(left, right, 17, 29, 16, 24)
    left, right = (left + third) & WORD, (right + first + 2) & WORD
    left, right = _four_rounds(left, right, 13, 15, 26, 6)
    left, right = (left + first) & WORD, (right + second + 3) & WORD
    left, right = _four_rounds(left, right, 17, 29, 16, 24)
    left, right = (left + second) & WORD, (right + third + 4) & WORD
    left, right = _four_rounds(left, right, 13, 15, 26, 6)
    return (left + third) & WORD, (right + first + 5) & WORD


@cached_njit
def _four_rounds(left: int, right: int, a: int, b: int, c: int, d: int) -> tuple[int, int]:
    left, right = _round(left, right, a)
    left, right = _round(left, right, b)
    left, right = _round(left, right, c)
    return _round(left, right, d)


@inline_always
def _round(left: int, right: int, rotation: int) -> tuple[int, int]:
    left = (left + right) & WORD
    right = ((right << rotation) & WORD) | (right >> (32 - rotation))
    return left, right ^ left
