"""The contracts of the rules of an online subspace: the step of its update, and the samples it leaves out."""

from __future__ import annotations

import math

import numpy as np

from kernelswarm.agents.arithmetic.abi import CENSOR, SUBSPACE_STEP
from kernelswarm.agents.parts.subspace_rules import Censoring, SubspaceStep
from kernelswarm.protocols.first_class import ready
from kernelswarm.simulations.testing.properties import (
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    sealed,
)


def check_subspace_step(step: SubspaceStep) -> None:
    """Check that the step of a subspace's update keeps its contract: positive numbers, by its arguments alone.

    The same bits from its compiled functions.

    Parameters
    ----------
    step : SubspaceStep
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no step of a subspace.
    """
    with checked("subspace_step", step):
        form = compiled_form(step, "subspace step")
        for sample in (1, 2, 50, 10**6):
            for length in (1e-6, 0.3, 1.0, 1e3):
                found = step.at(sample, length)
                require(0.0 < found < math.inf, step, f"steps are positive numbers; at({sample}, {length}) is {found}")
                require(step.at(sample, length) == found, step, "a step does not depend on what was asked before")
                if form is not None:
                    compiled = ready(form.at, SUBSPACE_STEP)(form.numbers, sample, length)
                    require_equal(compiled, found, step, "the compiled step has the bits of at")


def check_censoring(censoring: Censoring) -> None:
    """Check that a censoring rule keeps its contract: a threshold from the last fits, whatever their order.

    The same bits from its compiled functions.

    Parameters
    ----------
    censoring : Censoring
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no censoring rule.
    """
    with checked("censoring", censoring):
        form = compiled_form(censoring, "censoring")
        require(censoring.window >= 0, censoring, f"window = {censoring.window} counts fits: it is not negative")
        fits = np.random.default_rng(0).random(max(censoring.window, 1))
        for count in (len(fits), 1, 0):
            found = censoring.bound(sealed(fits[:count]))
            require(math.isfinite(found), censoring, f"bound is a number; of {count} fits it is {found}")
            turned = censoring.bound(sealed(fits[:count][::-1]))
            sentence = "bound does not depend on the order of the fits"
            require_close(np.array(turned), np.array(found), censoring, sentence, relative=1e-12)
            if form is not None:
                compiled = ready(form.bound, CENSOR)(form.numbers, sealed(fits[:count]))
                require_equal(compiled, found, censoring, "the compiled bound has the bits of bound")
