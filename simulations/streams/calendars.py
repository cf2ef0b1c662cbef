"""When nodes have samples, where the data of nodes that go on in step lack some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from kernelswarm.protocols.unreliable.absences import Absences

Integers = npt.NDArray[np.int64]


class Calendar(NamedTuple):
    """When a node has samples in an epoch, in steps of one sample.

    Parameters
    ----------
    steps
        The step of each of its samples, (n,), increasing, from 0.
    length
        Steps of an epoch, with those that have no sample.
    """

    steps: Integers
    length: int

    def rounds(self, epochs: int, batch_size: int, most: int) -> Integers:
        """Return the rounds in which a node learns from its mini-batches, (m,), up to the round ``most`` at least.

        A mini-batch is learned from in the round to which its last sample belongs, so that none is before its time.
        Where every step has a sample, these are the rounds 0, 1, 2, ...

        Examples
        --------
        >>> Calendar(np.array([0, 1, 4, 5]), 6).rounds(1, 1, 10), Calendar(np.array([0, 1, 4, 5]), 6).rounds(2, 3, 10)
        (array([0, 1, 4, 5]), array([1, 2, 3]))
        """
        epochs = min(epochs, most * batch_size // self.length + 2)
        steps = (self.steps + self.length * np.arange(epochs)[:, None]).ravel()
        last = np.arange(batch_size - 1, len(steps) + batch_size - 1, batch_size)
        found = steps[np.minimum(last, len(steps) - 1)] // batch_size
        if len(found) > 1:
            found[-1] = max(found[-1], found[-2] + 1)  # of a last one that is not full, in the same round
        return found


def absences(
    calendars: Sequence[Calendar], labels: Sequence[int], epochs: int, batch_sizes: Sequence[int], most: int
) -> tuple[Absences, list[int]]:
    """Return the rounds without a sample, up to the round ``most`` at least, and those after which none is left.

    Parameters
    ----------
    calendars, labels, batch_sizes
        Of each node.
    epochs
        How often the data are seen.
    most
        The rounds that are asked for.
    """
    # What only reads data has no use for compiled functions.
    from kernelswarm.protocols.unreliable.absences import Absences

    found, ends = [], []
    for calendar, size in zip(calendars, batch_sizes, strict=True):
        rounds = calendar.rounds(epochs, size, most)
        ends.append(int(rounds[-1]) + 1 if len(rounds) else 0)
        there = np.zeros(ends[-1], dtype=np.bool_)
        there[rounds] = True
        found.append(np.flatnonzero(~there))
    starts = np.cumsum([0, *map(len, found)])
    return Absences(np.array(labels, dtype=np.int64), starts, np.concatenate(found)), ends
