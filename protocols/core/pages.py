"""Methods as functions of arrays, as papers write them: what numba compiles of a page is compiled, else called."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Real
from types import FunctionType
from typing import Any, get_type_hints

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import Compiled
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.core.fields import ENTANGLED, OTHER, fits, put
from kernelswarm.refused_key import RefusedKey


def numbers_of(part: Any, common: type) -> tuple[float, ...]:
    """Return the values of a page's own fields, beyond the fields of its base class, as numbers."""
    known = {each.name for each in fields(common)}
    own = {each.name: getattr(part, each.name) for each in fields(part) if each.name not in known}
    for name, value in own.items():
        if not isinstance(value, Real):
            raise RefusedKey(name, f"= {value!r} must be a number: a page is given its keys as numbers")
    return tuple(map(float, own.values()))


def shapes_of(state: Any, letters: str, known: Mapping[str, str], numbers: bool = False) -> dict[str, str]:
    """Return the names of a state's arrays with their dimensions; ``known`` gives the dimensions of the first arrays.

    With ``numbers`` a state may have plain numbers, which have no dimension.

    Raises
    ------
    TypeError
        An array does not state its dimensions.
    """
    found, hints = dict(known), get_type_hints(state, include_extras=True)
    for name in [*hints][len(known) :]:
        shape = "".join(getattr(hints[name], "__metadata__", ()))
        if not (numbers and hints[name] is float) and not re.fullmatch(f"[{letters}0-9]+", shape):
            raise TypeError(
                f"{state.__name__}.{name} has the dimensions {shape!r}: say them by digits and by the letters "
                f'{", ".join(letters)}, such as Annotated[Array, "{letters[0]}{letters[-1]}"]'
            )
        found[name] = shape
    return found


def taking(count: int, place: int = 1) -> Compiled:
    """Return ``take(numbers)``, ``count`` numbers from a place on as a tuple."""
    if not count:

        @cached_njit
        def nothing(numbers: Array) -> tuple[()]:
            return ()

        return nothing
    rest = taking(count - 1, place + 1)

    @cached_njit
    def take(numbers: Array) -> Any:
        return (numbers[place], *rest(numbers))

    return take


def keeping(layout: str, refusal: str) -> Compiled:
    """Return ``keep(vector, sizes, arrays)``, which puts arrays into a vector; some may be parts of it."""

    @cached_njit
    def keep(vector: Array, sizes: Any, arrays: Any) -> None:
        found = fits(vector, sizes, layout, arrays)
        if found == OTHER:
            raise ValueError(refusal)
        if found == ENTANGLED:
            apart = np.empty(len(vector))
            put(apart, sizes, layout, arrays)
            for k in range(len(vector)):
                vector[k] = apart[k]
        else:
            put(vector, sizes, layout, arrays)

    return keep


def with_helpers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a page's function that calls the other functions of its module as compiled ones."""
    known = function.__globals__
    helpers = {
        name: cached_njit(with_helpers(known[name]))
        for name in function.__code__.co_names
        if isinstance(known.get(name), FunctionType)
        and known[name].__module__ == function.__module__
        and known[name] is not function
    }
    found = FunctionType(
        function.__code__, {**known, **helpers}, function.__name__, function.__defaults__, function.__closure__
    )
    found.__module__, found.__qualname__ = function.__module__, function.__qualname__
    return found


def where_refused(refusal: str, move: Callable[..., Any]) -> str:
    """Return which line of a page numba does not compile, and its reason."""
    file = re.escape(inspect.getfile(move).rsplit("/", 1)[-1])
    lines = re.findall(rf'{file}(?:", line | \()(\d+)', refusal)
    given = (each.strip() for each in refusal.splitlines() if each.strip() and not each.startswith("Failed in"))
    said = next(given, "numba gives no reason")
    return f"{move.__name__}{f', line {lines[-1]}' if lines else ''}: {said}"
