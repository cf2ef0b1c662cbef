"""Endless data drawn from a law: fixed chunks of samples, handed out as slices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.ground.seeding import Role, generator
from kernelswarm.simulations.streams.contract import Array, HeldOut, NodeSource, freeze

#: Samples generated at once. Every chunk has a generator of its own, so the samples do not depend on how they are
#: drawn, and a position in the stream is one integer: nothing else has to be saved or replayed.
CHUNK = 256

HELD = 2**27
"""Numbers that the sources of a stream hold, at most, of what can be made again: 1 GB."""

Ages = npt.NDArray[np.int64]


@cache
def _nothing(inputs: int) -> tuple[Array, Array]:
    """No samples, shared by a million sources that have not drawn yet."""
    return freeze(np.empty((0, inputs))), freeze(np.empty((0, 1)))


class Law(Protocol):
    """Distribution of one node's samples, which may change with their number."""

    @property
    def inputs(self) -> int:
        """Dimension p of the points."""

    @property
    def drifts(self) -> bool:
        """Whether the ages matter."""

    def sample(self, random: np.random.Generator, ages: Ages) -> tuple[Array, Array]:
        """Draw one sample at each age, the number of samples before it: ages (n,) give (n, p) and (n, 1)."""

    def noise_free(self, points: Array, ages: Ages) -> Array | None:
        """Targets (n, 1) without noise at points (n, p); None when the targets are classes."""


class SyntheticSource:
    """One node's endless samples from a law.

    ``draw(1)`` costs about half a microsecond: it hands out a slice of the present chunk.

    Parameters
    ----------
    law
        What to draw from.
    seed, node
        Address of the generators: chunk k is drawn at (NODE_STREAM, node, k), the test samples at (HELD_OUT, node).
    held_out
        Number of test samples.
    holds
        Whether the present chunk and the test samples are held; else they are made again whenever they are needed,
        which takes some 40 microseconds: a million nodes with 6 kB each would not fit into most machines.
    """

    __slots__ = (
        "_address",
        "_held_out",
        "_held_out_count",
        "_holds",
        "_next",
        "_offset",
        "_points",
        "_skip",
        "_targets",
        "law",
    )

    _next: int  # chunk to be made next
    _offset: int  # samples already taken from the present chunk; CHUNK where there is none
    _skip: int  # samples already taken from the next chunk, where the present one is not held
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
        if stop <= CHUNK:
            self._offset = stop
            return self._points[start:stop], self._targets[start:stop]
        return self._draw_across_chunks(count)

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
        return (self._next - 1) * CHUNK + self._offset + self._skip

    def state(self) -> dict[str, Any]:
        return {"samples": self._taken}

    def restore(self, state: dict[str, Any]) -> None:
        self._rewind(int(state["samples"]))

    def _rewind(self, samples: int) -> None:
        """Stand before sample number ``samples``, in a chunk that is made when it is needed."""
        self._next, self._skip = divmod(samples, CHUNK)
        self._points, self._targets = _nothing(self.law.inputs)
        self._offset = CHUNK

    def _generate(self) -> None:
        seed, node = self._address
        ages = np.arange(self._next * CHUNK, (self._next + 1) * CHUNK, dtype=np.int64)
        points, targets = self.law.sample(generator(seed, Role.NODE_STREAM, node, self._next), ages)
        self._points, self._targets = freeze(points), freeze(targets)
        self._next += 1
        self._offset, self._skip = self._skip, 0

    def _draw_across_chunks(self, count: int) -> tuple[Array, Array]:
        pieces = []
        while count:
            if self._offset == CHUNK:
                self._generate()
            pieces.append(self.draw(min(count, CHUNK - self._offset)))
            count -= len(pieces[-1][0])
        if len(pieces) == 1 and self._holds:
            return pieces[0]
        points, targets = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        if not self._holds:
            self._rewind(self._taken)
        return freeze(points), freeze(targets)


def sources_of(
    laws: Sequence[Law], seed: int, held_out: int, kind: type[SyntheticSource] = SyntheticSource
) -> list[NodeSource]:
    """Make one source for each law, by position; they hold what they have made where all of it fits into HELD."""
    each = (CHUNK + held_out) * (laws[0].inputs + 1)
    holds = len(laws) * each <= HELD
    return [kind(law, seed, node, held_out, holds) for node, law in enumerate(laws)]
