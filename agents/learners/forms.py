"""What learners hand over to compiled rounds, asked once of each."""

from collections.abc import Sequence

from kernelswarm.agents.arithmetic.abi import CompiledLearner
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.protocols.compiled import handed_over


def learner_forms(learners: Sequence[Learner]) -> list[CompiledLearner]:
    """Return what each learner hands over, the same object for equal learners."""
    found: dict[Learner, CompiledLearner] = {}
    known: dict[int, CompiledLearner] = {}  # to look one up by its fields takes longer than all else here
    for learner in _different(learners):
        if learner not in found:
            found[learner] = handed_over(learner, "learner")
        known[id(learner)] = found[learner]
    return [known[id(learner)] for learner in learners]


def _different(learners: Sequence[Learner]) -> list[Learner]:
    """Return the learners that are not one and the same object."""
    return list({id(learner): learner for learner in learners}.values())
