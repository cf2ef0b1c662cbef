"""The border to code that is the user's own and is run before anything starts: a module imported, a class made, and
what a class says of itself."""

import dataclasses
import math
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown


class OwnCode:
    """Inside this context whatever is raised, SystemExit among it, leaves as InputError; Ctrl-C does not.

    Parameters
    ----------
    what : str
        What the code is to do.
    refusals : exception types
        What else passes as it is, because its words are meant for the user.

    Examples
    --------
    >>> try:
    ...     with OwnCode("importing rules"):
    ...         raise SystemExit(0)
    ... except InputError as refusal:
    ...     print(str(refusal).partition(" (")[0])
    importing rules failed: it called sys.exit
    """

    def __init__(self, what: str, *refusals: type[Exception]) -> None:
        self._what = what
        self._refusals = refusals

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (KeyboardInterrupt, InputError, *self._refusals)):
            return
        place = extract_tb(trace)[-1]
        text = "it called sys.exit" if isinstance(error, SystemExit) else " ".join(str(error).split())
        raise InputError(
            f"{self._what} failed: {text or 'it says nothing more'} ({type(error).__name__}, "
            f"{Path(place.filename).name}, line {place.lineno}): correct it; --debug shows the traceback"
        ) from error


def is_own(cls: type[Any]) -> bool:
    """Return whether a class is the user's own, and not one of kernelswarm's."""
    return not cls.__module__.startswith("kernelswarm.")


def _is_number(value: object, least: float) -> bool:
    return type(value) is not bool and isinstance(value, Real) and least <= float(value) < math.inf


DECLARED: dict[str, dict[str, tuple[Callable[[object], bool], str]]] = {
    "loss": {
        "task": (
            lambda value: value in ("regression", "binary", "multiclass"),
            'must be "regression", "binary" or "multiclass": what the loss predicts',
        ),
        "curvature": (
            lambda value: _is_number(value, 0.0),
            "must be a number of at least 0: it bounds the second derivative, and is 0 of piecewise linear losses",
        ),
        "quadratic": (
            lambda value: isinstance(value, bool),
            "must be True or False: whether the second derivative is curvature everywhere",
        ),
    },
    "kernel": {
        "supremum": (
            lambda value: value is None or _is_number(value, 5e-324),
            "must be a positive number that bounds kappa(x, x), or None where there is no bound",
        ),
    },
}
"""What a part of a kind declares besides its methods: what it must be, and the rule in words."""


def refuse_declared(kind: str, part: Any, path: str) -> None:
    """Refuse a part, or the class of one, that leaves out what its kind declares, or declares it as something else.

    Raises
    ------
    InputError
        With the name, the value and the rule.
    """
    cls = part if isinstance(part, type) else type(part)
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else ()
    for name, (holds, rule) in DECLARED.get(kind, {}).items() if is_own(cls) else ():
        if part is cls and (name in fields or isinstance(getattr(cls, name, property()), property)):
            continue  # its objects have it
        if not hasattr(part, name):
            raise InputError(f"{path}: {cls.__name__} does not say its {name}, which {rule}")
        if not holds(getattr(part, name)):
            raise InputError(f"{path}: {cls.__name__}.{name} = {shown(getattr(part, name))} {rule}")
