"""What protocols and tolerances hand over to compiled rounds: functions with these signatures, and their numbers.

A node's links are a matrix (k, deg) that the protocol lays out itself: a row for each number it keeps of an edge.
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
changes the links; the excess losses are (0,) where the protocol does not compare them."""

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
        With the signatures of this module; ``coupling_gradient_at_neighbor`` for the symmetric form, ``advance``
        where links change.
    numbers : Array
        The protocol's own numbers.
    tools : tuple of int
        Addresses of the functions that ``advance`` calls.
    pack : callable
        Turn a node's link state into its matrix (k, deg); (k, 1) where all edges have the same column.
    unpack : callable
        Return a node's new link state, from its last one and the matrix.
    duals, tolerances : int or None
        The rows of the matrix with the dual variables and the tolerances, both or neither.
    constraint_values : function or None
        The mean constraint values, or None for mean squared differences.
    judge : function or None
        Judges answers before they pull, or None. ``coupling_gradient`` is then given NaN for missing answers.
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
    """A part has no functions for compiled rounds; the text names it."""


def hands_over(part: object) -> bool:
    """Tell whether a part's class has a property ``compiled`` of its own, not only an inherited one."""
    return "compiled" in vars(type(part))


def handed_over(part: object, kind: str) -> Any:
    """Return a part's functions for compiled rounds, its property ``compiled``.

    An inherited property does not count: the class may compute something else than the class that it extends.

    Raises
    ------
    NotCompiledError
        The part's class, or that of a part inside it, has no such property of its own.
    """
    if not hands_over(part):
        raise NotCompiledError(f"the {kind} {type(part).__name__}")
    return part.compiled  # type: ignore[attr-defined]
