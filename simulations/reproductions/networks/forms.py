"""Which form of consensus survives: explicit or implicit, one-sided or not, by what stands in for lost answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from kernelswarm.simulations.reproductions.networks.problems import Outcome, Problem, Table, measure, together
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

Tell = Callable[[str, float], None]


def compared(
    problems: Sequence[Problem], cases: Sequence[str], seeds: Sequence[int], rounds: int, tell: Tell
) -> dict[tuple[Form, Problem, str], Outcome]:
    """Run all forms with one penalty that all of them bear on ideal links."""
    cells = list(product(FORMS, problems, cases))
    found = {}
    for place, (form, problem, conditions) in enumerate(cells):
        tell(f"{form.words}: {conditions}, {problem.words}", place / len(cells))
        protocol = {"name": "consensus", "penalty": PENALTY, "form": form.form, "step": form.step}
        links = {**CONDITIONS[conditions].get("links", {}), "on_missing": form.on_missing, "damping": form.damping}
        runs = (measure(problem, protocol, {"links": links}, seed, rounds, _LEARNER) for seed in seeds)
        found[form, problem, conditions] = together(runs)
    return found


def strained(
    strengths: Sequence[Strength], delays: Sequence[int], seeds: Sequence[int], rounds: int, tell: Tell
) -> dict[tuple[Strength, int], Outcome]:
    """Delay messages where explicit steps are near what they bear: a sine on a ring."""
    cells = list(product(strengths, delays))
    found = {}
    for place, (strength, delay) in enumerate(cells):
        tell(f"{strength.step}, penalty {strength.penalty:g}: {delay} rounds late", place / len(cells))
        protocol = {
            "name": "consensus",
            "penalty": strength.penalty,
            "form": strength.form,
            "step": strength.step,
        }
        conditions = delayed(delay, damping=strength.damping)
        runs = (measure(PROBLEMS[0], protocol, conditions, seed, rounds, _LEARNER) for seed in seeds)
        found[strength, delay] = together(runs)
    return found


_LEARNER: Table = {"step_size": STEP_SIZE}
