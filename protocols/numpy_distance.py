"""Distances whose pull is a numpy function: numba compiles it if possible, otherwise Python calls it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import COUPLING_GRADIENT, NotCompiledError
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.core.pages import numbers_of, where_refused, with_helpers
from kernelswarm.protocols.coupling import CouplingGradients, coupling_gradients_of
from kernelswarm.protocols.distances import CompiledDistance

Slopes = Callable[..., tuple[Array, Array]]
"""``slopes(keys, own, other)``, from (b, C) each, returns the derivatives of h by the own values, (b, C), and bounds on
the pull, (b,)."""


@dataclass(frozen=True)
class NumpyDistance:
    """A distance that a subclass defines by ``slopes(keys, own, other)`` and ``values`` (see `Distance`).

    A subclass is a frozen dataclass; ``keys`` are its fields in order, as numbers. For each value of the keys the
    functions are compiled again, and cached on disk.
    """

    smooth: ClassVar[bool] = True
    degree: ClassVar[int] = 2
    slopes: ClassVar[Slopes]

    def __init_subclass__(cls) -> None:
        """Give each class with ``slopes`` its own property ``compiled``."""
        if "slopes" in vars(cls):
            cls.compiled = property(_compiled)  # type: ignore[attr-defined]

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers of the fields."""
        return numbers_of(self, NumpyDistance)

    def pull(self, own: Array, answers: Array, strengths: Array) -> Pull:
        """Return ``strengths[j]`` times the slopes and bounds, for each of ``answers`` (deg, b, C)."""
        found = [self.pull_back(float(c), own, theirs) for c, theirs in zip(strengths, answers, strict=True)]
        gradients, curvatures = np.empty(answers.shape), np.empty(answers.shape[:2])
        for j, each in enumerate(found):
            gradients[j], curvatures[j] = each
        return Pull(gradients, curvatures)

    def pull_back(self, strength: float, mine: Array, theirs: Array) -> Pull:
        """Return ``strength`` times the slopes and bounds."""
        move, _, _ = _moves(type(self).slopes, self.keys)
        slopes, bounds = move(self.keys, np.ascontiguousarray(mine), np.ascontiguousarray(theirs))
        return Pull(strength * slopes, strength * bounds)


@cache
def _moves(slopes: Slopes, keys: tuple[float, ...]) -> tuple[Slopes, CouplingGradients | None, str]:
    """Return the slopes, compiled if possible, and the pull around them, or the reason why there is none."""
    compiled = cached_njit(with_helpers(slopes))

    @cached_njit
    def pull(strength: float, mine: ReadOnly, theirs: ReadOnly, gradients: Array, curvatures: Array) -> None:
        found, bounds = compiled(keys, mine, theirs)
        for k in range(mine.shape[0]):
            curvatures[k] = strength * bounds[k]
            for c in range(mine.shape[1]):
                gradients[k, c] = strength * found[k, c]

    functions = coupling_gradients_of(pull, 1.0)
    try:
        ready(functions.coupling_gradient, COUPLING_GRADIENT)
    except ValueError as refusal:
        return slopes, None, where_refused(str(refusal.__cause__), slopes)
    return compiled, functions, ""


def _compiled(distance: NumpyDistance) -> CompiledDistance:
    """Return the distance's functions for compiled rounds.

    Raises
    ------
    NotCompiledError
        If numba does not compile it; the message names the line.
    """
    _, functions, obstacle = _moves(type(distance).slopes, distance.keys)
    if functions is None:
        raise NotCompiledError(f"the distance {type(distance).__name__} ({obstacle})")
    return CompiledDistance(functions.coupling_gradient, functions.by_penalty)
