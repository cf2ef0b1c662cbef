"""What links and faulty nodes change of messages: which numbers, by whose key, in which order, as the docs say.

The random numbers are those of the product (`distort`, `misreport_in`), which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.links.distortion import EXACT, QUANTILE, distort, rounded_up
from kernelswarm.protocols.links.faults import SpokenFaults, misreport_in
from kernelswarm.protocols.links.realization import NODE, keys_of

POINTS, OWN, ANSWERS = range(3)


class Changes:
    """Which numbers of a message arrive otherwise.

    Points and own values have the noise of their sender, the same for all neighbours, and answers that of their edge.
    """

    def __init__(self, conditions: Any, labels: Sequence[int]) -> None:
        self._links, self._key, self._labels = conditions.links, conditions.key, list(labels)
        self._faults = SpokenFaults(conditions.faults, self._labels)
        self._quantile = address(self._links.noise.quantile, QUANTILE)

    def released(self, points: Array, sender: int, sent: int) -> Array:
        """Return a node's samples with their noise: so they are kept to be replayed."""
        return self._distorted(points, "points", EXACT, self._of(sender, NODE), sent, POINTS)

    def points(self, points: Array, replayed: int, sender: int, sent: int) -> Array:
        """Return points as they arrive: the samples have their noise, what is replayed had it, and all are rounded."""
        count = len(points) - replayed
        if not replayed:
            return self._distorted(points, "points", self._links.bits, self._of(sender, NODE), sent, POINTS)
        noisy = np.concatenate([self.released(points[:count], sender, sent), points[count:]])
        return self._distorted(noisy, "", self._links.bits, self._of(sender, NODE), sent, POINTS)

    def own(self, values: Array, sender: int, sent: int) -> Array:
        return self._values(values, sender, self._of(sender, NODE), sent, OWN)

    def answer(self, values: Array, sender: int, receiver: int, sent: int) -> Array:
        return self._values(values, sender, self._of(sender, receiver), sent, ANSWERS)

    def limit(self, number: float) -> float:
        """Return a row sum or dual variable as it arrives: rounded up."""
        return float(rounded_up(number)) if self._links.bits != EXACT and 0.0 < number < np.inf else number

    def _of(self, sender: int, receiver: int) -> list[int]:
        pair = (np.array([label], dtype=np.int64) for label in (sender, receiver))
        key: list[int] = keys_of(*self._key, *pair)[0].tolist()
        return key

    def _values(self, values: Array, sender: int, key: list[int], sent: int, stage: int) -> Array:
        sent_values, place = np.array(values), self._labels.index(sender)
        rows = self._faults.rows[self._faults.start[place] : self._faults.start[place + 1]]
        if len(rows):
            misreport_in(sent_values, rows, *key, sent, stage)
        return self._distorted(sent_values, "values", self._links.bits, key, sent, stage)

    def _distorted(self, numbers: Array, what: str, bits: int, key: list[int], sent: int, stage: int) -> Array:
        noise, bound = (self._links.noise_on(what), self._links.clip.on(what)) if what else (0.0, np.inf)
        changed = np.array(numbers)
        if len(changed) and (noise or bound < np.inf or bits != EXACT):
            called(distort, changed, bound, noise, self._quantile, bits, *key, sent, stage)
        return changed
