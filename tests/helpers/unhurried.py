"""A protocol that takes its time without taking the cores: what is to be stopped in its midst waits for that."""

import os
import time
from dataclasses import dataclass
from typing import Any

from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus

PAUSE = "UNHURRIED_PAUSE"
"""The environment variable that holds the seconds for which a node sleeps in every round; none where it is not set."""


@dataclass(frozen=True)
class Unhurried(Consensus):
    """Consensus that sleeps."""

    def advance(self, links: Any, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> Any:
        """Sleep, and go on."""
        time.sleep(float(os.environ.get(PAUSE, "0")))
        return super().advance(links, constraint_values, excess_loss, eta, round)
