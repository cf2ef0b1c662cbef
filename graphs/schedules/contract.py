"""The contract of schedules: frozen descriptions of the network's edges, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.ranges import Range

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


class Schedule(Protocol):
    """A network that changes: its fields are the keys of the experiment file.

    The topology holds every edge that there ever is; a schedule switches them on and off.
    """

    @property
    def constant(self) -> bool:
        """Whether every edge is there in every round."""
        ...

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield for each round, from the first on and without end, which edges are there, (E,).

        Parameters
        ----------
        labels : Integers
            The nodes' labels, (V,), sorted.
        edges : Integers
            The ends of every edge, (E, 2): places among the labels, the smaller first, sorted.
        generator : numpy.random.Generator
            Source of all randomness.

        Raises
        ------
        ValueError
            The network is none that the schedule can switch.
        """
        ...


HAPPENS = Range("(0, 1]", "it is a probability, and at 0 nothing ever happens")
