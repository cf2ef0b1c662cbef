"""Rounds that bring a node no sample, since its data have none then: the node does nothing in them, as if it slept."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import cached_njit

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Absences:
    """The rounds without a sample of some nodes, among those in which their clock has them awake.

    Parameters
    ----------
    labels : Integers
        The labels of these nodes, (n,), sorted.
    starts : Integers
        The begin of each node's rounds, and the last end, (n + 1,).
    rounds : Integers
        The rounds, in increasing order for each node; the first one in which it is awake is 0.
    """

    labels: Integers
    starts: Integers
    rounds: Integers

    def of(self, nodes: Integers) -> tuple[Integers, Integers]:
        """Return the begin and the end of each node's rounds, (V,) each."""
        places = np.minimum(np.searchsorted(self.labels, nodes), max(len(self.labels) - 1, 0))
        known = self.labels[places] == nodes if len(self.labels) else np.zeros(len(nodes), dtype=np.bool_)
        begin, end = (np.where(known, self.starts[places + shift], 0) for shift in (0, 1))
        return begin.astype(np.int64), end.astype(np.int64)

    def share(self, rounds: int) -> float:
        """Return the share of rounds with a sample, the mean over the nodes."""
        return 1.0 - float(np.count_nonzero(self.rounds < rounds)) / (len(self.labels) * rounds)


@cached_njit
def leave_out(rounds: Integers, following: Integers, ends: Integers, woken: Integers, awake: Booleans) -> None:
    """Have nodes sleep where they have no sample, (V, rounds).

    Parameters
    ----------
    rounds : Integers
        The rounds without one, of all nodes.
    following, ends : Integers
        The place of each node's next one, and that behind its last, (V,).
    woken : Integers
        The number of rounds in which each node's clock has had it awake, (V,).
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
