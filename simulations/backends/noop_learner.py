"""A learner that never learns: it stands in for one whose step takes long to compile, while the round is compiled."""

from dataclasses import dataclass
from typing import Any

import numba

from kernelswarm.agents.arithmetic.abi import StepArguments
from kernelswarm.agents.learners.baselines.ogd import Ogd
from kernelswarm.agents.learners.kernel_steps import CompiledExpansion


@numba.njit  # not kept on the disk: it is compiled as soon as it would be loaded
def stay(given: StepArguments) -> float:
    """Take no step."""
    return 0.0


class CompiledNoopLearner(CompiledExpansion):
    """The bystander's functions for compiled rounds: evaluations by its kernel, and no step."""

    step = staticmethod(stay)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of the Gram matrix of a step's points."""
        return points * points


@dataclass(frozen=True)
class NoopLearner(Ogd):
    """A learner with a kernel and a loss whose function stays 0 in compiled rounds."""

    @property
    def compiled(self) -> Any:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledNoopLearner(self, ())
