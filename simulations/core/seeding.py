"""Random generators of an experiment: one seed, and a fixed address for everything that is drawn from it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from kernelswarm.arrays import AnyArray
from kernelswarm.refused_key import RefusedKey


class Role(IntEnum):
    """The uses of generators; the numbers are part of every result, so they never change meaning."""

    TOPOLOGY = 0
    STREAM = 1
    NODE_STREAM = 2
    HELD_OUT = 3
    SPLIT = 4
    LOCATIONS = 5
    BATCH = 6
    LINKS_AND_CLOCK = 7
    COMPARISON = 8
    REPLAY = 9
    FAULTS = 10
    FLOODING = 11


def generator(seed: int, role: Role, node: int = 0, *path: int) -> np.random.Generator:
    """Generator at one address of an experiment's seed, independent of those at all other addresses.

    It is ``default_rng(SeedSequence(seed, spawn_key=(role, node, *path)))``. Addresses are integers, never hashes, so
    that every process draws the same.

    Parameters
    ----------
    seed
        The experiment's seed, an integer >= 0 of any size.
    role
        What the numbers are for.
    node
        Position 0..V-1 of the node they belong to, 0 where they belong to none.
    path
        Further integers >= 0, for example the number of a chunk of the node's samples.

    Raises
    ------
    ValueError
        If the seed is negative.

    Examples
    --------
    >>> float(generator(7, Role.STREAM).random()) == float(generator(7, Role.STREAM, 0).random())
    True
    """
    if seed < 0:
        raise RefusedKey("seed", f"= {seed!r} must not be negative: use 0 or any larger integer")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(role), node, *path)))


# The same for the nodes of a large network: a SeedSequence and its generator take 20 microseconds, as long as a node
# takes for several rounds.

PAGE = 64
"""Nodes whose seeds are computed together."""

POOL = 4
"""32-bit words that a seed is mixed into."""

# The constants of numpy's SeedSequence, whose results are part of numpy's promise of reproducible streams.
_MIXED, _MIXED_BY, _DRAWN, _DRAWN_BY = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF = np.uint32(16)


class Words(ISeedSequence):
    """What a generator begins with, computed before.

    Parameters
    ----------
    words
        The 64-bit words that a SeedSequence generates for a PCG64, (4,).
    """

    def __init__(self, words: AnyArray) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> AnyArray:
        """Return the words."""
        return self._words


def node_generator(seed: int, role: Role, node: int, *path: int) -> np.random.Generator:
    """Return the :func:`generator` of a node, with the same numbers, for a source that takes them and spawns no other.

    Examples
    --------
    >>> float(node_generator(7, Role.HELD_OUT, 900, 3).random()) == float(generator(7, Role.HELD_OUT, 900, 3).random())
    True
    """
    page, place = divmod(node, PAGE)
    if seed < 0 or (page + 1) * PAGE > 2**32:  # refused, or a node of two words
        return generator(seed, role, node, *path)
    return np.random.Generator(np.random.PCG64(Words(_words(seed, role, page, path)[place])))


@lru_cache(maxsize=256)
def _words(seed: int, role: Role, page: int, path: tuple[int, ...]) -> AnyArray:
    """Return the words of all nodes of a page, (PAGE, 4): those of ``SeedSequence(seed, spawn_key=(role, node,
    *path))``."""
    first = _words_of(seed)
    first += [0] * (POOL - len(first))
    nodes = np.arange(page * PAGE, (page + 1) * PAGE, dtype=np.uint32)
    keys = [word for key in path for word in _words_of(key)]
    entropy = [*(np.full(PAGE, word, dtype=np.uint32) for word in (*first, int(role))), nodes]
    entropy += [np.full(PAGE, word, dtype=np.uint32) for word in keys]
    factors = _factors(_MIXED, _MIXED_BY)

    def hashed(value: AnyArray) -> AnyArray:
        before, after = next(factors)
        value = (value ^ before) * after
        return value ^ (value >> _HALF)

    def mixed(one: AnyArray, other: AnyArray) -> AnyArray:
        value = _LEFT * one - _RIGHT * other
        return value ^ (value >> _HALF)

    pool = [hashed(word) for word in entropy[:POOL]]
    for source in range(POOL):
        for place in range(POOL):
            if place != source:
                pool[place] = mixed(pool[place], hashed(pool[source]))
    for word in entropy[POOL:]:
        pool = [mixed(each, hashed(word)) for each in pool]
    factors = _factors(_DRAWN, _DRAWN_BY)
    drawn = np.stack([hashed(pool[k % POOL]) for k in range(2 * POOL)], axis=1)
    return (drawn[:, ::2].astype(np.uint64)) | (drawn[:, 1::2].astype(np.uint64) << np.uint64(32))


def _words_of(number: int) -> list[int]:
    """Return the 32-bit words of a number, the lowest first; one of 0."""
    return [number >> 32 * k & 0xFFFFFFFF for k in range(max(1, -(-number.bit_length() // 32)))]


def _factors(number: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield pairs of neighbours among a number and its products with powers of a factor, of 32 bits."""
    while True:
        after = number * factor & 0xFFFFFFFF
        yield np.uint32(number), np.uint32(after)
        number = after
