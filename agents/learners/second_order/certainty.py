"""The common parts of learners by second-order steps: the ridge, and their move by a pull."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import Descent, joined, share
from kernelswarm.agents.learners.second_order import moves
from kernelswarm.agents.parts.losses import Loss, curvatures_of, grid_of
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.plain.kernels import kernel_diagonal, kernel_rows
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

RIDGE_OF_NUMBERS, RIDGE_OF_CLASSES, RIDGE_OF_MARGINS = 0.1, 0.005, 0.2
"""The ridge that "auto" stands for. Targets that are numbers take the first at least, noisy ones more. Classes
that can be separated ask for functions of large norm, and take the second at least, those that overlap more; squared
hinges for no larger ones than their margin does: of .05 to .8 this erred least, or next to least, on ten sets
(docs/estimators.md)."""

OVERLAP = 0.25
"""Of the ratio of noise to signal, the ridge of logistic losses. Their curvature falls where a class is sure, so that
samples weigh less than the squares of a regression on classes: of .06 to 1 this risked least, or within 5% of it."""


class CertainDescent(Descent):
    """A learner that carries how certain its function is: the factor of a regularised least-squares problem."""

    ridge: float | Literal["auto"]
    forgetting: float | Literal["auto"]
    tuned_by: ClassVar[tuple[str, ...]] = ("ridge",)
    batch_size: int
    kernel: Any

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that hold a word which data turn into a number: the ridge "auto", but of squared hinges."""
        return ("ridge",) if self.ridge == "auto" and not self._margins else ()

    @property
    def _margins(self) -> bool:
        """Whether the loss ends at a margin, which says how large functions are, whatever the noise."""
        return self.loss.task != "regression" and self.loss.curvature > 1.0

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the ridge that the noise of a sample asks for.

        Where noise and function are Gaussian processes, r times as large the one as the other, kernel ridge regression
        with the ridge r is the best predictor (`noise_ratio`). It is at least that of targets without noise: with less,
        what is known is held so firmly that neighbours no longer move it. Of classes the process regresses on their
        indicators, and logistic losses take a quarter of r.
        """
        kernel = self.kernel
        seen = replace(
            sample, gram=lambda chosen: kernel_rows(kernel, chosen, chosen), diagonal=partial(kernel_diagonal, kernel)
        )
        ratio, _ = seen.noise
        ridge = max(RIDGE_OF_CLASSES, OVERLAP * ratio) if seen.classes else max(RIDGE_OF_NUMBERS, ratio)
        return replace(self, ridge=ridge * seen.mean_gain)  # type: ignore[type-var]

    @property
    def adaptive(self) -> bool:
        """Whether the factor of forgetting is found during the run."""
        return self.forgetting == "auto"

    @property
    def share(self) -> float:
        """beta, and 0 where it is found during the run."""
        return 0.0 if self.forgetting == "auto" else float(self.forgetting)

    @property
    def linear(self) -> bool:
        """False: how far a sample moves the function depends on what is known there."""
        return False

    @property
    def penalty(self) -> float:
        """lambda, in the unit of the loss."""
        ridge = self.ridge
        if ridge == "auto":
            of_classes = RIDGE_OF_MARGINS if self._margins else RIDGE_OF_CLASSES
            ridge = RIDGE_OF_NUMBERS if self.loss.task == "regression" else of_classes
        return ridge * self.loss.curvature

    @property
    def reach(self) -> float:
        """The factor from the weight ``eta / b`` of a pull to 1, that of a sample in the sum."""
        return self.batch_size / self.step_size.largest

    @property
    def gaussian(self) -> bool:
        """Whether the function is the posterior mean of a Gaussian process: squares of numbers, with a ridge."""
        return self.loss.task == "regression" and self.loss.quadratic and self.penalty > 0.0

    def terms(
        self, at: Evaluated, gradients: Sequence[Array], targets: Array, eta: float
    ) -> tuple[bool, Array, Array, Array, Array]:
        """Separate the terms of own samples from the neighbours' pulls.

        Returns
        -------
        tuple
            Whether neighbours pull; the weights of a first-order step, and of the pulls alone, (N, C); the curvatures
            (n,) and the aims ``f - l' / r`` (n, C) of own samples.
        """
        count = len(targets)
        deciding, rates, _ = joined(eta, gradients, None)
        values = np.ascontiguousarray(at.values[:count])
        slopes = self.loss.derivatives(values, targets)
        bends = curvatures_of(self.loss, values, targets)
        aims, pulls = np.empty(values.shape), np.empty(deciding.shape)
        part = share(count, self.batch_size)
        coupled = bool(moves.part_ways(deciding, slopes, values, bends, rates, part, aims, pulls))
        return coupled, deciding, pulls, bends, aims


def check_certain(ridge: float | Literal["auto"], batch_size: int, loss: Loss, with_zero: bool = False) -> None:
    """Refuse values out of range with a RefusedKey.

    ``with_zero`` allows a ridge of 0, where the loss is quadratic.
    """
    if ridge != "auto":
        if with_zero and ridge == 0.0:
            if not loss.quadratic:
                raise RefusedKey(
                    "loss", "is not quadratic, and its curvature can vanish: with it ridge must be positive", loss
                )
        elif not 0.0 < ridge < math.inf:
            raise RefusedKey("ridge", f'= {ridge!r} must be positive, or "auto"')
    if batch_size < 1:
        raise RefusedKey("batch_size", f"= {batch_size!r} must be at least 1")
    if not loss.curvature > 0.0:
        other = "polk" if grid_of(loss) is None else "spppot"  # which alone takes a loss with an integral
        raise RefusedKey(
            "loss",
            "has no curvature, and second-order steps divide by it: use squared, huber, "
            f'logistic, multiclass_logistic, squared_hinge or multiclass_squared_hinge, or learner.name = "{other}"',
            loss,
        )


def check_forgetting(forgetting: float | str, loss: Loss) -> None:
    """Refuse what is no factor of forgetting, and "auto" with a loss that has no likelihood, with a RefusedKey."""
    if forgetting == "auto":
        if loss.task != "regression" or not loss.quadratic:
            other = 'loss = "squared", or ' if loss.task == "regression" else ""
            raise RefusedKey(
                "forgetting",
                '= "auto" compares likelihoods, which the squared loss of numbers has: '
                f"take {other}a number, such as 0.99",
            )
    elif isinstance(forgetting, str) or not 0.0 < forgetting <= 1.0:
        raise RefusedKey("forgetting", f"= {forgetting!r} must be in (0, 1]: 1 forgets nothing")
