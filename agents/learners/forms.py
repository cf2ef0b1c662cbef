"""The forms of learners for compiled rounds: compiled functions, or functions that call their methods."""

from collections.abc import Callable, Sequence

from kernelswarm.agents.arithmetic.abi import CompiledFeatureLearner, CompiledLearner
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.learners.plain_features import PlainFeatures
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.core.fulfilling import fulfils


def learner_forms(
    learners: Sequence[Learner], form_of: "Callable[[Learner], CompiledLearner] | None" = None
) -> list[CompiledLearner]:
    """Return each learner's form, the same object for equal learners; by default its :func:`learner_form`."""
    found: dict[Learner, CompiledLearner] = {}
    known: dict[int, CompiledLearner] = {}  # to look one up by its fields takes longer than all else here
    for learner in _different(learners):
        if learner not in found:
            found[learner] = (form_of or learner_form)(learner)
        known[id(learner)] = found[learner]
    return [known[id(learner)] for learner in learners]


def learner_form(learner: Learner) -> CompiledLearner:
    """Return a learner's form for compiled rounds."""
    try:
        found: CompiledLearner = handed_over(learner, "learner")
    except NotCompiledError:
        return PlainLearner(learner)
    return found


def feature_form(learner: Learner) -> CompiledLearner:
    """Return the form for compiled rounds of a learner that is linear in its features."""
    form = learner_form(learner)
    return form if fulfils(form, CompiledFeatureLearner) else PlainFeatures(learner)


def _different(learners: Sequence[Learner]) -> list[Learner]:
    """Return the learners that are not one and the same object."""
    return list({id(learner): learner for learner in learners}.values())
