"""The progress of a comparison: ended runs, the share of all rounds that is done, the time to go."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelswarm.simulations.records.outcome import Run

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComparisonProgress:
    """A word to whoever watches a comparison.

    Parameters
    ----------
    done, total, failed : int
        Runs that have ended, all runs, and those among the ended that failed.
    share : float
        The part of all rounds that is done, in [0, 1].
    latest : str
        The run that ended last, and how; empty before.
    remaining : float or None
        Seconds to go at the pace so far; None before there is a pace, and where only what follows the rounds is left.
    """

    done: int
    total: int
    failed: int
    share: float
    latest: str
    remaining: float | None


class Watcher:
    """Keeps the progress for an observer.

    Parameters
    ----------
    names : sequence of str
        What the runs are called.
    before : dict of int to Run
        Those that had ended before, by their places.
    observe : callable, optional
        The observer.
    """

    def __init__(
        self, names: Sequence[str], before: dict[int, Run], observe: Callable[[ComparisonProgress], None] | None
    ) -> None:
        self._names = names
        self._observe = observe
        self._shares = [float(place in before) for place in range(len(names))]
        self.done = len(before)
        self._failed = sum(bool(run.failure) for run in before.values())
        self._latest = ""
        self._clock: float | None = None  # of the first rounds: the start of the processes says nothing about the pace
        self._at = len(before) / len(names)  # the share that was done then

    def on_progress(self, place: int, share: float) -> None:
        """Take note of the part of a run that is done."""
        self._shares[place] = max(self._shares[place], share)

    def ended(self, place: int, run: Run) -> None:
        """Take note that a run has ended."""
        self._shares[place] = 1.0
        self.done += 1
        self._failed += bool(run.failure)
        risk = run.final.get("risk", math.nan)
        done = f"risk {risk:.4g}" if math.isfinite(risk) else "done"
        self._latest = f"{self._names[place]}: {'failed' if run.failure else done}"
        LOG.info("%d of %d runs: %s", self.done, len(self._names), self._latest)
        self.show_progress()

    def show_progress(self) -> None:
        """Tell the observer."""
        if self._observe is None:
            return
        share = sum(self._shares) / len(self._shares)
        remaining = self._remaining(share)
        self._observe(ComparisonProgress(self.done, len(self._names), self._failed, share, self._latest, remaining))

    def _remaining(self, share: float) -> float | None:
        if self.done == len(self._names):
            return 0.0
        if self._clock is None:
            if share > self._at:
                self._clock, self._at = time.perf_counter(), share
            return None
        if share == self._at or share == 1.0:  # no pace yet; or all rounds are done, and what follows has none
            return None
        return (time.perf_counter() - self._clock) * (1.0 - share) / (share - self._at)
