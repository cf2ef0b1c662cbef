"""Learners that move on mistakes only: what a mistake is for each task, and the coefficient it gives the sample."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import GradientArguments
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent
from kernelswarm.agents.learners.baselines.kernel_descent_steps import INSENSITIVITY, TASK
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.kernel_steps import own_numbers
from kernelswarm.agents.parts.losses import Absolute, Hinge, Loss, MulticlassHinge
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.ranges import Range, words_of
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

REGRESSION, BINARY, MULTICLASS = 0, 1, 2
TASKS = {"regression": REGRESSION, "binary": BINARY, "multiclass": MULTICLASS}
SURROGATES: dict[str, Loss] = {"regression": Absolute(), "binary": Hinge(), "multiclass": MulticlassHinge()}

SHARE = 0.1
"""Of the targets' standard deviation: an error of a number that is no mistake."""


@dataclass(frozen=True)
class MistakeDriven(KernelDescent):
    """A learner whose samples have a coefficient only where the function is mistaken, whatever the loss.

    The loss says what the targets are, what is measured as the risk, and in an implicit step how far coefficients are
    damped; steps of size 1, as in the papers, go with the losses absolute, hinge and multiclass_hinge. A mistake, and
    its coefficient g:

    - two classes, sign s: s f(x) <= 0, g = -s;
    - several: a wrong class r, the best, is at least as good as the right one y, f_r >= f_y, g = e_r - e_y;
    - numbers: |f(x) - y| > insensitivity, g = sign(f(x) - y), output by output.

    The ``insensitivity`` "auto" is a tenth of the targets' standard deviation on training data. The coupling's pull is
    added to g. So a sample without a mistake enters where, and as far as, the neighbours
    disagree, and without neighbours not at all.
    """

    loss: Loss = field(default=Absolute(), metadata={"part": "loss"})
    insensitivity: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"insensitivity": Range("[0, inf]", "0 makes all a mistake", "auto")}

    @property
    def surrogate(self) -> Loss:
        """The loss with coefficients of that size: those of every mistake are 1."""
        return SURROGATES[self.loss.task]

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with an insensitivity of a tenth of the spread of the targets, 0 for classes."""
        if self.insensitivity != "auto":
            return self
        return replace(self, insensitivity=0.0 if sample.classes else SHARE * sample.spread)

    def gradient(self, state: object, own: Evaluated, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C): 0 where the function is not mistaken."""
        coefficients: Array = mistaken(TASKS[self.loss.task], own.values, targets, self.tolerated)
        return coefficients

    def mistake_numbers(self) -> list[float]:
        """Return the numbers that define a mistake, for compiled steps."""
        return [float(TASKS[self.loss.task]), self.tolerated]

    @property
    def tolerated(self) -> float:
        """The insensitivity as a number; ValueError where it is a word."""
        if self.insensitivity == "auto":
            raise RefusedKey(
                "insensitivity",
                '= "auto" is a word that training data turn into a number before learning starts: take '
                "learner.resolved(sample), or give a number",
            )
        return self.insensitivity


@cached_njit
def mistaken(task: int, values: Array, targets: ReadOnly, insensitivity: float) -> Array:
    """Compute the perceptron's coefficients of samples from f's values (n, C) and the targets (n, q)."""
    coefficients = np.empty(values.shape)
    mistaken_in(task, values, targets, insensitivity, coefficients)
    return coefficients


@cached_njit
def mistaken_in(task: int, values: ReadOnly, targets: ReadOnly, insensitivity: float, coefficients: Array) -> None:
    """Fill ``coefficients`` (n, C) with what :func:`mistaken` computes."""
    for n in range(values.shape[0]):
        for c in range(values.shape[1]):
            coefficients[n, c] = 0.0
        if task == REGRESSION:
            for c in range(values.shape[1]):
                rest = values[n, c] - targets[n, c]
                if abs(rest) > insensitivity:
                    coefficients[n, c] = math.copysign(1.0, rest)
        elif task == BINARY:
            sign = 2.0 * targets[n, 0] - 1.0
            if sign * values[n, 0] <= 0.0:
                coefficients[n, 0] = -sign
        else:
            right = int(targets[n, 0])
            wrong = best_wrong(values[n], right)
            if values[n, wrong] >= values[n, right]:
                coefficients[n, wrong] = 1.0
                coefficients[n, right] = -1.0


@cached_njit
def mistakes(given: GradientArguments, coefficients: Array) -> None:
    """Compute the same for compiled rounds."""
    own = own_numbers(given.numbers)
    mistaken_in(int(own[TASK]), given.values, given.targets, own[INSENSITIVITY], coefficients)


@inline_always
def passive_aggressive(
    task: int, values: Array, targets: ReadOnly, insensitivity: float, most: float, diagonal: Array, coefficients: Array
) -> None:
    """Fill in the coefficients by which one step of size 1 just ends the hinge loss, none beyond ``most``.

    Parameters
    ----------
    task : int
        The hinge loss: max(0, |f - y| - insensitivity), max(0, 1 - s f) or max(0, 1 + f_r - f_y).
    values, targets : Array
        (n, C) and (n, q).
    insensitivity : float
        The error that is none, for regression.
    most : float
        The aggressiveness C of PA-I.
    diagonal : Array
        kappa(x, x) of the samples, (n,).
    coefficients : Array
        (n, C), filled.
    """
    for n in range(len(values)):
        for c in range(values.shape[1]):
            coefficients[n, c] = 0.0
        if task == REGRESSION:
            for c in range(values.shape[1]):
                rest = values[n, c] - targets[n, c]
                if abs(rest) > insensitivity:
                    coefficients[n, c] = math.copysign(min(most, (abs(rest) - insensitivity) / diagonal[n]), rest)
        elif task == BINARY:
            sign = 2.0 * targets[n, 0] - 1.0
            coefficients[n, 0] = -sign * min(most, max(0.0, 1.0 - sign * values[n, 0]) / diagonal[n])
        else:
            right = int(targets[n, 0])
            wrong = best_wrong(values[n], right)
            loss = max(0.0, 1.0 + values[n, wrong] - values[n, right])
            coefficients[n, wrong] = min(most, loss / (2.0 * diagonal[n]))
            coefficients[n, right] = -coefficients[n, wrong]


@inline_always
def best_wrong(values: Array, right: int) -> int:
    """Find the best of the wrong classes, the lowest of equal ones."""
    best = -1
    for c in range(len(values)):
        if c != right and (best < 0 or values[c] > values[best]):
            best = c
    return best
