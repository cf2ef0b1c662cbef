"""Random generators of an experiment, from one seed and a fixed address for each purpose."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

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
    """Return the generator at one address of an experiment's seed, independent of all other addresses.

    It is ``default_rng(SeedSequence(seed, spawn_key=(role, node, *path)))``. Addresses are integers, never hashes, so
    that every process draws the same.

    Parameters
    ----------
    seed
        The experiment's seed, an integer >= 0 of any size.
    role
        The purpose of the numbers.
    node
        Position 0..V-1 of the node, or 0 for numbers without a node.
    path
        Further integers >= 0, for example the number of a chunk of the node's samples.

    Raises
    ------
    ValueError
        The seed is negative.

    Examples
    --------
    >>> float(generator(7, Role.STREAM).random()) == float(generator(7, Role.STREAM, 0).random())
    True
    """
    if seed < 0:
        raise RefusedKey("seed", f"= {seed!r} must not be negative: use 0 or any larger integer")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(role), node, *path)))
