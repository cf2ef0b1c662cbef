"""The begin and end of every check: a part of the right kind, and a sentence that names the broken property."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import refuse_other_kind


def require(holds: bool | np.bool_, part: object, sentence: str) -> None:
    """Raise AssertionError with the part and the sentence of the property unless it holds, also under ``python -O``."""
    if not holds:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}")


def require_equal(found: Any, wanted: Any, part: object, sentence: str) -> None:
    """Require the same bits: numbers, arrays, None, and mappings and tuples of them; NaN equals NaN."""
    try:
        np.testing.assert_equal(found, wanted)
    except AssertionError as difference:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}{difference}") from None


def require_close(
    found: Array, wanted: Array, part: object, sentence: str, *, relative: float, absolute: float = 0.0
) -> None:
    """Require equality up to ``relative |wanted| + absolute``, entry by entry, and the same shape."""
    require(np.shape(found) == np.shape(wanted), part, f"{sentence} (shapes {np.shape(found)}, {np.shape(wanted)})")
    try:
        np.testing.assert_allclose(found, wanted, rtol=relative, atol=absolute)
    except AssertionError as difference:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}{difference}") from None


def require_shape(array: Any, shape: tuple[int, ...], part: object, name: str) -> None:
    """Require an array of float64 numbers of a shape."""
    require(
        isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape,
        part,
        f"{name} returns float64 numbers of shape {shape}, not "
        + (f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__),
    )


ON_NETWORKS = ("learner", "protocol")
"""The kinds that are checked on a network, whose data resolve words into numbers."""


@contextmanager
def checked(kind: str, part: Any) -> Iterator[None]:
    """Check a part before and after its check: a frozen dataclass of its kind, equal to its copy, never changed.

    Raises
    ------
    InputError
        It is no instance, lacks a method of its kind, or has an unresolved key without data to resolve it.
    AssertionError
        It is not frozen, not equal to its copy, or changed by its use.
    """
    if isinstance(part, type):
        raise InputError(f"{kind} = {part.__name__} is a class: pass an instance of it, {part.__name__}()")
    refuse_other_kind(kind, part, kind)
    if kind not in ON_NETWORKS and (words := getattr(part, "automatic", ())):
        raise InputError(
            f"{kind} = {part!r} holds words for numbers ({', '.join(words)}): check what resolved(sample) returns"
        )
    frozen: Any = getattr(type(part), "__dataclass_params__", None)
    require(
        frozen is not None and frozen.frozen,
        part,
        "a part is a frozen dataclass whose fields are the keys of the experiment file",
    )
    require(copy.deepcopy(part) == part, part, "a part equals its copy: it travels to other processes")
    before = {field.name: copy.deepcopy(getattr(part, field.name)) for field in dataclasses.fields(part)}
    yield
    after = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    require(before == after, part, "a part is configuration and never changes; what changes is its state")


def compiled_form(part: object, kind: str) -> Any:
    """Return a part's functions for compiled rounds; None without any."""
    try:
        return handed_over(part, kind)
    except NotCompiledError:
        return None


def sealed(array: Array) -> Array:
    """Return a read-only, C-contiguous copy of an array, like the arrays that agents pass to parts."""
    copied = np.ascontiguousarray(array, dtype=np.float64).copy()
    copied.flags.writeable = False
    return copied
