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
    """A schedule that returns many step sizes at once, equal to those of ``at``."""

    def over(self, first: int, steps: int) -> Array:
        """Return eta_t of steps ``first`` to ``first + steps - 1``, (steps,)."""
        ...


def step_sizes(schedule: Schedule, first: int, steps: int) -> Array:
    """Return the step sizes of ``steps`` steps from ``first`` on, (steps,); raises ValueError for invalid sizes."""
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

    While it decreases, f averages over all samples so far, like a running mean with weights 1/t. Afterwards the newest
    samples have a constant weight. McClain's rule changes running means to a constant weight in the same manner (George
    and Powell, "Adaptive stepsizes for recursive estimation", Machine Learning 65, 2006).

    Parameters
    ----------
    value : float
        eta from step ``steps`` on, positive.
    start : float
        The ratio of the first step sizes to ``value``, at least 1.
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

    This is ``value`` for kernels with kappa(x, x) <= 1, such as the Gaussian kernel. A step moves f at x by eta
    kappa(x, x) times the coefficient. A step size that is stable for such kernels can therefore diverge with, for
    example, a polynomial kernel.

    Parameters
    ----------
    value : float
        eta if kappa(x, x) is at most 1, positive.
    """

    value: float

    ranges: ClassVar = {"value": Range("(0, inf)", "it is the step size where kappa(x, x) is at most 1")}

    @property
    def automatic(self) -> tuple[str, ...]:
        """The schedule itself is a word that data turn into a number."""
        return ("step_size",)

    def resolved(self, sample: Sample) -> Constant:
        """Return the constant step size computed from a sample of the data."""
        return Constant(self.value / max(1.0, sample.largest_gain))

    def at(self, step: int) -> float:
        """Raise RefusedKey, because the step size is not resolved yet."""
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
"""The factor ``calm`` as a multiple of the root of the signal-to-noise ratio. On the sensor field and on four public
data sets the step sizes of least error after 300 to 1,500 samples were within a factor of two of the resulting one."""

SHARING = 0.75
"""The exponent a by which steps are divided by V^a for V steps per round. After n steps of size eta the bias is of the
order ``(eta n)^(-2 beta)`` and the error from noise of the order eta. The best step size is then
``eta ~ n^(-2 beta / (2 beta + 1))`` (Ying and Pontil, "Online gradient descent learning algorithms", 2008), for targets
in the range of the integral operator's power beta: 3/4 for beta = 3/2; from 1/2 for targets that barely lie in the
space to 1 for very smooth ones."""

SMALLEST_CALM = 0.1
"""The lower bound of ``calm``: apparent noise in a few hundred samples may turn out as signal with more samples."""

SETTLED = 50.0
"""The number of samples until steps settle, divided by the root of the ratio of the first step size to the last.
Constant numbers were worse: 75 gained less with strong noise, and 150 lost with weak noise
(docs/decisions/0075-steps-that-settle.md)."""


@dataclass(frozen=True)
class Auto(Ranged):
    """A step size that training data decide: b times what suits a single sample, as far as a batch of b allows.

    kappa is the mean of the data's kappa(x, x), but at least two fifths of the largest one. For regression the step
    size of a single sample is

        eta_1 = 0.4 scale calm spread / (slope kappa)        at most 0.4 scale calm / (l'' kappa)
        calm  = 0.15 sqrt((1 - v) / v)                       at least 0.1, at most 1

    with the targets' ``spread`` and the loss's ``slope`` (`Sample`), and the fraction v of the targets' variance that
    is noise (`noise_ratio`). For the squared loss and scale = 1, ``eta_1 kappa`` is 0.2 calm. Smaller steps average the
    noise over more samples. With a finite offset calm is 1, because decreasing steps average by themselves. Without an
    offset the first steps use calm = 1 and a scale of at most 1, if that makes them larger: ``start = 1 / calm`` times
    eta, to three digits. They decrease to eta (`Settling`) within ``50 sqrt(start)`` samples, so that f first
    approaches the targets and then averages noise. For classes

        eta_1 = scale unit min(1, 0.1 / e) / kappa

    with the error rate e of a pilot fit, since for overlapping classes small steps average over more samples. ``unit``
    is the usual size of f: 1 for hinge losses, the size of their margin, and 2.5 for logistic losses. For squared
    hinges eta_1 is at most ``1 / (l'' kappa(x, x))`` with the largest kappa(x, x); that step brings a sample to its
    margin. Then

        eta = b min(eta_1, most / lambda_max(K_b))

    where lambda_max is the largest eigenvalue of the Gram matrix of a batch. ``most`` is ``1 / l''`` for a quadratic
    loss or a squared hinge, half of the stability limit, and ``4 eta_1 kappa`` for other losses: a batch moves f at
    most as far as four samples could. A ``scale`` above 1 also raises the bounds that depend on l'', up to steps that
    correct ``reach`` times the error of a sample or a batch. A step that corrects twice the error would end as far from
    the target as it began.

    A learner that takes a step for each of V nodes in a round, such as the centralized one, learns from V times as many
    samples in as many rounds. Without an offset it uses ``eta_1 / V^(3/4)`` instead of eta_1.

    Parameters
    ----------
    scale : float
        A factor of eta_1, positive; above 1 a factor of eta, within the limits of stability.
    offset : float
        The number of samples after which the step size is halved, as in the schedule ``diminishing``, which counts
        steps. Infinity means a constant step size.
    reach : float
        The largest multiple of a sample's error that a step with a scale above 1 may correct, in [1, 2).
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
        """Return the schedule computed from a sample of the data."""
        if self.offset < math.inf:
            eta = self._eta(sample, _calm(sample) if sample.classes else 1.0)
            return Diminishing(eta, self.offset / sample.batch_size)
        calm = _calm(sample)
        eta = self._eta(sample, calm)
        if sample.classes or not sample.settles:
            return Constant(eta)
        # A search that raises the scale should lengthen the later, averaging steps, not the first steps.
        start = float(f"{self._eta(sample, max(calm, min(1.0, 1.0 / self.scale))) / eta:.3g}")
        return Settling(eta, start, SETTLED * math.sqrt(start) / sample.batch_size) if start > 1.0 else Constant(eta)

    def _eta(self, sample: Sample, calm: float) -> float:
        """Return the step size of a batch if a single sample's is ``calm`` times that for targets without noise."""
        loss, gain = sample.loss, sample.gain
        # Slopes of logistic losses are at most 1 for every step; other slopes grow with the overshoot of a step.
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
        """Return the step that corrects the whole error, ``1 / (l'' usual)``, times a scale above 1 if stable."""
        bound = 1.0 / curvature / usual
        return max(bound, min(self.scale * bound, self.reach / (curvature * largest)))

    def at(self, step: int) -> float:
        """Raise ValueError, because the step size is not resolved yet."""
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
    """Return the factor of step sizes for noise or overlapping classes; 1 if there is little of either."""
    if sample.classes:
        return min(1.0, 0.1 / sample.error_rate)
    if isinstance(sample.loss, IntegratedLoss):
        return 1.0  # the targets are events, not noisy values
    _, noise = sample.noise
    if noise == 0.0:
        return 1.0
    return float(np.clip(AVERAGING * math.sqrt((1.0 - noise) / noise), SMALLEST_CALM, 1.0))
