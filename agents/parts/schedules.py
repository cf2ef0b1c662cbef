"""Step size schedules eta_t."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from kernelswarm.agents.parts.losses import IntegratedLoss
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.callbacks import checked_sizes
from kernelswarm.ranges import Range, Ranged
from kernelswarm.refused_key import RefusedKey


class Schedule(Protocol):
    """A step size for every step t = 0, 1, 2, ..."""

    def at(self, step: int) -> float:
        """Return eta_t of step t, positive."""
        ...

    @property
    def largest(self) -> float:
        """The largest step size of the schedule; the stability rules are checked at it."""
        ...


@runtime_checkable
class Foreseen(Protocol):
    """A schedule that gives many step sizes at once, equal to ``at`` of each."""

    def over(self, first: int, steps: int) -> Array:
        """Return eta_t of steps ``first`` to ``first + steps - 1``, (steps,)."""
        ...


def step_sizes(schedule: Schedule, first: int, steps: int) -> Array:
    """Return the step sizes of some steps from ``first`` on, (steps,); raises ValueError where they cannot be."""
    if steps > 1 and fulfils(schedule, Foreseen) and "over" in vars(type(schedule)):
        return checked_sizes(schedule.over(first, steps), first, steps, f"{type(schedule).__name__}.over")
    sizes = [schedule.at(step) for step in range(first, first + steps)]
    return checked_sizes(sizes, first, steps, f"{type(schedule).__name__}.at")


@dataclass(frozen=True)
class Constant(Ranged):
    """A constant step size ``eta_t = value`` (POLK theorem 2).

    Parameters
    ----------
    value : float
        eta, positive.
    """

    value: float

    ranges: ClassVar = {"value": Range("(0, inf)")}

    def at(self, step: int) -> float:
        """Return eta, whatever the step."""
        return self.value

    def over(self, first: int, steps: int) -> Array:
        return np.full(steps, float(self.value))

    @property
    def largest(self) -> float:
        return self.value


@dataclass(frozen=True)
class Diminishing(Ranged):
    """A step size that falls as 1/t: ``eta_t = initial / (1 + t / offset)`` (POLK theorem 1).

    Parameters
    ----------
    initial : float
        eta_0, positive.
    offset : float
        The number of steps after which the step size is halved, positive.
    """

    initial: float
    offset: float = 100.0

    ranges: ClassVar = {
        "initial": Range("(0, inf)"),
        "offset": Range("(0, inf]", "it counts the steps after which eta is halved"),
    }

    def at(self, step: int) -> float:
        """Return ``initial / (1 + step / offset)``."""
        return self.initial / (1.0 + step / self.offset)

    def over(self, first: int, steps: int) -> Array:
        """Return ``initial / (1 + step / offset)`` for each step."""
        found: Array = self.initial / (1.0 + np.arange(first, first + steps) / self.offset)
        return found

    @property
    def largest(self) -> float:
        return self.initial


@dataclass(frozen=True)
class Horizon(Ranged):
    """A constant step size tuned to the length of the run: ``eta = scale / sqrt(horizon)`` (SURVEY eq. 21).

    Parameters
    ----------
    scale : float
        Positive.
    horizon : int
        T, the number of steps that the run will take, at least 1.
    """

    scale: float
    horizon: int

    ranges: ClassVar = {
        "scale": Range("(0, inf)"),
        "horizon": Range("[1, inf)", "it is the number of steps of the run"),
    }

    def at(self, step: int) -> float:
        """Return ``scale / sqrt(horizon)``, whatever the step."""
        return self.largest

    def over(self, first: int, steps: int) -> Array:
        """Return ``scale / sqrt(horizon)``, for each step."""
        return np.full(steps, self.largest)

    @property
    def largest(self) -> float:
        return self.scale / math.sqrt(self.horizon)


@dataclass(frozen=True)
class Settling(Ranged):
    """A step size that falls as 1/t until it is constant: ``eta_t = value min(start, max(1, steps / t))``.

    While it falls, f averages over all samples so far, as a running mean with weights 1/t does; from then on the newest
    samples count as they do with a constant step. Running means are brought to a constant weight in this manner by
    McClain's rule (George and Powell, "Adaptive stepsizes for recursive estimation", Machine Learning 65, 2006).

    Parameters
    ----------
    value : float
        eta from step ``steps`` on, positive.
    start : float
        How many times that the first steps are, at least 1.
    steps : float
        The number of steps after which the step size is ``value``, positive.
    """

    value: float
    start: float
    steps: float

    ranges: ClassVar = {
        "value": Range("(0, inf)"),
        "start": Range("[1, inf)", "it says how many times value the first steps are"),
        "steps": Range("(0, inf)", "it counts the steps after which eta is value"),
    }

    def at(self, step: int) -> float:
        """Return ``value min(start, max(1, steps / step))``; at step 0 ``value start``."""
        return self.value * min(self.start, max(1.0, self.steps / step if step else math.inf))

    def over(self, first: int, steps: int) -> Array:
        """Return ``value min(start, max(1, steps / step))`` for each step."""
        with np.errstate(divide="ignore"):
            fall = self.steps / np.arange(first, first + steps)
        found: Array = self.value * np.minimum(self.start, np.maximum(1.0, fall))
        return found

    @property
    def largest(self) -> float:
        return self.value * self.start


@dataclass(frozen=True)
class Relative(Ranged):
    """A constant step size for kernels with kappa(x, x) <= 1, smaller where the data's kernel values are larger.

    With kappa the largest kappa(x, x) of a sample of the data,

        eta = value / max(1, kappa)

    is ``value`` for Gaussian and other kernels of at most 1. A step of eta moves f at x by eta kappa(x, x) of what is
    asked for, so that a number that suits those diverges with, say, a polynomial kernel.

    Parameters
    ----------
    value : float
        eta where kappa(x, x) is at most 1, positive.
    """

    value: float

    ranges: ClassVar = {"value": Range("(0, inf)", "it is the step size where kappa(x, x) is at most 1")}

    @property
    def automatic(self) -> tuple[str, ...]:
        """The schedule itself is a word that data turn into a number."""
        return ("step_size",)

    def resolved(self, sample: Sample) -> Constant:
        """Return the constant step size that this one stands for on a sample of the data."""
        return Constant(self.value / max(1.0, sample.largest_gain))

    def at(self, step: int) -> float:
        """Raise RefusedKey: there is no number yet."""
        raise RefusedKey(
            "step_size",
            '= "relative" is turned into a number by training data before learning starts: take '
            "step_size.resolved(sample), or give a number",
        )

    @property
    def largest(self) -> float:
        """Not a number: none is known, and none is out of range."""
        return math.nan


AVERAGING = 0.15
"""Of the root of signal over noise. On the sensor field and on four public data sets the steps that erred least after
300 to 1,500 samples were within a factor of two of this one."""

SHARING = 0.75
"""The power of V steps a round by which each is smaller. After n steps of eta the bias is of the order
``(eta n)^(-2 beta)`` and what noise leaves of the order eta, so that ``eta ~ n^(-2 beta / (2 beta + 1))`` is best (Ying
and Pontil, "Online gradient descent learning algorithms", 2008) for targets in the range of the integral operator's
power beta: 3/4 for beta = 3/2, from 1/2 for what hardly lies in the space to 1 for what is smooth beside it."""

SMALLEST_CALM = 0.1
"""An apparent noise in a few hundred samples may be learned from more."""

SETTLED = 50.0
"""Samples until steps settle, over the root of how many times as large the first one is. The same number for all noise
gained less where it was strong, 75, or lost where it was weak, 150 (docs/decisions/0075-steps-that-settle.md)."""


@dataclass(frozen=True)
class Auto(Ranged):
    """A step size that training data decide: b times what suits a single sample, as far as a batch of b allows.

    With kappa the mean of the data's kappa(x, x), at least two fifths of the largest, a single sample takes, for
    regression,

        eta_1 = 0.4 scale calm spread / (slope kappa)        at most 0.4 scale calm / (l'' kappa)
        calm  = 0.15 sqrt((1 - v) / v)                       at least 0.1, at most 1

    with the targets' ``spread`` and the loss's ``slope`` (`Sample`), which is 0.2 calm for the squared loss, and v the
    share of the targets' variance that is noise (`noise_ratio`): a step moves f by its share of the noise too, and a
    small one averages over more samples. With an offset calm is 1, for steps that fall average by themselves. Without
    one, the first steps are those of calm = 1, and ``scale`` <= 1, where they are larger: ``start = 1 / calm`` times as
    large as eta, to three digits. They settle (`Settling`) within ``50 sqrt(start)`` samples, so that targets are
    reached before noise is averaged. For classes

        eta_1 = scale unit min(1, 0.1 / e) / kappa

    with e the error rate of a pilot fit, since where classes overlap a small step averages over more samples, and
    ``unit`` the usual size of f: 1 for hinge losses, which ask for that margin, 2.5 for logistic ones; with squared
    hinges at most ``1 / (l'' kappa(x, x))`` of the largest, which takes a sample to its margin. Then

        eta = b min(eta_1, most / lambda_max(K_b))

    where lambda_max is the largest eigenvalue of the Gram matrix of a batch, and ``most = 1 / l''`` for a quadratic
    loss or a squared hinge, half of what is stable, and ``4 eta_1 kappa`` for others: a batch moves f no further than
    four samples could. A ``scale`` above 1 raises the bounds that depend on l'' too, up to steps that take ``reach``
    times the error of a sample or a batch: with twice the error a step ends as far away as it began.

    A learner that takes a step for each of V nodes in a round, as the centralized one does, learns from V times as many
    samples in as many rounds, and has ``eta_1 / V^(3/4)`` in the place of eta_1 where there is no offset.

    Parameters
    ----------
    scale : float
        A factor on eta_1, positive; above 1 a factor on eta, as far as that is stable.
    offset : float
        The number of samples after which the step size is halved, as of the schedule ``diminishing``, which counts
        steps; for ever the same where infinite.
    reach : float
        How many times its error a step with a scale above 1 may take of a sample, from 1 on and below 2.
    """

    scale: float = 1.0
    offset: float = math.inf
    reach: float = 1.5

    ranges: ClassVar = {
        "scale": Range("(0, inf)", "1 leaves the step size as the data say"),
        "offset": Range("(0, inf]", "it counts the samples after which eta is halved"),
        "reach": Range("[1, 2)", "from 2 on errors no longer shrink"),
    }

    @property
    def automatic(self) -> tuple[str, ...]:
        """The schedule itself is a word that data turn into a number."""
        return ("step_size",)

    def resolved(self, sample: Sample) -> Constant | Diminishing | Settling:
        """Return the schedule that this one stands for on a sample of the data."""
        if self.offset < math.inf:
            eta = self._eta(sample, _calm(sample) if sample.classes else 1.0)
            return Diminishing(eta, self.offset / sample.batch_size)
        calm = _calm(sample)
        eta = self._eta(sample, calm)
        if sample.classes or not sample.settles:
            return Constant(eta)
        # A search that raises the scale asks for more of the averaging steps, not for first ones that leap.
        start = float(f"{self._eta(sample, max(calm, min(1.0, 1.0 / self.scale))) / eta:.3g}")
        return Settling(eta, start, SETTLED * math.sqrt(start) / sample.batch_size) if start > 1.0 else Constant(eta)

    def _eta(self, sample: Sample, calm: float) -> float:
        """Return the step size of a batch where a single sample's is ``calm`` times that of targets without noise."""
        loss, gain = sample.loss, sample.gain
        # Slopes of logistic losses end at 1, whatever the step; others grow with the overshoot of a step.
        steep = loss.quadratic or (sample.classes and loss.curvature > 1.0)
        if sample.classes:
            unit = 2.5 if loss.curvature > 0.0 else 1.0
            first = self.scale * unit * calm / gain
            if steep:
                first = min(first, self._bound(loss.curvature, sample.largest_gain, sample.largest_gain))
        else:
            scale = 0.4 * self.scale * calm
            first = scale * sample.spread / (sample.slope * gain)
            if loss.curvature > 0.0:
                first = min(first, scale / (loss.curvature * gain))
        if self.offset == math.inf:
            first /= sample.steps**SHARING
        stiff = sample.batch_size * sample.stiffness
        if steep:
            most = self._bound(loss.curvature, stiff, max(stiff, sample.largest_gain))
        else:
            most = 4.0 * first * gain / stiff
        found = sample.batch_size * min(first, most)
        if not 0.0 < found < math.inf:
            raise ValueError(
                f'step_size = "auto" would be {found:.3g}: the kernel is not positive semidefinite, or the loss has no '
                "slope: hold them to kernelswarm.testing.check_kernel and check_loss"
            )
        return float(found)

    def _bound(self, curvature: float, usual: float, largest: float) -> float:
        """Return the step that takes all of the error, ``1 / (l'' usual)``, times a scale above 1 if that is stable."""
        bound = 1.0 / curvature / usual
        return max(bound, min(self.scale * bound, self.reach / (curvature * largest)))

    def at(self, step: int) -> float:
        """Raise ValueError: there is no number yet."""
        raise RefusedKey(
            "step_size",
            '= "auto" is a word that training data turn into a number before learning starts: take '
            "step_size.resolved(sample), or give a number",
        )

    @property
    def largest(self) -> float:
        """Not a number: none is known, and none is out of range."""
        return math.nan


def _calm(sample: Sample) -> float:
    """Return by how much smaller steps have to be for noise and overlapping classes: 1 where there is little."""
    if sample.classes:
        return min(1.0, 0.1 / sample.error_rate)
    if isinstance(sample.loss, IntegratedLoss):
        return 1.0  # the targets are events, and no values with noise
    _, noise = sample.noise
    if noise == 0.0:
        return 1.0
    return float(np.clip(AVERAGING * math.sqrt((1.0 - noise) / noise), SMALLEST_CALM, 1.0))
