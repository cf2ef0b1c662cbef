"""A word to whoever watches a simulation, and how long it will still take."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelswarm.simulations.round.engine import Paces


@dataclass(frozen=True)
class Progress:
    """A word to whoever watches a simulation.

    Attributes
    ----------
    phase : str
        "starting", "running" or "evaluating".
    done, total : int
        Rounds (or processes, while starting) done and to do.
    row : dict or None
        The last row of the network's table, once there is one.
    rounds_per_second : float
        Rounds a second since the first round, evaluations included; 0 before.
    paces : Paces or None
        How long the processes' last rounds took, where there are several.
    remaining : float or None
        Seconds to go, at the pace of rounds and of evaluations so far; None before there is a pace.
    """

    phase: str
    done: int
    total: int
    row: Mapping[str, float] | None
    rounds_per_second: float
    paces: Paces | None = None
    remaining: float | None = None


class Timing:
    """The times of rounds and of evaluations, separately: after few rounds, evaluations may take most of the time.

    The first rounds do not count: loading what is compiled has made one of them last as long as a thousand others.

    Attributes
    ----------
    rounds, evaluations : int
        How many of each were timed.
    running, evaluating : float
        The seconds that these took.
    """

    def __init__(self) -> None:
        self.rounds = self.evaluations = 0
        self.running = self.evaluating = 0.0
        self._begun = False

    def ran(self, rounds: int, seconds: float) -> None:
        """Take note of the time of some rounds, checkpoints included."""
        if self._begun:
            self.rounds += rounds
            self.running += seconds
        self._begun = True

    def evaluated(self, seconds: float) -> None:
        """Take note of the time of an evaluation."""
        self.evaluations += 1
        self.evaluating += seconds

    def remaining(self, rounds: int, evaluations: int) -> float | None:
        """Return the seconds that so many more will take; evaluations count from the first one on.

        Examples
        --------
        >>> timing = Timing()
        >>> timing.ran(1, 20.0)
        >>> timing.ran(10, 5.0)
        >>> timing.remaining(20, 2)
        10.0
        >>> timing.evaluated(30.0)
        >>> timing.remaining(20, 2)
        70.0
        """
        if not self.rounds:
            return None
        each = self.evaluating / self.evaluations if self.evaluations else 0.0
        return rounds * self.running / self.rounds + evaluations * each
