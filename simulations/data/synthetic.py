"""Endless data drawn from a distribution, in fixed chunks of samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, freeze

#: Number of samples of a chunk. Each chunk has its own generator, so the samples do not depend on the sizes of the
#: draws, and the state of a source is one integer.
CHUNK = 256

HELD = 2**27
"""Maximum number of values in the caches of a stream's sources: 1 GB."""

FEW = 16
"""Number of samples that a source keeps if chunks are not cached, so that not every round generates a chunk."""


@cache
def _nothing(inputs: int) -> tuple[Array, Array]:
    """Return empty samples, shared by all sources before their first draw."""
    return freeze(np.empty((0, inputs))), freeze(np.empty((0, 1)))


class Law(Protocol):
    """Distribution of one node's samples, which may drift with their number."""

    @property
    def inputs(self) -> int:
        """Dimension p of the points."""

    @property
    def drifts(self) -> bool:
        """Whether the distribution depends on the ages."""

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        """Draw one sample at each age, the number of earlier samples; ages (n,) give (n, p) and (n, 1)."""

    def noise_free(self, points: Array, ages: Integers) -> Array | None:
        """Return targets (n, 1) without noise at points (n, p); None for classes."""


class SyntheticSource:
    """One node's endless samples from a distribution.

    ``draw(1)`` takes about half a microsecond: it returns a slice of the present chunk.

    Parameters
    ----------
    law
        The distribution.
    seed, node
        Keys of the generators: (NODE_STREAM, node, k) for chunk k, (HELD_OUT, node) for the test samples.
    held_out
        Number of test samples.
    holds
        Whether the present chunk and the test samples are cached. Otherwise they are generated at each use, in about 40
        microseconds, and only FEW samples are cached: the 6 kB of a chunk would be too much for a million nodes.
    """

    __slots__ = (
        "_address",
        "_first",
        "_held_out",
        "_held_out_count",
        "_holds",
        "_offset",
        "_points",
        "_stop",
        "_targets",
        "law",
    )

    _first: int  # number of the first cached sample
    _offset: int  # number of cached samples already drawn
    _stop: int  # number of cached samples
    _points: Array
    _targets: Array

    def __init__(self, law: Law, seed: int, node: int, held_out: int, holds: bool = True) -> None:
        self.law = law
        self._holds = holds
        self._address = (seed, node)
        self._held_out_count = held_out
        self._held_out: HeldOut | None = None
        self._rewind(0)

    def draw(self, count: int) -> tuple[Array, Array]:
        start = self._offset
        stop = start + count
        if stop <= self._stop:
            self._offset = stop
            return self._points[start:stop], self._targets[start:stop]
        return self._draw_on(count)

    def held_out(self, samples: int) -> HeldOut:
        if self._held_out is not None and not self.law.drifts:
            return self._held_out
        found = self._test_samples(samples)
        if self._holds:
            self._held_out = found
        return found

    def _test_samples(self, samples: int) -> HeldOut:
        seed, node = self._address
        ages = np.full(self._held_out_count, samples, dtype=np.int64)
        points, targets = self.law.sample(generator(seed, Role.HELD_OUT, node), ages)
        truth = self.law.noise_free(points, ages)
        return HeldOut(freeze(points), freeze(targets), None if truth is None else freeze(truth))

    @property
    def _taken(self) -> int:
        return self._first + self._offset

    def state(self) -> dict[str, Any]:
        return {"samples": self._taken}

    def restore(self, state: dict[str, Any]) -> None:
        samples = int(state["samples"])
        place = samples - self._first
        if 0 <= place < self._stop:
            self._offset = place  # the following samples are cached
        else:
            self._rewind(samples)

    def _rewind(self, samples: int) -> None:
        """Move to sample number ``samples``; its chunk is generated at the next draw."""
        self._points, self._targets = _nothing(self.law.inputs)
        self._first, self._offset, self._stop = samples, 0, 0

    def _generate(self, count: int) -> None:
        """Generate the present chunk; without a cache, keep only the ``count`` drawn samples, or FEW samples."""
        seed, node = self._address
        number, start = divmod(self._taken, CHUNK)
        ages = np.arange(number * CHUNK, (number + 1) * CHUNK, dtype=np.int64)
        points, targets = self.law.sample(generator(seed, Role.NODE_STREAM, node, number), ages)
        self._first, self._offset, self._stop = number * CHUNK, start, CHUNK
        if not self._holds:
            stop = min(start + max(count, FEW), CHUNK)
            points, targets = points[start:stop].copy(), targets[start:stop].copy()
            self._first, self._offset, self._stop = number * CHUNK + start, 0, stop - start
        self._points, self._targets = freeze(points), freeze(targets)

    def _draw_on(self, count: int) -> tuple[Array, Array]:
        pieces = []
        while count:
            if self._offset == self._stop:
                self._generate(count)
            pieces.append(self.draw(min(count, self._stop - self._offset)))
            count -= len(pieces[-1][0])
        if not self._holds and self._offset == self._stop:
            self._rewind(self._taken)
        if len(pieces) == 1:
            return pieces[0]
        points, targets = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return freeze(points), freeze(targets)


def sources_of(
    laws: Sequence[Law], seed: int, held_out: int, kind: type[SyntheticSource] = SyntheticSource
) -> list[NodeSource]:
    """Return one source for each distribution; sources cache their samples if all fit into HELD."""
    each = (CHUNK + held_out) * (laws[0].inputs + 1)
    holds = len(laws) * each <= HELD
    return [kind(law, seed, node, held_out, holds) for node, law in enumerate(laws)]
