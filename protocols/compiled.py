"""The compiled form of protocols and tolerances: functions with these signatures, and their numbers.

A node's link state is a matrix (k, deg), laid out by the protocol: one row for each number of an edge.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import (
    CUBE,
    CUBE_OUT,
    MATRIX,
    MATRIX_OUT,
    NUMBERS,
    TOOLS,
    VECTOR_OUT,
    Compiled,
    at,
)

COUPLING_GRADIENT = types.void(NUMBERS, MATRIX, MATRIX, CUBE, CUBE_OUT, MATRIX_OUT)
"""``coupling_gradient(numbers, links (k, deg), own (b, C), answers (deg, b, C), gradients (deg, b, C), curvatures
(deg, b))`` fills the last two."""

COUPLING_GRADIENT_AT_NEIGHBOR = types.void(
    NUMBERS, MATRIX, types.int64, types.float64, MATRIX, MATRIX, MATRIX_OUT, VECTOR_OUT
)
"""``coupling_gradient_at_neighbor(numbers, links, neighbor, dual, mine (b, C), theirs (b, C), gradients (b, C),
curvatures (b,))`` fills the last two."""

CONSTRAINT_VALUES = types.void(MATRIX, CUBE, VECTOR_OUT)
"""``constraint_values(own (b, C), answers (deg, b, C), constraint_values (deg,))`` fills the last with their means."""

ADVANCE = types.void(
    TOOLS, NUMBERS, MATRIX_OUT, NUMBERS, NUMBERS, types.float64, types.float64, types.int64, types.int64
)
"""``advance(tools, numbers, links, constraint_values (deg,), excess_loss (deg,), eta, curvature, batch_size, round)``
changes the links; the excess losses are (0,) if the protocol does not compare them."""

JUDGE = types.void(MATRIX_OUT, NUMBERS, NUMBERS, types.float64, types.float64, types.int64)
"""``judge(links, differences (deg,), excess_loss (deg,), zero_loss, curvature, round)`` changes the links before the
answers of a round pull. Differences are mean squares at the node's samples; they and excess losses are NaN without an
answer. ``zero_loss`` is the mean loss of the function 0 there."""

NEXT_TOLERANCES = types.void(NUMBERS, NUMBERS, types.float64, types.int64, VECTOR_OUT, VECTOR_OUT)
"""``next(numbers, excess_loss (deg,), curvature, round, tolerances (deg,), averages (deg,))`` changes the last two."""

coupling_gradient_at, neighbor_gradient_at, advance_at, constraints_at, judge_at = (
    at(COUPLING_GRADIENT),
    at(COUPLING_GRADIENT_AT_NEIGHBOR),
    at(ADVANCE),
    at(CONSTRAINT_VALUES),
    at(JUDGE),
)
next_tolerances_at = at(NEXT_TOLERANCES)


class CompiledTolerance(NamedTuple):
    """An adaptive tolerance for compiled rounds."""

    next: Compiled  # NEXT_TOLERANCES
    numbers: Array


class CompiledRule(NamedTuple):
    """A protocol for compiled rounds; functions that it does not need are None.

    Attributes
    ----------
    coupling_gradient, coupling_gradient_at_neighbor, advance : function
        Functions with the signatures of this module; ``coupling_gradient_at_neighbor`` for the symmetric form,
        ``advance`` if links change.
    numbers : Array
        The protocol's own numbers.
    tools : tuple of int
        Addresses of the functions that ``advance`` calls.
    pack : callable
        Turn a node's link state into its matrix (k, deg), or (k, 1) if all edges have the same column.
    unpack : callable
        Return a node's new link state, from its last one and the matrix.
    duals, tolerances : int or None
        The rows of the matrix with the dual variables and the tolerances, both or neither.
    constraint_values : function or None
        The mean constraint values, or None for mean squared differences.
    judge : function or None
        Judges answers before they pull, or None. With it ``coupling_gradient`` receives NaN for missing answers.
    forget : callable or None
        Called with a matrix that was packed and is no longer used.
    """

    coupling_gradient: Compiled
    coupling_gradient_at_neighbor: Compiled | None
    advance: Compiled | None
    numbers: Array
    tools: tuple[int, ...]
    pack: Callable[[Any], Array]
    unpack: Callable[[Any, Array], Any]
    duals: int | None = None
    tolerances: int | None = None
    constraint_values: Compiled | None = None
    judge: Compiled | None = None
    forget: Callable[[Array], None] | None = None


class NotCompiledError(Exception):
    """A part has no functions for compiled rounds; the message names the part."""


def hands_over(part: object) -> bool:
    """Return whether a part's class itself, not only a base class, defines the property ``compiled``."""
    return "compiled" in vars(type(part))


def handed_over(part: object, kind: str) -> Any:
    """Return a part's functions for compiled rounds, its property ``compiled``.

    An inherited property does not count, because a class may compute something different from its base class.

    Raises
    ------
    NotCompiledError
        If the part's class, or that of a nested part, does not define such a property itself.
    """
    if not hands_over(part):
        raise NotCompiledError(f"the {kind} {type(part).__name__}")
    return part.compiled  # type: ignore[attr-defined]
