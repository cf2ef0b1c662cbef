"""Uniform random numbers by their place in a sequence, so that a state need only count them."""

import functools

import numpy as np
import numpy.typing as npt

BLOCK = 1024


def uniform(seed: int, place: int) -> float:
    """Return the number at ``place`` of the sequence of ``seed``, uniform in [0, 1)."""
    return float(_block(seed, place // BLOCK)[place % BLOCK])


@functools.lru_cache(maxsize=64)
def _block(seed: int, number: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).random(BLOCK)
