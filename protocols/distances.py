"""Distances h(f_i(x), f_j(x)) that a penalty is put on: how neighbours' values pull at a node's.

SURVEY section III allows any convex h. A distance gives, for strength c, the pull c dh and a bound r on it that both
ends of an edge find: with d = f_i(x) - f_j(x) the pull g has

    r <g, d> >= ||g||^2

so that a step of ``g / r`` towards the neighbour, or less, ends no further from any network in agreement.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiled import COUPLE, COUPLE_BACK
from kernelswarm.protocols.compiling import ReadOnly, jitted
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.coupling import pull, pull_back, pull_back_in, pull_in
from kernelswarm.protocols.first_class import Compiled, sole

Array = npt.NDArray[np.float64]


class CompiledDistance(NamedTuple):
    """A distance for compiled rounds: functions as of `CompiledRule`, whose links are strengths, numbers[0] as well."""

    couple: Compiled  # COUPLE
    couple_back: Compiled  # COUPLE_BACK


class Distance(Protocol):
    """How far two neighbours' values at a point are from each other.

    One that has ``compiled -> CompiledDistance`` besides takes part in compiled rounds.
    """

    @property
    def smooth(self) -> bool:
        """Whether the bound on the pull is the same at all values, as explicit steps need."""
        ...

    @property
    def degree(self) -> int:
        """The power of the values' unit that h is in: what a penalty has to make up for."""
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


@dataclass(frozen=True)
class Squared:
    """Half the squared difference, ``h = ||f_i - f_j||^2 / 2`` (SURVEY eq. 17), with the bound c."""

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 2

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        found: Array = 0.5 * np.sum((own - other) ** 2, axis=-1)
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (f_i - f_j)``."""
        return pull(own, answers, strengths, 1.0)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        """Return the same at a neighbour's points."""
        return pull_back(strength, mine, theirs)

    @property
    def compiled(self) -> CompiledDistance:
        """What the distance hands over to compiled rounds."""
        return CompiledDistance(_squared, _squared_back)


@dataclass(frozen=True)
class Absolute:
    """The length of the difference, ``h = ||f_i - f_j||``, the absolute difference of one output.

    It pulls at neighbours that are far apart no harder than at near ones: agreement with most, not with the mean. The
    bound is ``c / ||f_i - f_j||``, that of the parabola through the present values that lies above h; so it asks for
    implicit steps. Where neighbours agree there is neither pull nor bound.
    """

    smooth: ClassVar[bool] = False
    degree: ClassVar[int] = 1

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        found: Array = np.sqrt(np.sum((own - other) ** 2, axis=-1))
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (f_i - f_j) / ||f_i - f_j||``, 0 where they are equal."""
        return _filled(_absolute, own, answers, strengths)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        """Return the same at a neighbour's points."""
        return _filled_back(_absolute_back, strength, mine, theirs)

    @property
    def compiled(self) -> CompiledDistance:
        """What the distance hands over to compiled rounds."""
        return CompiledDistance(_absolute, _absolute_back)


@dataclass(frozen=True)
class KullbackLeibler:
    """How badly the own class probabilities p_i code the neighbour's, ``h = sum_c p_jc log(p_jc / p_ic)``.

    p is the softmax of f, and (1 - s, s) with s = 1 / (1 + exp(-f)) of a single output. The neighbour's probabilities
    are soft labels: the pull is ``c (p_i - p_j)``, the opposite of what the neighbour feels. What all classes have in
    common in f is left alone. The bound is c / 2, for one output c / 4.
    """

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 0

    def values(self, own: Array, other: Array) -> Array:
        """Evaluate h at points: (b, C) and (b, C) give (b,)."""
        if own.shape[-1] == 1:
            own, other = (np.concatenate([np.zeros_like(side), side], axis=-1) for side in (own, other))
        log_own, log_other = (_log_softmax(side) for side in (own, other))
        found: Array = np.sum(np.exp(log_other) * (log_other - log_own), axis=-1)
        return found

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``c (p_i - p_j)``."""
        return _filled(_kullback_leibler, own, answers, strengths)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        """Return the same at a neighbour's points."""
        return _filled_back(_kullback_leibler_back, strength, mine, theirs)

    @property
    def compiled(self) -> CompiledDistance:
        """What the distance hands over to compiled rounds."""
        return CompiledDistance(_kullback_leibler, _kullback_leibler_back)


def _log_softmax(values: Array) -> Array:
    shifted = values - values.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return found


def _filled(couple: Compiled, own: Array, answers: Array, strengths: Array) -> Pull:
    found = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    links = np.ascontiguousarray(strengths)
    whole = np.ascontiguousarray(own), np.ascontiguousarray(answers)
    sole(couple, COUPLE)(links, links[np.newaxis], *whole, found.gradients, found.curvatures)
    return found


def _filled_back(couple_back: Compiled, strength: float, mine: Array, theirs: Array) -> Pull:
    found = Pull(np.empty(mine.shape), np.empty(len(mine)))
    whole = np.ascontiguousarray(mine), np.ascontiguousarray(theirs)
    numbers, links = np.array([strength]), np.empty((1, 0))
    sole(couple_back, COUPLE_BACK)(numbers, links, 0, 0.0, *whole, found.gradients, found.curvatures)
    return found


@jitted
def _squared(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    pull_in(own, answers, links[0], 1.0, gradients, curvatures)


@jitted
def _squared_back(
    numbers: ReadOnly,
    links: ReadOnly,
    neighbor: int,
    dual: float,
    mine: ReadOnly,
    theirs: ReadOnly,
    gradients: Array,
    curvatures: Array,
) -> None:
    pull_back_in(numbers[0], mine, theirs, gradients, curvatures)


@jitted
def _toward(strength: float, mine: Array, theirs: Array, gradient: Array) -> float:
    """Fill the pull (C,) of the length of the difference; returns its bound."""
    square = 0.0
    for c in range(len(mine)):
        gradient[c] = mine[c] - theirs[c]
        square += gradient[c] * gradient[c]
    length = np.sqrt(square)
    if not length > 1e-150:  # a smaller one has no inverse that can be multiplied with
        gradient[:] = 0.0
        return 0.0
    for c in range(len(mine)):
        gradient[c] *= strength / length
    return float(strength / length)


@jitted
def _absolute(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    degree, size, _ = answers.shape
    for j in range(degree):
        for k in range(size):
            curvatures[j, k] = _toward(links[0, j], own[k], answers[j, k], gradients[j, k])


@jitted
def _absolute_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    for k in range(len(mine)):
        curvatures[k] = _toward(numbers[0], mine[k], theirs[k], gradients[k])


@jitted
def _probabilities(values: Array, found: Array) -> None:
    """Fill the softmax of values (C,), or of one value f the probability 1 / (1 + exp(-f))."""
    if len(values) == 1:
        small = np.exp(-abs(values[0]))
        found[0] = (1.0 if values[0] >= 0.0 else small) / (1.0 + small)
        return
    largest, total = values.max(), 0.0
    for c in range(len(values)):
        found[c] = np.exp(values[c] - largest)
        total += found[c]
    for c in range(len(values)):
        found[c] /= total


@jitted
def _apart(strength: float, mine: Array, theirs: Array, gradient: Array) -> None:
    """Fill ``strength (p - q)`` with the probabilities p and q of two nodes' values (C,)."""
    other = np.empty(len(theirs))
    _probabilities(mine, gradient)
    _probabilities(theirs, other)
    for c in range(len(mine)):
        gradient[c] = strength * (gradient[c] - other[c])


@jitted
def _kullback_leibler(
    numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array
) -> None:
    degree, size, outputs = answers.shape
    for j in range(degree):
        for k in range(size):
            _apart(links[0, j], own[k], answers[j, k], gradients[j, k])
            curvatures[j, k] = links[0, j] / (4.0 if outputs == 1 else 2.0)


@jitted
def _kullback_leibler_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    for k in range(len(mine)):
        _apart(numbers[0], mine[k], theirs[k], gradients[k])
        curvatures[k] = numbers[0] / (4.0 if mine.shape[1] == 1 else 2.0)
