"""Compression budgets eps_t: the largest error, a Hilbert norm, of each compression.

A budget is ``start() -> state``, ``bound(step_size, state, batch_size) -> eps`` and ``next(state, order) -> state``;
only the adaptive budget has a state that changes. A budget with a property ``compiled -> CompiledBudget`` takes part in
compiled steps.

If a node takes a smaller step than its schedule, :func:`held` reduces every budget accordingly.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import CompiledBudget
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.protocols.core.callbacks import checked_number
from kernelswarm.protocols.core.compiling import ReadOnly, inline_always, njit_no_refcount
from kernelswarm.ranges import Range, Ranged, check_ranges, words_of
from kernelswarm.refused_key import RefusedKey

SIZE = Range("[0, inf]", "0 keeps every point, more removes more")


class Budget(Protocol):
    """A compression budget for every step."""

    def start(self) -> float:
        """Return the state before the first step."""
        ...

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return eps_t for a step of size eta_t on a batch of b samples."""
        ...

    def next(self, state: float, order: int) -> float:
        """Return the state after a step that left ``order`` dictionary points."""
        ...


class _Stateless(Ranged):
    """A budget that depends on the step alone."""

    def start(self) -> float:
        """Return 0; this budget has no state."""
        return 0.0

    def next(self, state: float, order: int) -> float:
        return state


@dataclass(frozen=True)
class Epsilon(_Stateless):
    """A constant budget ``eps``, that of a step of the schedule's size; one that a node damps has its share of it.

    Parameters
    ----------
    epsilon : float
        eps, nonnegative; 0 removes only exact duplicates.
    """

    epsilon: float

    ranges: ClassVar = {"epsilon": SIZE}

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        return self.epsilon

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps."""
        return CompiledBudget(_constant, _unchanged, np.array([self.epsilon]))


@dataclass(frozen=True)
class Parsimony(_Stateless):
    """A budget tied to the step size by the parsimony constant K: ``eps = K eta^(3/2)`` (POLK theorem 2).

    Parameters
    ----------
    parsimony : float
        K, not negative.
    """

    parsimony: float

    ranges: ClassVar = {"parsimony": SIZE}

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return ``K eta^(3/2)``."""
        return self.parsimony * step_size * math.sqrt(step_size)

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps."""
        return CompiledBudget(_parsimony, _unchanged, np.array([self.parsimony]))


@dataclass(frozen=True)
class Quadratic(_Stateless):
    """A budget that falls as the square of the step size: ``eps = K eta^2`` (COLK; POLK theorem 1 with K = 1).

    With ``eta = O(1/sqrt(T))`` it is the horizon-tuned ``eps = O(1/T)`` of SURVEY eq. 21.

    Parameters
    ----------
    quadratic : float
        K, not negative.
    """

    quadratic: float

    ranges: ClassVar = {"quadratic": SIZE}

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return ``K eta^2``."""
        return self.quadratic * step_size * step_size

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps."""
        return CompiledBudget(_quadratic, _unchanged, np.array([self.quadratic]))


@dataclass(frozen=True)
class Proportional(_Stateless):
    """A budget proportional to the step size: ``eps = alpha eta`` (SPPPOT theorem 1).

    Parameters
    ----------
    proportional : float
        alpha, not negative.
    """

    proportional: float

    ranges: ClassVar = {"proportional": SIZE}

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return ``alpha eta``."""
        return self.proportional * step_size

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps."""
        return CompiledBudget(_proportional, _unchanged, np.array([self.proportional]))


@dataclass(frozen=True)
class PerSample(_Stateless):
    """A budget in units of the change by one sample: ``eps = a slope eta / b``.

    One sample of a batch moves f by ``eta / b |l'| sqrt(kappa(x, x))``, and at the start ``|l'|`` is about ``slope``.
    ``a`` is therefore the fraction of a sample's first effect that a step may forget. In a step on one sample the
    sample stays if ``|l'| delta > a slope``, with its distance delta to the span of the dictionary. The number of
    points depends little on the batch size.

    Parameters
    ----------
    per_sample : float
        a, nonnegative; with 1 or more nothing is learned.
    slope : float or "auto"
        The size of the loss's derivative at f = 0, positive. "auto" measures it on training data (squared loss: twice
        the targets' standard deviation; logistic loss: 0.5).
    """

    per_sample: float = 0.2
    slope: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"per_sample": SIZE, "slope": Range("(0, inf)", "data resolve it", "auto")}

    automatic = property(words_of)

    @property
    def _slope(self) -> float:
        if self.slope == "auto":
            raise RefusedKey(
                "slope",
                '= "auto" of the budget per_sample is a word that training data turn into a number before '
                "learning starts: take budget.resolved(sample), or give a number",
            )
        return self.slope

    def resolved(self, sample: Sample) -> Self:
        """Return the budget with the slope of the loss on a sample of the data."""
        return replace(self, slope=sample.slope) if self.slope == "auto" else self

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return ``a slope eta / b``."""
        return self.per_sample * self._slope * step_size / batch_size

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps; raises ValueError with an unresolved slope."""
        return CompiledBudget(_per_sample, _unchanged, np.array([self.per_sample, self._slope]))


@dataclass(frozen=True)
class TargetOrder:
    """A budget that adapts to a target model order d: ``eps_t = alpha_t eta_t`` with (SPPPOT section V)
    ``alpha_{t+1} = alpha_t (1 + max(min(gain (M_t - d), 0.1), -0.1))``.

    The published gain does not depend on d: one point too few changes alpha by 0.1% per step, so that for small d
    hundreds of steps pass before the order changes. A gain of about ``0.3 / d`` has a similar effect for every d. If d
    is too large, M stays below it: new points then lie in the span of the dictionary to working precision, and alpha
    falls to ``smallest``.

    Parameters
    ----------
    target_order : int
        d, at least 1.
    alpha : float
        alpha_0, positive.
    gain : float
        Relative change of alpha per step for each point too many, positive; 0.001 in the paper.
    smallest, largest : float
        The interval to which alpha is clipped, above 0. While the dictionary fills, alpha falls by up to 10% per step.
        ``smallest = alpha`` prevents this fall, and most of the overshoot of M that would follow.
    """

    target_order: int
    alpha: float = 1e-3
    gain: float = 0.001
    smallest: float = 1e-12
    largest: float = 1e6

    ranges: ClassVar = {
        "target_order": Range("[1, inf)"),
        "gain": Range("(0, inf)", "more points than wanted must enlarge the budget"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        if not 0.0 < self.smallest <= self.alpha <= self.largest:
            raise RefusedKey(
                "alpha",
                f"= {self.alpha!r} must lie between smallest = {self.smallest!r} and largest = {self.largest!r}, "
                "all positive",
            )

    def start(self) -> float:
        """Return alpha_0."""
        return self.alpha

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        """Return ``alpha_t eta_t``."""
        return state * step_size

    def next(self, state: float, order: int) -> float:
        """Return alpha_{t+1}."""
        return float(adapted(state, float(order), float(self.target_order), self.gain, self.smallest, self.largest))

    @property
    def compiled(self) -> CompiledBudget:
        """The budget's functions and numbers for compiled steps."""
        numbers = [float(self.target_order), self.gain, self.smallest, self.largest]
        return CompiledBudget(_follow, _adapted, np.array(numbers))


SHARE_ROUNDING = 1e-9
"""The relative rounding difference between two ways to compute the same eps."""


@inline_always
def held(epsilon: float, whole: float, eta: float, planned: float) -> float:
    """Compute eps of a step that is damped from the size ``planned`` to ``eta``.

        eps = min(bound(eta), eta / planned * bound(planned))

    Compression may then undo at most the same fraction of a damped step as of a full step. An eps that does not
    decrease with the step could undo the whole step. If ``bound`` decreases in proportion to the step, or faster, the
    result is ``bound(eta)``, equal to the bit.

    Parameters
    ----------
    epsilon, whole : float
        ``bound(eta)`` and ``bound(planned)``, Hilbert norms.
    eta, planned : float
        The size of the step, and that of the schedule; ``eta < planned``.
    """
    most = eta / planned * whole
    return epsilon if epsilon <= most * (1.0 + SHARE_ROUNDING) else most


def begun(budget: Budget) -> float:
    """Return a budget's state before the first step; raises ValueError if it is no number."""
    return checked_number(budget.start(), -math.inf, f"{type(budget).__name__}.start", "a number")


def checked_bound(budget: Budget, *given: Any) -> float:
    """Return the budget's ``bound``; raises ValueError if it is no Hilbert norm."""
    return checked_number(budget.bound(*given), 0.0, f"{type(budget).__name__}.bound", "a Hilbert norm, at least 0")


def bound_at(budget: Budget, order: int, eta: float, state: float) -> float:
    """Return eps, a Hilbert norm, of the next step; 0 if the budget aims at more points than ``order``."""
    return 0.0 if order < getattr(budget, "target_order", 0) else checked_bound(budget, eta, state)


def bound_of_step(budget: Budget, eta: float, planned: float, state: float, batch_size: int) -> float:
    """Return eps, a Hilbert norm, of a step of size ``eta`` if the schedule's step size is ``planned``."""
    epsilon = checked_bound(budget, eta, state, batch_size)
    if not eta < planned:
        return epsilon
    return float(held(epsilon, budget.bound(planned, state, batch_size), eta, planned))


# The formulas of the budgets again, with the signatures of compiled steps: calling a compiled function from Python
# takes longer than the formula.


@njit_no_refcount
def _constant(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return float(numbers[0])


@njit_no_refcount
def _parsimony(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return float(numbers[0] * step_size * math.sqrt(step_size))


@njit_no_refcount
def _quadratic(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return float(numbers[0] * step_size * step_size)


@njit_no_refcount
def _proportional(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return float(numbers[0] * step_size)


@njit_no_refcount
def _per_sample(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return float(numbers[0] * numbers[1] * step_size / batch_size)


@njit_no_refcount
def _follow(numbers: ReadOnly, step_size: float, state: float, batch_size: int) -> float:
    return state * step_size


@njit_no_refcount
def _unchanged(numbers: ReadOnly, state: float, order: int) -> float:
    return state


@njit_no_refcount
def _adapted(numbers: ReadOnly, state: float, order: int) -> float:
    return float(adapted(state, float(order), numbers[0], numbers[1], numbers[2], numbers[3]))


@inline_always
def adapted(alpha: float, order: float, target_order: float, gain: float, smallest: float, largest: float) -> float:
    """Compute alpha_{t+1} of :class:`TargetOrder`."""
    change = max(min(gain * (order - target_order), 0.1), -0.1)
    return min(max(alpha * (1.0 + change), smallest), largest)
