"""Which form of consensus survives: explicit or implicit, one-sided or not, by what stands in for lost answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from kernelswarm.simulations.reproductions.networks.problems import Problem, Run, Table
from kernelswarm.simulations.reproductions.networks.sweeps import delayed

STEP_SIZE = 0.1
PENALTY = 1.0
"""What explicit steps bear on all graphs."""

PROBLEMS = (Problem("sine", "ring"), Problem("patches", "complete"))

CONDITIONS: dict[str, Table] = {
    "ideal": {},
    "half lost": {"links": {"loss": 0.5}},
    "10 rounds late": delayed(10),
    "50 rounds late": delayed(50),
}


class Form(NamedTuple):
    """A form of consensus, and what it does with missing and late messages."""

    step: str
    form: str
    on_missing: str
    damping: float

    @property
    def words(self) -> str:
        """How tables call it."""
        return f"{self.step}, {self.form.replace('_', '-')}, on_missing = {self.on_missing}, damping = {self.damping:g}"


FORMS = tuple(
    Form(*keys)
    for keys in product(("implicit", "explicit"), ("symmetric", "one_sided"), ("skip", "repeat"), (0.0, 1.0))
)

DELAYS = (0, 1, 2, 5, 20, 50)
DAMPINGS = (0.0, 1.0)
PENALTIES = (3.5, 5.0, 7.0)
"""Up to nearly 9.5, from which explicit steps of this size are refused on a ring."""


class Strength(NamedTuple):
    """A penalty that explicit steps nearly bear, or implicit ones without damping beside it."""

    step: str
    form: str
    penalty: float
    damping: float

    @property
    def words(self) -> str:
        """How tables call it."""
        return f"{self.step}, {self.form.replace('_', '-')}, c = {self.penalty:g}, damping = {self.damping:g}"


STRENGTHS = (
    *(Strength("explicit", *keys) for keys in product(("symmetric", "one_sided"), PENALTIES, DAMPINGS)),
    *(Strength("implicit", form, PENALTIES[-1], 0.0) for form in ("symmetric", "one_sided")),
)

_LEARNER: Table = {"step_size": STEP_SIZE}


def compared(problems: Sequence[Problem], cases: Sequence[str]) -> dict[tuple[Form, Problem, str], Run]:
    """Return all forms with one penalty that all of them bear on ideal links."""
    runs = {}
    for form, problem, case in product(FORMS, problems, cases):
        protocol = {"name": "consensus", "penalty": PENALTY, "form": form.form, "step": form.step}
        links = {**CONDITIONS[case].get("links", {}), "on_missing": form.on_missing, "damping": form.damping}
        words = f"{form.words}: {case}, {problem.words}"
        runs[form, problem, case] = Run(words, problem, protocol, {"links": links}, _LEARNER)
    return runs


def strained(strengths: Sequence[Strength], delays: Sequence[int]) -> dict[tuple[Strength, int], Run]:
    """Return messages delayed where explicit steps are near what they bear: a sine on a ring."""
    runs = {}
    for strength, delay in product(strengths, delays):
        step, form, penalty, damping = strength
        protocol = {"name": "consensus", "penalty": penalty, "form": form, "step": step}
        words, conditions = f"{strength.words}: delay {delay}", delayed(delay, damping=damping)
        runs[strength, delay] = Run(words, PROBLEMS[0], protocol, conditions, _LEARNER)
    return runs
