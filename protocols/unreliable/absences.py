"""Rounds that bring a node no sample, since its data have none then: the node does nothing in them, as if it slept."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import cached_njit

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Absences:
    """Which rounds bring some nodes no sample, of those in which their clock has them awake.

    Parameters
    ----------
    labels : Integers
        The labels of these nodes, (n,), sorted.
    starts : Integers
        Where the rounds of each begin and end, (n + 1,).
    rounds : Integers
        The rounds, in increasing order for each node; the first one in which it is awake is 0.
    """

    labels: Integers
    starts: Integers
    rounds: Integers

    def of(self, nodes: Integers) -> tuple[Integers, Integers]:
        """Return where the rounds of each node begin and end, (V,) each."""
        places = np.minimum(np.searchsorted(self.labels, nodes), max(len(self.labels) - 1, 0))
        known = self.labels[places] == nodes if len(self.labels) else np.zeros(len(nodes), dtype=np.bool_)
        begin, end = (np.where(known, self.starts[places + shift], 0) for shift in (0, 1))
        return begin.astype(np.int64), end.astype(np.int64)

    def share(self, rounds: int) -> float:
        """Return the share of so many rounds, the mean over the nodes, that bring a sample."""
        return 1.0 - float(np.count_nonzero(self.rounds < rounds)) / (len(self.labels) * rounds)


@cached_njit
def leave_out(rounds: Integers, following: Integers, ends: Integers, woken: Integers, awake: Booleans) -> None:
    """Have nodes sleep where they have no sample, (V, rounds).

    Parameters
    ----------
    rounds : Integers
        The rounds without one, of all nodes.
    following, ends : Integers
        The place of the next of them of each node, and that behind the last, (V,).
    woken : Integers
        In how many rounds its clock has had each node awake, (V,).
    awake : Booleans
        Whether the clock has each node awake, (V, rounds).
    """
    for i in range(len(woken)):
        for t in range(awake.shape[1]):
            if awake[i, t]:
                if following[i] < ends[i] and rounds[following[i]] == woken[i]:
                    awake[i, t] = False
                    following[i] += 1
                woken[i] += 1
