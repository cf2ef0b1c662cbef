"""The accuracy of a sum of kernels that learners project many times, each of which costs a little of it."""

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.baselines.kernel_descent import SumState
from kernelswarm.agents.learners.polk import DEFECT_LIMIT
from kernelswarm.agents.learners.polk_steps import inspection_due

CHANGES = 0
"""Of a state's numbers: changes of the dictionary since its factor was last inspected."""


def keep_accurate(state: SumState, function: Expansion, changes: int) -> None:
    """Compute the factor afresh where many changes have cost it its accuracy."""
    state.numbers[CHANGES] += changes
    if state.numbers[CHANGES] >= inspection_due(function.order):
        look(state, function)


def look(state: SumState, function: Expansion) -> None:
    """Look at the accuracy of the factor, and compute it afresh where it is lost."""
    state.numbers[CHANGES] = 0.0
    if not function.defect() <= DEFECT_LIMIT:
        function.improve()
