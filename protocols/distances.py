"""Distances h(f_i(x), f_j(x)) between neighbours' values, for penalties and constraints.

SURVEY section III allows any convex h. For a strength c a distance returns the pull g = c dh and a bound r, which is
the same at both ends of an edge. With d = f_i(x) - f_j(x),

    r <g, d> >= ||g||^2

so that a step of ``g / r`` or less towards the neighbour does not increase the distance to any consensus.

Proximity constrains h_ij, a multiple of h, with its dual variables as strengths.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import CONSTRAINT_VALUES, COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR
from kernelswarm.protocols.contract import Pull, Step
from kernelswarm.protocols.core.addresses import Compiled, sole
from kernelswarm.protocols.coupling import (
    absolute,
    kullback_leibler,
    mean_absolute_differences,
    mean_divergences,
    mean_square_differences,
    pull,
    pull_back,
    squared,
    whole_square,
)
from kernelswarm.refused_key import RefusedKey


class CompiledConstraint(NamedTuple):
    """A constrained distance for compiled rounds: the strengths are dual variables, links[0] and ``dual``."""

    coupling_gradient: Compiled  # COUPLING_GRADIENT
    coupling_gradient_at_neighbor: Compiled  # COUPLING_GRADIENT_AT_NEIGHBOR
    constraint_values: Compiled | None  # CONSTRAINT_VALUES; None for mean squared differences


class CompiledDistance(NamedTuple):
    """A distance for compiled rounds: functions as in `CompiledRule`; links[0] and numbers[0] are the strengths."""

    coupling_gradient: Compiled  # COUPLING_GRADIENT
    coupling_gradient_at_neighbor: Compiled  # COUPLING_GRADIENT_AT_NEIGHBOR
    constraint: CompiledConstraint | None = None


class Distance(Protocol):
    """A distance of two neighbours' values at a point.

    A distance with a property ``compiled -> CompiledDistance`` is called in compiled rounds.
    """

    @property
    def smooth(self) -> bool:
        """Whether the bound on the pull is the same at all values, which explicit steps need."""
        ...

    @property
    def degree(self) -> int:
        """The degree of h in the unit of the values, used to scale penalties."""
        ...

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        ...

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``strengths[j]`` times the derivative of h by ``own`` (b, C), for each of ``answers`` (deg, b, C)."""
        ...

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        """Return ``strength`` times the derivative of h by ``mine`` at a neighbour's points, (b, C)."""
        ...


@runtime_checkable
class ConstrainedDistance(Distance, Protocol):
    """A distance that proximity may constrain: ``E[h_ij] <= gamma_ij`` with ``h_ij = multiple h``."""

    @property
    def multiple(self) -> float:
        """The factor of h in the constraint."""
        ...

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean of h_ij over the points, (deg,), from (b, C) and (deg, b, C)."""
        ...

    def growth(self, outputs: int) -> tuple[float, float]:
        """Return (a, q) with ``E[h_ij] <= a E[||f_i - f_j||^2]^q``.

        It converts tolerances that are squared differences, such as learned tolerances, to the unit of h.
        """
        ...


def refuse_explicit(step: Step, distance: Distance) -> None:
    """Raise ValueError if explicit steps would oscillate around the kink of a distance."""
    if step == "explicit" and not distance.smooth:
        raise RefusedKey(
            "distance",
            "has a pull that does not fade as neighbours come near, so that an explicit step never settles: use "
            'step = "implicit"',
            distance,
        )


@dataclass(frozen=True)
class Squared:
    """Half the squared difference, ``h = ||f_i - f_j||^2 / 2`` (SURVEY eq. 17), with the bound c.

    The constraint is on the whole squared difference (SURVEY eq. 18).
    """

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 2
    multiple: ClassVar[float] = 2.0

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        found: Array = 0.5 * np.sum((own - other) ** 2, axis=-1)
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (f_i - f_j)``."""
        return pull(own, answers, strengths, 1.0)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        return pull_back(strength, mine, theirs)

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean squared differences, (deg,)."""
        found: Array = mean_square_differences(own, answers)
        return found

    def growth(self, outputs: int) -> tuple[float, float]:
        """Return (1, 1): h_ij is the squared difference."""
        return 1.0, 1.0

    @property
    def compiled(self) -> CompiledDistance:
        """The distance's functions and numbers for compiled rounds."""
        constraint = CompiledConstraint(whole_square.coupling_gradient, whole_square.by_dual, None)
        return CompiledDistance(squared.coupling_gradient, squared.by_penalty, constraint)


@dataclass(frozen=True)
class Absolute:
    """The length of the difference, ``h = ||f_i - f_j||``, the absolute difference of one output.

    The pull does not grow with the difference: nodes agree with the majority, not with the mean. The bound is
    ``c / ||f_i - f_j||``, the curvature of a parabola that touches h at the current difference and lies above it. It
    needs implicit steps. If neighbours agree, pull and bound are 0.
    """

    smooth: ClassVar[bool] = False
    degree: ClassVar[int] = 1
    multiple: ClassVar[float] = 1.0

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        found: Array = np.sqrt(np.sum((own - other) ** 2, axis=-1))
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (f_i - f_j) / ||f_i - f_j||``; 0 for equal values."""
        return _filled(absolute.coupling_gradient, own, answers, strengths)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        return _filled_back(absolute.by_penalty, strength, mine, theirs)

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean lengths of the differences, (deg,)."""
        return _mean(mean_absolute_differences, own, answers)

    def growth(self, outputs: int) -> tuple[float, float]:
        """Return (1, 1/2): a mean length is at most the root of the mean square."""
        return 1.0, 0.5

    @property
    def compiled(self) -> CompiledDistance:
        """The distance's functions and numbers for compiled rounds."""
        constraint = CompiledConstraint(absolute.coupling_gradient, absolute.by_dual, mean_absolute_differences)
        return CompiledDistance(absolute.coupling_gradient, absolute.by_penalty, constraint)


@dataclass(frozen=True)
class KullbackLeibler:
    """The Kullback-Leibler divergence of the class probabilities, ``h = sum_c p_jc log(p_jc / p_ic)``.

    It is not symmetrised: of the three divergences between p_i and p_j only this one is convex in f_i and has a bounded
    pull.

    p is the softmax of f; for a single output p = (1 - s, s) with s = 1 / (1 + exp(-f)). The neighbour's probabilities
    act as soft labels: the pull is ``c (p_i - p_j)``, the opposite of the neighbour's pull. A common offset of all
    classes in f is not changed. The bound is c / 2, or c / 4 for one output.
    """

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 0
    multiple: ClassVar[float] = 1.0

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        if own.shape[-1] == 1:
            own, other = (np.concatenate([np.zeros_like(side), side], axis=-1) for side in (own, other))
        log_own, log_other = (_log_softmax(side) for side in (own, other))
        found: Array = np.sum(np.exp(log_other) * (log_other - log_own), axis=-1)
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (p_i - p_j)``."""
        return _filled(kullback_leibler.coupling_gradient, own, answers, strengths)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        return _filled_back(kullback_leibler.by_penalty, strength, mine, theirs)

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean divergences, (deg,)."""
        return _mean(mean_divergences, own, answers)

    def growth(self, outputs: int) -> tuple[float, float]:
        """Return (1/4, 1), or (1/8, 1) for one output: half the bound on the second derivative."""
        return (0.125 if outputs == 1 else 0.25), 1.0

    @property
    def compiled(self) -> CompiledDistance:
        """The distance's functions and numbers for compiled rounds."""
        constraint = CompiledConstraint(kullback_leibler.coupling_gradient, kullback_leibler.by_dual, mean_divergences)
        return CompiledDistance(kullback_leibler.coupling_gradient, kullback_leibler.by_penalty, constraint)


def _log_softmax(values: Array) -> Array:
    shifted = values - values.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return found


def _filled(coupling_gradient: Compiled, own: Array, answers: Array, strengths: Array) -> Pull:
    found = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    links = np.ascontiguousarray(strengths)
    whole = np.ascontiguousarray(own), np.ascontiguousarray(answers)
    sole(coupling_gradient, COUPLING_GRADIENT)(links, links[np.newaxis], *whole, found.gradients, found.curvatures)
    return found


def _filled_back(coupling_gradient_at_neighbor: Compiled, strength: float, mine: Array, theirs: Array) -> Pull:
    found = Pull(np.empty(mine.shape), np.empty(len(mine)))
    whole = np.ascontiguousarray(mine), np.ascontiguousarray(theirs)
    numbers, links = np.array([strength]), np.empty((1, 0))
    sole(coupling_gradient_at_neighbor, COUPLING_GRADIENT_AT_NEIGHBOR)(
        numbers, links, 0, 0.0, *whole, found.gradients, found.curvatures
    )
    return found


def _mean(constraint_values: Compiled, own: Array, answers: Array) -> Array:
    found = np.empty(len(answers))
    sole(constraint_values, CONSTRAINT_VALUES)(np.ascontiguousarray(own), np.ascontiguousarray(answers), found)
    return found
