"""A word to whoever watches a simulation."""

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
    """

    phase: str
    done: int
    total: int
    row: Mapping[str, float] | None
    rounds_per_second: float
    paces: Paces | None = None
